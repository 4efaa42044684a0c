"""Reading a user's table: on the driver, without Spark, so that bad input is refused before any.

What is not on this machine, Spark reads: :mod:`.remote_inputs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from scribe_spark.core.paths import exists, is_local, local_path
from scribe_spark.errors import InputError

__all__ = [
    "Kind",
    "check_columns",
    "exists",
    "first_rows",
    "is_local",
    "last_cause",
    "local_path",
    "read_table",
    "typed",
]

Kind = Literal["int", "float", "str", "optional int"]

#: Beyond this a float no longer tells neighbouring whole numbers apart.
_EXACT = 2.0**53


def read_table(
    path: str, field: str, columns: Mapping[str, Kind], optional: Collection[str] = ()
) -> pd.DataFrame:
    """The named columns of a local CSV (with a header) or Parquet table, checked.

    A Parquet table may be a folder; a file is Parquet when its first bytes say so, whatever its
    name.  Other columns of the table are ignored.

    Parameters
    ----------
    path : str
        A path relative to the working directory, or a ``file:`` URL.
    field : str
        The input's name in error messages, for example ``members``.
    columns : mapping
        Column name -> ``"int"`` (int64), ``"float"`` (float64, finite), ``"str"`` (object) or
        ``"optional int"`` (Int64: cells may be empty).
    optional : collection of str
        Those of `columns` that the table may lack; they are then not in the result.

    Returns
    -------
    DataFrame
        The columns present, in the order of `columns`, rows in the table's order.

    Raises
    ------
    InputError
        Missing or unreadable file, missing column, no row, a value that is missing, not a number or
        text, or not whole.  One line, with the first offending rows (row 1 follows the header).
    """
    if not is_local(path):
        raise InputError(field, path, "is not on this machine; give a local path or a file: URL")
    file = local_path(path)
    if not exists(path, field):
        raise InputError(field, path, "does not exist; give a CSV or Parquet table")
    with _refuse_broken(field, path):
        found = _column_names(file)
    check_columns(found, field, path, columns, optional)
    with _refuse_broken(field, path):
        frame = _read(file, [name for name in columns if name in found])
    return typed(frame, field, path, columns, optional)


def typed(
    frame: pd.DataFrame,
    field: str,
    value: object,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
    empty: bool = False,
) -> pd.DataFrame:
    """`frame` reduced to `columns`, as :func:`read_table` gives them.

    Parameters
    ----------
    field, value
        What an error names: the input and where it came from.
    empty : bool
        Whether no row at all is fine.

    Raises
    ------
    InputError
        As :func:`read_table`.
    """
    check_columns(frame.columns, field, value, columns, optional)
    if len(frame) == 0 and not empty:
        raise InputError(field, value, "has no rows; needs at least one")
    present = {name: kind for name, kind in columns.items() if name in frame.columns}
    return pd.DataFrame(
        {name: _values(frame, name, kind, field, value) for name, kind in present.items()}
    )


def check_columns(
    found: Collection[str],
    field: str,
    value: object,
    columns: Collection[str],
    optional: Collection[str] = (),
) -> None:
    """Refuse a table that lacks one of `columns`, or has one of them twice.

    Raises
    ------
    InputError
    """
    names = [str(name) for name in found]
    listed = ", ".join(names) or "none"
    for name in columns:
        if name not in names and name not in optional:
            remedy = f"has no column {name!r}; needs {', '.join(columns)}; found {listed}"
            raise InputError(field, value, remedy)
        if names.count(name) > 1:
            remedy = f"has the column {name!r} twice; keep one; found {listed}"
            raise InputError(field, value, remedy)


def first_rows(frame: pd.DataFrame, bad: np.ndarray, most: int = 3) -> str:
    """The first rows of `frame` where `bad`, for an error message: ``row 2 (src=0, dst=0)``."""
    rows = np.flatnonzero(bad)
    shown = [
        f"row {row + 1} ({', '.join(f'{c}={_plain(frame[c].iloc[row])}' for c in frame.columns)})"
        for row in rows[:most]
    ]
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return ", ".join(shown) + more


def _values(frame: pd.DataFrame, name: str, kind: Kind, field: str, value: object) -> Any:
    """Column `name` as int64, float64, texts or Int64, or the reason why not."""
    column = frame[name]

    def refuse(bad: np.ndarray, what: str) -> InputError:
        rows = first_rows(frame[[name]], bad)
        return InputError(field, value, f"column {name!r} must be {what}: {rows}")

    if kind == "str":
        texts = column.to_numpy(dtype=object)
        if pd.api.types.infer_dtype(texts, skipna=False) != "string":  # without a loop over cells
            raise refuse(np.array([not isinstance(cell, str) for cell in texts]), "a text")
        return texts
    if kind == "optional int":
        missing = column.isna().to_numpy()
        filled = frame.assign(**{name: column.astype(object).mask(missing, 0)})
        return pd.arrays.IntegerArray(_values(filled, name, "int", field, value), missing)
    numbers = _parsed(column)
    # a nullable type with NULLs goes on as float64, where they are NaN
    if kind == "int" and pd.api.types.is_integer_dtype(numbers.dtype) and not numbers.hasnans:
        too_large = (numbers > np.iinfo(np.int64).max).to_numpy()
        if too_large.any():
            raise refuse(too_large, "below 2^63")
        return numbers.to_numpy(np.int64)
    real = numbers.to_numpy(np.float64, na_value=np.nan)
    not_number = ~np.isfinite(real)
    if not_number.any():
        raise refuse(not_number, "a whole number" if kind == "int" else "a finite number")
    if kind == "float":
        return real
    not_whole = (real != np.floor(real)) | (np.abs(real) > _EXACT)
    if not_whole.any():
        raise refuse(not_whole, "a whole number")
    return real.astype(np.int64)


def _parsed(column: pd.Series) -> pd.Series:
    """Numbers where the cells hold numbers or their text, NaN elsewhere."""
    if isinstance(column.dtype, pd.BooleanDtype) or column.dtype == bool:
        return pd.Series(np.nan, index=column.index)
    if isinstance(column.dtype, pd.CategoricalDtype):  # a Parquet folder's partition column
        column = column.astype(object)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.Series(np.nan, index=column.index)
    truth = column.map(lambda cell: isinstance(cell, bool))
    return pd.to_numeric(column.mask(truth), errors="coerce")


def _plain(cell: object) -> str:
    if cell is None or cell is pd.NA or cell != cell:
        return "missing"
    return repr(cell) if isinstance(cell, str) else str(cell)


def _is_parquet(file: Path) -> bool:
    if file.is_dir():
        return True
    with open(file, "rb") as opened:
        return opened.read(4) == b"PAR1"


def _column_names(file: Path) -> list[str]:
    """As the file has them: pandas would give the second of two equal names another one."""
    if not _is_parquet(file):
        header = pd.read_csv(
            file, header=None, nrows=1, dtype=str, skipinitialspace=True, keep_default_na=False
        )
        return header.iloc[0].tolist()
    if file.is_dir() and not any(file.rglob("*.parquet")):
        raise ValueError("the folder holds no *.parquet file")
    return pq.ParquetDataset(file).schema.names


def _read(file: Path, columns: list[str]) -> pd.DataFrame:
    """A table with at least `columns`."""
    if _is_parquet(file):
        return pq.read_table(file, columns=columns).to_pandas()
    with warnings.catch_warnings():
        # a row longer than the header would otherwise lose its last cells with a warning
        warnings.simplefilter("error", pd.errors.ParserWarning)
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        try:
            return pd.read_csv(file, skipinitialspace=True, index_col=False)
        except pd.errors.ParserWarning:
            raise ValueError("its rows have more cells than its header") from None


@contextmanager
def _refuse_broken(field: str, path: str) -> Iterator[None]:
    """Within it, what a reader says of a file becomes one line."""
    try:
        yield
    except Exception as error:  # each compression, and each library for one, has errors of its own
        remedy = f"cannot be read as a CSV or Parquet table: {last_cause(error)}"
        if isinstance(error, ImportError):  # pandas has said which package a compression takes
            remedy += "; or give it uncompressed"
        raise InputError(field, path, remedy) from None


def last_cause(error: BaseException) -> str:
    """In one line: the last cause of a Java error, or the first line of an error's text."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines[:1])[-1].rstrip(". ")
