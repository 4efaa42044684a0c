"""Ring buffers that rows share, against dictionaries that share nothing."""

import numpy as np
import pytest

from scribe_spark.core.arrays import NONE
from scribe_spark.systems.scribe.memory import AtNodes, SharedRings


@pytest.mark.parametrize("size", range(1, 9))
def test_rings_have_the_names_of_the_last_numbers(size: int) -> None:
    """Most rows write what comes next, some are late, some give a second name."""
    pick, rows, base = np.random.default_rng(size), 12, 0
    rings = SharedRings(size, AtNodes(np.arange(rows), np.arange(rows), np.full(rows, NONE)))
    plain = [dict[int, int]() for _ in range(rows)]
    for _ in range(25):
        base += int(pick.choice([0, 1, 1, 2 * size]))
        to = np.sort(pick.integers(rows, size=pick.integers(2 * rows)))
        number = base + np.where(pick.random(len(to)) < 0.6, 1, pick.integers(4, size=len(to)))
        name = number * 10 + (pick.random(len(to)) < 0.2)
        rings.write(to, number, name)
        for row, one, called in zip(to.tolist(), number.tolist(), name.tolist(), strict=True):
            names = plain[row] | {one: called}
            plain[row] = {one: names[one] for one in names if one > max(names) - size}
        row, number = (part.ravel() for part in np.mgrid[:rows, : base + 5])
        theirs = [plain[at].get(one, NONE) for at, one in zip(row, number.tolist(), strict=True)]
        assert rings.read(row, number).tolist() == theirs


def test_rows_that_write_the_same_share_one_ring() -> None:
    """However many rows there are; and rings that no row has any more are used again."""
    rows = np.arange(10_000)
    rings = SharedRings(8, AtNodes(rows, rows, np.full(len(rows), NONE)))
    for number in range(100):
        rings.write(rows, np.full(len(rows), number), np.full(len(rows), 7))
    assert len(rings.tops) <= 4
