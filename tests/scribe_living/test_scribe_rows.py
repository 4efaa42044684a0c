"""Worlds whose groups are packed and unpacked between rounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.compare import PARTS, differences
from scribe_spark.worlds.packed import pack, unpack

from scribe_spark import schemas
from scribe_spark.scribe.multicast import OF_THE_LAST_ROUND
from scribe_spark.worlds import packed as module
from scribe_spark.worlds.link_stress import LinkStress
from scribe_spark.worlds.live_groups import LiveGroups, PlayedGroups


def saved(live: LiveGroups, world: World) -> dict[str, pa.Table]:
    held = PlayedGroups(world.groups, world.buckets.tables[0], world.state.incarnation)
    return dict(live.pack(held, world.overlay.states.known))


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(len(table)))


@pytest.mark.parametrize(
    "seed", [0, 1, 5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
)
def test_a_world_that_is_packed_after_each_round_is_the_same(seed: int, monkeypatch) -> None:
    """Parts come in any order; they are small."""
    monkeypatch.setattr(module, "_ROWS", 5)
    case = random_world(seed, most=40, rounds=12)
    world, again = world_of(case), world_of(case).in_buckets(1)
    groups, known = world.groups, world.overlay.states.known
    keys, never = (groups.keys.hi, groups.keys.lo), LinkStress(0, 0, 0)
    live = LiveGroups(groups.number, *keys, {}, world.rules, case.rounds, never)
    for number in range(case.rounds):
        events = [event for event in case.events if event[0] == number]
        assert differences(world.play(number, events), again.play(number, events), PARTS) == []
        for name in vars(world.results[-1].publications):
            ours, theirs = (getattr(one.results[-1].publications, name) for one in (world, again))
            np.testing.assert_array_equal(ours, theirs)
        tables = saved(live, again)
        packed = pack(tables)
        assert packed.column_names == schemas.PACKED.names
        held = live.unpack(unpack(shuffled(packed, seed)), known)
        before = again.buckets.tables[0]
        assert set(held.tables) == set(before) - set(OF_THE_LAST_ROUND)
        for name, columns in held.tables.items():
            for column in columns:
                np.testing.assert_array_equal(columns[column], before[name][column])
                assert columns[column].dtype == before[name][column].dtype
        np.testing.assert_array_equal(held.incarnation, again.state.incarnation)
        again.buckets.tables, again.state.incarnation = [held.tables], held.incarnation
        assert saved(live, again) == tables
