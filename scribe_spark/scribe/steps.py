"""The programs of a round of groups, in their order.

A settled round (`settled`) omits the programs that only a later round needs, because no node fails,
arrives or leaves in it.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.pastry.round import repair
from scribe_spark.pastry.table_repair import close_phase
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.scribe.events import PlayEvents
from scribe_spark.scribe.join import SendJoins
from scribe_spark.scribe.program import RoundOfGroups
from scribe_spark.scribe.publishing import Disseminate, FinishTrees
from scribe_spark.scribe.refresh import LeaveTrees, Refresh
from scribe_spark.scribe.root import Failover, HandOver
from scribe_spark.scribe.sources import FindRoots


def growing(
    player: RoundPlayer, round: RoundOfGroups, events: Events, of_groups: GroupEvents
) -> list[Program | IfRows]:
    """Return the programs from the events of a round, already played by Pastry, to its JOINs."""
    given = player.given
    # 1. events
    steps: list[Program | IfRows] = [PlayEvents(given, round, events, of_groups)]
    if not round.settled:
        # 2. Pastry's detection and repair; 3. maintenance of trees
        steps += repair(player, round.number)
        steps += [program(given, round) for program in (HandOver, Failover, Refresh)]
    steps += [LeaveTrees(given, round, *of_groups.create)]
    # lazy growth sends JOINs in waves of its own
    return steps if "lazy" in round.trees.variants else [*steps, SendJoins(given, round)]


def publishing(
    player: RoundPlayer, round: RoundOfGroups, group: np.ndarray, source: np.ndarray
) -> list[Program | IfRows]:
    """Return the programs that route publications to the roots and multicast them."""
    given = player.given
    steps: list[Program | IfRows] = [FindRoots(given, round, group, source)]
    if not round.settled:
        steps += [close_phase(given)]
    return [*steps, FinishTrees(given, round), Disseminate(given, round)]
