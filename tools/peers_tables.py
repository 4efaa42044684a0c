"""The outputs of the runs of Scribe's peers, as the sections of ``docs/peers.md`` read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.dataset as ds

from scribe_spark.core.arrays import depths, numbered

__all__ = ["LENGTHS", "Peer", "edge_lengths", "share", "tree_shape"]

#: What an experiment has besides its tables: how long edges of trees are.
LENGTHS = "edge_lengths.json"


@dataclass(frozen=True)
class Peer:
    """A run with one system beside Scribe."""

    folder: Path
    system: str

    @property
    def is_there(self) -> bool:
        """True if the run, or the world, was played to its end."""
        ends = ("metrics.json", "tables/publications")
        return any((self.folder / end).exists() for end in ends)

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in json.loads((self.folder / "metrics.json").read_text())}

    def value(self, metric: str, system: str | None = None) -> float | None:
        """Return a metric of the system, or of another one of the run."""
        return self.number(f"{system or self.system}.{metric}")

    def number(self, name: str) -> float | None:
        """Return a number of the run by its whole name."""
        return self._rows.get(name, {}).get("value")

    @property
    def clock(self) -> str:
        """The clock by which copies arrive."""
        found = {row["clock"] for n, row in self._rows.items() if n.startswith(f"{self.system}.")}
        return ", ".join(sorted(filter(None, found)))

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the run."""
        return json.loads((self.folder / "manifest.json").read_text())

    @property
    def seconds(self) -> float:
        """The seconds of all phases."""
        return sum(phase["seconds"] for phase in self.manifest["phases"])

    def table(self, name: str, columns: Sequence[str], system: str | None = None) -> pd.DataFrame:
        """Return some columns of a table, of one system where rows are of systems."""
        rows = ds.dataset(self.folder / "tables" / name)
        mine = None if "system" not in rows.schema.names else pc.field("system") == (
            system or self.system
        )  # fmt: skip
        return rows.to_table(columns=list(columns), filter=mine).to_pandas()

    def lengths(self, system: str) -> dict[str, float]:
        """Return ``first`` and ``last``: see :func:`edge_lengths`."""
        return json.loads((self.folder / LENGTHS).read_text())[system]


@dataclass(frozen=True)
class TreeShape:
    """Edges of trees: how deep their lower ends are, and which of these have children."""

    depth: np.ndarray
    is_inner: np.ndarray


def tree_shape(edges: pd.DataFrame) -> TreeShape:
    """Return the shape of trees."""
    group = np.r_[edges["group"], edges["group"]]
    number = numbered(group, np.r_[edges["parent"], edges["child"]])
    upper, lower = np.split(number, 2)
    above = np.full(number.max(initial=-1) + 1, -1)
    above[lower] = upper
    inner = np.zeros(len(above), dtype=bool)
    inner[upper] = True
    return TreeShape(depths(above)[lower], inner[lower])


def edge_lengths(edges: pd.DataFrame, delay_us: np.ndarray) -> dict[str, float]:
    """Return mean delays D in ms: of the edges at the roots, and of those to the leaves."""
    shape = tree_shape(edges)
    deep = shape.depth > 1  # an edge from a root to a leaf is both

    def mean(some: np.ndarray) -> float:
        return float(delay_us[some].mean() / 1000) if some.any() else float("nan")

    return {
        "first": mean((shape.depth == 1) & shape.is_inner),
        "last": mean(deep & ~shape.is_inner),
    }


def share(part: float, of_all: float) -> str:
    """Return a share in per cent; what is rounded to 100 % can be told from it.

    Examples
    --------
    >>> share(1, 3), share(3, 3), share(99_999, 100_000)
    ('33.3 %', '100 %', '99.999 %')
    """
    if not of_all:
        return "-"
    text = f"{100 * part / of_all:.3g}"
    return f"{text} %" if text != "100" or part == of_all else f"{100 * part / of_all:.6g} %"
