"""Measure the reference tree of Costa and Frey, and write the tables of ``docs/reference_tree.md``.

``python -m tools.reference_tree_results OUT [--only NAME ...] [--page FILE]``

Each experiment is a command of scribe-spark with a folder of its own in OUT; one that is complete
is not run again.  With ``--page`` nothing is run: of what is in OUT, tables are written between two
marks of the page.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tools import pages
from tools.pages import table

_DEGREES = ["--hosts", "120", "--children", "2,3,4,7,15"]
_PASTRY = ["--assignment", "pastry"]
_LARGE = ["--hosts", "", "--scaling", "1000,10000,100000,1000000"]
_ROUTED = ["--hosts", "", "--scaling", "1000,10000,100000", "--connections", "200"]

#: Folder in OUT -> flags of ``scribe-spark reference-tree``.
EXPERIMENTS: dict[str, list[str]] = {
    "paper": [],
    "degrees-pastry": [*_DEGREES, *_PASTRY],
    "scaling-chord": _LARGE,
    "scaling-pastry": [*_ROUTED, *_PASTRY, "--dht", "routed"],
}

#: Of the paper's numbers of hosts, those in the table.
_SHOWN_HOSTS = (10, 120)

MARKS = (
    "<!-- trees: written by `make reference-tree-results` -->\n",
    "<!-- end of trees -->\n",
)


# --- the tables


def tables(out: Path) -> list[str]:
    """The lines between the marks, of the experiments that are there."""
    found = {name: _rows(out / name) for name in EXPERIMENTS if (out / name).exists()}
    lines: list[str] = []
    if "paper" in found:
        lines += _papers(found["paper"])
    if "degrees-pastry" in found:
        lines += _degrees(found["degrees-pastry"])
    scaling = [found[name] for name in ("scaling-chord", "scaling-pastry") if name in found]
    if scaling:
        lines += _scaling(pd.concat(scaling))
    return lines


def _papers(rows: pd.DataFrame) -> list[str]:
    text = [
        "*Figures 3 and 4* (2,000 connections and as many disconnections of each size). *Area*: "
        "means with / without the host that joined or left. *Computing*: hosts that compute their "
        "neighbours anew, at connections / disconnections. *Faults*: events after which the tree "
        "was not the tree computed from nothing.",
        "",
    ]
    header = [
        *("hosts", "degree 1", "degree 2", "degree 3", "more", "area, connections"),
        *("area, disconnections", "computing", "faults"),
    ]
    areas = "3.2-3.6 / 2.2-2.6"
    lines = [["independent check", "39 %", "24-39 %", "21-37 %", "0", areas, areas, "", ""]]
    for hosts, of in rows[rows["hosts"].isin(_SHOWN_HOSTS)].groupby("hosts"):
        cells = [f"{hosts}", *(_share(of, degree) for degree in (1, 2, 3)), _above(of, 3)]
        cells += _areas(of)
        cells.append(" / ".join(f"{_mean(of, f'hosts.{event}'):.2f}" for event in _EVENTS))
        cells.append(str(_faults(of)))
        lines.append(cells)
    return [*text, *table(header, lines), ""]


def _degrees(rows: pd.DataFrame) -> list[str]:
    """Return a sentence about trees of more children: how far degrees exceed their bound."""
    degrees = rows[rows["measure"] == "degree"]
    above = degrees["value"] > degrees["children"] + 1
    settings = [degrees["assignment"], degrees["children"]]
    shares = (degrees["count"] * above).groupby(settings).sum()
    shares /= degrees["count"].groupby(settings).sum()
    return [
        f"*More children* (120 hosts, 256 keys): with up to {rows['children'].max()} children, at "
        f"most {_per_cent(shares.max(), 2)} of the hosts have more neighbours than the bound "
        f"(children + 1); the largest degree is {degrees['value'].max()}. The tree was wrong after "
        f"{_faults(rows)} events.",
        "",
    ]


def _scaling(rows: pd.DataFrame) -> list[str]:
    text = [
        "*Large trees* (binary tree, random 128-bit ids). *Area*: with the host that joined or "
        "left, over all events, mean ± standard error. *Look-ups*: those by which a host finds its "
        "parent and its children.",
        "",
    ]
    header = [
        *("assignment", "N", "degree 1", "degree 2", "degree 3", "more", "depth, mean"),
        *("depth, largest", "log2 N", "area", "events", "faults", "look-ups for the parent"),
        "for children",
    ]
    lines = []
    shown = rows[(rows["assignment"] == "pastry") | (rows["hosts"] == rows["hosts"].max())]
    for (assignment, hosts), of in shown.groupby(["assignment", "hosts"]):
        areas = of[of["measure"].isin([f"area.{event}" for event in _EVENTS])]
        events = int(areas["count"].sum())
        mean = (areas["value"] * areas["count"]).sum() / events
        squares = ((areas["value"] - mean) ** 2 * areas["count"]).sum() / max(events - 1, 1)
        cells = [f"`{assignment}`", f"{hosts:,}", *(_share(of, degree) for degree in (1, 2, 3))]
        cells += [_above(of, 3), f"{_mean(of, 'depth'):.2f}", f"{_largest(of, 'depth')}"]
        cells += [f"{math.log2(hosts):.2f}", f"{mean:.2f} ± {math.sqrt(squares / events):.2f}"]
        cells += [f"{events:,}", str(_faults(of))]
        cells += [f"{_mean(of, f'{purpose}_lookups'):.2f}" for purpose in ("parent", "child")]
        lines.append(cells)
    return [*text, *table(header, lines), ""]


_EVENTS = ("connection", "disconnection")


def _rows(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "tables" / "reference_tree")


def _of(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    return rows[rows["measure"] == measure]


def _mean(rows: pd.DataFrame, measure: str) -> float:
    mine = _of(rows, measure)
    return float((mine["value"] * mine["count"]).sum() / mine["count"].sum())


def _largest(rows: pd.DataFrame, measure: str) -> int:
    return int(_of(rows, measure)["value"].max())


def _share(rows: pd.DataFrame, degree: int) -> str:
    mine = _of(rows, "degree")
    return _per_cent(mine[mine["value"] == degree]["count"].sum() / mine["count"].sum())


def _above(rows: pd.DataFrame, bound: int) -> str:
    mine = _of(rows, "degree")
    above = mine[mine["value"] > bound]["count"].sum()
    return _per_cent(above / mine["count"].sum(), 2) if above else "0"


def _per_cent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _areas(rows: pd.DataFrame) -> list[str]:
    return [
        f"{_mean(rows, f'area.{event}'):.2f} / {_mean(rows, f'area_without.{event}'):.2f}"
        for event in _EVENTS
    ]


def _faults(rows: pd.DataFrame) -> int:
    mine = rows[rows["measure"].str.startswith("faults.")]
    return int((mine["value"] * mine["count"]).sum())


def page(out: Path, file: Path) -> str:
    """The page with the tables of what is in `out` between its marks."""
    return pages.with_lines(file.read_text("utf-8"), MARKS, ["", *tables(out)])


def main(arguments: Sequence[str]) -> None:
    commands = {name: ["reference-tree", *flags] for name, flags in EXPERIMENTS.items()}
    pages.main(arguments, "Measure the reference tree.", commands, page)


if __name__ == "__main__":
    main(sys.argv[1:])
