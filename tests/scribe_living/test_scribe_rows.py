"""Worlds with groups that go through flat rows between rounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.compare import PARTS, differences

from scribe_spark import schemas
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.rows import from_tables, to_tables
from scribe_spark.worlds.packed import pack, unpack


def saved(world: World) -> dict[str, pa.Table]:
    known = world.overlay.states.known
    return dict(to_tables(world.state, world.groups, known, world.application))


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(len(table)))


@pytest.mark.parametrize(
    "seed", [0, 1, 5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
)
def test_a_world_that_is_written_and_read_after_each_round_is_the_same(seed: int) -> None:
    case = random_world(seed, most=40, rounds=12)
    world, again = world_of(case), world_of(case)
    known = world.overlay.states.known
    for number in range(case.rounds):
        events = [event for event in case.events if event[0] == number]
        assert differences(world.play(number, events), again.play(number, events), PARTS) == []
        for name in vars(world.results[-1].publications):
            ours, theirs = (getattr(one.results[-1].publications, name) for one in (world, again))
            np.testing.assert_array_equal(ours, theirs)
        tables = {name: shuffled(table, seed) for name, table in saved(again).items()}
        packed = pack(tables)
        assert packed.column_names == schemas.PACKED.names
        if case.buffer is not None:
            again.application = Reliable(case.buffer, len(known))
        read = unpack(shuffled(packed, seed))
        again.state = from_tables(read, again.groups, known, again.application)
        assert sorted(read) == sorted(saved(world))
        for name, table in saved(world).items():
            assert in_order(table) == in_order(saved(again)[name]), name


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
