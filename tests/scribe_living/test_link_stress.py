"""Link stress of rounds against a count message by message and link by link, on random worlds.

The oracle says who sends what to whom; the routes are those of a random network of its own.
"""

import functools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import worlds
from living_groups import World, world_of
from oracle.random_cases import random_case
from oracle.routes import Routes
from oracle.scribe_living.cases import random_world
from overlay_state import OverlayState
from poisoned import PoisonedPlayer
from traffic import Traffic

from scribe_spark.engine import Tables
from scribe_spark.engine.program import bucket_of
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.player import TRAFFIC, Counted, Observer
from scribe_spark.systems.scribe.scribe import SCRIBE_KINDS
from scribe_spark.underlay import matrices
from scribe_spark.underlay.matrices import MatrixKernel
from scribe_spark.worlds.round_measures import (
    KINDS,
    LINK_STRESS_MEASURES,
    LINKS_MEASURED,
    LinkStress,
    MeasureLinks,
)

Message = tuple[str, int, int]

#: With reliable delivery (and lost retransmissions), and best effort; one with introductions.
RELIABLE, BEST_EFFORT, INTRODUCED = (0, 8), (1, 2, 3, 4, 5, 26), 26
CASES = [*((seed, True) for seed in RELIABLE), *((seed, False) for seed in BEST_EFFORT)]

#: Its nodes have a limit of children, and paths are cut short.
LIMITED = 4

PAYLOAD = {"MULTICAST", "payload", "retransmission"}


@functools.cache
def played(seed: int, reliable: bool) -> tuple[World, list[tuple[Traffic, list[Message]]]]:
    """A world's rounds: what the kernels remember, and the oracle's messages."""
    case = random_world(seed)
    case = replace(case, rules=replace(case.rules, introduce=seed == INTRODUCED))
    if seed == LIMITED:
        case = replace(case, settings=replace(case.settings, limit=2, collapse=True))
    world = world_of(case if reliable else replace(case, buffer=None))
    rounds = []
    for number in range(case.rounds):
        world.traffic, world.run.scribe.overlay.sent = Traffic(), []
        world.step(number, [event for event in case.events if event[0] == number])
        rounds.append((world.traffic, world.run.scribe.overlay.sent))
    return world, rounds


def remembered(traffic: Traffic, node: np.ndarray) -> Counter[Message]:
    """How often each message is there, by numbers of nodes."""
    found: Counter[Message] = Counter()
    for kind, ends in traffic.ends.items():
        sender, to = (node[part].tolist() for part in ends)
        found.update((kind, *ends) for ends in zip(sender, to, strict=True))
    return found


@pytest.mark.parametrize(("seed", "reliable"), CASES)
def test_messages_go_from_whom_to_whom_they_go_in_the_oracle(seed: int, reliable: bool) -> None:
    world, rounds = played(seed, reliable)
    node = world.overlay.states.known.node
    for traffic, sent in rounds:
        assert remembered(traffic, node) == Counter(sent)


def test_the_worlds_have_messages_of_every_kind_and_lost_ones() -> None:
    kinds: set[str] = set()
    for seed, reliable in CASES:
        world, rounds = played(seed, reliable)
        kinds |= {kind for traffic, _ in rounds for kind in traffic.ends}
        counts = world.run.scribe.overlay.counts
        kinds |= {kind for kind in counts if kind.startswith("lost ") and counts[kind]}
    assert kinds >= {*MESSAGE_KINDS, *SCRIBE_KINDS} - {"lookup"}
    assert kinds >= {"lost heartbeat", "lost payload", "lost JOIN", "lost repair"}


# --- along routes


def network(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Routes, MatrixKernel, int]:
    """The routes of a random network, the kernel that has them, and its directed links."""
    case = random_case(seed)
    delay, pred = worlds.route_matrices(case)
    arrays = {"delay": delay, "pred": pred, "exits": None, "routers": np.array(case.routers)}
    monkeypatch.setattr(matrices, "open_array", arrays.__getitem__)
    return case.routes(), MatrixKernel(*arrays), len(case.links)


def counted(sent: list[Message], router: dict[int, int], routes: Routes) -> dict[str, Counter]:
    """Packets on each link, one message after the other; lookups are neither."""
    packets: dict[str, Counter] = {"payload": Counter(), "maintenance": Counter()}
    for kind, sender, to in sent:
        if kind == "lookup" or sender == to:
            continue
        on = packets["payload" if kind in PAYLOAD else "maintenance"]
        on["up", sender] += 1
        on.update(routes.path_links(router[sender], router[to]))
        on["down", to] += 1
    return packets


def measured(
    stress: LinkStress, world: World, traffic: Traffic, placed: OverlayState, kernel: MatrixKernel
) -> dict[str, float]:
    """The measures of a round, the same on some buckets, which cannot see each other."""
    one, *others = [_measured(stress, world, traffic, placed, kernel, count) for count in (1, 2, 7)]
    assert all(other == one for other in others)
    return one


def _measured(
    stress: LinkStress,
    world: World,
    traffic: Traffic,
    placed: OverlayState,
    kernel: MatrixKernel,
    buckets: int,
) -> dict[str, float]:
    kinds = MESSAGE_KINDS + SCRIBE_KINDS
    player = PoisonedPlayer.of(placed, world.config, kernel, buckets, kinds)
    player.observe(traffic=True)
    player.engine.open_all()
    for kind, (sender, to) in traffic.ends.items():
        counted_by = sender if kind != "repair" else to  # who asks counts answers, too
        of = bucket_of(player.environment.bounds, counted_by)
        for bucket, tables in enumerate(player.engine.tables):
            mine = of == bucket
            ends = sender[mine], to[mine]
            count = functools.partial(player.environment.observer.count, tables, kind)
            count(len(ends[0]), between=lambda ends=ends: ends)
    player.play(MeasureLinks(player.environment, KINDS, keeps_messages=False))
    player.engine.open_all()
    taken = player.take(LINKS_MEASURED, TRAFFIC)
    assert TRAFFIC not in taken
    return stress.measures(Counted(taken.get(LINKS_MEASURED, {})), KINDS, placed.count_entered())


@pytest.mark.parametrize(("seed", "reliable"), [(0, True), (8, True), (2, False), (3, False)])
def test_measures_are_those_of_a_count_link_by_link(seed, reliable, monkeypatch) -> None:
    routes, kernel, links = network(seed + 20, monkeypatch)
    routers = len(routes.pred)
    stress = LinkStress(3, links, routers)
    world, rounds = played(seed, reliable)
    overlay, node = world.overlay, world.overlay.states.known.node
    drawn = np.random.default_rng(seed).integers(0, routers, len(node))
    placed = on_routers(overlay, drawn)
    router = dict(zip(node.tolist(), drawn.tolist(), strict=True))
    there = np.count_nonzero(overlay.alive | (overlay.died >= 0))
    both = 0
    for traffic, sent in rounds:
        expected = {}
        for name, packets in counted(sent, router, routes).items():
            total, most = sum(packets.values()), max(packets.values(), default=0)
            expected |= {
                f"link_stress.{name}.mean": total / (links + 200 * routers),
                f"link_stress.{name}.mean_existing": total / (links + 2 * there),
                f"link_stress.{name}.max": most,
            }
            both += total > 0
        found = measured(stress, world, traffic, placed, kernel)
        assert found == expected
        assert found.keys() == LINK_STRESS_MEASURES.keys()
    assert both > len(rounds)  # rounds with both


def on_routers(overlay: OverlayState, router: np.ndarray) -> OverlayState:
    """The same nodes on other routers."""
    known = replace(overlay.states.known, router=router)
    return replace(overlay, states=replace(overlay.states, known=known))


def test_lookups_are_neither_and_all_else_is_one_of_the_two() -> None:
    kinds = Counter(kind for some in KINDS.values() for kind in some)
    assert kinds == Counter({*MESSAGE_KINDS, *SCRIBE_KINDS} - {"lookup"})


@pytest.mark.parametrize(
    ("period", "rounds"), [(0, []), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5]), (10, [])]
)
def test_it_is_measured_in_the_last_round_of_a_period(period: int, rounds: list[int]) -> None:
    stress = LinkStress(period, 1, 1)
    assert [number for number in range(7) if stress.is_measured(number)] == rounds


def test_a_count_without_its_ends_is_an_error() -> None:
    nobody = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match="2 join, from 0 nodes to 0"):
        Observer(MESSAGE_KINDS, MESSAGE_KINDS).count(
            Tables(), "join", 2, between=lambda: (nobody, nobody)
        )
    Observer(MESSAGE_KINDS).count(
        Tables(), "join", 2, between=lambda: pytest.fail("nobody wants them")
    )
