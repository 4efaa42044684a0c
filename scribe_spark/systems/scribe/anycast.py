"""Anycast: a message to one member of a group, the first one asked that accepts it.

An ANYCAST travels towards the group's root until it is at a node of the tree.  From there it walks
through the tree, depth first.  It carries two lists: the nodes that it has visited, and those to
which it goes next.  The walk ends at a member that accepts, or when no node is left.  Since trees
join nodes that are near each other, the member found is often near the origin.

The rules are A1 to A6 in docs/rules.md.

M. Castro et al.: Scalable application-level anycast for highly dynamic groups, NGC 2003.  The text
could not be had; the rules are recalled, with choices where memory is silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE, Rows, index_sorted, whole_numbers, without
from scribe_spark.core.errors import InputError
from scribe_spark.core.lists import Lists, visit
from scribe_spark.engine import Inbox, Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import Columns, count_rows, take
from scribe_spark.engine.player import Player, PlaysPrograms
from scribe_spark.engine.program import AT
from scribe_spark.rounds.group_events import Groups
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.systems.scribe.scribe import RoundProgram, Scribe, calls_of
from scribe_spark.systems.scribe.upcalls import ScribeApplication

#: The kind of the message.
ANYCAST = "ANYCAST"

#: The table of the anycasts that have ended.
ENDED = "ended anycasts"

#: The table of the anycasts that the next play goes on with, and the supersteps of a play.
_UNDER_WAY, _SUPERSTEPS = "anycasts under way", 1_000

#: The most nodes in both lists of a message.
MOST_LISTED = 100_000


@dataclass(frozen=True)
class Anycasts(Rows):
    """Anycasts to be sent: the user's number, which keys random draws, the group and the origin."""

    number: np.ndarray = field(default_factory=whole_numbers)
    group: np.ndarray = field(default_factory=whole_numbers)
    origin: np.ndarray = field(default_factory=whole_numbers)

    @classmethod
    def of(cls, messages: pa.Table, groups: Groups, ring: Ring) -> Anycasts:
        """Return the anycasts of a table ``group, node`` and perhaps ``number``, as sorted rows."""
        order = [(name, "ascending") for name in ("group", "node", "number")]
        if "number" not in messages.column_names:
            messages = messages.append_column("number", pa.array(np.zeros(len(messages), np.int64)))
        columns = messages.sort_by(order).to_pydict()
        group, node, number = (np.array(columns[name], dtype=np.int64) for name, _ in order)
        for name, known, used in (("group", groups.number, group), ("node", ring.node, node)):
            lacking = without(used, known)
            if len(lacking):
                raise InputError(f"{name} of an anycast", int(lacking[0]), "does not exist")
        return cls(number, index_sorted(groups.number, group), ring.positions(node))


@dataclass(frozen=True)
class AnycastResults(Rows):
    """The results of anycasts: `accepted` is the member's position or NONE, delays are sums."""

    accepted: np.ndarray
    messages: np.ndarray
    visited: np.ndarray
    delay_us: np.ndarray

    def table(self, of: Anycasts, groups: Groups, ring: Ring) -> pa.Table:
        """Return the results as the table `schemas.ANYCASTS`."""
        nobody = self.accepted < 0
        columns = {
            **{"group": groups.number[of.group], "node": ring.node[of.origin]},
            **{"number": of.number, "messages": self.messages, "visited": self.visited},
            "accepted": pa.array(ring.node[self.accepted], pa.int64(), mask=nobody),
            "delay_ms": self.delay_us / 1000,
        }
        return pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.ANYCASTS))


def play_anycasts(player: Player | SystemPlayer, program: Anycast) -> AnycastResults:
    """Play anycasts, in tasks if possible; return their results.  A dead origin sends none."""
    player.keep(partial(_play, program), "anycasts")
    ended = player.take(ENDED).get(ENDED, {})
    count = len(program.anycasts)
    found = AnycastResults(np.full(count, NONE), *np.zeros((3, count), dtype=np.int64))
    if ended:
        for name, column in found.to_columns().items():
            column[ended["anycast"]] = ended[name]
    return found


def _play(program: Anycast, player: PlaysPrograms) -> None:
    player.play(program)
    while player.has(_UNDER_WAY):
        player.play(replace(program, begins=False))


@dataclass(frozen=True)
class Anycast(RoundProgram):
    """The program of anycasts; the round is settled, and neither trees nor memory change."""

    anycasts: Anycasts = field(default_factory=Anycasts)
    begins: bool = True  # False: goes on with anycasts that are under way
    writes: ClassVar[tuple[str, ...]] = ()

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if superstep:
            walks = inbox.get(ANYCAST, {})
        else:
            walks = self._begin(scribe) if self.begins else tables.pop(_UNDER_WAY, {})
        if not count_rows(walks):
            return
        if superstep == _SUPERSTEPS:
            scribe.note(_UNDER_WAY, **walks)
            return
        row = scribe.entry(walks["group"], walks[AT])
        starts = ~(walks["visited"] >= 0).any(axis=1)
        outside = (row < 0) & starts
        self._route(scribe, take(walks, outside))
        walks, row = take(walks, ~outside), row[~outside]
        accepts = self._ask(scribe, tables, walks)
        accepted = take(walks, accepts)
        _end(scribe, accepted, accepted[AT])
        self._walk(scribe, take(walks, ~accepts), row[~accepts])

    def _begin(self, scribe: Scribe) -> Columns:
        """Return the anycasts of the bucket's live nodes (rule A1)."""
        origin = self.anycasts.origin
        anycast = np.flatnonzero(scribe.is_own(origin) & scribe.is_alive(origin))
        mine, zero = self.anycasts.take(anycast), np.zeros(len(anycast), dtype=np.int64)
        nobody = np.full((len(anycast), 1), NONE)
        began = {AT: mine.origin, "anycast": anycast, "messages": zero, "delay_us": zero}
        lists = {"path": mine.origin[:, None], "visited": nobody, "listed": nobody}
        return {**mine.to_columns(), **began, **lists}

    def _route(self, scribe: Scribe, walks: Columns) -> None:
        """Let anycasts outside of the tree go towards the root (rule A2)."""
        to = scribe.hop(ANYCAST, walks[AT], walks["group"])
        goes = (to >= 0) & ~(walks["path"] == to[:, None]).any(axis=1)  # delivered, or in a circle
        _end(scribe, take(walks, ~goes), NONE)
        walks, to = take(walks, goes), to[goes]
        _move(scribe, {**walks, "path": np.c_[walks["path"], to]}, to)

    def _ask(self, scribe: Scribe, tables: Tables, walks: Columns) -> np.ndarray:
        """Return True for walks whose node is a member that accepts (rules A3, A4)."""
        accepts = scribe.is_member(walks["group"], walks[AT]) & (walks[AT] != walks["origin"])
        if not accepts.any():
            return accepts
        asks, node = take(walks, accepts), scribe.ring.node
        pair, call = np.unique(scribe.key(asks["group"], asks[AT]), return_inverse=True)
        asked = {
            **{"call": call, "number": asks["number"]},
            "group": scribe.groups.number[asks["group"]],
            **{"node": node[asks[AT]], "origin": node[asks["origin"]]},
        }
        applications = self.round.applications
        application = ScribeApplication() if applications is None else applications.of(tables)
        calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
        accepts[accepts] = application.accept(calls, asked)
        return accepts

    def _walk(self, scribe: Scribe, walks: Columns, row: np.ndarray) -> None:
        """Mark nodes as visited, list their neighbours in the tree, and go on (A3 to A6)."""
        if not len(row):
            return
        at, entries = walks[AT], scribe.state.entries
        walks = {**walks, "path": walks["path"][:, :0]}
        # 1. the living children in a drawn order, what was listed, and the parent
        above = np.full(len(row), NONE)
        above[row >= 0] = entries.parent[row[row >= 0]]
        above[~scribe.is_alive(above)] = NONE
        front, back = self._children(scribe, walks), Lists.of_rows(above[:, None])
        visited, listed = (Lists.of_rows(walks[name]) for name in ("visited", "listed"))
        visited, listed = visit(visited, listed, at, front, back, scribe.state.size)
        # 2. the first one is the next one
        to, listed = listed.popped()
        walks |= {"visited": visited.padded(), "listed": listed.padded()}
        if (most := (visited.lengths() + listed.lengths()).max()) > MOST_LISTED:
            remedy = f"must be at most {MOST_LISTED:,}; let members accept, or take smaller groups"
            raise InputError("nodes in the lists of an anycast", most, remedy)
        _end(scribe, take(walks, to < 0), NONE)
        _move(scribe, take(walks, to >= 0), to[to >= 0])

    def _children(self, scribe: Scribe, walks: Columns) -> Lists:
        """Return the living children of the nodes where the walks are, in drawn orders."""
        of, edge = scribe.children_of(scribe.key(walks["group"], walks[AT]))
        child = scribe.state.children.key[edge] % scribe.state.size
        alive = scribe.is_alive(child)
        of, child = of[alive], child[alive]
        keys = walks["number"][of], scribe.groups.number[walks["group"][of]]
        drawn = draws.bits_np(scribe.seed, "anycast", *keys, scribe.ring.node[child])
        order = np.lexsort((child, drawn, of))
        return Lists.of(of[order], child[order], len(walks[AT]))


def _move(scribe: Scribe, walks: Columns, to: np.ndarray) -> None:
    """Send the anycasts `walks` on to the nodes `to`; count the messages."""
    delay_us = walks["delay_us"] + scribe.delay(walks[AT], to)
    moved = {**walks, "messages": walks["messages"] + 1, "delay_us": delay_us}
    moved.pop(AT)
    scribe.tell(ANYCAST, to, **moved)


def _end(scribe: Scribe, walks: Columns, accepted: np.ndarray | int) -> None:
    """Record that anycasts end; `accepted` is the member that accepts, NONE: nobody does."""
    results = {name: walks[name] for name in ("anycast", "messages", "delay_us")}
    results["visited"] = np.count_nonzero(walks["visited"] >= 0, axis=1)
    results["accepted"] = np.broadcast_to(accepted, len(walks["anycast"])).copy()
    scribe.note(ENDED, **results)
