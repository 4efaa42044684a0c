"""A round of a world with groups: Pastry's part, Scribe's part, and the measurement.

References
----------
JSAC 2002, Section III; NGC 2001, Section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scribe_spark.engine import Columns, Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.engine.program import Forget
from scribe_spark.pastry.events import play_events
from scribe_spark.pastry.lookups import Lookups, drawn_lookups, look_up
from scribe_spark.pastry.round import NEW_LEAFS, RoundResult, see_round
from scribe_spark.pastry.table_repair import close_phase
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.events import Events, check_events
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.rounds.tally import Tally
from scribe_spark.scribe import lazy
from scribe_spark.scribe.bottleneck import DROPS, DROPS_BEFORE, remove_bottlenecks
from scribe_spark.scribe.collapse import ASKED, collapse
from scribe_spark.scribe.create import MADE
from scribe_spark.scribe.duplicates import AGAIN
from scribe_spark.scribe.end_of_round import OUTCOMES, EndRound
from scribe_spark.scribe.events import FAILURES, check_events_of_groups
from scribe_spark.scribe.figures import AT_ROOT
from scribe_spark.scribe.handlers import CHANGED
from scribe_spark.scribe.join import JOINS, REPAIRING
from scribe_spark.scribe.messages import MESSAGES
from scribe_spark.scribe.multicast import DELIVERIES, OF_THE_LAST_ROUND, PAYLOADS
from scribe_spark.scribe.outcomes import (
    DUE,
    LEFT,
    ORPHANS,
    OVERLOADED,
    EndOfRound,
    PublicationResults,
)
from scribe_spark.scribe.program import RoundOfGroups
from scribe_spark.scribe.publishing import FinishTrees
from scribe_spark.scribe.refresh import HERE
from scribe_spark.scribe.rejoin import DROPPED, EXTRA_JOINS, REFUSED_JOINS
from scribe_spark.scribe.repairs import REPAIRED, CountRepairs, FindReached
from scribe_spark.scribe.scribe import REFUSED
from scribe_spark.scribe.state import table_of
from scribe_spark.scribe.steps import growing, publishing
from scribe_spark.scribe.unknown_members import RefuseUnknownMembers

#: ``measures(given, round)`` returns the programs of a round's measures, played after `EndOfRound`.
Measures = Callable[[Environment, RoundOfGroups], Sequence[Program]]


def _play_steps(
    player: RoundPlayer,
    round: RoundOfGroups,
    events: Events,
    of_groups: GroupEvents,
    lookups: Lookups,
) -> None:
    """Play the programs that follow Pastry's events, lookups included."""
    given, variants = player.given, round.trees.variants
    steps = growing(player, round, events, of_groups)
    for name, act in (
        ("lazy", lazy.grow_lazily),
        ("bottleneck", remove_bottlenecks),
        ("collapse", collapse),
    ):
        if name in variants:
            play_in_turn(player, steps)
            steps = []
            act(player, round)
    refuse = RefuseUnknownMembers(given, round)
    count_repairs = FindReached(given, round), CountRepairs(given, round)
    steps += [
        IfRows((table_of("unknown_members"),), (refuse,)),
        close_phase(given),
        FinishTrees(given, round),
        # 4. publications go to the roots and down the trees; heartbeats, lookups
        *publishing(player, round, *of_groups.publish),
        *look_up(given, lookups, [EndRound(given, round)]),
        # 5. measure the repairs: do roots reach the children of dead nodes again?
        IfRows((table_of("repairs"),), count_repairs),
    ]
    play_in_turn(player, steps)


#: The tables of a round without a row per node; with many nodes, only these are taken.
COUNTS = (HERE, OUTCOMES, DUE, LEFT)

#: All tables of a round, also those with a row for every JOIN, delivery and so on.
ROWS = (
    *COUNTS,
    *(NEW_LEAFS, MADE, JOINS, AT_ROOT, DELIVERIES, PAYLOADS, REFUSED, ORPHANS, AGAIN, REPAIRED),
    *(FAILURES, OVERLOADED, REPAIRING, ASKED, CHANGED),
    *(DROPS, DROPS_BEFORE, DROPPED, REFUSED_JOINS, EXTRA_JOINS, lazy.SENT),
    *MESSAGES,
)

#: Tables that are read until the next round begins.
_READ_LATER = (NEW_LEAFS, *OF_THE_LAST_ROUND)


def lost_groups(taken: Mapping[str, Columns], groups: int) -> np.ndarray:
    """Return the groups whose state no live node has, from the table `HERE`."""
    if HERE not in taken:
        return np.empty(0, dtype=np.int64)
    here, created = (
        taken[HERE][name].reshape(-1, groups).any(axis=0) for name in ("here", "created")
    )
    return np.flatnonzero(created & ~here)


def publication_results(taken: Mapping[str, Columns], name: str = DUE) -> PublicationResults:
    """Return the outcomes of publications from the tables `DUE` or `LEFT` of all buckets."""
    return PublicationResults.sum_of(taken.get(name, {}))


def play_groups(
    player: RoundPlayer,
    round: RoundOfGroups,
    events: Events,
    group_events: GroupEvents,
    lookups: Lookups | int,
    tally: Tally,
    is_last: bool = False,
    measures: Measures = lambda given, round: (),
    tables: tuple[str, ...] = ROWS,
    play_clock: Callable[[RoundPlayer], None] | None = None,
) -> tuple[RoundResult, dict[str, dict[str, np.ndarray]]]:
    """Play a round with groups; return its result and the named tables, taken from the buckets.

    All other tables of the round are deleted, unless they are read until the next round.  Lookups
    are played after the publications; `play_clock`, called last, may change the times of
    deliveries.  The incarnations in `round` are updated.  An impossible event, or an overlay
    without nodes, raises ImpossibleRound.
    """
    number, was_alive = round.number, player.lives.alive.copy()
    # events; impossible ones are refused before anything is played
    check_events(player.lives, player.given.facts.ring, number, events)
    check_events_of_groups(player, round, events, group_events)
    play_events(player, number, events)
    round.incarnation[np.concatenate([events.arrive, events.recover])] = number
    if isinstance(lookups, int):
        lookups = drawn_lookups(player.lives, lookups, number, player.given.seed)
    _play_steps(player, round, events, group_events, lookups)
    if play_clock is not None:
        play_clock(player)
    # the result of the round
    entered = np.flatnonzero(player.lives.alive & ~was_alive)
    given = player.given
    left = {*ROWS}.difference(tables, _READ_LATER)
    programs = [EndOfRound(given, round, is_last), *measures(given, round)]
    programs += [Forget(given.bounds, left.__contains__)] if left else []
    return see_round(player, number, entered, lookups, tally, programs, tables)
