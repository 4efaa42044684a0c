"""Deliveries out of order, by an application that has numbers and keeps no order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from living_groups import World, deliveries_out_of_order, world_of
from oracle.scribe_living import reliable as oracle
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.compare import PARTS, differences
from oracle.scribe_living.measures import out_of_order
from oracle.scribe_living.upcalls import Join, Local, Payload, Publication

from scribe_spark.scribe.living.reliable import Reliable
from scribe_spark.scribe.living.rows import from_tables, to_tables
from scribe_spark.scribe.living.upcalls import NOTHING, Calls


def less(number):
    """Up to three less, in the same epoch."""
    return number - np.minimum(3, number % 2**32)


class Hasty(Reliable):
    """Users get at once what comes, the last first; repairs bring some of it again."""

    def fault_handler(self, calls: Calls, joins: pd.DataFrame) -> np.ndarray:
        extra = super().fault_handler(calls, joins)
        return np.where(extra == NOTHING, NOTHING, less(extra))

    def message_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> pd.DataFrame:
        return contents[["call", "publication"]][::-1]


class OraclesHasty(oracle.Reliable):
    """The same for the oracle."""

    def fault_handler(self, here: Local, join: Join) -> int | None:
        extra = super().fault_handler(here, join)
        return None if extra is None else int(less(extra))

    def message_handler(self, here: Local, message: Payload) -> list[Publication]:
        return list(message.publications)[::-1]


def hasty_world(seed: int) -> World:
    world = world_of(replace(random_world(seed, most=40), buffer=64))
    world.application = Hasty(64, len(world.overlay.states.known))
    world.run.scribe.application = OraclesHasty(64)
    return world


@pytest.mark.parametrize(
    ("seed", "resumed"),
    [
        *((2, False), (9, True)),
        *[pytest.param(seed, seed % 2 == 1, marks=pytest.mark.slow) for seed in range(12, 30)],
    ],
)
def test_they_are_those_that_a_list_of_all_deliveries_gives(seed: int, resumed: bool) -> None:
    world = hasty_world(seed)
    known = world.overlay.states.known
    for number in range(world.case.rounds):
        events = [event for event in world.case.events if event[0] == number]
        assert differences(*world.step(number, events), PARTS) == []
        if resumed:
            tables = to_tables(world.state, world.groups, known, world.application)
            world.application = Hasty(64, len(known))
            world.state = from_tables(tables, world.groups, known, world.application)
    theirs = out_of_order(world.run, numbered=True)
    for number in range(world.case.rounds):
        assert deliveries_out_of_order(world, number) == sorted(theirs[number]), number
    if seed in (2, 9):
        assert sum(map(len, theirs.values())) >= 10
