"""Pastry's round in a world: events, detection and repair, lookups, and the results.

A round has two parts, :func:`begin_round` and :func:`end_round`.  Between them play the systems
whose messages travel by Pastry (`SystemOnBuckets.shares`).  Such a system reads leaf sets and
routing tables, records the dead nodes that its messages meet (`Observer.meet`), and plays
`table_repair.close_phase`, by which nodes remove and repair these entries.  Without such a system,
nothing is played between the parts.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2; Pastry 2001, Section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.engine import Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.engine.program import Together, in_bucket
from scribe_spark.pastry.arrivals.waves import Wave
from scribe_spark.pastry.events import play_events
from scribe_spark.pastry.leaf_repair import repair_leaf_sets
from scribe_spark.pastry.lookups import (
    ENDED,
    LookupResults,
    Lookups,
    drawn_lookups,
    look_up,
    lookup_results,
)
from scribe_spark.pastry.states import LEAVES, LEAVES_BEFORE, NodeProgram, same_leaves
from scribe_spark.pastry.table_repair import FindDead, close_phase, maintain_tables
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.observer import MESSAGES
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.rounds.tally import Tally

#: The table of live nodes whose leaf set differs from that before the round: ``node``.
NEW_LEAFS = "new leafs"


@dataclass(frozen=True)
class RoundResult:
    """The results of a round."""

    number: int
    messages: dict[str, int]  # by kind, see `Tally`
    new_leafs: np.ndarray  # positions, ascending; empty if `NEW_LEAFS` stays in the buckets
    lookups: LookupResults


def begin_round(
    player: RoundPlayer, number: int, events: Events, before: Sequence[Program] = ()
) -> None:
    """Play the first part of a round: the checked events of nodes, keep-alives, and repairs.

    The programs `before` are played before the keep-alives.
    """
    play_events(player, number, events)
    play_in_turn(player, [*before, *repair(player, number)])


def repair(player: RoundPlayer, number: int) -> list[Program | IfRows]:
    """Return the programs of keep-alives, detection, and repair of leaf sets and tables."""
    given = player.given
    steps, rules = repair_leaf_sets(given, number), given.world_rules
    if rules.repair == "eager" and player.lives.known_dead(number - 1).any():
        steps += [FindDead(given, number), close_phase(given)]
    period = rules.maintenance_period
    if period and number and number % period == 0:
        steps += maintain_tables(given, Wave.of_nobody(), "round maintenance", number)
    return steps


@dataclass(frozen=True)
class _CompareLeafSets(NodeProgram):
    """Record live nodes whose leaf set, as a set of nodes, differs from that before the round.

    The nodes `entered` were not alive before the round.
    """

    entered: np.ndarray
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        first, last = (int(bound) for bound in self.bounds[bucket : bucket + 2])
        alive = self.given.in_round.alive[first:last]
        changed = np.zeros(last - first, dtype=bool)
        if LEAVES_BEFORE in tables:
            changed = ~same_leaves(tables[LEAVES]["leaves"], tables[LEAVES_BEFORE]["leaves"])
            del tables[LEAVES_BEFORE]
        own = self.entered[in_bucket(self.bounds, bucket, self.entered)]
        changed[own - first] = True
        tables.pop(NEW_LEAFS, None)
        if (new := np.flatnonzero(changed & alive)).size:
            tables[NEW_LEAFS] = {"node": new + first}
        return {}


def end_round(
    player: RoundPlayer,
    number: int,
    events: Events,
    lookups: Lookups | int,
    tally: Tally,
    programs: Iterable[Program] = (),
    tables: Iterable[str] = (NEW_LEAFS,),
) -> tuple[RoundResult, dict[str, dict[str, np.ndarray]]]:
    """Play the last part of a round: lookups (given, or a number of lookups to draw) and measures.

    Return the result, and further tables taken from the buckets.  The measures `programs` are
    played at the end, all in the same supersteps.  Without :data:`NEW_LEAFS` in `tables`, that
    table stays in the buckets until this function is called for the next round.
    """
    if isinstance(lookups, int):
        lookups = drawn_lookups(player.lives, lookups, number, player.given.seed)
    play_in_turn(player, look_up(player.given, lookups))
    player.play(Together((_CompareLeafSets(player.given, events.entering), *programs)))
    taken = player.take(MESSAGES, ENDED, *tables)
    tally.take(taken)
    new = taken[NEW_LEAFS]["node"] if NEW_LEAFS in taken else np.empty(0, dtype=np.int64)
    result = RoundResult(number, tally.by_kind(), new, lookup_results(player, lookups, taken))
    return result, taken
