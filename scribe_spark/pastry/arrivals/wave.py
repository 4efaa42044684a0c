"""A wave of arriving nodes, and what all programs of its arrival have in common.

All nodes of a wave see the overlay as it was before the wave.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scribe_spark.engine import Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import IsAlive, States, is_node
from scribe_spark.underlay.protocol import Kernel

__all__ = [
    "CELLS",
    "LATER",
    "LEAVES",
    "Arrival",
    "NodeProgram",
    "Wave",
    "WaveInMemory",
    "WaveProgram",
    "states_in_buckets",
]

#: Tables of a bucket, a row a node: its leaf set (``leaves``), and its routing table (``cells``),
#: both as in `States`.
LEAVES, CELLS = "leaf sets", "routing tables"

#: The place in a wave of nodes that are not of it.
LATER = np.int64(2**63 - 1)


class Wave(Protocol):
    """The nodes that arrive together.

    Attributes
    ----------
    arriving : ndarray of int64, shape (w,)
        Their positions, ascending.
    order : ndarray of int64, shape (w,)
        Numbers that are in the order of their arrival.
    contact : ndarray of int64, shape (w,)
        The position of the node that each asks.
    live : ndarray of int64
        Positions of all nodes that there are after the wave, ascending.
    """

    @property
    def arriving(self) -> np.ndarray: ...

    @property
    def order(self) -> np.ndarray: ...

    @property
    def contact(self) -> np.ndarray: ...

    @property
    def live(self) -> np.ndarray: ...


@dataclass(frozen=True)
class WaveInMemory:
    """A `Wave` whose arrays are this process'."""

    arriving: np.ndarray
    order: np.ndarray
    contact: np.ndarray
    live: np.ndarray

    @classmethod
    def of_nobody(cls, live: np.ndarray) -> WaveInMemory:
        """Return a wave in which nobody arrives."""
        nobody = np.empty(0, dtype=np.int64)
        return cls(nobody, nobody, nobody, live)


@dataclass(frozen=True)
class Arrival:
    """What the programs of all waves have in common.

    Attributes
    ----------
    facts : KnowsRing
        All nodes, those of later waves too.
    bounds : ndarray of int64, shape (B + 1,)
    rules : ArrivalRules
    kernel : Kernel
        Of the underlay.
    observer : Observer
    is_alive : callable
    """

    facts: KnowsRing
    bounds: np.ndarray
    rules: ArrivalRules
    kernel: Kernel
    observer: Observer
    is_alive: IsAlive = is_node


@dataclass(frozen=True)
class NodeProgram:
    """A program that reads or changes what nodes know."""

    given: Arrival

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.given.bounds

    def states(self, bucket: int, tables: Tables, *writes: str) -> States:
        """Return what the nodes of a bucket know.

        Parameters
        ----------
        *writes : str
            The tables that the caller will write into.
        """
        first, last = self.bounds[bucket], self.bounds[bucket + 1]
        arrays = {name: tables[name][column] for name, column in _COLUMNS.items()}
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
        """Return which of the wave's nodes are of a bucket: indices in the arrays of the wave."""
        first, last = np.searchsorted(self.wave.arriving, self.bounds[bucket : bucket + 2])
        return np.arange(first, last)

    @functools.cached_property
    def place(self) -> np.ndarray:
        """The place of each node in the order of arrival; :data:`LATER` where not of the wave."""
        place = np.full(len(self.given.facts.ring), LATER)
        place[self.wave.arriving] = self.wave.order
        return place


def states_in_buckets(states: States, bounds: np.ndarray) -> list[Tables]:
    """Return the tables of buckets that are parts of the states of all nodes, not copies."""
    arrays = {LEAVES: states.leaves, CELLS: states.cells}
    return [
        Tables.of({name: {_COLUMNS[name]: array[first:last]} for name, array in arrays.items()})
        for first, last in itertools.pairwise(bounds.tolist())
    ]


_COLUMNS = {LEAVES: "leaves", CELLS: "cells"}
