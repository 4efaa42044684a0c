"""The queues at downlinks: arriving bytes are handled first come, first served; rule W5."""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import index_in_run, run_starts


class Downlinks:
    """The downlinks of a bucket."""

    def __init__(self, count: int) -> None:
        self._free = np.zeros(count, dtype=np.int64)

    def take(self, downlink: np.ndarray, at_us: np.ndarray, takes_us: np.ndarray) -> np.ndarray:
        """Return when downlinks have finished copies, in microseconds.

        Downlinks ascend, and the copies of a downlink are in order of arrival, after those of
        earlier calls.  `at_us` is when the first byte arrives, `takes_us` the transmission time.
        """
        starts = run_starts(downlink)
        if not len(starts):
            return at_us
        count = np.diff(starts, append=len(downlink))
        # copy i is done at the maximum over j <= i of (at_us of j + the times of copies j to i)
        total = np.cumsum(takes_us)
        greatest = at_us - (total - takes_us)
        greatest[starts] = np.maximum(
            greatest[starts], self._free[downlink[starts]] - (total - takes_us)[starts]
        )
        rank, step = index_in_run(downlink), 1
        while step < count.max():  # each step doubles the range of j
            row = np.flatnonzero(rank >= step)
            greatest[row] = np.maximum(greatest[row], greatest[row - step])
            step *= 2
        done = greatest + total
        self._free[downlink[starts]] = done[starts + count - 1]
        return done
