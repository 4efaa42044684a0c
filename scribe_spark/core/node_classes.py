"""The nodes file (``--nodes-file``), and the class of each node with the settings of the classes.

The nodes file has a row for each node, in any order.  Columns are ``id`` (0 to N - 1) and, all
optional, ``region``, ``up`` and ``down`` (rates; a number is in Mbit/s, and an empty cell is no
rate), ``weight`` (0 or more), ``class``.

The class of a node is in the nodes file, or it is drawn by the classes' shares, keyed by the seed
and the node's number only.

References
----------
libp2p/test-plans, pull request 671, "Gossipsub interop custom graph": the network as two CSV files,
one for nodes and one for edges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from scribe_spark.core import draws
from scribe_spark.core.errors import InputError, listed, shown
from scribe_spark.core.inputs import Kind, first_rows, read_table
from scribe_spark.core.paths import exists, is_local, local_path
from scribe_spark.core.units import parse_rate, parse_time

# --- the nodes file


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
    frame: pd.DataFrame, name: str, read: Callable[[str], Any], absent: Any, field: str, path: str
) -> np.ndarray:
    """Return ``read(text)`` of a column's texts, `absent` of empty ones; refuse ValueErrors."""
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


# --- classes


_UNSAID = -1
_FIELDS = ("up", "down", "validation", "degree", "custody")


class NodeRates(NamedTuple):
    """The rates of nodes in bits per second (0: unlimited), and their times of validation (us)."""

    up: np.ndarray
    down: np.ndarray
    validation_us: np.ndarray


@dataclass(frozen=True)
class NodeClasses:
    """The classes of a config, for tasks without pydantic; -1 in `said` is no setting."""

    seed: int
    names: tuple[str, ...]
    shares: tuple[float, ...]
    said: dict[str, tuple[int, ...]]
    #: The index of each node's class, if the nodes file has the classes; else classes are drawn.
    given: np.ndarray | None = None

    @classmethod
    def of(cls, config: Any) -> Self:
        """Return the classes of nodes in the config of a run or a world."""
        classes, path = config.classes, config.topology.nodes_file
        table = None if path is None else read_nodes(path)
        if table is not None and table.of_class is not None and not classes:
            return cls(config.seed, table.classes, (), dict.fromkeys(_FIELDS, ()), table.of_class)

        def said(field: str, read: Any = int) -> tuple[int, ...]:
            values = (getattr(one, field) for one in classes)
            return tuple(_UNSAID if value is None else read(value) for value in values)

        return cls(
            config.seed,
            tuple(one.name for one in classes),
            tuple(one.share for one in classes),
            {
                "up": said("up", parse_rate),
                "down": said("down", parse_rate),
                "validation": said("validation", parse_time),
                "degree": said("degree"),
                "custody": said("custody"),
            },
            None if table is None else _classes_of(table, [one.name for one in classes], path),
        )

    def of_nodes(self, nodes: np.ndarray) -> np.ndarray:
        """Return the index of the class of each node, by number: int64; 0 without classes."""
        if self.given is not None:
            return self.given[nodes]
        return share_of(draws.bits_np(self.seed, "class", nodes), self.shares)

    def says(self, field: str) -> bool:
        """Return True if a class sets the field (a name as in :meth:`values`)."""
        return any(value != _UNSAID for value in self.said[field])

    def values(self, field: str, nodes: np.ndarray, default: Any) -> np.ndarray:
        """Return a field of :attr:`said` for each node: of its class, else `default`: int64."""
        usual = np.broadcast_to(np.asarray(default, dtype=np.int64), nodes.shape)
        if not self.says(field):
            return usual.copy()
        said = np.array(self.said[field], dtype=np.int64)[self.of_nodes(nodes)]
        return np.where(said == _UNSAID, usual, said)

    def rates(
        self, nodes: np.ndarray, up: Any = 0, down: Any = 0, validation_us: Any = 0
    ) -> NodeRates:
        """Return the rates (bit/s) and validation times; arguments: of nodes without classes."""
        return NodeRates(
            self.values("up", nodes, up),
            self.values("down", nodes, down),
            self.values("validation", nodes, validation_us),
        )


def _classes_of(table: NodesFile, names: list[str], path: str) -> np.ndarray | None:
    """Return the index in `names` of each node's class in a nodes file; None without classes."""
    if table.of_class is None:
        return None
    for index, name in enumerate(table.classes):
        if name not in names:
            node = int(np.argmax(table.of_class == index))
            remedy = f"column class: {shown(name)} of node {node} is not one of the classes"
            raise InputError(FIELD, path, f"{remedy}; give some of {listed(names)}")
    at = np.array([names.index(name) for name in table.classes], dtype=np.int64)
    return at[table.of_class]


def share_of(bits: np.ndarray, shares: tuple[float, ...] | np.ndarray) -> np.ndarray:
    """Return the index of the share into which each random number (uint64) falls: int64."""
    bounds = np.cumsum(np.asarray(shares, dtype=np.float64))[:-1]
    return np.searchsorted(bounds, (bits >> np.uint64(11)) * 2.0**-53, side="right")
