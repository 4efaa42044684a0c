"""The lines and cells of a user's table; whole numbers, numbers or texts, NULL for other kinds.

Columns are Arrow's, which has a type for every unit: a type with a unit (durations, timestamps) or
several parts (complex numbers, lists) is refused.  Integers are never converted to floats.  Tables
of texts have a header, and commas, semicolons or tabs between cells; lines that begin with ``#``
are comments, and blanks around a cell do not belong to it.
"""

from __future__ import annotations

import csv
import decimal
import io
import math
import numbers
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

#: The kinds of cells: cells of an ``optional`` kind may be empty; a ``name`` and a ``quantity`` are
#: texts or numbers, and are returned as texts.
Kind = Literal["int", "float", "str", "name", "optional int", "quantity", "optional quantity"]

#: The kinds whose cells are returned as texts.
TEXTS: tuple[Kind, ...] = ("str", "name", "quantity", "optional quantity")

#: Kind -> the description of its cells for messages, and the type that they are converted to.
KINDS: dict[Kind, tuple[str, pa.DataType]] = {
    "int": ("a whole number", pa.int64()),
    "optional int": ("a whole number", pa.int64()),
    "float": ("a finite number", pa.float64()),
    "str": ("a text", pa.string()),
    "name": ("a name or a number", pa.string()),
    "quantity": ("a number, with or without a unit", pa.string()),
    "optional quantity": ("a number, with or without a unit", pa.string()),
}

#: From this number on, neighbouring whole numbers may be equal as floats.
EXACT = 2**53

_LEAST, _MOST = -(2**63), 2**63 - 1

#: A number in a text, for Arrow's matcher and for Python's; ASCII digits, without underscores.
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

#: A whole number in a text: its sign and digits, without zeros after a point.
_WHOLE = r"^(?:\+|(-))?([0-9]+)(?:\.0*)?$"

#: Whole numbers that surely fit into 64 bits.
_SHORT = r"^-?[0-9]{1,18}$"

#: Characters of the longest number that is read.
_LONGEST = 1_000


def has_kind(type_: pa.DataType, kind: Kind) -> bool:
    """Return True if cells of an Arrow type can have values of a `kind`, such as numbers."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_null(type_) or _is_text(type_):
        return True
    types = pa.types
    is_number = types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_)
    return is_number and kind != "str"


def converted(column: pa.ChunkedArray, kind: Kind) -> pa.Array:
    """Return a column's cells as numbers or texts of a `kind`; NULL for others."""
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_null(cells.type):
        return cells.cast(KINDS[kind][1])
    if kind in TEXTS:
        return cells.cast(pa.string())
    return _numbers(cells) if kind == "float" else _whole_numbers(cells)


def real_number(cell: object) -> float:
    """Return the number in a cell (a text or a number) by the rules of columns, NaN without one."""
    if isinstance(cell, str):
        cell = cell.strip()
        is_number = re.fullmatch(_NUMBER[1:-1], cell) is not None
    else:
        is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
    try:
        number = float(cell) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:  # a whole number above all floats
        return math.nan
    return number if math.isfinite(number) else math.nan


def column_of(cells: pd.Series) -> pa.ChunkedArray:
    """Return a column of a pandas frame in an Arrow type; cells of mixed types become texts."""
    is_mixed = pd.api.types.infer_dtype(cells, skipna=True).startswith("mixed")
    try:
        column = None if is_mixed else pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):
        if cells.dtype != object:
            raise TypeError(str(cells.dtype)) from None
        column = None
    if column is None:
        column = pa.array([_text_of(cell) for cell in cells], pa.string())
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _text_of(cell: Any) -> str | None:
    """Return a number or a text exactly as a text; for anything else, a word that is no number."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    if isinstance(cell, numbers.Integral) and not isinstance(cell, bool | np.bool_):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        return None if np.isnan(cell) else repr(float(cell))
    return str(cell) if isinstance(cell, str | decimal.Decimal) else f"({type(cell).__name__})"


def _is_text(type_: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)


# --- numbers


def _numbers(cells: pa.Array) -> pa.Array:
    if _is_text(cells.type):
        texts = _trimmed(cells)
        texts = _where(texts, pc.match_substring_regex(texts, _NUMBER))
        cells = pc.replace_substring_regex(texts, r"^\+", "")
    reals = cells.cast(pa.float64(), safe=False)
    return _where(reals, pc.is_finite(reals))


def _whole_numbers(cells: pa.Array) -> pa.Array:
    if pa.types.is_integer(cells.type):
        if pa.types.is_uint64(cells.type):
            cells = _where(cells, pc.less_equal(cells, pa.scalar(_MOST, pa.uint64())))
        return cells.cast(pa.int64())
    if pa.types.is_floating(cells.type):
        reals = cells.cast(pa.float64())
        whole = pc.and_(pc.equal(reals, pc.floor(reals)), pc.less(pc.abs(reals), float(EXACT)))
        return _where(reals, whole).cast(pa.int64())
    return _whole_numbers_of_texts(cells.cast(pa.string()))


def _whole_numbers_of_texts(cells: pa.Array) -> pa.Array:
    """Return the whole numbers of texts such as ``7``, ``7.0`` and ``7e0``, exactly."""
    texts = _trimmed(cells)
    digits, short = texts, pc.match_substring_regex(texts, _SHORT)
    if not pc.all(short, min_count=0).as_py():  # rare and slower
        digits = pc.replace_substring_regex(texts, _WHOLE, r"\1\2")
        short = pc.match_substring_regex(digits, _SHORT)
    short = pc.fill_null(short, False)
    found = _where(digits, short).cast(pa.int64())
    rest = np.flatnonzero(pc.and_(pc.invert(short), pc.is_valid(texts)).to_numpy(False))
    if not len(rest):
        return found
    whole = [_whole_number(text) for text in texts.take(pa.array(rest)).to_pylist()]
    mask = np.zeros(len(found), dtype=bool)
    mask[rest] = True
    return pc.replace_with_mask(found, pa.array(mask), pa.array(whole, pa.int64()))


def _whole_number(text: str) -> int | None:
    if len(text) > _LONGEST or not re.fullmatch(_NUMBER[1:-1], text):
        return None
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:  # its exponent has 18 digits or more
        return None
    if not number:
        return 0
    if number.adjusted() > len(str(_MOST)) or number != (value := int(number)):
        return None
    return value if _LEAST <= value <= _MOST else None


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(texts.cast(pa.string()))


def _where(cells: pa.Array, good: pa.Array) -> pa.Array:
    """Return the cells of a column, with NULL where the mask `good` is False."""
    return pc.if_else(good, cells, pa.scalar(None, cells.type))


_SEPARATORS = (",", ";", "\t")

#: The greatest number of columns; each takes some time, however few rows there are.
_MOST_COLUMNS = 10_000

#: A comment or a blank line, without its line break, so that lines keep their numbers.
_NO_ROW = re.compile(rb"(?m)^[ \t]*(?:#[^\r\n]*|(?=\r?$))")

#: The first line that is not blank.
_LINE = re.compile(rb"[^\r\n]*[^\s][^\r\n]*")

#: The words of pandas about a row with too many cells.
_LONG_ROW = re.compile(r"Expected \d+ fields in line (\d+), saw \d+")

#: Texts with a small part of the memory of Python's.
_TEXT = pd.ArrowDtype(pa.string())

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Header:
    """The header of a table: the names of columns, and the separator."""

    names: tuple[str, ...]
    separator: str


def without_comments(data: bytes) -> bytes:
    """Return a text without its byte order mark; a comment becomes an empty line."""
    return _NO_ROW.sub(b"", data.removeprefix(_BYTE_ORDER_MARK))


def header_of(data: bytes, wanted: Collection[str]) -> Header:
    """Return the first line of a text, split by the separator that gives most `wanted` names."""
    first = _LINE.search(data)
    if first is None:
        raise ValueError("it is empty")
    line = first[0].decode()
    found = [Header(_split(line, separator), separator) for separator in _SEPARATORS]
    return max(found, key=lambda one: (len({*wanted} & {*one.names}), len(one.names)))


def read_cells(data: bytes, header: Header, wanted: Collection[str]) -> pa.Table:
    """Return the cells of `wanted` columns as texts; NULL for empty ones, ``NA`` and ``null``."""
    read = _read(data, header, _TEXT)
    return pa.table({name: _trimmed_line(read[header.names.index(name)]) for name in wanted})


def read_rows(data: bytes, header: Header) -> list[tuple[str, ...]]:
    """Return the cells of all columns as texts, row by row; an empty cell is an empty text."""
    read = _read(data, header, _TEXT, keep_default_na=False, na_values=[""])
    columns = (_trimmed_line(read[at]).fill_null("").to_pylist() for at in range(len(header.names)))
    return list(zip(*columns, strict=True))


def read_whole_numbers(data: bytes, header: Header, wanted: Collection[str]) -> pa.Table | None:
    """Return the columns in `wanted` if all their cells are digits, which is quick; else None."""
    places = {name: header.names.index(name) for name in wanted}
    try:
        read = _read(data, header, dict.fromkeys(places.values(), "int64"))
    except (ValueError, OverflowError):
        return None
    return pa.table({name: pa.array(read[place]) for name, place in places.items()})


def _split(line: str, separator: str) -> tuple[str, ...]:
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    except csv.Error:  # a cell has more than 100,000 characters, so it is no name
        cells = [line]
    return tuple(cell.strip() for cell in cells)


def _trimmed_line(cells: pd.Series) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(pa.chunked_array(cells.array.__arrow_array__()))


def _read(data: bytes, header: Header, types: object, **more: Any) -> pd.DataFrame:
    """Return the columns of a text in CSV, named 0, 1, ..., as its header may repeat names."""
    if len(header.names) > _MOST_COLUMNS:
        raise ValueError(f"it has more than {_MOST_COLUMNS:,} columns")
    with warnings.catch_warnings():
        # a row longer than the header would otherwise lose its last cells with a warning
        warnings.simplefilter("error", pd.errors.ParserWarning)
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # inf in a column of whole numbers
        try:
            return pd.read_csv(
                io.BytesIO(data),
                sep=header.separator,
                header=0,
                names=range(len(header.names)),
                index_col=False,
                dtype=types,
                skipinitialspace=True,
                **more,
            )
        except pd.errors.ParserWarning:
            raise ValueError("its rows have more cells than its header") from None
        except pd.errors.ParserError as error:
            if (row := _LONG_ROW.search(str(error))) is None:
                raise
            raise ValueError(f"line {row[1]} has more cells than its header") from None
