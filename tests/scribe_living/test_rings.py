"""Ring buffers that rows share, against dictionaries that share nothing."""

from dataclasses import dataclass

import numpy as np
import pytest

from scribe_spark.core.arrays import NONE
from scribe_spark.systems.scribe.memory import SharedRings

ROWS = 12


@dataclass
class Table:
    """Rows whose rings are all empty."""

    ring: np.ndarray


def empty_rings(size: int, rows: int = ROWS) -> SharedRings:
    return SharedRings(size, Table(np.full(rows, NONE)))


class Plain:
    """The names of numbers, by row: those of the last numbers up to the largest so far."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.names: list[dict[int, int]] = [{} for _ in range(ROWS)]

    def write(self, row: int, number: int, name: int) -> None:
        names = self.names[row] | {number: name}
        top = max(names)
        self.names[row] = {one: names[one] for one in names if one > top - self.size}

    def run(self, row: int, number: int, step: int) -> int:
        count = 0
        while number + step * count in self.names[row]:
            count += 1
        return count


def same(rings: SharedRings, plain: Plain, most: int) -> bool:
    rows, numbers = (part.ravel() for part in np.mgrid[:ROWS, : most + 1])
    names = rings.read(rows, numbers).tolist()
    return names == [
        plain.names[row].get(number, NONE)
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
    ]


def written(size: int, seed: int, steps: int = 25) -> tuple[SharedRings, Plain, int]:
    """Most rows write what comes next, some jump, some are late, some give a second name."""
    pick = np.random.default_rng(seed)
    rings, plain, base = empty_rings(size), Plain(size), 0
    for _ in range(steps):
        base += int(pick.choice([0, 1, 1, 1, 2 * size]))
        rows = np.sort(pick.integers(ROWS, size=pick.integers(2 * ROWS)))
        numbers = base + np.where(pick.random(len(rows)) < 0.6, 1, pick.integers(4, size=len(rows)))
        names = numbers * 10 + (pick.random(len(rows)) < 0.2)
        rings.write(rows, numbers, names)
        for one in zip(rows.tolist(), numbers.tolist(), names.tolist(), strict=True):
            plain.write(*one)
        assert same(rings, plain, base + 4)
    return rings, plain, base


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_rings_have_what_dictionaries_have(size: int, seed: int) -> None:
    rings, plain, base = written(size, seed)
    every = np.arange(ROWS)
    for number in range(base + 5):
        for step in (1, -1):
            runs = rings.run(every, np.full(ROWS, number), step).tolist()
            assert runs == [plain.run(row, number, step) for row in range(ROWS)]
    assert rings.top(every).tolist() == [max(names, default=NONE) for names in plain.names]


def test_rows_that_write_the_same_share_one_ring() -> None:
    """However many rows there are; and rings that no row has any more are used again."""
    rows = np.arange(10_000)
    rings = empty_rings(8, len(rows))
    for number in range(100):
        rings.write(rows, np.full(len(rows), number), np.full(len(rows), 7))
    assert len(rings.tops) <= 4
    assert rings.run(rows[:1], np.array([99]), -1).tolist() == [8]
