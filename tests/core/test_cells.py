"""Cells of a user's table: numbers exactly as they are written, and no type with a unit."""

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from scribe_spark.core.cells import column_of, converted, has_kind, real_number

LARGE = 2**53 + 1

WHOLE = {
    "7": 7, " 7\t": 7, "+7": 7, "-7": -7, "007": 7, "7.0": 7, "7.": 7, "7e0": 7, "1.5e1": 15,
    "-0": 0, "0e999999999": 0, str(LARGE): LARGE, f"{LARGE}.00": LARGE,
    str(2**63 - 1): 2**63 - 1, str(-(2**63)): -(2**63), "1e18": 10**18,
    str(2**63): None, "1e300": None, "1e-999999": None, "7.5": None, "": None, "x": None,
    "1e999999999999999999999": None, "1e-999999999999999999999": None,
    "0x10": None, "1_0": None, "--1": None, "+-1": None, "٣": None, "True": None, "nan": None,
}  # fmt: skip

REAL = {
    "0.5": 0.5, ".5": 0.5, "5.": 5.0, "+1e3": 1000.0, " 2 ": 2.0, "0.1": 0.1,
    "8.41": 8.41, "123456.789012345": 123456.789012345, "1e-400": 0.0,
    "inf": None, "nan": None, "1e999": None, "1d": None, "1,5": None, "": None, "0x1p3": None,
}  # fmt: skip


def chunked(cells, type_=None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells, type_)])


def test_texts():
    assert converted(chunked([*WHOLE]), "int").to_pylist() == [*WHOLE.values()]
    assert converted(chunked([*REAL]), "float").to_pylist() == [*REAL.values()]
    # cells of digits alone go another way than those beside others
    digits = ["5", "-6", None]
    assert converted(chunked(digits), "int").to_pylist() == [5, -6, None]


@pytest.mark.parametrize("text", [*REAL, "1_0", "٣", "1" * 5000, "1" * 300, "Infinity", "x"])
def test_one_cell_is_read_as_a_column_is(text):
    [expected] = converted(chunked([text]), "float").to_pylist()
    found = real_number(text)
    assert found == expected or (expected is None and np.isnan(found))


@pytest.mark.parametrize("value", [10**400, np.inf, np.nan, True, None, [1], {}])
def test_a_value_that_is_no_finite_number(value):
    assert np.isnan(real_number(value))


ARROW = [
    (chunked([LARGE, None], pa.int64()), [LARGE, None]),
    (chunked([2**64 - 1, 5], pa.uint64()), [None, 5]),
    (chunked([5.0, 5.5, None, np.nan]), [5, None, None, None]),
    (chunked([2.0**53, 1 - 2.0**53, -(2.0**53)]), [None, 1 - 2**53, None]),
    (chunked([decimal.Decimal(LARGE), decimal.Decimal(2**63)]), [LARGE, None]),
    (chunked([decimal.Decimal("7.00"), decimal.Decimal("7.50")]), [7, None]),
    (pa.chunked_array([pa.array(["7", "x"]).dictionary_encode()]), [7, None]),
    (chunked([None, None]), [None, None]),
    (pa.chunked_array([[1], [2]]), [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "whole"), ARROW)
def test_whole_numbers_are_exact_or_null(column, whole):
    assert has_kind(column.type, "int")
    assert converted(column, "int").to_pylist() == whole


PANDAS = {
    "beside a float": (pd.Series([LARGE, 0.5], dtype=object), [LARGE, None]),
    "beside a text": (pd.Series([LARGE, "7", "x"], dtype=object), [LARGE, 7, None]),
    "beside None": (pd.Series([LARGE, None], dtype=object), [LARGE, None]),
    "beside NaN": (pd.Series([LARGE, np.nan], dtype=object), [LARGE, None]),
    "nullable": (pd.Series([LARGE, None], dtype="Int64"), [LARGE, None]),
    "Arrow's": (pd.Series([LARGE, None], dtype="int64[pyarrow]"), [LARGE, None]),
    "too large for any": (pd.Series([2**70, 1], dtype=object), [None, 1]),
    "categories": (pd.Series([LARGE, 7], dtype="category"), [LARGE, 7]),
    "what is no number": (
        pd.Series([1, True, 1j, pd.Timedelta(5), pd.Period("2020"), [7]], dtype=object),
        [1, *[None] * 5],
    ),
}


@pytest.mark.parametrize("case", PANDAS)
def test_columns_of_pandas(case):
    column, whole = PANDAS[case]
    assert converted(column_of(column), "int").to_pylist() == whole
