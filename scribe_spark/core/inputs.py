"""Reading of a user's table on the driver, without Spark, so that bad input is refused early.

:mod:`.remote_inputs` reads tables of other machines with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from scribe_spark.core import paths
from scribe_spark.core.cells import (
    EXACT,
    KINDS,
    TEXTS,
    Kind,
    column_of,
    converted,
    has_kind,
    header_of,
    read_cells,
    read_whole_numbers,
    without_comments,
)
from scribe_spark.core.errors import InputError, in_series, in_words, listed, shown
from scribe_spark.core.paths import exists, is_local, local_path

#: The greatest table that is read on the driver.
MOST_ROWS = 100_000_000

#: The greatest number of files of a Parquet table.
_MOST_FILES = 100_000

#: A cell that looks like a number; messages show it without quotes.
_NUMBER = re.compile(r"[-+]?[0-9.]{1,40}(?:[eE][-+]?[0-9]{1,9})?")


def read_table(
    path: str, field: str, columns: Mapping[str, Kind], optional: Collection[str] = ()
) -> pd.DataFrame:
    """Return the named columns of a local table (a text with a header, or Parquet) after checks.

    Cells of a text are separated by commas, semicolons or tabs; lines that begin with ``#`` are
    comments.  A Parquet table may be a folder; the first bytes of a file decide, not its name.
    Other columns of the table are ignored; those in `optional` may be missing.

    The result has int64, float64 (finite), texts, or Int64 for an ``optional int``, whose cells may
    be empty.  An error names the table as `field`, and the first bad rows (row 1 follows the
    header).
    """
    if not is_local(path):
        raise InputError(field, path, "is not on this machine; give a local path or a file: URL")
    file = local_path(path)
    if not exists(path, field):
        raise InputError(field, path, "does not exist; give a CSV or Parquet table")
    with _refuse_broken(field, path):
        if _is_parquet(file):
            table = _read_parquet(file, field, path, columns, optional)
        else:
            table = read_text(paths.read_packed(file), field, path, columns, optional)
    return typed(table, field, path, columns)


def read_text(
    data: bytes,
    field: str,
    value: object,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
) -> pa.Table:
    """Return some columns of a text in CSV, by name, without checks of their cells."""
    _check_rows(data.count(b"\n"))
    data = without_comments(data)
    header = header_of(data, columns)
    check_columns(header.names, field, value, columns, optional)
    present = [name for name in columns if name in header.names]
    table = None
    if all(columns[name] == "int" for name in present):
        table = read_whole_numbers(data, header, present)
    return read_cells(data, header, present) if table is None else table


def typed(
    frame: pd.DataFrame | pa.Table,
    field: str,
    value: object,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
    empty: bool = False,
) -> pd.DataFrame:
    """Return the named columns of a frame, checked, in the types of :func:`read_table`."""
    if isinstance(frame, pa.Table):
        names, get = frame.column_names, frame.column
    else:
        names, get = [*frame.columns], lambda name: column_of(frame[name])
        check_columns(names, field, value, columns, optional)
    if len(frame) == 0 and not empty:
        raise InputError(field, value, "has no rows; needs at least one")
    found = {}
    for name, kind in columns.items():
        if name in names:
            try:
                cells = get(name)
            except TypeError as error:
                raise _wrong_type(name, kind, str(error), field, value) from None
            check_types({name: cells.type}, columns, field, value)
            found[name] = _values(cells, name, kind, field, value)
    return pd.DataFrame(found)


def check_columns(
    found: Collection[str],
    field: str,
    value: object,
    columns: Collection[str],
    optional: Collection[str] = (),
) -> None:
    """Refuse a table that lacks one of `columns`, or has one of them twice."""
    names = [str(name) for name in found]
    may = [name for name in columns if name in optional]
    needs = listed(name for name in columns if name not in optional)
    needs += f" ({listed(may)} may be left out)" if may else ""
    for name in columns:
        if name not in names and name not in optional:
            remedy = f"has no column {shown(name)}; needs {needs}; found {listed(names)}"
            raise InputError(field, value, remedy)
        if names.count(name) > 1:
            remedy = f"has the column {shown(name)} twice; keep one; found {listed(names)}"
            raise InputError(field, value, remedy)


def check_types(
    types: Mapping[str, pa.DataType], columns: Mapping[str, Kind], field: str, value: object
) -> None:
    """Refuse a column whose type has a unit (a duration, a time) or parts (a list, a struct)."""
    for name, type_ in types.items():
        if not has_kind(type_, columns[name]):
            raise _wrong_type(name, columns[name], str(type_), field, value)


def check_each_node(node: np.ndarray, nodes: int, field: str, path: str) -> None:
    """Refuse a table that has not exactly one row for each of the nodes 0 to `nodes` - 1."""
    outside = np.flatnonzero((node < 0) | (node >= nodes))
    if len(outside):
        what = f"row node={node[outside[0]]} names no node"
    elif ((times := np.bincount(node, minlength=nodes)) > 1).any():
        what = f"node={times.argmax()} occurs twice"
    elif (times == 0).any():
        what = f"node={times.argmin()} is left out"
    else:
        return
    raise InputError(field, path, f"{what}; give one row for each node, 0 to {nodes - 1}")


def first_rows(frame: pd.DataFrame, bad: np.ndarray, most: int = 3) -> str:
    """Return the first bad rows of `frame` for a message: ``row 2 (src=0, dst=0)``."""
    return _in_words(bad, lambda row: {name: frame[name].iloc[row] for name in frame}, most)


def _in_words(bad: np.ndarray, cells: Callable[[int], Mapping[Any, Any]], most: int = 3) -> str:
    rows = np.flatnonzero(bad)
    some = []
    for row in rows[:most]:
        told = [f"{name}={_plain(cell)}" for name, cell in cells(row).items()]
        some.append(f"row {row + 1} ({in_series(told, len(told))})")
    return in_series(some, len(rows))


def _values(cells: pa.ChunkedArray, name: str, kind: Kind, field: str, value: object) -> Any:
    """Return the values of a user's column: int64, float64, texts, or Int64 for optional cells."""
    found = converted(cells, kind)
    missing = found.is_null().to_numpy(zero_copy_only=False)
    bad = missing
    if kind.startswith("optional"):
        bad = missing & cells.is_valid().to_numpy()
    if bad.any():
        rows = _in_words(bad, lambda row: {name: cells[row].as_py()})
        what = _demand(cells, bad, kind)
        raise InputError(field, value, f"column {shown(name)} must be {what}: {rows}")
    if kind in TEXTS:
        return found.to_numpy(zero_copy_only=False)
    if kind == "optional int":
        return pd.arrays.IntegerArray(found.fill_null(0).to_numpy(zero_copy_only=False), missing)
    return found.to_numpy(zero_copy_only=False)


def _demand(cells: pa.ChunkedArray, bad: np.ndarray, kind: Kind) -> str:
    """Return the end of an error message that says what the first bad cell must be."""
    words, type_ = KINDS[kind]
    if type_ == pa.int64():
        number = abs(converted(cells.slice(int(np.argmax(bad)), 1), "float")[0].as_py() or 0)
        if number >= EXACT and pa.types.is_floating(cells.type):
            return f"below 2^53 in a column of type {cells.type}, which has no larger ones exactly"
        if number >= 2**63:
            return "below 2^63"
    return words


def _wrong_type(name: str, kind: Kind, type_: str, field: str, value: object) -> InputError:
    remedy = f"column {shown(name)} must be {KINDS[kind][0]}, but its type is {type_}; convert it"
    return InputError(field, value, remedy)


def _plain(cell: object) -> str:
    if cell is None or cell is pd.NA or cell != cell:
        return "missing"
    is_text = isinstance(cell, str) and not _NUMBER.fullmatch(cell)
    return shown(cell) if is_text else in_words(str(cell))


# --- files


def _is_parquet(file: Path) -> bool:
    if file.is_dir():
        return True
    with paths.open_file(file) as opened:
        return opened.read(4) == b"PAR1"


def _read_parquet(
    file: Path, field: str, path: str, columns: Mapping[str, Kind], optional: Collection[str]
) -> pa.Table:
    """Return some columns of a Parquet file or folder; a pandas index counts as a column."""
    dataset = _dataset(file)
    schema = dataset.schema
    index = {} if file.is_dir() else _counted_index(schema)
    check_columns([*schema.names, *index], field, path, columns, optional)
    table = dataset.read([name for name in columns if name in schema.names])
    for name in index.keys() & columns.keys():
        if len(numbers := range(*index[name])) != _rows_of(dataset):
            raise ValueError(f"its index {shown(name)} has another number of rows than its columns")
        table = table.append_column(name, pa.array(np.asarray(numbers)))
    return table


def read_parquet(file: Path) -> pa.Table:
    """Return a Parquet table of bounded size: a file, or a folder of files."""
    return _dataset(file).read()


def _dataset(file: Path) -> pq.ParquetDataset:
    """Open a Parquet table; raise a ValueError or an OSError if it is too large."""
    if file.is_dir():
        _check_folder(file)
    dataset = pq.ParquetDataset(file)
    _check_rows(_rows_of(dataset))
    return dataset


def _rows_of(dataset: pq.ParquetDataset) -> int:
    return sum(fragment.metadata.num_rows for fragment in dataset.fragments)


def _check_folder(folder: Path) -> None:
    """Refuse a folder as a Parquet table if it has no files, too many files, or pipes."""
    files = list(islice(folder.rglob("*"), _MOST_FILES + 1))
    if len(files) > _MOST_FILES:
        raise ValueError(f"the folder holds more than {_MOST_FILES:,} files")
    if not any(file.suffix == ".parquet" for file in files):
        raise ValueError("the folder holds no *.parquet file")
    for file in files:
        try:
            paths.check_regular(file)
        except paths.UnfitFileError as error:
            raise paths.UnfitFileError(f"{shown(file.name)} {error}") from None


def _check_rows(rows: int) -> None:
    if rows > MOST_ROWS:
        raise ValueError(f"it has more than {MOST_ROWS:,} rows; give fewer")


def _counted_index(schema: pa.Schema) -> dict[str, tuple[int, int, int]]:
    """Return the name and the range of a pandas index that exists only in the file's metadata."""
    metadata = schema.pandas_metadata or {}
    return {
        index["name"]: (index["start"], index["stop"], index["step"])
        for index in metadata.get("index_columns", [])
        if isinstance(index, dict) and index.get("name") not in (None, *schema.names)
    }


@contextmanager
def _refuse_broken(field: str, path: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each compression, and each library, has its own errors
        remedy = f"cannot be read as a CSV or Parquet table: {last_cause(error)}"
        if isinstance(error, ImportError):  # pandas names the package that a compression needs
            remedy += "; or give it uncompressed"
        raise InputError(field, path, remedy) from None


def last_cause(error: BaseException) -> str:
    """Return the last cause of an error of Java or of a task in one line, or its first line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if "Traceback (most recent call last):" in lines:  # the error of a task
        causes = [lines[-1].partition("Error: ")[2] or lines[-1]]
    return in_words((causes or lines[:1])[-1].rstrip(". "))
