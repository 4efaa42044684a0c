"""Tables as texts with a header, separated by commas, semicolons or tabs.

Lines that begin with ``#`` are comments; blanks around a cell do not belong to it.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

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
    """The header of a table: the names of columns, the separator, and the line itself."""

    names: tuple[str, ...]
    separator: str
    line: str


def without_comments(data: bytes) -> bytes:
    """Return a text without its byte order mark; a comment becomes an empty line."""
    return _NO_ROW.sub(b"", data.removeprefix(_BYTE_ORDER_MARK))


def header_of(data: bytes, wanted: Collection[str]) -> Header:
    """Return the header, by the separator that gives most wanted names, or raise a ValueError."""
    first = _LINE.search(data)
    if first is None:
        raise ValueError("it is empty")
    line = first[0].decode()
    found = [Header(_split(line, separator), separator, line) for separator in _SEPARATORS]
    return max(found, key=lambda one: (len({*wanted} & {*one.names}), len(one.names)))


def read_cells(data: bytes, header: Header, wanted: Collection[str]) -> pa.Table:
    """Return the cells of wanted columns as texts; NULL for empty cells, ``NA`` and ``null``.

    The last columns of a short row are empty; a row with more cells than the header is refused.
    """
    read = _read(data, header, _TEXT)
    return pa.table({name: _trimmed(read[header.names.index(name)]) for name in wanted})


def read_rows(data: bytes, header: Header) -> list[tuple[str, ...]]:
    """Return the cells of all columns by row, by the rules of :func:`read_cells`.

    Cells are texts; an empty cell is an empty text, and ``NA`` is a text.

    Raises
    ------
    ValueError
        A row has more cells than the header, or a quote has no end.
    """
    read = _read(data, header, _TEXT, keep_default_na=False, na_values=[""])
    columns = (_trimmed(read[at]).fill_null("").to_pylist() for at in range(len(header.names)))
    return list(zip(*columns, strict=True))


def read_whole_numbers(data: bytes, header: Header, wanted: Collection[str]) -> pa.Table | None:
    """Return wanted columns quickly if all their cells are digits; otherwise None."""
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


def _trimmed(cells: pd.Series) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(pa.chunked_array(cells.array.__arrow_array__()))


def _read(data: bytes, header: Header, types: object, **more: Any) -> pd.DataFrame:
    """Return all columns by their numbers, as a name may occur twice."""
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
