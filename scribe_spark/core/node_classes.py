"""The class of each node, by its number, and the settings of the classes.

The class of a node is drawn by the classes' shares, keyed by the seed and the node's number only,
or it is in the nodes file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.errors import InputError, listed, shown
from scribe_spark.core.nodes_file import FIELD, NodesFile, read_nodes
from scribe_spark.core.units import parse_rate, parse_time

_UNSAID = -1
_FIELDS = ("up", "down", "validation", "degree", "custody")


class NodeRates(NamedTuple):
    """The rates of nodes in bits per second (0: unlimited), and their times of validation (us)."""

    up: np.ndarray
    down: np.ndarray
    validation_us: np.ndarray


@dataclass(frozen=True)
class NodeClasses:
    """The classes of a config, for tasks without pydantic: names, shares and settings.

    `said` has for each field the value of each class in base units, -1 for none.
    """

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
        """Return the value of a field for each node: that of its class, else `default`: int64.

        A field is one of :attr:`said`; `nodes` are numbers of nodes.
        """
        usual = np.broadcast_to(np.asarray(default, dtype=np.int64), nodes.shape)
        if not self.says(field):
            return usual.copy()
        said = np.array(self.said[field], dtype=np.int64)[self.of_nodes(nodes)]
        return np.where(said == _UNSAID, usual, said)

    def rates(
        self, nodes: np.ndarray, up: Any = 0, down: Any = 0, validation_us: Any = 0
    ) -> NodeRates:
        """Return the rates and validation times of nodes by number.

        A node whose class has no such setting gets `up`, `down` (bit/s) and `validation_us`.
        """
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
    """Return the index of the share into which each random number (uint64) falls: int64.

    Examples
    --------
    >>> share_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), (0.25, 0.25, 0.5)).tolist()
    [0, 2, 2]
    """
    bounds = np.cumsum(np.asarray(shares, dtype=np.float64))[:-1]
    return np.searchsorted(bounds, (bits >> np.uint64(11)) * 2.0**-53, side="right")
