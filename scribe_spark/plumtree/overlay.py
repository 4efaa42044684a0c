"""Plumtree on HyParView's views, or on views that never change: one kernel of the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.clock import DOWN, Events
from scribe_spark.clock.bucket import BucketClock
from scribe_spark.core.arrays import NONE
from scribe_spark.engine.program import Tables
from scribe_spark.plumtree.hyparview import HyParView, HyParViewRules
from scribe_spark.plumtree.neighbours import Neighbours
from scribe_spark.plumtree.plumtree import Plumtree, PlumtreeRules

#: Tables of a bucket, by place: the active view with the lazy flags; the passive view; which nodes
#: are alive; first copies (``publication, node, at_us, hops, sender``).
ACTIVE, PASSIVE, ALIVE, RECEIPTS = (
    *("plumtree active", "plumtree passive", "plumtree alive", "plumtree receipts"),
)

#: The commands, by number.
ARRIVE, FAIL, LEAVE, REFRESH, PUBLISH = range(5)


@dataclass(frozen=True)
class PlumtreeSetting:
    """What all buckets know.

    Attributes
    ----------
    views : HyParViewRules
    tree : PlumtreeRules
    seed : int
    room : ndarray of int64, shape (P,)
        The room of each publication.
    grows : bool
        True if HyParView keeps the views; False if they never change.
    """

    views: HyParViewRules
    tree: PlumtreeRules
    seed: int
    room: np.ndarray
    grows: bool = True


class PlumtreeKernel:
    """The kernel of Plumtree and HyParView."""

    commands = ("arrive", "fail", "leave", "refresh", "publish")
    wakes = ("arrive",)

    def __init__(self, setting: PlumtreeSetting) -> None:
        self._setting = setting
        self.messages = {**HyParView.messages, **Plumtree.messages}
        self.timers = {**HyParView.timers, **Plumtree.timers}

    def begin(self, clock: BucketClock, tables: Tables) -> None:
        """See `Kernel`."""
        setting, places = self._setting, len(clock.room)
        self._clock, self._neighbours = clock, Neighbours.none(places, setting.views.active)
        if ACTIVE in tables:
            self._neighbours = Neighbours.from_columns(tables[ACTIVE])
        if ALIVE in tables:
            clock.alive[:] = tables[ALIVE]["alive"]
        self._views = HyParView(setting.views, setting.seed, self._neighbours)
        self._views.begin(clock, tables.get(PASSIVE))
        self._tree = Plumtree(setting.tree, setting.seed, self._neighbours)
        self._tree.begin(clock, setting.room)

    def end(self, tables: Tables) -> None:
        """See `Kernel`."""
        clock, tree = self._clock, self._tree
        tables[ALIVE] = {"alive": clock.alive}
        tables[ACTIVE] = self._neighbours.to_columns()
        tables[PASSIVE] = {"node": self._views.passive}
        rows = np.flatnonzero(tree.got_us >= 0)
        publication, place = tree.split(rows)
        columns = {"at_us": tree.got_us, "hops": tree.hops, "sender": tree.sender}
        tables[RECEIPTS] = {
            **{"publication": publication, "node": clock.node[place]},
            **{name: column[rows].astype(np.int64) for name, column in columns.items()},
        }

    def __getattr__(self, name: str) -> Callable[[Events], None]:
        """Return the handler of the protocol that has it; HyParView hears first of the dead."""
        if not name.startswith("on_"):
            raise AttributeError(name)

        def handle(events: Events) -> None:
            first = self._views if self._setting.grows else self._tree
            owner: Any = first if name == f"on_{DOWN}" else self._tree
            getattr(owner if hasattr(owner, name) else self._views, name)(events)

        return handle
