"""Plumtree on HyParView's views, or on views that never change: one kernel of the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark import draws
from scribe_spark.clock import (
    ARRIVE,
    COMMANDS_OF_GROUPS,
    DOWN,
    GUESTS,
    RECEIPTS,
    STATE,
    BucketClock,
    Column,
    Control,
    Events,
    Payload,
)
from scribe_spark.core.arrays import NONE, find_sorted, run_starts
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables
from scribe_spark.plumtree.hyparview import HyParView
from scribe_spark.plumtree.neighbours import Neighbours
from scribe_spark.plumtree.plumtree import Plumtree

if TYPE_CHECKING:  # not on executors
    from scribe_spark.plumtree.config import PlumtreeConfig


@dataclass(frozen=True)
class PlumtreeSetting:
    """The input of all buckets: rules (`Section.for_tasks`), and the room of each publication."""

    rules: PlumtreeConfig
    seed: int
    room: np.ndarray


class PlumtreeKernel:
    """The kernel of Plumtree and HyParView."""

    messages: ClassVar[dict[str, Control | Payload]] = {
        **HyParView.messages,
        **Plumtree.messages,
    }
    timers: ClassVar[dict[str, tuple[Column, ...]]] = HyParView.timers | Plumtree.timers
    commands = COMMANDS_OF_GROUPS
    wakes = (ARRIVE,)

    def __init__(self, setting: PlumtreeSetting) -> None:
        self._setting = setting

    def begin(self, clock: BucketClock, tables: Tables) -> None:
        """See `Kernel`; guests have one neighbour, which does not know them."""
        rules, seed = self._setting.rules, self._setting.seed
        width = tables[STATE]["active"].shape[1] if STATE in tables else rules.active
        shape = len(clock.key), width
        nodes, lazy = np.full(shape, NONE, dtype=np.int32), np.zeros(shape, dtype=bool)
        self._clock, self._neighbours = clock, Neighbours(nodes, lazy)
        self._views = HyParView(rules, seed, clock, self._neighbours)
        self._tree = Plumtree(rules, seed, clock, self._neighbours, self._setting.room)
        for name in (STATE, GUESTS):
            if name not in tables:
                continue
            place = find_sorted(clock.key, tables[name]["key"])
            clock.alive[place] = True
            if name == GUESTS:
                nodes[place, 0] = tables[name]["contact"]
                continue
            for column, array in self._columns().items():
                array[place] = tables[name][column]

    def _columns(self) -> dict[str, np.ndarray]:
        """Return the state of all places by name."""
        near = self._neighbours
        columns = {"active": near.node, "lazy": near.lazy, "duplicates": near.duplicates}
        return {**columns, "passive": self._views.passive}

    def end(self, tables: Tables) -> None:
        """See `Kernel`."""
        clock, tree = self._clock, self._tree
        living = np.flatnonzero(clock.alive)
        columns = {name: array[living] for name, array in self._columns().items()}
        tables[STATE] = {"key": clock.key[living], **columns}
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
            prefers_views = self._setting.rules.grows or name != f"on_{DOWN}"
            first: Any = self._views if prefers_views else self._tree
            getattr(first if hasattr(first, name) else self._tree, name)(events)

        return handle


def static_state(rules: PlumtreeConfig, seed: int, group: np.ndarray, node: np.ndarray) -> Columns:
    """Return views that are drawn for members, which are sorted by group and node (rule Y12).

    The members of a group form drawn rings, each of which gives them two neighbours, and drawn
    pairs if the size of views is odd.  A link that is there already is left out.
    """
    views = np.full((len(node), rules.active), NONE, dtype=np.int64)
    for column in range(0, rules.active, 2):
        order = np.lexsort((draws.bits_np(seed, "ring", column, group, node), group))
        start = run_starts(group)
        size = np.diff(start, append=len(group))
        first, size = np.repeat(start, size), np.repeat(size, size)
        at = np.arange(len(group)) - first
        if column + 1 < rules.active:
            for slot, step in ((column, 1), (column + 1, -1)):
                views[order, slot] = node[order[first + (at + step) % size]]
        else:
            paired = np.flatnonzero(at ^ 1 < size)
            views[order[paired], column] = node[order[(first + (at ^ 1))[paired]]]
    views.sort(axis=1)
    again = (views[:, 1:] == views[:, :-1]) | (views[:, 1:] == node[:, None])
    views[:, 1:][again] = NONE
    views[views == node[:, None]] = NONE
    none = np.zeros(views.shape, dtype=bool)
    passive = np.full((len(node), rules.passive), NONE, dtype=np.int32)
    columns = {"lazy": none, "duplicates": none.astype(np.int16), "passive": passive}
    return {"active": views.astype(np.int32), **columns}
