"""The reference tree of Costa and Frey: the experiments and the tables of ``docs/reference_tree.md``.

``python -m tools.reference_tree_results OUT [--only NAME ...] [--page FILE]`` writes the tables
between two marks of the page.
"""

from __future__ import annotations

import math
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tools import pages
from tools.pages import Section, table

#: Folder in OUT -> flags of ``scribe-spark reference-tree``.
EXPERIMENTS = {
    "paper": "",
    "degrees-pastry": "--hosts 120 --children 2,3,4,7,15 --assignment pastry",
    "scaling-chord": "--hosts '' --scaling 1000,10000,100000,1000000",
    "scaling-pastry": "--hosts '' --scaling 1000,10000,100000 --connections 200 --assignment pastry "
    "--dht routed",
}

#: Of the paper's numbers of hosts, those in the table.
_SHOWN_HOSTS = (10, 120)

MARKS = (
    "<!-- trees: written by `make reference-tree-results` -->\n",
    "<!-- end of trees -->\n",
)

_EVENTS = ("connection", "disconnection")


class _Rows:
    """Values of measures with their counts."""

    def __init__(self, *tables: pd.DataFrame) -> None:
        self.table = pd.concat(tables)

    @classmethod
    def read(cls, out: Path, names: str) -> _Rows:
        """Read the experiments of some names that are there."""
        there = [out / name / "tables" / "reference_tree" for name in names.split()]
        return cls(*(pd.read_parquet(one) for one in there if one.exists()))

    def of(self, *measures: str) -> pd.DataFrame:
        """Return the rows of some measures."""
        return self.table[self.table["measure"].isin(measures)]

    def mean(self, *measures: str) -> float:
        """Return the mean of some measures together."""
        mine = self.of(*measures)
        return float((mine["value"] * mine["count"]).sum() / mine["count"].sum())

    def degrees(self) -> list[str]:
        """Return the shares of the hosts with 1, 2, 3 and more neighbours."""
        counts = self.of("degree").groupby("value")["count"].sum()
        cells = [f"{100 * counts.get(n, 0) / counts.sum():.1f} %" for n in (1, 2, 3)]
        above = counts[counts.index > 3].sum()
        return [*cells, f"{100 * above / counts.sum():.2f} %" if above else "0"]

    def faults(self) -> int:
        """Return the events after which the tree was wrong."""
        mine = self.of(*(f"faults.{event}" for event in _EVENTS))
        return int((mine["value"] * mine["count"]).sum())


_PAPER_HEADS = "hosts | degree 1 | degree 2 | degree 3 | more | area, connections | area, disconnections | computing | faults"


def _paper(out: Path) -> dict[str, Any]:
    every = _Rows.read(out, "paper").table
    areas = "3.2-3.6 / 2.2-2.6"
    rows = [["independent check", "39 %", "24-39 %", "21-37 %", "0", areas, areas, "", ""]]
    for hosts, some in every[every["hosts"].isin(_SHOWN_HOSTS)].groupby("hosts"):
        of, names = _Rows(some), ("area", "area_without")
        cells = [" / ".join(f"{of.mean(f'{n}.{e}'):.2f}" for n in names) for e in _EVENTS]
        cells += [" / ".join(f"{of.mean(f'hosts.{e}'):.2f}" for e in _EVENTS), f"{of.faults()}"]
        rows.append([f"{hosts}", *of.degrees(), *cells])
    return {"table": table(_PAPER_HEADS.split(" | "), rows)}


def _degrees(out: Path) -> dict[str, Any]:
    """Return how far degrees of trees of more children exceed their bound."""
    rows = _Rows.read(out, "degrees-pastry")
    degrees = rows.of("degree")
    above = degrees["value"] > degrees["children"] + 1
    settings = [degrees["assignment"], degrees["children"]]
    shares = (degrees["count"] * above).groupby(settings).sum()
    shares /= degrees["count"].groupby(settings).sum()
    return {
        **{"most": rows.table["children"].max(), "share": f"{100 * shares.max():.2f}"},
        **{"largest": degrees["value"].max(), "faults": rows.faults()},
    }


_SCALING_HEADS = "assignment | N | degree 1 | degree 2 | degree 3 | more | depth, mean | depth, largest | log2 N | area | events | faults | look-ups for the parent | for children"


def _scaling(out: Path) -> dict[str, Any]:
    every = _Rows.read(out, "scaling-chord scaling-pastry").table
    shown = every[(every["assignment"] == "pastry") | (every["hosts"] == every["hosts"].max())]
    rows, names = [], [f"area.{event}" for event in _EVENTS]
    for (assignment, hosts), some in shown.groupby(["assignment", "hosts"]):
        of = _Rows(some)
        areas, mean, depth = of.of(*names), of.mean(*names), of.of("depth")["value"]
        events = int(areas["count"].sum())
        squares = ((areas["value"] - mean) ** 2 * areas["count"]).sum() / max(events - 1, 1)
        cells = [f"{of.mean('depth'):.2f}", f"{int(depth.max())}", f"{math.log2(hosts):.2f}"]
        cells += [f"{mean:.2f} ± {math.sqrt(squares / events):.2f}", f"{events:,}"]
        cells += [
            f"{of.faults()}",
            *(f"{of.mean(f'{p}_lookups'):.2f}" for p in ("parent", "child")),
        ]
        rows.append([f"`{assignment}`", f"{hosts:,}", *of.degrees(), *cells])
    return {"table": table(_SCALING_HEADS.split(" | "), rows)}


_SECTIONS = (
    Section("paper", """
*Figures 3 and 4* (2,000 connections and as many disconnections of each size). *Area*: means with / without the host that joined or left. *Computing*: hosts that compute their neighbours anew, at connections / disconnections. *Faults*: events after which the tree was not the tree computed from nothing.

{table}
""", _paper),
    Section("degrees-pastry", """
*More children* (120 hosts, 256 keys): with up to {most} children, at most {share} % of the hosts have more neighbours than the bound (children + 1); the largest degree is {largest}. The tree was wrong after {faults} events.
""", _degrees),
    Section("scaling-*", """
*Large trees* (binary tree, random 128-bit ids). *Area*: with the host that joined or left, over all events, mean ± standard error. *Look-ups*: those by which a host finds its parent and its children.

{table}
""", _scaling),
)  # fmt: skip


def page(out: Path, file: Path) -> str:
    """Return the page with the tables of what is in `out` between its marks."""
    return pages.with_lines(file.read_text("utf-8"), MARKS, [pages.sections(out, _SECTIONS)])


_COMMANDS = {n: ["reference-tree", *shlex.split(flags)] for n, flags in EXPERIMENTS.items()}
main = partial(pages.main, "Measure the reference tree.", _COMMANDS, page)

if __name__ == "__main__":
    main(sys.argv[1:])
