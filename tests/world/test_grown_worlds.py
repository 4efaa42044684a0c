"""Systems in periods through the seam of worlds: on any buckets what their kernels play alone.

Events come in the first period of a round of the world, and then members publish.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from arriving import Kernel
from living_buckets import ring_of
from overcast.played import small_network
from periods import PlayedPeriods, SystemWorld

from scribe_spark.engine.packing import count_rows
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import MEASURED, GrownOverlays
from scribe_spark.rounds.system import OwnRounds
from scribe_spark.systems.narada.config import NaradaConfig
from scribe_spark.systems.narada.overlay import Narada
from scribe_spark.systems.nice.config import NiceConfig
from scribe_spark.systems.nice.overlay import Nice
from scribe_spark.systems.overcast.config import OvercastConfig
from scribe_spark.systems.overcast.overlay import Overcast

NODES, GROUPS, ROUNDS = 40, (4, 9, 1), 8

#: System -> its name, the periods of a round, and what has to happen in the worlds.
SYSTEMS: dict[str, tuple[GrownOverlays, int, set[str]]] = {
    "nice": (
        *(Nice(NiceConfig(join_periods=2).for_tasks()), 3),
        {"joined", "moves", "splits", "merges", "new_leaders"},
    ),
    "narada": (
        Narada(NaradaConfig(join_periods=4, neighbour_periods=3, silent_periods=3).for_tasks()),
        *(2, {"vector", "probe", "answer", "link", "unlink"}),
    ),
    "overcast": (Overcast(OvercastConfig(linear=1).for_tasks()), 12, {"adopt", "check-in"}),
}


def network_of(name: str, seed: int) -> Network:
    """Nodes all over the ring."""
    drawn, rng = random.Random(seed), np.random.default_rng(seed)
    ring = ring_of({node: drawn.getrandbits(128) for node in range(NODES)})
    if name == "overcast":
        ring = replace(ring, router=rng.integers(0, 12, NODES))
        return Network(ring, small_network(seed), 1000, seed)
    delay_us = rng.integers(2_000, 90_000, (NODES, NODES))
    np.fill_diagonal(delay_us, 0)
    return Network(ring, Kernel(delay_us, np.arange(NODES)), 1000, seed)


def events(seed: int) -> Iterator[tuple[set, set, set, set, set]]:
    """Joins, quits, silent deaths and returns of rounds, and who is a member after them."""
    drawn, members, alive = random.Random(seed), set(), set(range(NODES))
    for number in range(ROUNDS):
        rate = 0.04 if number < ROUNDS - 2 else 0.0
        fail = {node for node in sorted(alive) if drawn.random() < rate}
        dead = sorted(set(range(NODES)) - alive)
        back = {node for node in dead if drawn.random() < 6 * rate}
        alive = (alive - fail) | back
        members = {pair for pair in members if pair[1] in alive - back}
        quit = {pair for pair in sorted(members) if drawn.random() < rate}
        others = [(group, node) for group in range(len(GROUPS)) for node in sorted(alive)]
        share = 1.5 * rate if number else 0.6
        join = {pair for pair in others if pair not in members and drawn.random() < share}
        members = (members - quit) | join
        yield join, quit, fail, back, members


def rows_of(columns: dict) -> list[list]:
    """The columns of a table of the state, group by group."""
    order = np.argsort(columns["group"], kind="stable")
    return [column[order].tolist() for _, column in sorted(columns.items())]


def play(name: str, seed: int, buckets: int) -> Counter:
    """Play a world beside the kernel; return what happened in it."""
    (system, periods, _), seen = SYSTEMS[name], Counter()
    network = network_of(name, seed)
    plain = PlayedPeriods(system, network, GROUPS)
    own = OwnRounds(periods * 1000, 1000)
    world = SystemWorld(system, network, GROUPS, buckets, own, ROUNDS)
    node = network.ring.node
    for join, quit, fail, back, members in events(seed):
        sources = {group: node for group, node in sorted(members, reverse=True)}
        done, tally, copies = world.play(join, quit, sources.items(), fail, back=back)
        sent, counts, expected = Counter(), Counter(), Counter()
        for period in range(periods):
            changes = () if period else (join, quit, fail, back)
            plain.play(*changes, measure=period == periods - 1)
            counts.update(plain.counts)
            for kind, rows in plain.sent.items():
                ends = (node[rows[end]].tolist() for end in ("sender", "to"))
                many = rows.get("messages", np.ones(len(rows["to"]), dtype=int)).tolist()
                for *pair, times in zip(*ends, many, strict=True):
                    sent[(*pair, kind)] += times
            for group, source in {} if period else sources.items():
                sender, to, _ = plain.copies(group, source)
                ends = zip(sender.tolist(), to.tolist(), strict=True)
                expected.update((group, *pair) for pair in ends)
        found = tally.messages
        assert Counter({key: n for key, n in found.items() if key[2] != "payload"}) == sent
        assert copies == expected
        assert done.counts == {one: counts[one] for one in system.counted}
        for one in {*system.tables} - {MEASURED}:  # a builder has sums over its groups there
            table = world.tables.get(f"state: {one}")
            known = plain.state.get(one, {})
            assert (table is not None) == (count_rows(known) > 0)
            assert table is None or rows_of(table) == rows_of(known), one
        measures = plain.measures()
        assert {one: done.measures[one] for one in measures} == pytest.approx(measures)
        seen.update(counts)
        seen.update(kind for *_, kind in sent)
        seen.update(lost=tally.lost.total(), copies=len(copies))
    return seen


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_world_on_any_buckets_is_the_kernel_alone(name: str) -> None:
    seen = sum((play(name, seed, (1, 2, 7)[seed]) for seed in range(3)), Counter())
    assert min(seen[one] for one in {*SYSTEMS[name][2], "lost", "copies"}) > 0, seen
