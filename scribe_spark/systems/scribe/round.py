"""Scribe's part of a round: its programs in order.

The part is played within Pastry's round (`pastry.round`): after the events and repairs of nodes and
before their lookups.  A settled round (`settled`) omits the programs that only a later round needs,
because no node fails, arrives or leaves in it.

JSAC 2002, Section III; NGC 2001, Section 3; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from scribe_spark.engine import Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.pastry.repair import close_phase
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import GroupEvents, Publishing
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe import small_groups
from scribe_spark.systems.scribe.bottleneck import remove_bottlenecks
from scribe_spark.systems.scribe.end_of_round import EndRound
from scribe_spark.systems.scribe.events import PlayEvents
from scribe_spark.systems.scribe.heartbeat import LeaveTrees, Refresh
from scribe_spark.systems.scribe.join import RefuseUnknownMembers, SendJoins
from scribe_spark.systems.scribe.measures import CountRepairs, FindReached
from scribe_spark.systems.scribe.multicast import Disseminate, FinishTrees
from scribe_spark.systems.scribe.root import Failover, HandOver
from scribe_spark.systems.scribe.scribe import RoundOfGroups
from scribe_spark.systems.scribe.small_groups import collapse
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
