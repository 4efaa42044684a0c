"""Rounds of worlds in which keys of groups and two nodes come near to 2**63, against the oracle."""

from dataclasses import replace

import numpy as np
import pytest
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from split_states import empty_state
from test_scribe_round import compared

from scribe_spark.core.key_limits import MOST_KEYS
from scribe_spark.engine.facts import Keys
from scribe_spark.rounds.group_events import Groups
from scribe_spark.systems.scribe.reliable import Reliable

#: So many nodes are in the keys; groups are as many as there is room for then.
NODES = 2**21


def with_many_groups(world: World) -> World:
    """The same world, whose groups are the last of all that there is room for."""
    own, nodes = world.groups, len(world.overlay.states.known)
    more = MOST_KEYS // (NODES**2 * (world.config.scribe.deadline + 1)) - len(own)
    number = np.concatenate([np.arange(-more, 0), own.number])
    keys = Keys.join(Keys(np.zeros(more, np.uint64), np.zeros(more, np.uint64)), own.keys)
    lists = {}
    for operation, (has_list, pairs) in own.allowed.items():
        group, node = np.divmod(pairs, nodes)
        everywhere = np.concatenate([np.zeros(more, dtype=bool), has_list])
        lists[operation] = everywhere, (more + group) * NODES + node
    groups = Groups(number, keys, NODES, lists)
    application = None if world.application is None else Reliable(world.case.buffer, NODES)
    state = empty_state(NODES, len(groups))
    return replace(world, groups=groups, state=state, application=application)


@pytest.mark.parametrize("seed", [8])
def test_no_key_is_taken_for_another(seed: int) -> None:
    world = with_many_groups(world_of(random_world(seed)))
    last = len(world.groups) * NODES**2 * (world.config.scribe.deadline + 1)
    assert MOST_KEYS - last < NODES**2 * (world.config.scribe.deadline + 1)
    assert not compared(world)
