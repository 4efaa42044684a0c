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
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scribe_spark.engine import Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.lives import KnowsLives
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, States, is_node
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig
    from scribe_spark.config.rounds import EventsConfig

#: The table of the leaf sets before the round, in buckets in which one has been written since.
LEAVES_BEFORE = "leaf sets before"

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


@dataclass(frozen=True)
class Given:
    """The facts and rules that all programs of Pastry share.

    Attributes
    ----------
    facts : KnowsRing
        All nodes, those of later waves too.
    bounds : ndarray of int64, shape (B + 1,)
    rules : OverlayConfig
        How nodes arrive.
    kernel : Kernel
        Of the underlay.
    observer : Observer
    lives : KnowsLives, optional
        Without it all nodes are alive, and there are no rounds.
    seed : int
        Key of the draws.
    world : EventsConfig, optional
        Detection, repair and maintenance in the rounds of a world.
    """

    facts: KnowsRing
    bounds: np.ndarray
    rules: OverlayConfig
    kernel: Kernel
    observer: Observer
    lives: KnowsLives | None = None
    seed: int = 0
    world: EventsConfig | None = None

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Test for positions (of any shape) of live nodes; False for no position."""
        return is_node(positions) if self.lives is None else self.lives.is_alive(positions)

    @property
    def world_rules(self) -> EventsConfig:
        """Detection, repair and maintenance in the rounds of a world."""
        assert self.world is not None, "not a world"
        return self.world

    @property
    def in_round(self) -> KnowsLives:
        """The lives of nodes, in the rounds of a world."""
        assert self.lives is not None, "not a world"
        return self.lives


@dataclass(frozen=True)
class NodeProgram:
    """A program that reads or changes what nodes know."""

    given: Given

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.given.bounds

    def live(self, bucket: int) -> np.ndarray:
        """Return the positions of the live nodes of a bucket, ascending."""
        first, last = self.bounds[bucket : bucket + 2]
        return first + np.flatnonzero(self.given.in_round.alive[first:last])

    def states(self, bucket: int, tables: Tables, *writes: str) -> States:
        """Return what the nodes of a bucket know.

        Parameters
        ----------
        *writes : str
            The tables that the caller will write into.
        """
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
        """Return the indices of the wave's nodes in a bucket, in the arrays of the wave."""
        first, last = np.searchsorted(self.wave.arriving, self.bounds[bucket : bucket + 2])
        return np.arange(first, last)

    @functools.cached_property
    def place(self) -> np.ndarray:
        """The place of each node in the order of arrival; :data:`LATER` where not of the wave."""
        place = np.full(len(self.given.facts.ring), LATER)
        place[self.wave.arriving] = self.wave.order
        return place


def forget(program: WaveProgram, bucket: int, tables: Tables) -> None:
    """Let the nodes of a wave forget what they knew when they were alive before."""
    arriving = program.wave.arriving[program.mine(bucket)]
    states = program.states(bucket, tables)
    index = arriving - states.first
    if (states.leaves[index] >= 0).any() or (states.cells[index] >= 0).any():
        states = program.states(bucket, tables, LEAVES, CELLS)
        states.leaves[index], states.cells[index] = NONE, NONE


def states_in_buckets(states: States, bounds: np.ndarray) -> list[Tables]:
    """Return the tables of buckets that are parts of the states of all nodes, not copies."""
    arrays = {LEAVES: states.leaves, CELLS: states.cells}
    return [
        Tables.of({name: {_COLUMNS[name]: array[first:last]} for name, array in arrays.items()})
        for first, last in itertools.pairwise(bounds.tolist())
    ]


_COLUMNS = {LEAVES: "leaves", CELLS: "cells"}
