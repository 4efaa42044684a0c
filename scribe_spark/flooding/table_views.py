"""The results of a flood as tables for measures, converted from the tables of buckets.

References
----------
docs/rules.md, F5 to F7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.engine.views import Names, read_view, view_together
from scribe_spark.flooding.flood import COPIES
from scribe_spark.flooding.group_rings import kept_of, told
from scribe_spark.multicast import CONTROL, DELIVERIES, EDGES, STATE
from scribe_spark.pastry.states import States
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.distribute import open_array
from scribe_spark.underlay.protocol import Kernel

#: The message by which a node announces itself to the nodes in its tables.
ANNOUNCEMENT = "announcement"

_NODES_AT_ONCE = 2**12


@dataclass(frozen=True)
class TableViews:
    """Converts the tables of a ring's buckets to rows for measures; picklable."""

    facts: Facts  # the nodes of the flooded ring
    bounds: np.ndarray  # (B + 1,)
    number: np.ndarray  # (G,): the numbers of the groups, ascending
    kernel: Kernel
    #: (G + 1,): the first place of each group's ring, if each group has a ring.
    begins: np.ndarray | None = None
    overlay: Facts | None = None  # the nodes of the overlay, if each group has a ring
    #: The name of the shared array with the overlay position of each place.
    position: str | None = None

    def edges(self, tables: BucketTables, supersteps: int) -> Batches:
        """Return `multicast.EDGES`."""
        return self._copies(tables, supersteps, self._edges, EDGES)

    def deliveries(self, tables: BucketTables, supersteps: int) -> Batches:
        """Return `multicast.DELIVERIES`."""
        return self._copies(tables, supersteps, self._deliveries, DELIVERIES)

    def state(self, known: DataFrame) -> Batches:
        """Return `multicast.STATE`."""
        return self._of_nodes(known, self._state, STATE)

    def announcements(self, known: DataFrame) -> Batches:
        """Return `multicast.CONTROL`."""
        return self._of_nodes(known, self._announcements, CONTROL)

    # --- copies

    def _copies(
        self,
        tables: BucketTables,
        supersteps: int,
        make: Callable[[Columns], Mapping[str, Any]],
        schema: str,
    ) -> Batches:
        names = [f"{COPIES} {superstep}" for superstep in range(supersteps)]
        return read_view(tables.rows(*names), self._names, schema, make)

    def _edges(self, some: Columns) -> dict[str, Any]:
        parent, child = self._position(some["sender"]), self._position(some[AT])
        return {"group": some["group"], "parent": parent, "child": child}

    def _deliveries(self, some: Columns) -> dict[str, Any]:
        return {**some, "node": self._position(some[AT]), "delay_us": some["at_us"]}

    # --- leaf sets and routing tables

    def _of_nodes(
        self, known: DataFrame, make: Callable[[States], Mapping[str, Any]], schema: str
    ) -> Batches:
        ring, bounds = self.facts, self.bounds

        def rows(bucket: int, tables: Mapping[str, Columns]) -> Iterator[Mapping[str, Any]]:
            states = States.of_tables(ring.ring, int(bounds[bucket]), tables)
            for start in range(0, len(states.own), _NODES_AT_ONCE):
                yield make(states.of(slice(start, start + _NODES_AT_ONCE)))

        return view_together(known, self._names, schema, rows)

    def _state(self, states: States) -> dict[str, Any]:
        kept = kept_of(states)
        place = np.tile(states.own, len(kept))
        kind = np.repeat(list(kept), len(states.own))
        entries = np.concatenate(list(kept.values()))
        rows = {"group": self._group(place), "node": self._position(place)}
        return take({**rows, "kind": kind, "entries": entries}, entries > 0)

    def _announcements(self, states: States) -> dict[str, Any]:
        teller, place = told(states)
        return {
            "group": self._group(place),
            "sender": self._position(teller),
            "receiver": self._position(place),
            "kind": ANNOUNCEMENT,
            "messages": np.ones(len(place), dtype=np.int64),
        }

    # --- names

    @property
    def _names(self) -> Names:
        return Names(self.overlay or self.facts, self.kernel, self.number)

    def _group(self, place: np.ndarray) -> np.ndarray:
        """Return the index of each place's group; NONE if the overlay itself is flooded."""
        if self.begins is None:
            return np.full(len(place), NONE)
        return np.searchsorted(self.begins, place, side="right") - 1

    def _position(self, place: np.ndarray) -> np.ndarray:
        """Return the overlay positions of places."""
        return place if self.position is None else open_array(self.position)[place]
