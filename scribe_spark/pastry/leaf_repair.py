"""Detection of failed leaves, and repair of leaf sets.

A *side* of a leaf set has the leaves with greater or with smaller nodeIds.  A *question* asks a
node for nodes that it knows.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section III.A.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, append
from scribe_spark.pastry.arrivals.offers import SIDES, places_out, side_columns
from scribe_spark.pastry.states import LEAVES, NONE, NodeProgram, States, pairs_of
from scribe_spark.rounds.observer import both_ways
from scribe_spark.rounds.player import Environment

#: Tables.  _LOST: sides of leaf sets that lost leaves (``node``, ``side``).  _LONE: those without a
#: live leaf.  _OFFERED: the offers to sides without a live leaf (columns of :data:`_ANSWER`).
_LOST, _LONE, _OFFERED = "sides that lost leaves", "sides without leaves", "offers to lone sides"

#: Kinds of messages.
_QUESTION, _ANSWER = "question", "answer"


def repair_leaf_sets(environment: Environment, number: int) -> list[Program | IfRows]:
    """Return the programs, in order, that send keep-alives, drop dead leaves and repair leaf sets.

    A live node drops a leaf once the leaf's death is detected, in round `number`.  The repair has
    rounds of questions.  In each round, a side that lost leaves asks its farthest live leaf for
    that node's leaf set as of the start of the round.  A side that did not change stops asking.
    Sides without a live leaf first search for the nearest live node on that side (rule P21).
    """
    return [
        _Detect(environment, number),
        IfRows((_LONE,), (_SearchLeaves(environment),)),
        IfRows((_LOST, _OFFERED), (_RepairLeaves(environment),)),
    ]


@dataclass(frozen=True)
class _Detect(NodeProgram):
    """Live nodes exchange keep-alives with leaves, and drop those that are detected as dead."""

    number: int
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        lives, states = self.environment.in_round, self.states(bucket, tables)
        live = self.live(bucket)
        leaves = states.distinct_leaves(live - states.first)
        self.environment.observer.count(
            tables, "keep-alive", np.count_nonzero(leaves >= 0),
            between=lambda: pairs_of(live, leaves),
        )  # fmt: skip
        known_dead = lives.known_dead(self.number)
        if known_dead.any():
            self._drop(bucket, tables, live, known_dead)
        return {}

    def _drop(self, bucket: int, tables: Tables, live: np.ndarray, known_dead: np.ndarray) -> None:
        """Remove leaves in `known_dead` from the leaf sets of live nodes, and close the gaps."""
        states = self.states(bucket, tables)
        leaves = states.leaves[live - states.first]
        gone = (leaves >= 0) & known_dead[leaves]
        hit = np.flatnonzero(gone.any(axis=1))
        if not len(hit):
            return
        states = self.states(bucket, tables, LEAVES)
        index, leaves, gone = live[hit] - states.first, leaves[hit], gone[hit]
        leaves[gone] = NONE
        for side in SIDES:
            columns = side_columns(states, side)
            lost = np.flatnonzero(gone[:, columns].any(axis=1))
            kept = leaves[lost, columns]
            order = np.argsort(kept < 0, axis=1, kind="stable")  # close the gaps
            kept = np.take_along_axis(kept, order, axis=1)
            states.leaves[index[lost], columns] = kept
            lone = ~self.environment.is_alive(kept).any(axis=1)
            for name, some in ((_LOST, lost[~lone]), (_LONE, lost[lone])):
                if len(some):
                    node = live[hit[some]]
                    append(tables, name, {"node": node, "side": np.full(len(node), side)})


@dataclass(frozen=True)
class _SearchLeaves(NodeProgram):
    """Sides without a live leaf search for the nearest live node on that side (P31).

    A node asks the nearest live node that it knows on the side for nearer nodes, and continues with
    the answer.  Messages carry the asking node's list of silent (dead) nodes.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        states = self.states(bucket, tables)
        if not superstep:
            return self._begin(states, tables)
        outbox: dict[str, Columns] = {}
        if _QUESTION in inbox:
            outbox[_ANSWER] = self._answer(states, inbox[_QUESTION])
        if _ANSWER in inbox:
            outbox[_QUESTION] = self._go_on(states, tables, inbox[_ANSWER])
        return outbox

    def _begin(self, states: States, tables: Tables) -> Outbox:
        """Count questions to the leaves of lone sides, which are all dead; begin the searches."""
        if _LONE not in tables:
            return {}
        node, side = tables[_LONE]["node"], tables[_LONE]["side"]
        del tables[_LONE]
        silent = _side_of(states, node, side)
        asker, asked = pairs_of(node, silent)
        self.count(tables, "repair", asker, asked, lost=len(asked))
        sides = {AT: node, "asked": node, "side": side, "silent": silent}
        return {_QUESTION: self._next(states, tables, sides, _known(states, node))}

    def _answer(self, states: States, came: Columns) -> Columns:
        """Answer with nodes between asker and asked node (``named``), and with ``offers``."""
        asked, asker, side = came[AT], came["asker"], came["side"]
        named = _known(states, asked)
        size = len(states.known)
        out = places_out(size, asker[:, None], named, side[:, None])
        nearer = (named >= 0) & (out > 0)
        nearer &= out < places_out(size, asker, asked, side)[:, None]
        return {
            AT: asker, "asked": asked, "side": side, "silent": came["silent"],
            "named": np.where(nearer, named, np.int32(NONE)),
            "offers": _offers(states, asker, side, asked),
        }  # fmt: skip

    def _go_on(self, states: States, tables: Tables, came: Columns) -> Columns:
        """Ask the nearest live node that an answer names; without one, the search ends."""
        return self._next(states, tables, came, came["named"])

    def _next(self, states: States, tables: Tables, sides: Columns, named: np.ndarray) -> Columns:
        """Return the next questions of searches; store the offers to sides whose search has ended.

        `sides` has the state of each search, and `named` the nodes that the last answer has named.
        """
        node, side, silent = sides[AT], sides["side"], sides["silent"]
        size = len(states.known)
        named = named.astype(np.int64)
        known = (named[:, :, None] == silent[:, None, :]).any(axis=2)
        out = places_out(size, node[:, None], named, side[:, None])
        out = np.where((named >= 0) & (out > 0) & ~known, out, size)
        order = np.argsort(out, axis=1, kind="stable")
        out = np.take_along_axis(out, order, axis=1)
        in_turn = np.where(out < size, np.take_along_axis(named, order, axis=1), NONE)
        in_turn[:, 1:][out[:, 1:] == out[:, :-1]] = NONE  # a node that was named twice
        answers = self.environment.is_alive(in_turn)
        lost = (in_turn >= 0) & (np.cumsum(answers, axis=1) == 0)
        found = np.any(answers, axis=1)
        asked = in_turn[np.arange(len(node)), answers.argmax(axis=1)]
        asker, other = both_ways(node[found], asked[found])
        asker, other = np.r_[asker, node[np.nonzero(lost)[0]]], np.r_[other, in_turn[lost]]
        self.count(tables, "repair", asker, other, int(np.count_nonzero(lost)))
        over = np.flatnonzero(~found & (sides["asked"] != node))
        if len(over):
            kept = {name: sides[name] for name in ("asked", "side", "offers")}
            append(tables, _OFFERED, {"node": node[over], **take(kept, over)})
        silent = np.concatenate([silent, np.where(lost, in_turn, NONE).astype(np.int32)], axis=1)
        silent = np.sort(silent, axis=1)[:, ::-1]
        silent = silent[:, : max(1, int((silent >= 0).sum(axis=1).max(initial=0)))]
        return {
            AT: asked[found], "asker": node[found], "side": side[found], "silent": silent[found]
        }  # fmt: skip


@dataclass(frozen=True)
class _RepairLeaves(NodeProgram):
    """Nodes that lost leaves ask their farthest leaves for leaf sets, until no leaf set changes.

    A *side* of a leaf set has the leaves with greater or with smaller nodeIds.  Questions and their
    answers take two supersteps.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if superstep % 2:
            return {_ANSWER: self._answer(bucket, tables, inbox[_QUESTION])}
        asking = []
        if not superstep and _LOST in tables:
            lost = tables[_LOST]
            del tables[_LOST]
            asking.append((lost["node"], lost["side"]))
        if not superstep and _OFFERED in tables:
            asking.append(self._fill(bucket, tables, tables[_OFFERED]))
            del tables[_OFFERED]
        if _ANSWER in inbox:
            came = inbox[_ANSWER]
            asking.append(self._fill(bucket, tables, {**came, "node": came[AT]}))
        if not asking:
            return {}
        node, side = (np.concatenate(part) for part in zip(*asking, strict=True))
        return {_QUESTION: self._ask(bucket, tables, node, side)}

    def _ask(self, bucket: int, tables: Tables, node: np.ndarray, side: np.ndarray) -> Columns:
        """Let nodes ask the farthest live leaf of a side; return the questions as messages.

        Questions to dead leaves whose death is not detected are lost; then the next farthest is
        asked.
        """
        states = self.states(bucket, tables)
        in_turn = _side_of(states, node, side)[:, ::-1]
        answers = self.environment.is_alive(in_turn)
        before = (np.cumsum(answers, axis=1) == 0) & (in_turn >= 0)
        lost = int(np.count_nonzero(before))
        asked = in_turn[np.arange(len(node)), answers.argmax(axis=1)].astype(np.int64)
        asker, other = both_ways(node, asked)
        asker, other = np.r_[asker, node[np.nonzero(before)[0]]], np.r_[other, in_turn[before]]
        self.count(tables, "repair", asker, other, lost)
        return {AT: asked, "asker": node, "side": side}

    def _answer(self, bucket: int, tables: Tables, came: Columns) -> Columns:
        """Answer questions with the nodes that are useful for the asking side."""
        states, asker, side = self.states(bucket, tables), came["asker"], came["side"]
        return {AT: asker, "side": side, "offers": _offers(states, asker, side, came[AT])}

    def _fill(self, bucket: int, tables: Tables, came: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Add offered nodes to sides of leaf sets; return the sides that changed: node and side."""
        node, side, offers = came["node"], came["side"], came["offers"]
        states = self.states(bucket, tables)
        held = _side_of(states, node, side)
        filled = self._filled(states, tables, node, side, held, offers)
        changed = (filled != held).any(axis=1)
        if not changed.any():
            return node[:0], side[:0]
        states = self.states(bucket, tables, LEAVES)
        node, side, filled = node[changed], side[changed], filled[changed]
        for one in SIDES:
            mine = side == one
            states.leaves[node[mine] - states.first, side_columns(states, one)] = filled[mine]
        return node, side

    def _filled(
        self,
        states: States,
        tables: Tables,
        node: np.ndarray,
        side: np.ndarray,
        held: np.ndarray,
        offers: np.ndarray,
    ) -> np.ndarray:
        """Return sides with the offered nodes added, nearest first, in the shape of `held`.

        `held` has the present leaves, `offers` the offered nodes.  Offered nodes are checked to be
        alive, until the side is full.
        """
        half, far = states.half, len(states.known)
        both = np.concatenate([held, offers], axis=1)
        out = places_out(far, node[:, None], both, side[:, None])
        out = np.where(both >= 0, out, far)
        order = np.argsort(out, axis=1, kind="stable")  # of equal rows, the leaf precedes the offer
        both, out = (np.take_along_axis(part, order, axis=1) for part in (both, out))
        new = order >= half
        repeated = np.zeros_like(new)
        repeated[:, 1:] = out[:, 1:] == out[:, :-1]
        there = (out < far) & ~repeated
        counts = there & (~new | self.environment.is_alive(both))
        place = np.cumsum(counts, axis=1)
        visited = there & (place - counts < half)
        checked = visited & new
        self.count(tables, "check", node[np.nonzero(checked)[0]], both[checked])
        row, column = np.nonzero(visited & counts)
        filled = np.full_like(held, NONE)
        filled[row, place[row, column] - 1] = both[row, column]
        return filled


def _side_of(states: States, node: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Return the leaves of one side of each node, nearest first: int32, shape (a, l/2)."""
    columns = side[:, None] * states.half + np.arange(states.half)
    return states.leaves[node[:, None] - states.first, columns]


def _known(states: States, node: np.ndarray) -> np.ndarray:
    """Return all nodes in the leaf sets and routing tables of some nodes: int32, one row per node.

    :data:`NONE` stands for empty places.
    """
    index = node - states.first
    return np.concatenate(
        [states.leaves[index], states.cells[index].reshape(len(index), -1)], axis=1
    )


def _offers(states: States, asker: np.ndarray, side: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return the nodes that asked nodes offer: int32, shape (a, l + 1), padded with NONE.

    The offers are the asked node itself, and its leaves that lie beyond it on that side or between
    it and the asker.  All other leaves are on the other side of the asker, which would take
    them for its farthest leaves (P22).
    """
    size, leaves = len(states.known), states.leaves[asked - states.first]
    beyond = np.arange(2 * states.half) // states.half == side[:, None]
    out = places_out(size, asker[:, None], leaves, side[:, None])
    limit = places_out(size, asker, asked, side)
    between = (out > 0) & (out < limit[:, None])
    keep = (beyond | between) & (leaves >= 0) & (leaves != asker[:, None])
    leaves = np.where(keep, leaves, np.int32(NONE))
    return np.concatenate([leaves, asked[:, None].astype(np.int32)], axis=1)
