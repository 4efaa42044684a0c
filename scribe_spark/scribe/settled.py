"""A settled round: round 0 of a world in which no node fails, arrives or leaves.

All nodes are alive and their tables are right, so no JOIN visits a node twice and no known path to
a root is out of date.  Programs skip work that only a later round would need.  A run without rounds
is one settled round: CREATEs and JOINs, then one publication per group.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.player import play_in_turn
from scribe_spark.engine.ring import Keys
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.observer import Observer
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.scribe.round import growing, publishing
from scribe_spark.scribe.scribe import RoundOfGroups
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    pass


def settled_given(
    facts: KnowsRing, bounds: np.ndarray, kernel: Kernel, seed: int = 0
) -> Environment:
    """Return the environment of a settled round; called on the driver."""
    from scribe_spark.config import OverlayConfig  # not on executors

    nobody_arrives = OverlayConfig().for_tasks()
    return Environment(facts, bounds, nobody_arrives, kernel, Observer(()), seed=seed)


def settled_round(
    number: np.ndarray,
    key_hi: np.ndarray,
    key_lo: np.ndarray,
    size: int,
    rule: NextHop,
    lan_us: int,
) -> RoundOfGroups:
    """Return the parameters of a settled round; groups ascend, too many raise InputError."""
    from scribe_spark.config import ScribeConfig, TreesConfig  # not on executors

    refuse_groups(len(number), size)
    groups = Groups(number, Keys(key_hi, key_lo), size)
    rules = ScribeConfig().for_tasks(), TreesConfig().for_tasks()
    first = RoundOfGroups(0, groups, *rules, whole_numbers(), timed=True, lan_us=lan_us)
    return replace(first, settled=True, rule=rule)


def grow_trees(
    player: RoundPlayer, round: RoundOfGroups, creator: np.ndarray, events: GroupEvents
) -> None:
    """Create all groups at the creators' positions, and let their members join.

    The joins may instead be sent to nodes as messages (`events.JOINING`).
    """
    created = replace(events, create=(np.arange(len(round.groups)), creator))
    play_in_turn(player, growing(player, round, Events(), created))


def publish(
    player: RoundPlayer, round: RoundOfGroups, group: np.ndarray, source: np.ndarray
) -> None:
    """Let the sources (ring positions) of the given groups multicast one message each."""
    play_in_turn(player, publishing(player, round, group, source))
