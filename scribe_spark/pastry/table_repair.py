"""Routing tables: maintenance; nodes remove dead entries when they find them, and repair cells.

References
----------
Pastry 2001 (Rowstron and Druschel), Section 3: a node asks the entries of the same row for their
entry of the cell, then those of the next row.  Maintenance: NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, index_sorted
from scribe_spark.engine import Columns, Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.arrivals.offers import cells_in_rows, cells_of, take_cells
from scribe_spark.pastry.arrivals.waves import Wave, WaveProgram
from scribe_spark.pastry.states import CELLS, Kind, NodeProgram, States, live_only
from scribe_spark.rounds.observer import FOUND, both_ways
from scribe_spark.rounds.player import Environment

_ROWS = 2**14  # the number of nodes whose tables are searched in one step
_HOLES_AT_ONCE = 2**16  # the number of holes whose rows are searched in one step

#: The table of offers to nodes: ``at``, the offered ``entry``, and the ``cell`` where it belongs.
_OFFERS = "offers"

#: Kinds of messages; with ``holes`` a node reminds itself of the cells whose entry it removed.
_QUESTION, _ANSWER, _HOLES = "question", "answer", "holes"


def close_phase(environment: Environment) -> IfRows:
    """Return the program that removes entries that messages found dead, and repairs their cells."""
    return IfRows((FOUND,), (RepairTables(environment),))


def maintain_tables(
    environment: Environment, wave: Wave, purpose: str, number: int
) -> list[Program | IfRows]:
    """Return the programs in which each live node asks a random entry of each row for the row.

    The answers are rows from before the maintenance.  Dead entries that are asked are dropped and
    repaired (by the configured rule) before the answers are used.
    """
    return [
        AskRows(environment, wave, purpose, number),
        close_phase(environment),
        TakeRows(environment, wave),
    ]


@dataclass(frozen=True)
class AskRows(WaveProgram):
    """Live nodes ask for rows of other nodes' tables, and store the answers for `TakeRows`.

    The answers are from before the maintenance: between the two programs, cells in which dead nodes
    were found can be repaired.  The draws have the key `purpose`, `number`.
    """

    purpose: str
    number: int

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
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
        return {_QUESTION: concatenate(sent)}

    def _answer(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Answer with the row that was asked for."""
        states, came = self.states(bucket, tables), inbox[_QUESTION]
        asked, asker, row = came[AT], came["asker"], came["row"]
        self.count(tables, Kind.MAINTENANCE, asked, asker)
        entries = states.cells[asked - states.first, row]
        return {_ANSWER: {AT: asker, "row": row, "entries": entries}}

    def _keep(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Store the live entries in answers that are new to the node, with their cells."""
        states, came = self.states(bucket, tables), inbox[_ANSWER]
        index, row, entries = came[AT] - states.first, came["row"], came["entries"]
        is_new = (entries != states.cells[index, row]) & (entries != came[AT][:, None])
        one, column = np.nonzero(is_new & (live_only(self.environment.is_alive, entries) >= 0))
        node, entry = came[AT][one], entries[one, column].astype(np.int64)
        cell = cells_in_rows(states, node, row[one], column, entry)
        tables[_OFFERS] = {AT: node, "entry": entry, "cell": cell}


@dataclass(frozen=True)
class TakeRows(WaveProgram):
    """Offer the stored entries (of `AskRows`) to the routing tables of the nodes that asked."""

    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if _OFFERS in tables:
            states, offers = self.states(bucket, tables, CELLS), tables[_OFFERS]
            index = offers[AT] - states.first
            take_cells(states, self.environment.kernel, index, offers["entry"], offers["cell"])
            del tables[_OFFERS]
        return {}


def row_bits(seed: int, purpose: str, number: int, row: int, nodes: np.ndarray) -> np.ndarray:
    """Return random bits for the questions of nodes (given by number) about one row: uint64.

    The bits of a node do not depend on the number of nodes or rows.
    """
    return draws.stream_at(seed, f"{purpose} row {row}", number, nodes)


def questions(entries: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the node that each node asks, one of the `entries` of its row; -1 for an empty row.

    `drawn` are random bits for each node.
    """
    filled = entries >= 0
    count = filled.sum(axis=1)
    wanted = (drawn % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
    # the column of entry number `wanted`: the first with more than `wanted` entries up to it
    chosen = (filled.cumsum(axis=1) > wanted[:, None]).argmax(axis=1)
    asked = entries[np.arange(len(entries)), chosen].astype(np.int64)
    return np.where(count > 0, asked, -1)


@dataclass(frozen=True)
class RepairTables(NodeProgram):
    """Nodes remove dead entries, then ask other nodes for entries of the empty cells.

    All repairs read the tables after all removals and before any repair.  The live entries of the
    hole's row and of the next row are asked in the same superstep.  The questions to the next row
    count, and their answers are used, only if no entry of the hole's row names a live node.  A
    *hole* is a cell whose dead entry was removed.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            return self._drop(bucket, tables)
        if superstep == 2:
            self._take(bucket, tables, inbox)
            return {}
        outbox: dict[str, Columns] = {}
        if _QUESTION in inbox:
            outbox[_ANSWER] = self._answer(bucket, tables, inbox[_QUESTION])
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
        return {_QUESTION: questions, _HOLES: holes}

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
        came = inbox.get(_ANSWER)
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
class FindDead(NodeProgram):
    """Record entries whose nodes died, one round after their detection (repair rule ``eager``)."""

    number: int
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        lives = self.environment.in_round
        states, old = self.states(bucket, tables), lives.known_dead(self.number - 1)
        live = self.live(bucket)
        for start in range(0, len(live), _ROWS):
            some = live[start : start + _ROWS]
            cells = states.cells[some - states.first]
            at, row, column = np.nonzero((cells >= 0) & old[cells])
            dead = cells[at, row, column].astype(np.int64)
            self.environment.observer.meet(tables, some[at], dead)
        return {}
