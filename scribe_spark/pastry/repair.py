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
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.packing import take
from scribe_spark.engine.player import IfRows
from scribe_spark.engine.program import AT, append
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
    BucketNodes,
    Kind,
    MessageProgram,
    SilentNodes,
    States,
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
class _Detect(SilentNodes):
    """Live nodes exchange keep-alives with leaves, and drop those that are detected as dead."""

    number: int

    def begin(self, nodes: BucketNodes) -> None:
        live, states = self.live(nodes.bucket), nodes.states()
        nodes.count_sets("keep-alive", live, states.distinct_leaves(live - states.first))
        known_dead = self.environment.in_round.known_dead(self.number)
        if known_dead.any():
            self._drop(nodes, live, known_dead)

    def _drop(self, nodes: BucketNodes, live: np.ndarray, known_dead: np.ndarray) -> None:
        """Remove leaves in `known_dead` from the leaf sets of live nodes, and close the gaps."""
        leaves = nodes.states().leaves[live - nodes.first]
        gone = (leaves >= 0) & known_dead[leaves]
        hit = np.flatnonzero(gone.any(axis=1))
        if not len(hit):
            return
        states = nodes.states(LEAVES)
        index, leaves, gone = live[hit] - states.first, leaves[hit], gone[hit]
        leaves[gone] = NONE
        for side in SIDES:
            columns = side_columns(states, side)
            lost = np.flatnonzero(gone[:, columns].any(axis=1))
            kept = leaves[lost, columns]
            order = np.argsort(kept < 0, axis=1, kind="stable")  # close the gaps
            kept = np.take_along_axis(kept, order, axis=1)
            states.leaves[index[lost], columns] = kept
            lone = ~nodes.is_alive(kept).any(axis=1)
            for name, some in ((_LOST, lost[~lone]), (_LONE, lost[lone])):
                if len(some):
                    node = live[hit[some]]
                    append(nodes.tables, name, {"node": node, "side": np.full(len(node), side)})


class _SearchLeaves(MessageProgram):
    """Sides without a live leaf search for the nearest live node on that side (P31).

    Messages carry the asking node's list of silent (dead) nodes.
    """

    def begin(self, nodes: BucketNodes) -> None:
        """Count questions to the leaves of lone sides, which are all dead; begin the searches."""
        if _LONE not in nodes.tables:
            return
        lone, states = nodes.tables.pop(_LONE), nodes.states()
        node, side = lone["node"], lone["side"]
        silent = _side_of(states, node, side)
        asker, asked = pairs_of(node, silent)
        nodes.count("repair", asker, asked, lost=len(asked))
        sides = {AT: node, "asked": node, "side": side, "silent": silent}
        self._next(nodes, {**sides, "named": _known(states, node)})

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer with nodes between asker and asked node (``named``), and with ``offers``."""
        states, size = nodes.states(), len(nodes.ring)
        asked, asker, side = came[AT], came["asker"], came["side"]
        named = _known(states, asked)
        out = places_out(size, asker[:, None], named, side[:, None])
        nearer = (named >= 0) & (out > 0)
        nearer &= out < places_out(size, asker, asked, side)[:, None]
        answer = {"named": np.where(nearer, named, np.int32(NONE)), "silent": came["silent"]}
        answer["offers"] = _offers(states, asker, side, asked)
        nodes.tell(_LEAF_ANSWER, asker, asked=asked, side=side, **answer)

    def _next(self, nodes: BucketNodes, sides: Columns) -> None:
        """Ask the next questions of searches; store the offers of searches that have ended."""
        node, side, silent = sides[AT], sides["side"], sides["silent"]
        named, size = sides["named"].astype(np.int64), len(nodes.ring)
        known = (named[:, :, None] == silent[:, None, :]).any(axis=2)
        out = places_out(size, node[:, None], named, side[:, None])
        out = np.where((named >= 0) & (out > 0) & ~known, out, size)
        order = np.argsort(out, axis=1, kind="stable")
        out = np.take_along_axis(out, order, axis=1)
        in_turn = np.where(out < size, np.take_along_axis(named, order, axis=1), NONE)
        in_turn[:, 1:][out[:, 1:] == out[:, :-1]] = NONE  # a node that was named twice
        asked, lost = _asked_in_turn(nodes, node, in_turn)
        found = asked >= 0
        over = np.flatnonzero(~found & (sides["asked"] != node))
        if len(over):
            kept = {name: sides[name] for name in ("asked", "side", "offers")}
            append(nodes.tables, _OFFERED, {"node": node[over], **take(kept, over)})
        silent = np.concatenate([silent, np.where(lost, in_turn, NONE).astype(np.int32)], axis=1)
        silent = np.sort(silent, axis=1)[:, ::-1]
        silent = silent[:, : max(1, int((silent >= 0).sum(axis=1).max(initial=0)))]
        columns = {"asker": node[found], "side": side[found], "silent": silent[found]}
        nodes.tell(_LEAF_QUESTION, asked[found], **columns)

    handlers = ((_LEAF_QUESTION, _answer), (_LEAF_ANSWER, _next))


def _asked_in_turn(
    nodes: BucketNodes, node: np.ndarray, in_turn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count questions to the nodes in each row up to the first live one, and its answer.

    Return the live nodes (NONE: there is none), and which questions were lost.
    """
    answers = nodes.is_alive(in_turn)
    lost = (in_turn >= 0) & (np.cumsum(answers, axis=1) == 0)
    asked = in_turn[np.arange(len(node)), answers.argmax(axis=1)].astype(np.int64)
    asked[~answers.any(axis=1)] = NONE
    found = asked >= 0
    asker, other = both_ways(node[found], asked[found])
    asker, other = np.r_[asker, node[np.nonzero(lost)[0]]], np.r_[other, in_turn[lost]]
    nodes.count("repair", asker, other, np.count_nonzero(lost))
    return asked, lost


class _RepairLeaves(MessageProgram):
    """Nodes that lost leaves ask their farthest leaves for leaf sets, until no leaf set changes."""

    def begin(self, nodes: BucketNodes) -> None:
        asking, tables = [], nodes.tables
        if _LOST in tables:
            lost = tables.pop(_LOST)
            asking.append((lost["node"], lost["side"]))
        if _OFFERED in tables:
            asking.append(self._filled_sides(nodes, tables.pop(_OFFERED)))
        if asking:
            node, side = (np.concatenate(part) for part in zip(*asking, strict=True))
            self._ask(nodes, node, side)

    def _ask(self, nodes: BucketNodes, node: np.ndarray, side: np.ndarray) -> None:
        """Let nodes ask the farthest live leaf of a side; lost questions go to the next one."""
        in_turn = _side_of(nodes.states(), node, side)[:, ::-1]
        asked, _ = _asked_in_turn(nodes, node, in_turn)
        nodes.tell(_LEAF_QUESTION, asked, asker=node, side=side)

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer questions with the nodes that are useful for the asking side."""
        asker, side = came["asker"], came["side"]
        offers = _offers(nodes.states(), asker, side, came[AT])
        nodes.tell(_LEAF_ANSWER, asker, side=side, offers=offers)

    def _fill(self, nodes: BucketNodes, came: Columns) -> None:
        self._ask(nodes, *self._filled_sides(nodes, {**came, "node": came[AT]}))

    handlers = ((_LEAF_QUESTION, _answer), (_LEAF_ANSWER, _fill))

    def _filled_sides(self, nodes: BucketNodes, came: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Add offered nodes to sides of leaf sets; return the sides that changed: node and side."""
        node, side, states = came["node"], came["side"], nodes.states()
        held = _side_of(states, node, side)
        filled = _with_offers(nodes, node, side, held, came["offers"])
        changed = (filled != held).any(axis=1)
        if changed.any():
            states = nodes.states(LEAVES)
        node, side, filled = node[changed], side[changed], filled[changed]
        for one in SIDES if len(node) else ():
            mine = side == one
            states.leaves[node[mine] - states.first, side_columns(states, one)] = filled[mine]
        return node, side


def _with_offers(
    nodes: BucketNodes, node: np.ndarray, side: np.ndarray, held: np.ndarray, offers: np.ndarray
) -> np.ndarray:
    """Return sides with the offered nodes added, nearest first, in the shape of `held`."""
    half, far = held.shape[1], len(nodes.ring)
    both = np.concatenate([held, offers], axis=1)
    out = places_out(far, node[:, None], both, side[:, None])
    out = np.where(both >= 0, out, far)
    order = np.argsort(out, axis=1, kind="stable")  # of equal rows, the leaf precedes the offer
    both, out = (np.take_along_axis(part, order, axis=1) for part in (both, out))
    new = order >= half
    repeated = np.zeros_like(new)
    repeated[:, 1:] = out[:, 1:] == out[:, :-1]
    there = (out < far) & ~repeated
    counts = there & (~new | nodes.is_alive(both))
    place = np.cumsum(counts, axis=1)
    visited = there & (place - counts < half)
    checked = visited & new
    nodes.count("check", node[np.nonzero(checked)[0]], both[checked])
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
        TakeRows(environment),
    ]


@dataclass(frozen=True)
class AskRows(WaveProgram):
    """Live nodes ask for rows of other tables; `TakeRows` uses the answers after the repairs."""

    purpose: str
    number: int

    def begin(self, nodes: BucketNodes) -> None:
        """Let nodes ask a random entry of each row for that row; row by row, to save memory."""
        states, live = nodes.states(), self.live(nodes.bucket)
        for row in range(states.cells.shape[1]):
            number = nodes.ring.node[live]
            drawn = row_bits(self.environment.seed, self.purpose, self.number, row, number)
            asked = questions(states.cells[live - states.first, row], drawn)
            node, asked = live[asked >= 0], asked[asked >= 0]
            arrives = nodes.send(Kind.MAINTENANCE, node, asked)
            nodes.meet(node[~arrives], asked[~arrives])
            node, asked = node[arrives], asked[arrives]
            nodes.tell(_CELL_QUESTION, asked, asker=node, row=np.full(len(node), row))

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer with the row that was asked for."""
        asked, asker, row = came[AT], came["asker"], came["row"]
        nodes.count(Kind.MAINTENANCE, asked, asker)
        entries = nodes.states().cells[asked - nodes.first, row]
        nodes.tell(_CELL_ANSWER, asker, row=row, entries=entries)

    def _keep(self, nodes: BucketNodes, came: Columns) -> None:
        """Store the live entries in answers that are new to the node, with their cells."""
        states = nodes.states()
        index, row, entries = came[AT] - states.first, came["row"], came["entries"]
        is_new = (entries != states.cells[index, row]) & (entries != came[AT][:, None])
        one, column = np.nonzero(is_new & nodes.is_alive(entries))
        node, entry = came[AT][one], entries[one, column].astype(np.int64)
        cell = cells_in_rows(states, node, row[one], column, entry)
        nodes.tables[_OFFERS] = {AT: node, "entry": entry, "cell": cell}

    handlers = ((_CELL_QUESTION, _answer), (_CELL_ANSWER, _keep))


class TakeRows(SilentNodes):
    """Offer the stored entries (of `AskRows`) to the routing tables of the nodes that asked."""

    def begin(self, nodes: BucketNodes) -> None:
        if _OFFERS in nodes.tables:
            states, offers = nodes.states(CELLS), nodes.tables.pop(_OFFERS)
            index = offers[AT] - states.first
            take_cells(states, nodes.kernel, index, offers["entry"], offers["cell"])


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


class RepairTables(MessageProgram):
    """Nodes remove dead entries, then ask other nodes for entries of the empty cells (*holes*).

    All repairs read the tables after all removals and before any repair.  The live entries of the
    hole's row and of the next row are asked in the same superstep; the next row counts, and its
    answers are used, only if no entry of the hole's row names a live node.
    """

    def begin(self, nodes: BucketNodes) -> None:
        """Let nodes remove dead entries, and ask live entries of that row and of the next row."""
        if FOUND not in nodes.tables:
            return
        size, found, states = len(nodes.ring), nodes.tables.pop(FOUND), nodes.states()
        node, dead = np.divmod(distinct(found["node"] * size + found["dead"]), size)
        index = node - states.first
        row, column = np.divmod(cells_of(states, node, dead), 2**states.b)
        there = states.cells[index, row, column] == dead
        node, index, row, column = node[there], index[there], row[there], column[there]
        if not len(node):
            return
        states = nodes.states(CELLS)
        states.cells[index, row, column] = -1
        if self.environment.world_rules.repair == "none":
            return
        holes = {AT: node, "row": row, "column": column}
        nodes.tell(_HOLES, node, row=row, column=column)
        for below in range(2):
            hole, entry = _entries(nodes, states, holes, below)
            nodes.tell(
                *(_CELL_QUESTION, entry),
                asker=node[hole].astype(np.int32),
                below=np.full(len(hole), below, dtype=np.int8),
                row=row[hole].astype(np.int16),
                column=column[hole].astype(np.int16),
            )

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer with the asked node's entry of the cell, unless the entry is none or the asker."""
        entry = nodes.states().cells[came[AT] - nodes.first, came["row"], came["column"]]
        named = np.flatnonzero((entry >= 0) & (entry != came["asker"]))
        some = take({name: came[name] for name in ("row", "column", "below")}, named)
        nodes.tell(_CELL_ANSWER, came["asker"][named], entry=entry[named], **some)

    def _take(self, nodes: BucketNodes, holes: Columns) -> None:
        """Let nodes check that named nodes are alive; the nearest live one gets into the cell."""
        if nodes.superstep == 1:  # answers arrive in the next superstep
            nodes.tell(_HOLES, holes[AT], row=holes["row"], column=holes["column"])
            return
        states = nodes.states()
        (_, width, base), size = states.cells.shape, len(holes[AT])
        key = (holes[AT] * width + holes["row"]) * base + holes["column"]
        order = np.argsort(key)
        came = nodes.came.get(_CELL_ANSWER)
        hole = entry = below = key[:0]
        if came is not None:
            asked = (came[AT].astype(np.int64) * width + came["row"]) * base + came["column"]
            hole = order[index_sorted(key[order], asked)]
            entry, below = came["entry"], came["below"]
        helped, offers = np.zeros(size, dtype=bool), []
        for depth in range(2):  # the row of the hole, then the next one
            asking, asked = _entries(nodes, states, holes, depth)
            mine = (below == depth) & ~helped[hole]
            waits = ~helped[asking]
            nodes.count("repair", *both_ways(holes[AT][asking[waits]], asked[waits]))
            nodes.count("check", holes[AT][hole[mine]], entry[mine])
            alive = np.flatnonzero(mine)[nodes.is_alive(entry[mine])]
            offers.append(alive)
            helped[hole[alive]] = True
        some = np.concatenate(offers)
        if len(some):
            to = hole[some]
            cell = (holes["row"] * base + holes["column"])[to]
            index = holes[AT][to] - states.first
            take_cells(nodes.states(CELLS), nodes.kernel, index, entry[some], cell)

    handlers = ((_CELL_QUESTION, _answer), (_HOLES, _take))


def _entries(
    nodes: BucketNodes, states: States, holes: Columns, below: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the live entries of the rows with `holes`, or of the rows `below` them: int32."""
    row = holes["row"] + below
    there = np.flatnonzero(row < states.cells.shape[1]).astype(np.int32)
    found = [(there[:0], there[:0])]
    for start in range(0, len(there), _HOLES_AT_ONCE):
        some = there[start : start + _HOLES_AT_ONCE]
        entries = states.cells[holes[AT][some] - states.first, row[some]]
        hole, place = np.nonzero(nodes.is_alive(entries))
        found.append((some[hole], entries[hole, place]))
    hole, entry = (np.concatenate(part) for part in zip(*found, strict=True))
    return hole, entry


@dataclass(frozen=True)
class FindDead(SilentNodes):
    """Record entries whose nodes died, one round after their detection (repair rule ``eager``)."""

    number: int

    def begin(self, nodes: BucketNodes) -> None:
        states, live = nodes.states(), self.live(nodes.bucket)
        old = self.environment.in_round.known_dead(self.number - 1)
        for start in range(0, len(live), _ROWS):
            some = live[start : start + _ROWS]
            cells = states.cells[some - states.first]
            at, row, column = np.nonzero((cells >= 0) & old[cells])
            nodes.meet(some[at], cells[at, row, column].astype(np.int64))
