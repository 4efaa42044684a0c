"""Leaf sets and routing tables as dense arrays, and the programs that read or change them.

A node is given by its position in the order of nodeIds.  So of two nodes, the one with the smaller
nodeId has the smaller position, and positions are compared instead of 128-bit numbers.

JSAC 2002, Section II: "the set of nodes with the l/2 numerically closest larger nodeIds, and the
l/2 nodes with numerically closest smaller nodeIds, relative to the present node's nodeId".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT
from scribe_spark.rounds.player import Environment, Observer


class Kind(StrEnum):
    """The kinds of messages of an arrival, counted at their senders; values are names in tables."""

    JOIN = "join"  #: the request to the contact, and each hop of the join message
    ROWS = "rows"  #: the rows that a node on the route supplies
    LEAF_SET = "leaf set"  #: the leaf set of the last node on the route
    ANNOUNCEMENT = "announcement"  #: one to each node in the leaf set and routing table
    EXCHANGE = "exchange"  #: a leaf set that is sent to a leaf, or its answer
    MAINTENANCE = "maintenance"  #: a question for a row, or its answer
    INTRODUCTION = "introduction"  #: an answer that names earlier nodes, or a greeting of one
    PROBE = "probe"  #: a measurement of the delay to a node (contact ``discovered``)


#: All kinds of messages in a world.  ``join`` is the request to the contact, and each transmission
#: of the join message.
MESSAGE_KINDS = (
    *("probe", "join", "rows", "leaf set", "announcement", "exchange", "introduction"),
    *("maintenance", "repair", "check", "goodbye", "recovery", "keep-alive", "lookup"),
)


def covers_ring(larger: np.ndarray, smaller: np.ndarray, size: int) -> np.ndarray:
    """Return True for leaf sets that cover the ring, so that every key is within their span.

    These are empty ones, and those whose two sides meet: a node that lost the leaves of one side
    does not know which nodes are there.  The arguments are the distances to the farthest leaves, 0
    for an empty side, and the number of nodes.
    """
    together = larger + smaller
    return (together == 0) | (together >= size)


def same_leaves(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return True where the rows of two arrays of leaves have the same nodes, in any order."""
    same = (one == other).all(axis=1)
    rest = np.flatnonzero(~same)
    same[rest] = (_as_sets(one[rest]) == _as_sets(other[rest])).all(axis=1)
    return same


def _as_sets(leaves: np.ndarray) -> np.ndarray:
    """Return rows of leaves, sorted and with each leaf once; :data:`NONE` is first."""
    leaves = np.sort(leaves, axis=1)
    leaves[:, 1:][leaves[:, 1:] == leaves[:, :-1]] = NONE
    return np.sort(leaves, axis=1)


def ring_leaves(
    place: np.ndarray, half: int, nodes: np.ndarray | int, start: np.ndarray | int = 0
) -> np.ndarray:
    """Return the correct leaf sets of nodes in rings of some sizes: `States.leaves`."""
    nodes, start = np.expand_dims(nodes, -1), np.expand_dims(start, -1)
    index, steps = place[:, None] - start, np.arange(1, half + 1)
    sides = [
        np.where(steps < nodes, start + (index + sign * steps) % nodes, NONE) for sign in (1, -1)
    ]
    return np.concatenate(sides, axis=1).astype(np.int32)


# --- the states of nodes


#: Marks an empty place in a leaf set or routing table.
NONE = -1

#: The tables of a bucket with one row per node: leaf sets (column ``leaves``) and routing tables
#: (column ``cells``), both as in `States`.
LEAVES, CELLS = "leaf sets", "routing tables"

#: Returns True for positions (an array of any shape) of live nodes; :data:`NONE` is False.
IsAlive = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class States:
    """The leaf sets and routing tables of n nodes; kernels change the arrays.

    Attributes
    ----------
    known : Ring
        All K nodes, sorted by nodeId, each once; routers are indices.
    own : ndarray of int64, shape (n,)
        The positions of the n nodes in `known`, ascending.
    leaves : ndarray of int32, shape (n, l)
        Positions in `known`: the larger leaves in the first half, the smaller ones in the second,
        each half nearest first and padded with :data:`NONE`.  In a small ring a node occurs on both
        sides.
    cells : ndarray of int32, shape (n, rows, 2**b)
        The entries of the routing tables, as positions in `known`, or :data:`NONE`.
    """

    known: Ring
    own: np.ndarray
    leaves: np.ndarray
    cells: np.ndarray

    @classmethod
    def empty(cls, known: Ring, own: np.ndarray, leaf_set: int, b: int) -> States:
        """Return the states of the nodes `own` (positions) with empty tables."""
        shape = len(own), table_rows(known, b), 2**b
        return cls(
            known,
            own,
            np.full((len(own), leaf_set), NONE, dtype=np.int32),
            np.full(shape, NONE, dtype=np.int32),
        )

    @classmethod
    def of_tables(cls, known: Ring, first: int, tables: Mapping[str, Columns]) -> States:
        """Return the states of a bucket's nodes from its tables; `first` is its first position."""
        leaves, cells = tables[LEAVES]["leaves"], tables[CELLS]["cells"]
        return cls(known, np.arange(first, first + len(leaves)), leaves, cells)

    def tables(self) -> dict[str, Columns]:
        """Return the tables :data:`LEAVES` and :data:`CELLS` of these nodes."""
        return {LEAVES: {"leaves": self.leaves}, CELLS: {"cells": self.cells}}

    @property
    def b(self) -> int:
        """The number of bits of a digit, b; the base of digits is 2**b."""
        return self.cells.shape[2].bit_length() - 1

    @property
    def first(self) -> int:
        """The first node's position, from which a node's index in an interval is counted."""
        return int(self.own[0]) if len(self.own) else 0

    @property
    def half(self) -> int:
        """The number of leaves on each side of a full leaf set: l / 2."""
        return self.leaves.shape[1] // 2

    def of(self, nodes: slice) -> States:
        """Return the states of a slice of the nodes, as views of the same arrays."""
        return States(self.known, self.own[nodes], self.leaves[nodes], self.cells[nodes])

    def farthest(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the farthest larger and smaller leaves (positions), else the node itself."""
        sides = self.leaves[index].reshape(-1, 2, self.half)
        count = (sides >= 0).sum(axis=2, keepdims=True)
        last = np.take_along_axis(sides, np.maximum(count, 1) - 1, axis=2)
        larger, smaller = np.where(count > 0, last, self.own[index][:, None, None])[:, :, 0].T
        return larger, smaller

    def reach(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how many positions away the farthest larger and smaller leaves are."""
        size, own, (larger, smaller) = len(self.known), self.own[index], self.farthest(index)
        return (larger - own) % size, (own - smaller) % size

    def covers_ring(self, index: np.ndarray) -> np.ndarray:
        """Return True for leaf sets that cover the ring, see `states.covers_ring`."""
        return covers_ring(*self.reach(index), len(self.known))

    def distinct_leaves(self, index: np.ndarray) -> np.ndarray:
        """Return the leaves of some nodes: int32, (len(index), l); repetitions are `NONE`."""
        leaves, half = self.leaves[index], self.half
        larger, smaller = self.reach(index)
        # leaves are on both sides only if the sides meet
        meet = np.flatnonzero(larger + smaller >= len(self.known))
        one, other = leaves[meet, :half], leaves[meet, half:]
        other[(other[:, :, None] == one[:, None]).any(axis=2)] = NONE
        leaves[meet, half:] = other
        return leaves


def live_only(is_alive: IsAlive, positions: np.ndarray) -> np.ndarray:
    """Return positions with :data:`NONE` in place of dead nodes."""
    return np.where(is_alive(positions), positions, np.int32(NONE))


def pairs_of(nodes: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of a node and a position in its row of (m, k), without NONE: int64."""
    row, column = np.nonzero(positions >= 0)
    return nodes[row], positions[row, column].astype(np.int64)


def table_rows(known: Ring, b: int) -> int:
    """Return the number of rows that routing tables need, at least one."""
    shared = ids.shared_digits_np(known.hi[1:], known.lo[1:], known.hi[:-1], known.lo[:-1], b)
    return 1 + int(shared.max(initial=0))


# --- programs


#: The table with the leaf sets at the start of the round; only in buckets that changed a leaf set.
LEAVES_BEFORE = "leaf sets before"

_COLUMNS = {LEAVES: "leaves", CELLS: "cells"}


@dataclass(frozen=True)
class NodeProgram:
    """A program that knows all nodes."""

    environment: Environment

    @property
    def bounds(self) -> np.ndarray:
        return self.environment.bounds

    def live(self, bucket: int) -> np.ndarray:
        """Return the positions of the live nodes of a bucket, ascending."""
        first, last = self.bounds[bucket : bucket + 2]
        return first + np.flatnonzero(self.environment.in_round.alive[first:last])


class BucketNodes:
    """The nodes of a bucket while they play a superstep; `came` are the received messages."""

    def __init__(
        self,
        environment: Environment,
        bucket: int,
        tables: Tables,
        came: Inbox = MappingProxyType({}),
        superstep: int = 0,
    ) -> None:
        self.environment, self.bucket, self.tables = environment, bucket, tables
        self.came, self.superstep = came, superstep
        self.ring, self.kernel = environment.facts.ring, environment.kernel
        self.is_alive, self.bounds = environment.is_alive, environment.bounds
        self.observer: Observer | None = environment.observer
        self.first, self.last = map(int, environment.bounds[bucket : bucket + 2])
        self.sent: dict[str, list[dict[str, np.ndarray]]] = {}

    def states(self, *writes: str) -> States:
        """Return the states of the nodes; the caller may change the tables in `writes`."""
        tables = self.tables
        arrays = {name: tables[name][column] for name, column in _COLUMNS.items()}
        if LEAVES in writes and self.environment.lives is not None and LEAVES_BEFORE not in tables:
            tables[LEAVES_BEFORE] = {"leaves": arrays[LEAVES].copy()}
        for name in writes:
            if not arrays[name].flags.writeable:
                arrays[name] = arrays[name].copy()
            tables[name] = {_COLUMNS[name]: arrays[name]}
        return States(self.ring, np.arange(self.first, self.last), arrays[LEAVES], arrays[CELLS])

    def own(self, nodes: np.ndarray) -> np.ndarray:
        """Return the places in `nodes` (ascending positions) of those in the bucket."""
        return np.arange(*np.searchsorted(nodes, [self.first, self.last]))

    def is_own(self, nodes: np.ndarray) -> np.ndarray:
        """Return True for positions of nodes in the bucket."""
        return (nodes >= self.first) & (nodes < self.last)

    def count(
        self, kind: str, sender: np.ndarray, to: np.ndarray, lost: int | np.integer = 0
    ) -> None:
        """Count messages of a kind from senders to receivers (positions); some were lost."""
        count = self.environment.observer.count
        count(self.tables, kind, len(to), lost, between=lambda: (sender, to))

    def send(
        self,
        kind: str,
        sender: np.ndarray,
        to: np.ndarray,
        is_lost: np.ndarray | bool = False,
        size: np.ndarray | None = None,
    ) -> np.ndarray:
        """Count a message of a kind to each node; return True for each that arrives."""
        arrives = self.is_alive(to) & ~np.asarray(is_lost)
        if self.observer is not None:
            self.observer.send(self.tables, kind, arrives, sender, to, size=size)
        return arrives

    def count_sets(self, kind: str, sender: np.ndarray, sets: np.ndarray, lost: int = 0) -> None:
        """Count a message from each sender to each node in its row of `sets`."""
        messages = np.count_nonzero(sets >= 0)
        between = functools.partial(pairs_of, sender, sets)
        self.environment.observer.count(self.tables, kind, messages, lost, between=between)

    def meet(self, node: np.ndarray, dead: np.ndarray) -> None:
        """Record that nodes met dead nodes."""
        self.environment.observer.meet(self.tables, node, dead)

    def tell(self, kind: str, at: np.ndarray, **columns: np.ndarray) -> None:
        """Send messages, uncounted, to the nodes `at`."""
        if len(at):
            self.sent.setdefault(kind, []).append({AT: at, **columns})

    def outbox(self) -> Outbox:
        """Return the sent messages; columns are joined, and freed, one after the other."""

        def joined(name: str, parts: list[dict[str, np.ndarray]]) -> np.ndarray:
            return concatenate([{name: part.pop(name)} for part in parts])[name]

        return {
            kind: {name: joined(name, parts) for name in list(parts[0])}
            for kind, parts in self.sent.items()
        }


@dataclass(frozen=True)
class MessageProgram(NodeProgram):
    """A program whose nodes send each other messages."""

    #: Functions ``handle(program, nodes, came)`` of kinds of messages, in the order of their calls.
    handlers: ClassVar[tuple[tuple[str, Callable[[Any, BucketNodes, Columns], None]], ...]] = ()

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        nodes = BucketNodes(self.environment, bucket, tables, inbox, superstep)
        if not superstep:
            self.begin(nodes)
        for kind, handle in self.handlers:
            if kind in inbox:
                handle(self, nodes, inbox[kind])
        return nodes.outbox()

    def begin(self, nodes: BucketNodes) -> None:
        """Play superstep 0."""


class SilentNodes(MessageProgram):
    """A program in which no node sends messages to others."""

    silent: ClassVar[bool] = True
