"""Pastry's part of the events of a round: goodbyes, recoveries and arrivals.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import distinct, without
from scribe_spark.engine import Columns, Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.engine.program import AT, Together
from scribe_spark.pastry.arrivals.arrival import asking, entering
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.exchange import GAINED, Exchange
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.wave import NodeProgram, WaveProgram, forget
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, live_only, pairs_of
from scribe_spark.pastry.table_repair import close_phase, maintain_tables
from scribe_spark.pastry.waves_of_round import WaveOfRound, arrival_order, split_in_waves
from scribe_spark.rounds.events import Events, end_lives
from scribe_spark.rounds.player import RoundPlayer


def play_events(player: RoundPlayer, number: int, events: Events) -> None:
    """Play the events of a round, which have been checked (`rounds.events.check_events`)."""
    given, lives = player.given, player.lives
    known = given.facts.ring
    # 1. failures (without a message) and departures (with goodbyes)
    end_lives(lives, number, events, given.world_rules.detection)
    goodbyes = [_SayGoodbye(player.given, events.leave)] if len(events.leave) else []
    # 2. recoveries; a node that knows no live node arrives anew
    waves = [alone[None] for alone in recover(player, events.recover, goodbyes)]
    # 3. arrivals
    ordered = arrival_order(known, events.arrive, number, given.seed)
    live = int(np.count_nonzero(lives.alive)) + len(waves)
    waves += split_in_waves(ordered, live, given.rules.growth)
    for wave, arriving in enumerate(waves):
        arrive(player, arriving, number, wave)


@dataclass(frozen=True)
class _SayGoodbye(NodeProgram):
    """Departing nodes notify their leaves, which then know at once that they are gone."""

    leaving: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        first, last = np.searchsorted(self.leaving, self.bounds[bucket : bucket + 2])
        leaving, states = self.leaving[first:last], self.states(bucket, tables)
        sender, to = pairs_of(leaving, states.distinct_leaves(leaving - states.first))
        self.given.observer.send(tables, "goodbye", self.given.is_alive(to), sender, to)
        return {}


# --- arrivals: a wave of nodes enters a living overlay, by the join protocol (JSAC II.B)


@dataclass(frozen=True)
class _Forget(WaveProgram):
    """Clear the tables of nodes that arrive in an overlay without a live node."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        forget(self, bucket, tables)
        return {}


def arrive(player: RoundPlayer, ordered: np.ndarray, number: int, wave: int) -> None:
    """Let a wave of dead or new nodes (positions, in their order of arrival) arrive in a round.

    Their old tables are cleared.  The value `wave` is the number of the wave in the round, from 0.
    """
    arriving = WaveOfRound.of(player.given, ordered, number)
    if player.lives.alive.any():
        play_in_turn(player, [*asking(player.given, arriving), close_phase(player.given)])
        player.lives.enter(ordered)  # the programs below tell other nodes of the new ones
        programs = list[Program | IfRows](entering(player.given, arriving))
    else:
        player.play(_Forget(player.given, arriving))
        player.lives.enter(ordered)
        programs = []
    for time in range(player.given.rules.maintenance):
        purpose = f"wave maintenance {time} of wave {wave}"
        programs += maintain_tables(player.given, purpose, number)
    play_in_turn(player, programs)


# --- recoveries: nodes return with their routing tables, and ask their last known leaves (NGC 2.2)

#: The table of nodes that found no live leaf: ``node``.
_ALONE = "alone"

#: Kinds of messages.
_QUESTION, _ANSWER, _ANNOUNCEMENT = "question", "answer", "announcement"


def recover(player: RoundPlayer, nodes: np.ndarray, besides: Sequence[Program] = ()) -> np.ndarray:
    """Recover nodes (ascending); return those that know no live node, ascending.

    All nodes recover together, from the tables before.  Each asks its last known leaves for their
    leaf sets, takes the best nodes as leaves, and announces itself to them.  Then leaf sets are
    exchanged.  The programs `besides` are played in the same supersteps; they write other tables.
    """
    if not len(nodes):
        for program in besides:
            player.play(program)
        return nodes
    player.play(Together((_Recover(player.given, nodes), *besides)))
    alone = player.take(_ALONE)[_ALONE]["node"] if player.has(_ALONE) else nodes[:0]
    player.lives.enter(without(nodes, alone))
    player.play(Exchange(player.given, WaveOfRound.of_nobody(player.given)))
    return np.sort(alone)


@dataclass(frozen=True)
class _Recover(NodeProgram):
    """Nodes ask their last known leaves, and announce themselves to their new leaves."""

    nodes: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            return self._ask(bucket, tables)
        outbox: dict[str, Columns] = {}
        if _QUESTION in inbox:
            outbox[_ANSWER] = self._answer(bucket, tables, inbox[_QUESTION])
        if _ANSWER in inbox:
            outbox[_ANNOUNCEMENT] = self._come_back(bucket, tables, inbox[_ANSWER])
        if _ANNOUNCEMENT in inbox:
            self._take(bucket, tables, inbox[_ANNOUNCEMENT])
        return outbox

    def _ask(self, bucket: int, tables: Tables) -> Outbox:
        """Ask the last known leaves for their leaf sets."""
        first, last = np.searchsorted(self.nodes, self.bounds[bucket : bucket + 2])
        nodes = self.nodes[first:last]
        if not len(nodes):
            return {}
        states = self.states(bucket, tables, LEAVES)
        old = states.distinct_leaves(nodes - states.first)
        states.leaves[nodes - states.first] = NONE
        asker, asked = pairs_of(nodes, old)
        answers = self.given.is_alive(asked)
        self.given.observer.send(tables, "recovery", answers, asker, asked)
        alone = without(nodes, asker[answers])
        if len(alone):
            tables[_ALONE] = {"node": alone}
        return {_QUESTION: {AT: asked[answers], "asker": asker[answers]}}

    def _answer(self, bucket: int, tables: Tables, came: Columns) -> Columns:
        """Answer with the leaf set."""
        states, asked, asker = self.states(bucket, tables), came[AT], came["asker"]
        self.count(tables, "recovery", asked, asker)
        offers = np.c_[states.leaves[asked - states.first], asked.astype(np.int32)]
        return {AT: asker, "offers": live_only(self.given.is_alive, offers)}

    def _come_back(self, bucket: int, tables: Tables, came: Columns) -> Columns:
        """Take the offered leaves, and announce the node to them."""
        states = self.states(bucket, tables, LEAVES)
        take_leaves(states, came[AT] - states.first, came["offers"])
        back = distinct(came[AT])
        tables[GAINED] = {"node": back}
        new, to = pairs_of(back, states.distinct_leaves(back - states.first))
        self.count(tables, "announcement", new, to)
        return {AT: to, "back": new}

    def _take(self, bucket: int, tables: Tables, came: Columns) -> None:
        """Offer the recovered nodes to the receivers' leaf sets and routing tables."""
        states = self.states(bucket, tables, LEAVES, CELLS)
        index, back = came[AT] - states.first, came["back"]
        take_cells(states, self.given.kernel, index, back)
        take_leaves(states, index, back)
        told = came[AT][holds_leaf(states, index, back)]
        before = tables[GAINED]["node"] if GAINED in tables else told[:0]
        tables[GAINED] = {"node": distinct(np.r_[before, told])}
