"""The table of nodes that ``--nodes-file`` names: a row for each node, in any order.

Columns are ``id`` (0 to N - 1) and, all optional, ``region``, ``up`` and ``down`` (rates; a number
is in Mbit/s, and an empty cell is no rate), ``weight`` (0 or more), ``class``.

References
----------
libp2p/test-plans, pull request 671, "Gossipsub interop custom graph": the network as two CSV files,
one for nodes and one for edges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.errors import InputError, shown
from scribe_spark.core.inputs import Kind, first_rows, read_table
from scribe_spark.core.paths import exists, is_local, local_path
from scribe_spark.core.units import parse_rate

FIELD = "nodes_file"

_COLUMNS: dict[str, Kind] = {
    "id": "int",
    "region": "name",
    "up": "optional quantity",
    "down": "optional quantity",
    "weight": "float",
    "class": "name",
}


@dataclass(frozen=True, eq=False)
class NodesFile:
    """The columns of a user's table of nodes, by the nodes' numbers; None for absent columns."""

    #: N, the number of nodes.
    count: int
    #: The names of regions and classes in alphabetical order, and their index for each node: int64.
    regions: tuple[str, ...] = ()
    region: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    of_class: np.ndarray | None = None
    #: int64, bits per second; 0: the table has no rate of the node.
    up: np.ndarray | None = None
    down: np.ndarray | None = None
    #: float64: weights, not all 0.
    weight: np.ndarray | None = None


def read_nodes(path: str) -> NodesFile:
    """Return a checked table of nodes; errors name the file, the column and the row."""
    if is_local(path) and exists(path, FIELD):
        found = local_path(path).stat()
        return _kept(path, found.st_size, found.st_mtime_ns)
    return _read(path)


def parsed_cells(
    frame: pd.DataFrame,
    name: str,
    read: Callable[[str], Any],
    absent: Any,
    field: str,
    path: str,
) -> np.ndarray:
    """Return the values of texts in a column, by ``read(text)``; `absent` for empty cells.

    ``read(text)`` raises a ValueError that says what would be good.
    """
    texts, of = np.unique(frame[name].fillna("").to_numpy(dtype=str), return_inverse=True)
    values = []
    for text in texts.tolist():
        try:
            values.append(absent if text == "" else read(text))
        except ValueError as error:
            rows = first_rows(frame[[name]], (frame[name] == text).to_numpy())
            raise InputError(field, path, f"column {shown(name)} {error}: {rows}") from None
    return np.array(values)[of]


def _read(path: str) -> NodesFile:
    optional = [name for name in _COLUMNS if name != "id"]
    frame = read_table(path, FIELD, _COLUMNS, optional)
    _check_ids(frame["id"], path)
    if "weight" in frame:
        _check_weights(frame, path)
    rates = {
        name: parsed_cells(frame, name, _rate, 0, FIELD, path)
        for name in ("up", "down")
        if name in frame
    }
    frame = frame.assign(**rates).sort_values("id", ignore_index=True)
    regions, region = _indexed(frame, "region")
    classes, of_class = _indexed(frame, "class")
    columns = {name: frame[name].to_numpy() for name in ("up", "down", "weight") if name in frame}
    return NodesFile(len(frame), regions, region, classes, of_class, **columns)


@functools.lru_cache(maxsize=2)
def _kept(path: str, size: int, changed: int) -> NodesFile:
    return _read(path)


def _rate(text: str) -> int:
    return parse_rate(text, usual="Mbit/s")


def _check_ids(ids: pd.Series, path: str) -> None:
    bad = ((ids < 0) | (ids >= len(ids)) | ids.duplicated()).to_numpy()
    if bad.any():
        remedy = f"column id must have each number from 0 to {len(ids) - 1} once"
        raise InputError(FIELD, path, f"{remedy}: {first_rows(ids.to_frame(), bad)}")


def _check_weights(frame: pd.DataFrame, path: str) -> None:
    negative = (frame["weight"] < 0).to_numpy()
    if negative.any():
        remedy = f"column weight must be at least 0: {first_rows(frame[['weight']], negative)}"
        raise InputError(FIELD, path, remedy)
    if not (frame["weight"] > 0).any():
        raise InputError(FIELD, path, "column weight must not be 0 in all rows")


def _indexed(frame: pd.DataFrame, name: str) -> tuple[tuple[str, ...], np.ndarray | None]:
    """Return the different texts of a column, and the index of each row's text."""
    if name not in frame:
        return (), None
    names, of = np.unique(frame[name].to_numpy(dtype=str), return_inverse=True)
    return tuple(names.tolist()), of.astype(np.int64)
