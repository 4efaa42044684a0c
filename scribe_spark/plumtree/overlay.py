"""Plumtree on HyParView's views, or on views that never change: one kernel of the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scribe_spark.clock import DOWN, BucketClock, Column, Control, Events, Payload
from scribe_spark.core.arrays import NONE
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables
from scribe_spark.plumtree.hyparview import HyParView, HyParViewRules
from scribe_spark.plumtree.neighbours import Neighbours
from scribe_spark.plumtree.plumtree import Plumtree, PlumtreeRules

#: Tables of a bucket.  By place: its views and whether it is alive (``active, lazy, passive,
#: alive``).  First copies (``publication, node, at_us, hops, sender``).
VIEWS, RECEIPTS = "plumtree views", "plumtree receipts"

#: The commands, by number.
ARRIVE, FAIL, LEAVE, REFRESH, PUBLISH = range(5)


@dataclass(frozen=True)
class PlumtreeSetting:
    """The input of all buckets.

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

    messages: ClassVar[dict[str, Control | Payload]] = {
        **HyParView.messages,
        **Plumtree.messages,
    }
    timers: ClassVar[dict[str, tuple[Column, ...]]] = HyParView.timers | Plumtree.timers
    commands = "arrive", "fail", "leave", "refresh", "publish"
    wakes = ("arrive",)

    def __init__(self, setting: PlumtreeSetting) -> None:
        self._setting = setting

    def begin(self, clock: BucketClock, tables: Tables) -> None:
        """See `Kernel`."""
        setting, shape = self._setting, (len(clock.room), self._setting.views.active)
        active, lazy = np.full(shape, NONE, dtype=np.int32), np.zeros(shape, dtype=bool)
        before: Columns = tables.get(VIEWS, {})
        if before:
            active, lazy = before["active"].astype(np.int32), before["lazy"].copy()
            clock.alive[:] = before["alive"]
        self._clock, self._neighbours = clock, Neighbours(active, lazy)
        both = setting.seed, clock, self._neighbours
        self._views = HyParView(setting.views, *both)
        if before and setting.grows:
            self._views.passive[:] = before["passive"]
        self._tree = Plumtree(setting.tree, *both, setting.room)

    def end(self, tables: Tables) -> None:
        """See `Kernel`."""
        clock, tree = self._clock, self._tree
        tables[VIEWS] = {
            **{"active": self._neighbours.node, "lazy": self._neighbours.lazy},
            **{"passive": self._views.passive, "alive": clock.alive},
        }
        rows = np.flatnonzero(tree.got_us >= 0)
        publication, place = tree.split(rows)
        tables[RECEIPTS] = {
            **{"publication": publication, "node": clock.node[place], "at_us": tree.got_us[rows]},
            **{"hops": tree.hops[rows], "sender": tree.sender[rows]},
        }

    def __getattr__(self, name: str) -> Callable[[Events], None]:
        """Return the handler of the protocol that has it; with views that grow, HyParView's."""
        if not name.startswith("on_"):
            raise AttributeError(name)

        def handle(events: Events) -> None:
            prefers_views = self._setting.grows or name != f"on_{DOWN}"
            first: Any = self._views if prefers_views else self._tree
            getattr(first if hasattr(first, name) else self._tree, name)(events)

        return handle
