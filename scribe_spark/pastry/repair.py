"""Detection of failed leaves, repair of leaf sets; maintenance and repair of routing tables.

A *side* of a leaf set has the leaves with greater or with smaller nodeIds.  A *question* asks a
node for nodes that it knows.  Nodes remove dead entries of routing tables when they find them.

NGC 2001, Section 2.2; JSAC 2002, Section III.A.2.
Pastry 2001 (Rowstron and Druschel), Section 3: a node asks the entries of the same row for their
entry of the cell, then those of the next row.  Maintenance: NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, index_sorted
from scribe_spark.engine import Columns, Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, SilentProgram, append
from scribe_spark.pastry.offers import (
    SIDES,
    cells_in_rows,
    cells_of,
    places_out,
    side_columns,
    take_cells,
)
from scribe_spark.pastry.states import (
    CELLS,
    LEAVES,
    NONE,
    Kind,
    NodeProgram,
    States,
    live_only,
    pairs_of,
)
from scribe_spark.pastry.waves import Wave, WaveProgram
from scribe_spark.rounds.player import FOUND, Environment, both_ways

# --- leaf sets


#: Tables.  _LOST: sides of leaf sets that lost leaves (``node``, ``side``).  _LONE: those without a
#: live leaf.  _OFFERED: the offers to sides without a live leaf (columns of :data:`_LEAF_ANSWER`).
_LOST, _LONE, _OFFERED = "sides that lost leaves", "sides without leaves", "offers to lone sides"

#: Kinds of messages.
_LEAF_QUESTION, _LEAF_ANSWER = "question", "answer"


def repair_leaf_sets(environment: Environment, number: int) -> list[Program | IfRows]:
    """Return the programs that send keep-alives, drop dead leaves and repair leaf sets.

    A live node drops a leaf once the leaf's death is detected, in round `number`. In each round of
    questions, a side that lost leaves asks its farthest live leaf for its leaf set as of the start,
    until it does not change.  Sides without a live leaf first search for one (rule P21).
    """
    return [
        _Detect(environment, number),
        IfRows((_LONE,), (_SearchLeaves(environment),)),
        IfRows((_LOST, _OFFERED), (_RepairLeaves(environment),)),
    ]


@dataclass(frozen=True)
class _Detect(SilentProgram, NodeProgram):
    """Live nodes exchange keep-alives with leaves, and drop those that are detected as dead."""

    number: int

    def change(self, bucket: int, tables: Tables) -> None:
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

    Messages carry the asking node's list of silent (dead) nodes.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        states = self.states(bucket, tables)
        if not superstep:
            return self._begin(states, tables)
        outbox: dict[str, Columns] = {}
        if _LEAF_QUESTION in inbox:
            outbox[_LEAF_ANSWER] = self._answer(states, inbox[_LEAF_QUESTION])
        if _LEAF_ANSWER in inbox:
            came = inbox[_LEAF_ANSWER]
            outbox[_LEAF_QUESTION] = self._next(states, tables, came, came["named"])
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
        return {_LEAF_QUESTION: self._next(states, tables, sides, _known(states, node))}

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

    def _next(self, states: States, tables: Tables, sides: Columns, named: np.ndarray) -> Columns:
        """Return the next questions of searches; store the offers of searches that have ended."""
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
    """Nodes that lost leaves ask their farthest leaves for leaf sets, until no leaf set changes."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if superstep % 2:
            return {_LEAF_ANSWER: self._answer(bucket, tables, inbox[_LEAF_QUESTION])}
        asking = []
        if not superstep and _LOST in tables:
            lost = tables[_LOST]
            del tables[_LOST]
            asking.append((lost["node"], lost["side"]))
        if not superstep and _OFFERED in tables:
            asking.append(self._fill(bucket, tables, tables[_OFFERED]))
            del tables[_OFFERED]
        if _LEAF_ANSWER in inbox:
            came = inbox[_LEAF_ANSWER]
            asking.append(self._fill(bucket, tables, {**came, "node": came[AT]}))
        if not asking:
            return {}
        node, side = (np.concatenate(part) for part in zip(*asking, strict=True))
        return {_LEAF_QUESTION: self._ask(bucket, tables, node, side)}

    def _ask(self, bucket: int, tables: Tables, node: np.ndarray, side: np.ndarray) -> Columns:
        """Let nodes ask the farthest live leaf of a side; return the questions as messages."""
        states = self.states(bucket, tables)
        in_turn = _side_of(states, node, side)[:, ::-1]
        answers = self.environment.is_alive(in_turn)
        # questions to dead leaves whose death is not detected are lost; the next farthest is asked
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
        """Return sides with the offered nodes added, nearest first, in the shape of `held`."""
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
    """Return all nodes in the leaf sets and tables of some nodes: int32, a row per node."""
    index = node - states.first
    return np.concatenate(
        [states.leaves[index], states.cells[index].reshape(len(index), -1)], axis=1
    )


def _offers(states: States, asker: np.ndarray, side: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return the nodes that asked nodes offer: int32, shape (a, l + 1), padded with NONE.

    They are the asked node, and its leaves beyond it on that side or between it and the asker,
    which would take all others for its farthest leaves (P22).
    """
    size, leaves = len(states.known), states.leaves[asked - states.first]
    beyond = np.arange(2 * states.half) // states.half == side[:, None]
    out = places_out(size, asker[:, None], leaves, side[:, None])
    limit = places_out(size, asker, asked, side)
    between = (out > 0) & (out < limit[:, None])
    keep = (beyond | between) & (leaves >= 0) & (leaves != asker[:, None])
    leaves = np.where(keep, leaves, np.int32(NONE))
    return np.concatenate([leaves, asked[:, None].astype(np.int32)], axis=1)


# --- routing tables


_ROWS = 2**14  # the number of nodes whose tables are searched in one step
_HOLES_AT_ONCE = 2**16  # the number of holes whose rows are searched in one step

#: The table of offers to nodes: ``at``, the offered ``entry``, and the ``cell`` where it belongs.
_OFFERS = "offers"

#: Kinds of messages; with ``holes`` a node reminds itself of the cells whose entry it removed.
_CELL_QUESTION, _CELL_ANSWER, _HOLES = "question", "answer", "holes"


def close_phase(environment: Environment) -> IfRows:
    """Return the program that removes entries that messages found dead, and repairs their cells."""
    return IfRows((FOUND,), (RepairTables(environment),))


def maintain_tables(
    environment: Environment, wave: Wave, purpose: str, number: int
) -> list[Program | IfRows]:
    """Return the programs in which each live node asks a random entry of each row for the row."""
    return [
        AskRows(environment, wave, purpose, number),
        close_phase(environment),
        TakeRows(environment, wave),
    ]


@dataclass(frozen=True)
class AskRows(WaveProgram):
    """Live nodes ask for rows of other tables; `TakeRows` uses the answers after the repairs."""

    purpose: str
    number: int

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            return self._ask(bucket, tables)
        if superstep == 1:
            return self._answer(bucket, tables, inbox)
        self._keep(bucket, tables, inbox)
        return {}

    def _ask(self, bucket: int, tables: Tables) -> Outbox:
        """Let nodes ask a random entry of each row for that row; row by row, to save memory."""
        states = self.states(bucket, tables)
        live, sent = self.live(bucket), []
        for row in range(states.cells.shape[1]):
            number = states.known.node[live]
            drawn = row_bits(self.environment.seed, self.purpose, self.number, row, number)
            asked = questions(states.cells[live - states.first, row], drawn)
            node, asked = live[asked >= 0], asked[asked >= 0]
            arrives = self.environment.is_alive(asked)
            lost = np.flatnonzero(~arrives)
            self.environment.observer.meet(tables, node[lost], asked[lost])
            self.count(tables, Kind.MAINTENANCE, node, asked, len(lost))
            node, asked = node[arrives], asked[arrives]
            sent.append({AT: asked, "asker": node, "row": np.full(len(node), row)})
        return {_CELL_QUESTION: concatenate(sent)}

    def _answer(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Answer with the row that was asked for."""
        states, came = self.states(bucket, tables), inbox[_CELL_QUESTION]
        asked, asker, row = came[AT], came["asker"], came["row"]
        self.count(tables, Kind.MAINTENANCE, asked, asker)
        entries = states.cells[asked - states.first, row]
        return {_CELL_ANSWER: {AT: asker, "row": row, "entries": entries}}

    def _keep(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Store the live entries in answers that are new to the node, with their cells."""
        states, came = self.states(bucket, tables), inbox[_CELL_ANSWER]
        index, row, entries = came[AT] - states.first, came["row"], came["entries"]
        is_new = (entries != states.cells[index, row]) & (entries != came[AT][:, None])
        one, column = np.nonzero(is_new & (live_only(self.environment.is_alive, entries) >= 0))
        node, entry = came[AT][one], entries[one, column].astype(np.int64)
        cell = cells_in_rows(states, node, row[one], column, entry)
        tables[_OFFERS] = {AT: node, "entry": entry, "cell": cell}


@dataclass(frozen=True)
class TakeRows(SilentProgram, WaveProgram):
    """Offer the stored entries (of `AskRows`) to the routing tables of the nodes that asked."""

    def change(self, bucket: int, tables: Tables) -> None:
        if _OFFERS in tables:
            states, offers = self.states(bucket, tables, CELLS), tables[_OFFERS]
            index = offers[AT] - states.first
            take_cells(states, self.environment.kernel, index, offers["entry"], offers["cell"])
            del tables[_OFFERS]


def row_bits(seed: int, purpose: str, number: int, row: int, nodes: np.ndarray) -> np.ndarray:
    """Return random bits for the questions of nodes (given by number) about one row: uint64."""
    return draws.stream_at(seed, f"{purpose} row {row}", number, nodes)


def questions(entries: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the entry of its row that each node asks, by its random bits; -1: the row is empty."""
    filled = entries >= 0
    count = filled.sum(axis=1)
    wanted = (drawn % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
    # the column of entry number `wanted`: the first with more than `wanted` entries up to it
    chosen = (filled.cumsum(axis=1) > wanted[:, None]).argmax(axis=1)
    asked = entries[np.arange(len(entries)), chosen].astype(np.int64)
    return np.where(count > 0, asked, -1)


@dataclass(frozen=True)
class RepairTables(NodeProgram):
    """Nodes remove dead entries, then ask other nodes for entries of the empty cells (*holes*).

    All repairs read the tables after all removals and before any repair.  The live entries of the
    hole's row and of the next row are asked in the same superstep; the next row counts, and its
    answers are used, only if no entry of the hole's row names a live node.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            return self._drop(bucket, tables)
        if superstep == 2:
            self._take(bucket, tables, inbox)
            return {}
        outbox: dict[str, Columns] = {}
        if _CELL_QUESTION in inbox:
            outbox[_CELL_ANSWER] = self._answer(bucket, tables, inbox[_CELL_QUESTION])
        if _HOLES in inbox:
            outbox[_HOLES] = inbox[_HOLES]
        return outbox

    def _drop(self, bucket: int, tables: Tables) -> Outbox:
        """Let nodes remove dead entries, and ask live entries of that row and of the next row."""
        if FOUND not in tables:
            return {}
        size, found = len(self.environment.facts.ring), tables[FOUND]
        del tables[FOUND]
        states = self.states(bucket, tables)
        node, dead = np.divmod(distinct(found["node"] * size + found["dead"]), size)
        index = node - states.first
        row, column = np.divmod(cells_of(states, node, dead), 2**states.b)
        there = states.cells[index, row, column] == dead
        node, index, row, column = node[there], index[there], row[there], column[there]
        if not len(node):
            return {}
        states = self.states(bucket, tables, CELLS)
        states.cells[index, row, column] = -1
        if self.environment.world_rules.repair == "none":
            return {}
        holes = {AT: node, "row": row, "column": column}
        sent = []
        for below in range(2):
            hole, entry = self._entries(states, holes, below)
            sent.append(
                {
                    AT: entry,
                    "asker": node[hole].astype(np.int32),
                    "below": np.full(len(hole), below, dtype=np.int8),
                    "row": row[hole].astype(np.int16),
                    "column": column[hole].astype(np.int16),
                }
            )
        # a hole has up to 2 * 2**b questions: the parts are freed column by column
        names = list(sent[0])
        questions = {name: np.concatenate([part.pop(name) for part in sent]) for name in names}
        return {_CELL_QUESTION: questions, _HOLES: holes}

    def _entries(self, states: States, holes: Columns, below: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the live entries of the rows with `holes`, or of the rows `below` them: int32."""
        row = holes["row"] + below
        there = np.flatnonzero(row < states.cells.shape[1]).astype(np.int32)
        found = [(there[:0], there[:0])]
        for start in range(0, len(there), _HOLES_AT_ONCE):
            some = there[start : start + _HOLES_AT_ONCE]
            entries = states.cells[holes[AT][some] - states.first, row[some]]
            hole, place = np.nonzero(self.environment.is_alive(entries))
            found.append((some[hole], entries[hole, place]))
        hole, entry = (np.concatenate(part) for part in zip(*found, strict=True))
        return hole, entry

    def _answer(self, bucket: int, tables: Tables, came: Columns) -> Columns:
        """Answer with the asked node's entry of the cell, unless the entry is none or the asker."""
        states = self.states(bucket, tables)
        entry = states.cells[came[AT] - states.first, came["row"], came["column"]]
        named = np.flatnonzero((entry >= 0) & (entry != came["asker"]))
        some = take(came, named)
        return {
            AT: some["asker"],
            "entry": entry[named],
            **{name: some[name] for name in ("row", "column", "below")},
        }

    def _take(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Let nodes check that named nodes are alive; the nearest live one gets into the cell."""
        states, holes = self.states(bucket, tables), inbox[_HOLES]
        width, size = states.cells.shape[1], len(holes[AT])
        base = 2**states.b
        key = (holes[AT] * width + holes["row"]) * base + holes["column"]
        order = np.argsort(key)
        came = inbox.get(_CELL_ANSWER)
        hole = entry = below = key[:0]
        if came is not None:
            asked = (came[AT].astype(np.int64) * width + came["row"]) * base + came["column"]
            hole = order[index_sorted(key[order], asked)]
            entry, below = came["entry"], came["below"]
        helped, offers = np.zeros(size, dtype=bool), []
        for depth in range(2):  # the row of the hole, then the next one
            asking, asked = self._entries(states, holes, depth)
            mine = (below == depth) & ~helped[hole]
            waits = ~helped[asking]
            self.count(tables, "repair", *both_ways(holes[AT][asking[waits]], asked[waits]))
            self.count(tables, "check", holes[AT][hole[mine]], entry[mine])
            alive = np.flatnonzero(mine)[self.environment.is_alive(entry[mine])]
            offers.append(alive)
            helped[hole[alive]] = True
        some = np.concatenate(offers)
        if len(some):
            states = self.states(bucket, tables, CELLS)
            to = hole[some]
            cell = (holes["row"] * base + holes["column"])[to]
            index = holes[AT][to] - states.first
            take_cells(states, self.environment.kernel, index, entry[some], cell)


@dataclass(frozen=True)
class FindDead(SilentProgram, NodeProgram):
    """Record entries whose nodes died, one round after their detection (repair rule ``eager``)."""

    number: int

    def change(self, bucket: int, tables: Tables) -> None:
        lives = self.environment.in_round
        states, old = self.states(bucket, tables), lives.known_dead(self.number - 1)
        live = self.live(bucket)
        for start in range(0, len(live), _ROWS):
            some = live[start : start + _ROWS]
            cells = states.cells[some - states.first]
            at, row, column = np.nonzero((cells >= 0) & old[cells])
            dead = cells[at, row, column].astype(np.int64)
            self.environment.observer.meet(tables, some[at], dead)
