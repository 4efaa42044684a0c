"""Plays programs of Pastry on all nodes of a world; counts messages, notes who is met dead."""

from __future__ import annotations

import threading

import numpy as np

from scribe_spark.engine import Program, Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.pastry.arrivals.exchange import GAINED, Exchange
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.observer import Between
from scribe_spark.pastry.arrivals.one_task import arrival_bounds
from scribe_spark.pastry.arrivals.routes import Found
from scribe_spark.pastry.arrivals.wave import Arrival, WaveInMemory, states_in_buckets
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Player"]


class Player:
    """The engine in process, on buckets whose tables are parts of the state of an overlay.

    Attributes
    ----------
    given : Arrival
        What all programs have in common.
    tables : list of Tables
        Of each bucket; programs write into the arrays of the state.
    found : Found
        Dead nodes that live ones have met since the last :meth:`take_found`.
    """

    def __init__(
        self, state: OverlayState, rules: WorldRules, kernel: Kernel, tally: Tally
    ) -> None:
        states, self._tally = state.states, tally
        self._lock = threading.Lock()
        bounds = arrival_bounds(len(states.known), rules)
        ring = RingInMemory(states.known)
        self.given = Arrival(ring, bounds, rules, kernel, self, state.is_alive)
        self.tables = states_in_buckets(states, bounds)
        self.found = Found.nothing()

    def play(self, program: Program) -> None:
        """Play a program until nobody sends."""
        play(program, self.tables, threads=len(self.tables))

    def exchange_leaf_sets(self, senders: np.ndarray, live: np.ndarray) -> None:
        """Play the leaf set exchange that some of the live nodes (positions) begin; they ascend."""
        cuts = np.searchsorted(senders, self.given.bounds[1:-1])
        for mine, nodes in zip(self.tables, np.split(senders, cuts), strict=True):
            mine[GAINED] = {"node": nodes}
        self.play(Exchange(self.given, WaveInMemory.of_nobody(live)))

    def take_found(self) -> Found:
        """Return the dead nodes that were met, and forget them."""
        found, self.found = self.found, Found.nothing()
        return found

    def count(
        self, tables: Tables, kind: Kind, messages: int, lost: int = 0, *, between: Between
    ) -> None:
        """See `Observer.count`."""
        with self._lock:  # buckets are played in threads
            self._tally.add(kind.label, messages, lost, between=between)

    def meet(self, node: np.ndarray, dead: np.ndarray) -> None:
        """See `Observer.meet`."""
        with self._lock:
            self.found = self.found.and_also(node, dead)
