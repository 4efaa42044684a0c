"""Scribe's part of a round, and the tables that the round leaves in the buckets.

The part is played within Pastry's round (`pastry.round`): after the events and repairs of nodes and
before their lookups.  A settled round (`settled`) omits the programs that only a later round needs,
because no node fails, arrives or leaves in it.

References
----------
JSAC 2002, Section III; NGC 2001, Section 3; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Mapping

from scribe_spark.engine import Columns, Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.pastry.repair import close_phase
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import GroupEvents, Publishing
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe import small_groups
from scribe_spark.systems.scribe.bottleneck import (
    DROPPED,
    DROPS,
    DROPS_BEFORE,
    EXTRA_JOINS,
    REFUSED_JOINS,
    remove_bottlenecks,
)
from scribe_spark.systems.scribe.duplicates import AGAIN
from scribe_spark.systems.scribe.end_of_round import (
    DUE,
    LEFT,
    ORPHANS,
    OUTCOMES,
    OVERLOADED,
    EndRound,
    PublicationResults,
)
from scribe_spark.systems.scribe.events import FAILURES, PlayEvents
from scribe_spark.systems.scribe.figures import AT_ROOT
from scribe_spark.systems.scribe.heartbeat import HERE, LeaveTrees, Refresh
from scribe_spark.systems.scribe.join import JOINS, REPAIRING, RefuseUnknownMembers, SendJoins
from scribe_spark.systems.scribe.measures import REPAIRED, CountRepairs, FindReached
from scribe_spark.systems.scribe.multicast import (
    DELIVERIES,
    MESSAGES,
    PAYLOADS,
    Disseminate,
    FinishTrees,
)
from scribe_spark.systems.scribe.program import CHANGED
from scribe_spark.systems.scribe.root import MADE, Failover, HandOver
from scribe_spark.systems.scribe.scribe import REFUSED, RoundOfGroups
from scribe_spark.systems.scribe.small_groups import COLLAPSING, collapse
from scribe_spark.systems.scribe.sources import FindRoots
from scribe_spark.systems.scribe.state import table_of

#: The variants that change the trees after the JOINs of a round.
_VARIANTS = {
    "lazy": small_groups.grow_lazily,
    "bottleneck": remove_bottlenecks,
    "collapse": collapse,
}


def play_groups(
    player: RoundPlayer, round: RoundOfGroups, events: Events, of_groups: GroupEvents
) -> None:
    """Play Scribe's part of a round, after Pastry has played the events of nodes."""
    environment = player.environment
    # 1. events; 2. maintenance of trees
    steps = growing(player, round, events, of_groups)
    for name, change_trees in _VARIANTS.items():
        if name in round.trees.variants:
            play_in_turn(player, steps)
            steps = []
            change_trees(player, round)
    refuse = RefuseUnknownMembers(environment, round)
    count_repairs = FindReached(environment, round), CountRepairs(environment, round)
    steps += [
        IfRows((table_of("unknown_members"),), (refuse,)),
        close_phase(environment),
        FinishTrees(environment, round),
        # 3. publications go to the roots and down the trees; heartbeats
        *publishing(player, round, of_groups.published()),
        EndRound(environment, round),
        # 4. measure the repairs: do roots reach the children of dead nodes again?
        IfRows((table_of("repairs"),), count_repairs),
    ]
    play_in_turn(player, steps)


def growing(
    player: RoundPlayer, round: RoundOfGroups, events: Events, of_groups: GroupEvents
) -> list[Program | IfRows]:
    """Return the programs of a round in order, from its events to its JOINs."""
    environment = player.environment
    steps: list[Program | IfRows] = [PlayEvents(environment, round, events, of_groups)]
    if not round.settled:
        steps += [program(environment, round) for program in (HandOver, Failover, Refresh)]
    steps += [LeaveTrees(environment, round, *of_groups.create)]
    # lazy growth sends JOINs in waves of its own
    return steps if "lazy" in round.trees.variants else [*steps, SendJoins(environment, round)]


def publishing(
    player: RoundPlayer, round: RoundOfGroups, publish: Publishing
) -> list[Program | IfRows]:
    """Return the programs that route the publications `publish` to roots, and down the trees."""
    environment = player.environment
    steps: list[Program | IfRows] = [FindRoots(environment, round, publish)]
    if not round.settled:
        steps += [close_phase(environment)]
    return [*steps, FinishTrees(environment, round), Disseminate(environment, round)]


#: The tables of a round without a row per node; with many nodes, only these are read.
COUNTS = (HERE, OUTCOMES, DUE, LEFT)

#: All tables of a round, also those with a row for every JOIN, delivery and so on.
ROWS = (
    *COUNTS,
    *(MADE, JOINS, AT_ROOT, DELIVERIES, PAYLOADS, REFUSED, ORPHANS, AGAIN, REPAIRED),
    *(FAILURES, OVERLOADED, REPAIRING, COLLAPSING, CHANGED),
    *(DROPS, DROPS_BEFORE, DROPPED, REFUSED_JOINS, EXTRA_JOINS, small_groups.SENT),
    *MESSAGES,
)


def publication_results(taken: Mapping[str, Columns], name: str = DUE) -> PublicationResults:
    """Return the outcomes of publications from the tables `DUE` or `LEFT` of all buckets."""
    return PublicationResults.sum_of(taken.get(name, {}))
