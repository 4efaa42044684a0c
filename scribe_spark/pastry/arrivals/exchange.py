"""Leaf set exchange: nodes with a new leaf send their leaf sets, until no leaf set changes.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import distinct, distinct_indices
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.program import AT, once_a_bucket
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, lacks_leaves, take_leaves
from scribe_spark.pastry.arrivals.waves import WaveProgram
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.states import LEAVES, States, live_only, pairs_of

#: The table of nodes that begin the exchange, each once: arrived nodes and nodes with a new leaf.
#: The same name is used for the message by which a node reminds itself to send in the next round of
#: the exchange.
GAINED = "gained"

#: Kinds of messages.  A leaf set is sent once to each bucket that has leaves of it, for all of
#: them.
_LEAF_SET, _ANSWER = "leaf set", "answer"


@dataclass(frozen=True)
class Exchange(WaveProgram):
    """The exchange in rounds of two supersteps: leaf sets are sent, then answered.

    A node that receives a leaf set from a node outside of its own leaf set answers with its own.
    Without these answers, more than l/2 nodes of a wave that arrive between two neighbours would
    not learn of each other.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if superstep % 2:
            return self._receive(bucket, tables, inbox)
        senders = [inbox[GAINED][AT]] if GAINED in inbox else []
        if not superstep and GAINED in tables:
            senders.append(tables[GAINED]["node"])
            del tables[GAINED]
        elif _ANSWER in inbox:
            senders.append(self._take_answers(bucket, tables, inbox))
        return self._send(bucket, tables, distinct(np.concatenate(senders))) if senders else {}

    def _send(self, bucket: int, tables: Tables, senders: np.ndarray) -> Outbox:
        """Nodes send their leaf sets to their leaves."""
        states, is_alive = self.states(bucket, tables), self.given.is_alive
        sets = states.distinct_leaves(senders - states.first)
        there = live_only(is_alive, sets)
        messages, arrive = int((sets >= 0).sum()), int((there >= 0).sum())
        self.given.observer.count(
            tables, Kind.EXCHANGE, messages, messages - arrive,
            between=lambda: pairs_of(senders, sets),
        )  # fmt: skip
        one, at = once_a_bucket(self.bounds, there)
        return {_LEAF_SET: {AT: at, "sender": senders[one], "leaves": there[one]}}

    def _receive(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Merge received leaf sets; answer senders that are not in the own leaf set."""
        states = self.states(bucket, tables, LEAVES)
        sets, senders = inbox[_LEAF_SET]["leaves"], inbox[_LEAF_SET]["sender"]
        first, last = states.first, states.first + len(states.own)
        at, column = np.nonzero((sets >= first) & (sets < last))
        receiver = sets[at, column].astype(np.int64) - first
        gained = self._take_sets(states, receiver, sets, senders, at)
        refused = ~holds_leaf(states, receiver, senders[at])
        asked, asker = receiver[refused], senders[at][refused]
        self.count(tables, Kind.EXCHANGE, asked + first, asker)
        answers = live_only(self.given.is_alive, states.leaves[asked])
        return {GAINED: {AT: gained + first}, _ANSWER: {AT: asker, "leaves": answers}}

    def _take_sets(
        self,
        states: States,
        receiver: np.ndarray,
        sets: np.ndarray,
        senders: np.ndarray,
        at: np.ndarray,
    ) -> np.ndarray:
        """Offer leaf sets and senders to receivers; return indices of nodes that changed."""
        different = distinct_indices(len(states.own), receiver)
        # most leaf sets are complete already, and need not be compared
        lacking = np.zeros(len(states.own), dtype=bool)
        lacking[different] = lacks_leaves(states, different, self.everybody)
        some = np.flatnonzero(lacking[receiver])
        offered = np.c_[sets, senders.astype(np.int32)]
        return take_leaves(states, receiver[some], offered[at[some]], only_new=True)

    def _take_answers(self, bucket: int, tables: Tables, inbox: Inbox) -> np.ndarray:
        """Merge the leaf sets in answers; return the nodes whose leaf set changed."""
        states, answers = self.states(bucket, tables, LEAVES), inbox[_ANSWER]
        taken = take_leaves(states, answers[AT] - states.first, answers["leaves"], only_new=True)
        return taken + states.first
