"""Publications whole, in parts and coded: the tables and the figure of ``docs/parts.md``.

The experiments are ``data/parts.toml`` in each form, with two sizes of publications and two numbers
of nodes (``make parts NODES=1000``: one); the page has all numbers of nodes that are in OUT.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.report.style import label_of
from tools.folders import Folder
from tools.pages import Panel, draw, table
from tools.results import Page, Part

NODES = (os.environ.get("SCRIBE_NODES") or "2000 10000").split()  # as make exports it
FIGURE = "figure-parts.svg"

#: The forms of a publication -> the options, and the systems that play them.
FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "whole": ("--parts 1", ("scribe", "splitstream", "gossipsub")),
    "16 parts": ("", ("scribe", "splitstream", "gossipsub")),
    "any 16 of 24": ("--code reed-solomon:24", ("scribe", "splitstream", "gossipsub")),
    "16, recoded": ("--code rlnc", ("gossipsub",)),
}
SIZES = ("128KB", "1MB")

#: SplitStream with all nodes in one group takes more than 10 GiB with 100,000 nodes.
SPLITSTREAM_MOST = 20_000

#: Head of a column -> the metric, its divisor and its format.
COLUMNS = {
    "delay, median, ms": ("latency.p50", 1, "{:,.0f}"),
    "delay, 99th percentile, ms": ("latency.p99", 1, "{:,.0f}"),
    "members reached, %": ("reached", 0.01, "{:.3g}"),
    "parts beyond": ("parts.beyond.mean", 1, "{:.1f}"),
    "KB beyond": ("parts.bytes_beyond.mean", 1000, "{:,.0f}"),
}


def commands() -> dict[str, str]:
    """Return the command of each run, by the name of its folder."""
    return {
        _folder(nodes, size, form): f"run --config data/parts.toml --nodes {nodes} "
        f"--group-size {nodes} --message-size {size} --engine tasks {options} "
        f"--systems {','.join(_systems(form, int(nodes)))}"
        for nodes in NODES
        for size in SIZES
        for form, (options, _) in FORMS.items()
    }


def _systems(form: str, nodes: int) -> list[str]:
    return [one for one in FORMS[form][1] if one != "splitstream" or nodes <= SPLITSTREAM_MOST]


def _folder(nodes: int | str, size: str, form: str) -> str:
    return f"{nodes}-{size}-{list(FORMS).index(form)}"


def found(out: Path) -> pd.DataFrame:
    """Return the metrics of the runs in OUT: ``nodes, size, form, system`` and :data:`COLUMNS`."""
    known = sorted({int(one.name.partition("-")[0]) for one in out.iterdir()})
    rows = [
        {"nodes": nodes, "size": size, "form": form, "system": system}
        | {name: run.value(name, system) for name, *_ in COLUMNS.values()}
        for nodes in known
        for size in SIZES
        for form in FORMS
        if (run := Folder(out / _folder(nodes, size, form))).is_complete
        for system in _systems(form, nodes)
    ]
    return pd.DataFrame(rows)


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the table of each size, with the largest number of nodes of each system."""
    for size in SIZES:
        mine = rows[rows["size"] == size]
        largest = mine[mine["nodes"] == mine.groupby("system")["nodes"].transform("max")]
        yield from ("", f"Publications of {size}:", "")
        cells = [
            [
                *(label_of(row["system"]), f"{row['nodes']:,}", row["form"]),
                *map(_cell, [row] * len(COLUMNS), COLUMNS.values()),
            ]
            for _, row in largest.sort_values("system", kind="stable").iterrows()
        ]
        yield from table(("system", "nodes", "publication", *COLUMNS), cells)


def _cell(row: pd.Series, column: tuple[str, float, str]) -> str:
    name, divisor, shown = column
    return "-" if pd.isna(row[name]) else shown.format(row[name] / divisor)


def figure(rows: pd.DataFrame, file: Path) -> None:
    """Draw the 99th percentile of the delay by the number of nodes."""
    panels, words = [], []
    systems = list(dict.fromkeys(rows["system"]))
    for row, size in enumerate(SIZES):
        for column, system in enumerate(systems):
            mine = rows[(rows["size"] == size) & (rows["system"] == system)]
            drawn = [
                (
                    form,
                    of.set_index(np.log10(of["nodes"]))["latency.p99"].dropna() / 1000,
                    list(FORMS).index(form),
                )
                for form, of in mine.groupby("form", sort=False)
            ]
            known = sorted({*rows["nodes"]})
            axes = {"ylim": (0, None), "xticks": np.log10(known)}
            axes["xticklabels"] = [f"{nodes:,}" for nodes in known]
            axes |= {} if column else {"ylabel": f"{size}: 99th percentile, s"}
            axes |= {"xlabel": "nodes"} if row else {}
            legend = {"fontsize": 5.5, "loc": "center"} if row and column == 2 else None
            place = 0.08 + 0.31 * column, 0.56 - 0.46 * row, 0.25, 0.36
            panels.append(Panel(place, drawn, axes, "" if row else label_of(system), legend))
            words += [
                f"{label_of(system)}, {size}, {form}: {of.iloc[-1]:.1f} s"
                for form, of, _ in drawn
                if len(of)
            ]
    heading = "Delay of publications whole, in parts and coded"
    draw(file, (7.6, 4.6), panels, heading, "; ".join(words))


PARTS = Page(
    commands(),
    {"parts": Part("*/metrics.json", lambda out: [*lines(found(out)), ""])},
    figures=lambda out, folder: figure(found(out), folder / FIGURE),
)
