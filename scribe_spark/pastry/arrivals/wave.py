"""A wave of arriving nodes, and the base classes of the programs that play it.

All nodes of a wave see the overlay as it was before the wave.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scribe_spark.engine import Tables
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, States
from scribe_spark.rounds.environment import Environment

if TYPE_CHECKING:  # not on executors
    pass

#: The table with the leaf sets at the start of the round; only in buckets that changed a leaf set.
LEAVES_BEFORE = "leaf sets before"

#: The rank of arrival of nodes that are not in the wave.
LATER = np.int64(2**63 - 1)


class Wave(Protocol):
    """The nodes that arrive together; they see the overlay as it was before the wave."""

    @property
    def arriving(self) -> np.ndarray: ...  # int64, shape (w,): positions, ascending

    @property
    def order(self) -> np.ndarray: ...  # (w,): numbers that increase in the order of arrival

    @property
    def contact(self) -> np.ndarray: ...  # (w,): the position of each node's contact

    @property
    def live(self) -> np.ndarray: ...  # all nodes that are alive after the wave, ascending


@dataclass(frozen=True)
class WaveInMemory:
    """A `Wave` whose arrays are in the memory of this process."""

    arriving: np.ndarray
    order: np.ndarray
    contact: np.ndarray
    live: np.ndarray


@dataclass(frozen=True)
class NodeProgram:
    """A program that reads or changes leaf sets and routing tables."""

    given: Environment

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.given.bounds

    def count(
        self, tables: Tables, kind: str, sender: np.ndarray, to: np.ndarray, lost: int = 0
    ) -> None:
        """Count a message from each sender to its receiver, of which some were lost."""
        self.given.observer.count(tables, kind, len(to), lost, between=lambda: (sender, to))

    def live(self, bucket: int) -> np.ndarray:
        """Return the positions of the live nodes of a bucket, ascending."""
        first, last = self.bounds[bucket : bucket + 2]
        return first + np.flatnonzero(self.given.in_round.alive[first:last])

    def states(self, bucket: int, tables: Tables, *writes: str) -> States:
        """Return the tables of a bucket's nodes; the caller may change those in `writes`."""
        first, last = self.bounds[bucket], self.bounds[bucket + 1]
        arrays = {name: tables[name][column] for name, column in _COLUMNS.items()}
        if LEAVES in writes and self.given.lives is not None and LEAVES_BEFORE not in tables:
            tables[LEAVES_BEFORE] = {"leaves": arrays[LEAVES].copy()}
        for name in writes:
            if not arrays[name].flags.writeable:
                arrays[name] = arrays[name].copy()
            tables[name] = {_COLUMNS[name]: arrays[name]}
        return States(self.given.facts.ring, np.arange(first, last), arrays[LEAVES], arrays[CELLS])


@dataclass(frozen=True)
class WaveProgram(NodeProgram):
    """A program of the arrival of a wave."""

    wave: Wave

    def mine(self, bucket: int) -> np.ndarray:
        """Return the indices, in the wave's arrays, of the wave's nodes in a bucket."""
        first, last = np.searchsorted(self.wave.arriving, self.bounds[bucket : bucket + 2])
        return np.arange(first, last)

    @functools.cached_property
    def place(self) -> np.ndarray:
        """The rank of arrival of each node; :data:`LATER` for nodes outside of the wave."""
        place = np.full(len(self.given.facts.ring), LATER)
        place[self.wave.arriving] = self.wave.order
        return place


def forget(program: WaveProgram, bucket: int, tables: Tables) -> None:
    """Clear the tables of the wave's nodes, which may have been alive before."""
    arriving = program.wave.arriving[program.mine(bucket)]
    states = program.states(bucket, tables)
    index = arriving - states.first
    if (states.leaves[index] >= 0).any() or (states.cells[index] >= 0).any():
        states = program.states(bucket, tables, LEAVES, CELLS)
        states.leaves[index], states.cells[index] = NONE, NONE


def states_in_buckets(states: States, bounds: np.ndarray) -> list[Tables]:
    """Return the tables of buckets as views of the arrays of all nodes."""
    arrays = {LEAVES: states.leaves, CELLS: states.cells}
    return [
        Tables.of({name: {_COLUMNS[name]: array[first:last]} for name, array in arrays.items()})
        for first, last in itertools.pairwise(bounds.tolist())
    ]


_COLUMNS = {LEAVES: "leaves", CELLS: "cells"}
