"""NICE in worlds on buckets: what the seam plays is what the kernel plays; the same in any buckets.

A round of the world has three periods.  Its events come in the first one, and then members publish.
"""

from collections import Counter

import pytest
from periods import SystemWorld

from nice.played import Played, drawn_network
from nice.worlds import events
from scribe_spark.rounds.grown_overlays import _STATE
from scribe_spark.rounds.system import OwnRounds
from scribe_spark.systems.nice.overlay import Nice

NODES, GROUPS, PERIODS, ROUNDS = 40, (4, 9, 1), 3, 9


def play(seed: int, buckets: int) -> Counter:
    """Play a world beside the kernel; return what happened in it."""
    network, seen = drawn_network(NODES, seed), Counter()
    plain = Played(network, {"join_periods": 2}, GROUPS)
    system: Nice = plain.system
    world = SystemWorld(system, network, GROUPS, buckets, OwnRounds(PERIODS * 1000, 1000), ROUNDS)
    ring = network.ring
    for one in events(seed, NODES, len(GROUPS), ROUNDS, 2):
        sources = {group: node for group, node in sorted(one.members, reverse=True)}
        changes = one.join, one.quit, sources.items()
        done, tally, copies = world.play(*changes, fail=one.fail, back=one.back)
        sent, counts, expected = Counter(), Counter(), Counter()
        for period in range(PERIODS):
            plain.play(*([one.join, one.quit, one.fail, one.back] if not period else []))
            counts.update(plain.counts)
            for kind, messages in plain.messages().items():
                for (_, sender, to), many in messages.items():
                    sent[ring.node[sender], ring.node[to], kind] += many
            for group, source in sources.items() if not period else ():
                sender, to, _ = plain.copies(group, source)
                expected.update(
                    (group, *ends) for ends in zip(sender.tolist(), to.tolist(), strict=True)
                )
        found = Counter({key: n for key, n in tally.messages.items() if key[2] in system.control})
        assert found == sent
        assert copies == expected
        assert done.counts == {name: counts[name] for name in system.counted}
        tables = world.tables
        for name in system.tables:
            columns = tables.get(_STATE + name, {})
            rows = zip(*(column.tolist() for column in columns.values()), strict=True)
            assert sorted(rows) == plain.rows(name)
        rows = plain.rows("clusters")
        members = sum(layer == 0 for _, layer, _, _ in rows)
        tops = {group: layer for group, layer, _, _ in rows}  # the last one of a group
        layers = sum(1 + tops[group] for group, layer, _, _ in rows if layer == 0)
        assert done.measures["layers"] == layers / members
        assert done.measures["clusters"] == len(plain.clusters()) / members
        seen.update(counts)
        seen["lost"] += tally.lost.total()
    return seen


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_buckets_play_the_rules(buckets: int) -> None:
    seen = sum((play(seed, buckets) for seed in range(2)), Counter())
    names = "joined", "moves", "splits", "merges", "new_leaders", "lost"
    assert min(seen[name] for name in names) > 0, seen
