"""The limits of the times and sizes of publications in a round of a world with a schedule.

Rules: docs/rules.md, W12.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.core.units import MOST_BYTES, canonical
from scribe_spark.rounds.group_events import Publishing


@dataclass(frozen=True)
class RoundTimes:
    """The limits of the times and sizes of publications in each round of a world with a schedule.

    `usual` is the size of publications without a size of their own; `sized` is True if publications
    have sizes.  The publications of a group in a round have at most `turns` turns.
    """

    round_us: int
    usual: int
    sized: bool
    turns: int

    def first_fault(
        self, publishes: np.ndarray, at_us: np.ndarray, size: np.ndarray
    ) -> tuple[int, str] | None:
        """Return the first row with an impossible time or size, and the fault in words.

        NONE: the row has no time or no size.  `publishes` is True for publications.
        """
        has_time, has_size = at_us != NONE, size != NONE
        after = f"at or after the end of its round, which lasts {canonical('time', self.round_us)}"
        faults = (
            (~publishes & has_time, "has a time, but is no publication; leave the cell empty"),
            (~publishes & has_size, "has a size, but is no publication; leave the cell empty"),
            (has_time & (at_us < 0), "has a negative time; must be at least 0"),
            (at_us >= self.round_us, f"has a time {after}; give an earlier time, or a later round"),
            (
                has_size & (not self.sized),
                "has a size; give message_size, too, the size of publications without one",
            ),
            (has_size & (size < 1), "has no size above 0; leave the cell empty"),
            (size > MOST_BYTES, f"has a size above {canonical('size', MOST_BYTES)}; give less"),
        )
        found = [(int(np.argmax(wrong)), words) for wrong, words in faults if wrong.any()]
        return min(found, default=None)

    def timed(self, at_us: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the times and sizes of publications, with those of rows that have none."""
        return np.maximum(at_us, 0), np.where(size == NONE, self.usual, size)

    def too_many(self, publish: Publishing) -> tuple[int, str] | None:
        """Return the first publication with too great a turn, and the fault in words."""
        wrong = np.flatnonzero(publish.turn >= self.turns)
        if not len(wrong):
            return None
        times = f"more than {self.turns:,} different times of publications in a round"
        return int(wrong[0]), f"{times}; give fewer"
