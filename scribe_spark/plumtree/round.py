"""Plumtree in rounds: each member of a group plays the kernel of the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.clock import FAIL, LEAVE, Kernel
from scribe_spark.engine.packing import Columns
from scribe_spark.plumtree import IROH
from scribe_spark.plumtree.overlay import PlumtreeKernel, PlumtreeSetting, static_state
from scribe_spark.rounds.clocked import ClockedSystem

if TYPE_CHECKING:  # not on executors
    from scribe_spark.plumtree.config import PlumtreeConfig

#: All newcomers after the first one are a wave.
_AT_ONCE = 2.0**40


@dataclass(frozen=True)
class LivePlumtree(ClockedSystem):
    """Plumtree as a system of runs and worlds; `rules` are `Section.for_tasks`."""

    rules: PlumtreeConfig
    kernel: ClassVar[type] = PlumtreeKernel
    state: ClassVar[Mapping[str, str]] = {"active": "active view", "passive": "passive view"}

    @property
    def least_wait_us(self) -> int:  # type: ignore[override]
        """See `ClockedSystem`."""
        rules = self.rules
        waits = [rules.first_wait_us, rules.next_wait_us]
        return min(waits + [rules.request_us] * (rules.membership == IROH))

    @property
    def growth(self) -> float:  # type: ignore[override]
        """See `ClockedSystem`."""
        return self.rules.growth if self.rules.views == "waves" else _AT_ONCE

    @property
    def refresh_us(self) -> int:  # type: ignore[override]
        """See `ClockedSystem`."""
        return round(self.rules.shuffle_seconds * 1_000_000) if self.rules.grows else 0

    @property
    def quits(self) -> str:  # type: ignore[override]
        """See `ClockedSystem`."""
        return LEAVE if self.rules.grows else FAIL

    def kernel_of(self, seed: int, room: np.ndarray) -> partial[Kernel]:
        """See `ClockedSystem.kernel_of`."""
        return partial(PlumtreeKernel, PlumtreeSetting(self.rules, seed, room))

    @property
    def draws_state(self) -> bool:  # type: ignore[override]
        """See `ClockedSystem`."""
        return not self.rules.grows

    def drawn(self, seed: int, group: np.ndarray, node: np.ndarray) -> Columns:
        """See `ClockedSystem.drawn`."""
        return static_state(self.rules, seed, group, node)

    def sums(self, state: Columns) -> dict[str, int]:
        """See `ClockedSystem.sums`."""
        here = state["active"] >= 0
        columns = {"active": here, "eager": here & ~state["lazy"], "passive": state["passive"] >= 0}
        return {name: int(np.count_nonzero(column)) for name, column in columns.items()}
