"""Columns as bytes and as files, and the names that a view gives to positions and indices."""

from pathlib import Path

import numpy as np
import pytest

from scribe_spark.core.arrays import SortedTable
from scribe_spark.core.errors import InputError
from scribe_spark.engine.on_spark import pack_rows, read_rows
from scribe_spark.engine.packing import (
    Columns,
    Lent,
    Overlaid,
    Packed,
    count_rows,
    overlay,
    pack,
)

ROWS = 80_000


def draw(rng: np.random.Generator, rows: int = ROWS) -> dict[str, np.ndarray]:
    """One column of each kind, of numbers of all sizes."""
    return {
        "key": np.sort(rng.integers(0, 2**62, rows)),
        "round": rng.integers(-1, 100, rows),
        "flag": rng.random(rows) < 0.5,
        "same": np.full(rows, 7),
        "cells": rng.integers(-1, 2**20, (rows, 4)).astype(np.int32),
        "cause": rng.integers(0, 9, rows).astype(np.int8),
        "share": rng.random(rows),
    }


def assert_same(found: Columns, expected: Columns) -> None:
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].dtype == column.dtype


def saved(columns: Columns, folder: Path, before: Packed | None = None):
    (row,) = read_rows(pack_rows(3, 3, True, "table", columns, str(folder), before))
    return row


def files(row) -> list[str]:
    (same,) = row.as_it_was()
    return same.column("file")[0].as_py().splitlines()


@pytest.mark.parametrize("seed", range(20))
def test_tables_that_change_column_by_column(seed, tmp_path):
    """Ten generations: columns are what was written, and no file is needed but those named."""
    rng = np.random.default_rng(seed)
    columns = draw(rng)
    row = saved(columns, tmp_path)
    for _ in range(10):
        columns = dict(columns)
        if rng.random() < 0.2:  # some rows go: all columns are new
            kept = rng.random(len(columns["key"])) < 0.9
            columns = {name: column[kept] for name, column in columns.items()}
        for name in rng.choice(list(columns), rng.integers(0, 3), replace=False):
            other = columns[name].copy()
            other[rng.integers(len(other))] = 1 - other[rng.integers(len(other))]
            columns[name] = other
        row = saved(columns, tmp_path, row.packed)
        for file in set(map(str, tmp_path.iterdir())) - set(files(row)):
            Path(file).unlink()
        assert_same(row.packed, columns)
        assert row.packed.rows == count_rows(columns) == len(columns["key"])
        assert_same(next(read_rows(row.with_bytes())).packed, columns)


def test_only_what_changes_is_written(tmp_path):
    first = saved(draw(np.random.default_rng(1)), tmp_path)
    columns = first.read()
    columns["round"] = columns["round"] + 1
    second = saved(columns, tmp_path, first.packed)
    own, other = files(second)
    assert [other] == files(first)
    assert Path(own).stat().st_size < 1.1 * ROWS
    # one that has not been read is not read for that either
    third = saved(Overlaid(second.packed, {"flag": ~columns["flag"]}), tmp_path, second.packed)
    assert set(files(third)[1:]) == {own, other}
    assert_same(third.packed, {**columns, "flag": ~columns["flag"]})


def test_written_in_place_is_seen(tmp_path):
    """A column that was lent, and written to, is not taken for the one that it came from."""
    first = saved(draw(np.random.default_rng(3)), tmp_path)
    table = SortedTable().borrow(Lent({"key": first.packed["key"]}, writes=True))
    table.key[-1] += 1
    changed = overlay(first.packed, table.read())
    second = saved(changed, tmp_path, first.packed)
    assert second.packed["key"][-1] == first.packed["key"][-1] + 1
    assert_same(second.packed, {**first.read(), "key": table.key})


@pytest.mark.parametrize("bits", [7, 15, 31, 63])
@pytest.mark.parametrize("beyond", [-2, -1, 0, 1])
def test_numbers_at_the_limits_of_types_come_back(bits, beyond):
    limit = 2**bits + beyond
    ends = [max(-limit, -(2**63)), min(limit, 2**63 - 1)]
    for values in (ends, [0, ends[1]], [ends[0], 0]):
        columns = {"number": np.array(values)}
        assert_same(dict(Packed(b"".join(pack(columns)[0]))), columns)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.bool_, np.uint64, np.float64])
@pytest.mark.parametrize("shape", [(100_000,), (100_000, 3)])
def test_a_column_of_equal_rows_takes_the_bytes_of_one(dtype, shape):
    same = np.ones(shape, dtype)
    packed = b"".join(pack({"column": same})[0])
    assert len(packed) < 1000
    back = Packed(packed)["column"]
    assert np.array_equal(back, same)
    assert back.dtype == dtype
    for row in (0, 70_000, -1):
        other = same.copy()
        other[row] = 0
        assert np.array_equal(Packed(b"".join(pack({"column": other})[0]))["column"], other)


@pytest.mark.parametrize(
    ("column", "given"),
    [
        (np.array(["a", "b"], dtype=object), "an array of type object"),
        (np.array([1, None]), "an array of type object"),
        (np.array(["2024-01-01"], "datetime64[D]"), "an array of type datetime64[D]"),
        (np.array([b"a"]), "an array of type |S1"),
        (["a", "b"], "a list"),
        (None, "a NoneType"),
    ],
)
def test_columns_without_bytes_of_their_own_are_refused(column, given):
    with pytest.raises(InputError) as caught:
        pack({"number": np.arange(2), "label": column})
    remedy = "give a numpy array of whole numbers, floats, booleans or strings (astype(str))"
    assert str(caught.value) == f"column label = {given!r}: {remedy}"
