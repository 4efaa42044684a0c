"""Plumtree on HyParView's views, or on views that never change: one kernel of the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark.clock import kernel
from scribe_spark.clock.bucket import LINKED, RECEIPTS, STATE, BucketClock, Slots
from scribe_spark.core.arrays import find_sorted
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables
from scribe_spark.rounds.clocked import ClockedSystem, near_and_far_links, ring_links
from scribe_spark.systems.plumtree import FULL, WAVES
from scribe_spark.systems.plumtree.hyparview import HyParView
from scribe_spark.systems.plumtree.plumtree import Plumtree

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.plumtree.config import PlumtreeConfig


class PlumtreeKernel:
    """The kernel of Plumtree and HyParView; `rules` is the section of the config for tasks."""

    messages: ClassVar[dict[str, kernel.Control | kernel.Payload]] = {
        **HyParView.messages,
        **Plumtree.messages,
    }
    timers: ClassVar[dict[str, tuple[kernel.Column, ...]]] = HyParView.timers | Plumtree.timers
    commands: ClassVar[Sequence[str]] = kernel.COMMANDS_OF_GROUPS
    wakes: ClassVar[Sequence[str]] = (kernel.ARRIVE,)

    def __init__(self, rules: PlumtreeConfig, seed: int, room: np.ndarray) -> None:
        self._rules, self._seed, self._room = rules, seed, room

    def begin(self, clock: BucketClock, tables: Tables) -> None:
        """Read the views and links of a bucket's nodes before the clock starts; see `Kernel`."""
        had, linked = tables.get(STATE, {}), tables.pop(LINKED, {})
        views = (rows[name] for rows, name in ((had, "active"), (linked, "neighbours")) if rows)
        slots = max((view.shape[1] for view in views), default=self._rules.active)
        near = Slots((len(clock.key), slots), lazy=bool, duplicates=np.int16)
        self._clock, common = clock, (self._rules, self._seed, clock, near)
        self._views, self._tree = HyParView(*common), Plumtree(*common, self._room)
        self._columns = {"active": near.node, "passive": self._views.passive, **near.flags}
        for rows in filter(None, (had, linked)):
            place = find_sorted(clock.key, rows["key"])
            clock.alive[place] = True
            for column, array in self._columns.items() if rows is had else ():
                array[place, : rows[column].shape[1]] = rows[column]
        if linked:
            near.begin(place, **{name: linked[name] for name in linked if name != "key"})

    def end(self, tables: Tables) -> None:
        """Store the state of the live members, and the first copies of publications."""
        clock, tree = self._clock, self._tree
        living = np.flatnonzero(clock.alive)
        columns = {name: array[living] for name, array in self._columns.items()}
        tables[STATE] = {"key": clock.key[living], **columns}
        rows = np.flatnonzero(tree.got_us >= 0)
        publication, place = tree.split(rows)
        tables[RECEIPTS] = {
            **{"publication": publication, "node": clock.node[place], "at_us": tree.got_us[rows]},
            **{"hops": tree.hops[rows], "sender": tree.sender[rows]},
        }

    @staticmethod
    def sums(state: Columns) -> dict[str, int]:
        """See `ClockedSystem`."""
        here = state["active"] >= 0
        found = {"active": here, "eager": here & ~state["lazy"], "passive": state["passive"] >= 0}
        return {name: int(np.count_nonzero(column)) for name, column in found.items()}

    def __getattr__(self, name: str) -> Callable[[kernel.ClockEvents], None]:
        """Return the handler of a message or timer: that of HyParView, or else that of Plumtree."""
        if not name.startswith("on_"):
            raise AttributeError(name)

        def handle(events: kernel.ClockEvents) -> None:
            of: Any = self._views if hasattr(self._views, name) else self._tree
            getattr(of, name)(events)

        return handle


def system_of(rules: PlumtreeConfig) -> ClockedSystem:
    """Return the system of the section of a config."""
    rings = partial(ring_links, slots=rules.active)
    return ClockedSystem(
        PlumtreeKernel,
        rules,
        least_wait_us=min(rules.us[name] for name in ("first_wait", "next_wait", "request")),
        growth=rules.growth if rules.views == WAVES else None,
        refresh_us=rules.us["shuffle"] if rules.grows else 0,
        links=None if rules.grows else near_and_far_links if rules.views == FULL else rings,
        state={"active": "active view", "passive": "passive view"},
    )
