"""Ring buffers that rows share; what they hold is compared in worlds with reliable delivery."""

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.systems.scribe.memory import AtNodes, SharedRings


def test_rows_that_write_the_same_share_one_ring() -> None:
    """However many rows there are; and rings that no row has any more are used again."""
    rows = np.arange(10_000)
    rings = SharedRings(8, AtNodes(rows, rows, np.full(len(rows), NONE)))
    for number in range(100):
        rings.write(rows, np.full(len(rows), number), np.full(len(rows), 7))
    assert len(rings.tops) <= 4
    assert rings.run(rows[:1], np.array([99]), -1).tolist() == [8]
