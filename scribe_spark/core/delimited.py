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

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

_SEPARATORS = (",", ";", "\t")

#: A comment or a blank line, without its line break, so that lines keep their numbers.
_NO_ROW = re.compile(rb"(?m)^[ \t]*(?:#[^\r\n]*|(?=\r?$))")

#: The first line that is not blank.
_LINE = re.compile(rb"[^\r\n]*[^\s][^\r\n]*")

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
    """Return the cells of wanted columns as texts; NULL for empty cells."""
    read = _read(data, header, str)
    places = {name: header.names.index(name) for name in wanted}
    texts = {name: pa.array(read[at], pa.string(), from_pandas=True) for name, at in places.items()}
    return pa.table({name: pc.utf8_trim_whitespace(cells) for name, cells in texts.items()})


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


def _read(data: bytes, header: Header, types: object) -> pd.DataFrame:
    """Return all columns by their numbers, as a name may occur twice."""
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
            )
        except pd.errors.ParserWarning:
            raise ValueError("its rows have more cells than its header") from None
