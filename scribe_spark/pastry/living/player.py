"""Plays programs of Pastry on all nodes of a world; counts messages, notes who is met dead."""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Program, Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.pastry.arrivals.exchange import GAINED, Exchange
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.observer import Between
from scribe_spark.pastry.arrivals.routes import Found
from scribe_spark.pastry.arrivals.wave import CELLS, LEAVES, Arrival
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.living.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Player"]


class Player:
    """The engine in process, on one bucket whose tables are the state of an overlay.

    Attributes
    ----------
    given : Arrival
        What all programs have in common.
    tables : Tables
        Programs write into the arrays of the state.
    found : Found
        Dead nodes that live ones have met since the last :meth:`take_found`.
    """

    def __init__(
        self, state: OverlayState, rules: WorldRules, kernel: Kernel, tally: Tally
    ) -> None:
        states, self._tally = state.states, tally
        bounds = np.array([0, len(states.known)])
        ring = RingInMemory(states.known)
        self.given = Arrival(ring, bounds, rules, kernel, self, state.is_alive)
        self.tables = Tables.of({LEAVES: {"leaves": states.leaves}, CELLS: {"cells": states.cells}})
        self.found = Found.nothing()

    def play(self, program: Program) -> None:
        """Play a program until nobody sends."""
        play(program, [self.tables])

    def exchange_leaf_sets(self, senders: np.ndarray) -> None:
        """Play the leaf set exchange that some live nodes (positions, each once) begin."""
        self.tables[GAINED] = {"node": senders}
        self.play(Exchange(self.given))

    def take_found(self) -> Found:
        """Return the dead nodes that were met, and forget them."""
        found, self.found = self.found, Found.nothing()
        return found

    def count(
        self, tables: Tables, kind: Kind, messages: int, lost: int = 0, *, between: Between
    ) -> None:
        """See `Observer.count`."""
        self._tally.add(kind.label, messages, lost, between=between)

    def meet(self, node: np.ndarray, dead: np.ndarray) -> None:
        """See `Observer.meet`."""
        self.found = self.found.and_also(node, dead)
