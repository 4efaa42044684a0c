"""Publications whole, in parts and coded: the tables and the figure of ``docs/parts.md``.

``python -m tools.parts_results OUT PAGE [SIZE ...]`` runs ``data/parts.toml`` in each form, with each
number of nodes and size of publications that has no complete folder in OUT, and writes the page.
Without numbers of nodes, all that OUT has are on the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import label_of
from tools.pages import Panel, draw, table, with_lines

MARKS = ("<!-- parts: begin -->\n", "<!-- parts: end -->\n")
FIGURE = "figure-parts.svg"

#: The forms of a publication -> the options, and the systems that play them.
FORMS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "whole": (["--parts", "1"], ("scribe", "splitstream", "gossipsub")),
    "16 parts": ([], ("scribe", "splitstream", "gossipsub")),
    "any 16 of 24": (["--code", "reed-solomon:24"], ("scribe", "splitstream", "gossipsub")),
    "16, recoded": (["--code", "rlnc"], ("gossipsub",)),
}
SIZES = ("128KB", "1MB")

#: Head of a column -> the metric, its divisor and its format.
COLUMNS = {
    "delay, median": ("latency.p50", 1, "{:,.0f} ms"),
    "99th percentile": ("latency.p99", 1, "{:,.0f} ms"),
    "of members": ("reached", 0.01, "{:.3g} %"),
    "parts beyond": ("parts.beyond.mean", 1, "{:.1f}"),
    "bytes beyond": ("parts.bytes_beyond.mean", 1000, "{:,.0f} KB"),
}


def play(out: Path, nodes: int) -> None:
    """Run what is missing with a number of nodes."""
    from scribe_spark.cli import main as command

    for size in SIZES:
        for form, (options, systems) in FORMS.items():
            folder = folder_of(out, nodes, size, form)
            if not (folder / "metrics.json").exists():
                given = ["--nodes", str(nodes), "--group-size", str(nodes), "--message-size", size]
                given += ["--systems", ",".join(systems), "--engine", "tasks", *options]
                command(["run", "--config", "data/parts.toml", "--out", str(folder), *given])


def folder_of(out: Path, nodes: int, size: str, form: str) -> Path:
    """Return the folder of a run."""
    return out / f"{nodes}-{size}-{list(FORMS).index(form)}"


def found(out: Path) -> pd.DataFrame:
    """Return the metrics of the runs in OUT: ``nodes, size, form, system`` and :data:`COLUMNS`."""
    rows = []
    known = sorted({int(one.name.partition("-")[0]) for one in out.iterdir()})
    for nodes in known:
        for size in SIZES:
            for form, (_, systems) in FORMS.items():
                file = folder_of(out, nodes, size, form) / "metrics.json"
                if file.exists():
                    values = {row["name"]: row["value"] for row in json.loads(file.read_text())}
                    rows += [
                        {"nodes": nodes, "size": size, "form": form, "system": system}
                        | {name: values.get(f"{system}.{name}") for name, *_ in COLUMNS.values()}
                        for system in systems
                    ]
    return pd.DataFrame(rows)


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the table of each size, with the largest number of nodes."""
    for size in SIZES:
        mine = rows[rows["size"] == size]
        largest = mine["nodes"].max()
        yield from ("", f"{size}, {largest:,} nodes:", "")
        cells = [
            [label_of(row["system"]), row["form"], *map(_cell, [row] * 5, COLUMNS.values())]
            for _, row in mine[mine["nodes"] == largest]
            .sort_values("system", kind="stable")
            .iterrows()
        ]
        yield from table(("system", "publication", *COLUMNS), cells)


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
                    of.set_index("nodes")["latency.p99"].dropna() / 1000,
                    list(FORMS).index(form),
                )
                for form, of in mine.groupby("form", sort=False)
            ]
            axes = {"xscale": "log", "ylim": (0, None)}
            axes |= {} if column else {"ylabel": f"{size}: 99th percentile, s"}
            axes |= {"xlabel": "nodes"} if row else {}
            legend = {"fontsize": 5.5, "loc": "upper left"} if not row and column == 2 else None
            place = 0.08 + 0.31 * column, 0.56 - 0.46 * row, 0.25, 0.36
            panels.append(Panel(place, drawn, axes, "" if row else label_of(system), legend))
            words += [
                f"{label_of(system)}, {size}, {form}: {of.iloc[-1]:.1f} s"
                for form, of, _ in drawn
                if len(of)
            ]
    heading = "Delay of publications whole, in parts and coded"
    draw(file, (7.6, 4.6), panels, heading, "; ".join(words))


def main(arguments: Sequence[str]) -> int:
    """Run what is missing, and write the page."""
    out, page = (Path(one) for one in arguments[:2])
    for nodes in arguments[2:]:
        play(out, int(nodes))
    rows = found(out)
    figure(rows, page.parent / FIGURE)
    replace_file(page, with_lines(page.read_text("utf-8"), MARKS, [*lines(rows), ""]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
