"""Answers of configs in data/: ``docs/questions.md`` and ``docs/parts.md`` (see ``texts/``).

``docs/parts.md``: ``data/parts.toml`` with publications whole, in parts and coded, of two sizes,
with two numbers of nodes (``make parts NODES=1000``: one); the page has all that are in OUT.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.report.style import label_of
from tools.folders import Folder, Page, page_of
from tools.pages import HEADS, Panel, draw, table

#: Head of a column -> metric.
Columns = dict[str, str]

_TIMES: Columns = {
    "delivered": "reached",
    "time until half of the deliveries": "latency.p50",
    "until 99 %": "latency.p99",
    "until all": "latency.max",
    "duplicates per delivery": "duplicates.mean",
}
_WITHHELD = {head: metric for head, metric in _TIMES.items() if head != "until all"}

#: Config -> the columns of its answers.
COLUMNS: dict[str, Columns] = {
    "aggregators": {
        "within 400 ms": "within_400ms",
        "within 800 ms": "within_800ms",
        "within 800 ms, worst publication": "within_800ms.min",
        "within 1,600 ms": "within_1600ms",
    },
    "stake_quorum": {
        "stake within 1 s": "within_1s.weight",
        "two thirds, median": "quorum.median",
        "99th percentile": "quorum.p99",
        "votes of two thirds, median": "replies.median",
        "99th percentile of votes": "replies.p99",
        "blocks that never get the votes of two thirds": "replies.never",
    },
    **dict.fromkeys(("ethereum_block", "waku", "peerdas"), _TIMES),
}

#: The kinds of `--withhold-kind` -> the experiment; in all systems but the meshes, they are equal.
KINDS = {"payload": "withhold", "all": "withhold-all"}


def question_of(config: Path) -> str:
    """Return the question in the first comment of a config."""
    lines = config.read_text().splitlines()
    first = " ".join(line.removeprefix("# ") for line in lines[: lines.index("")])
    return first.partition("?")[0] + "?"


def _withheld(out: Path) -> list[tuple[str, str, Folder, str]]:
    """Return the systems of which some nodes forward nothing, or announce nothing, either."""
    every = ((kind, Folder(out / name)) for kind, name in KINDS.items())
    rows = [
        (label_of(system), kind, run, system)
        for kind, run in every
        for system in run.systems("duplicates.mean")
    ]
    return sorted(rows, key=lambda row: row[0])


def _answers(run: Folder, system: str, metrics: Iterable[str]) -> Iterator[str]:
    """Yield the cells of some metrics of a system."""
    for metric, value in zip(metrics, run.values(metrics, system), strict=True):
        if value is None:  # duplicates: of trees and IP multicast
            yield "0" if metric.startswith("duplicates") else "never"
        elif metric.startswith(("reached", "within")):
            yield f"{100 * value:.1f} %"
        elif metric.startswith("duplicates"):
            yield f"{value:.2f}"
        else:
            yield f"{value:,.0f}" if metric.endswith("never") else f"{value:,.0f} ms"


QUESTIONS = page_of("questions", globals())

# --- parts

_NODES = (os.environ.get("SCRIBE_NODES") or "2000 10000").split()  # as make exports it
_SIZES = ("128KB", "1MB")
_ALL = ("scribe", "splitstream", "gossipsub")

#: The forms of a publication -> the options, and the systems that play them.
_FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "whole": ("--parts 1", _ALL),
    "16 parts": ("", _ALL),
    "any 16 of 24": ("--code reed-solomon:24", _ALL),
    "16, recoded": ("--code rlnc", ("gossipsub",)),
}

#: SplitStream with all nodes in one group takes more than 10 GiB with 100,000 nodes.
_SPLITSTREAM_MOST = 20_000

#: Head of a column -> the metric, its divisor and its format.
_OF_PARTS = {
    HEADS["latency.p50"]: ("latency.p50", 1, "{:,.0f}"),
    HEADS["latency.p99"]: ("latency.p99", 1, "{:,.0f}"),
    "members reached, %": ("reached", 0.01, "{:.3g}"),
    "parts beyond": ("parts.beyond.mean", 1, "{:.1f}"),
    "KB beyond": ("parts.bytes_beyond.mean", 1000, "{:,.0f}"),
}


def _runs(sizes: Iterable[int]) -> Iterator[tuple[str, int, str, str, list[str], str]]:
    """Yield the folder of each run: nodes, size and form of publications, systems, options."""
    for nodes, size, (number, form) in product(sizes, _SIZES, enumerate(_FORMS)):
        options, every = _FORMS[form]
        systems = [one for one in every if one != "splitstream" or nodes <= _SPLITSTREAM_MOST]
        yield f"{nodes}-{size}-{number}", nodes, size, form, systems, options


def found(out: Path) -> pd.DataFrame:
    """Return the metrics of the runs in OUT: ``nodes, size, form, system`` and those of columns."""
    known = sorted({int(one.name.partition("-")[0]) for one in out.iterdir()})
    rows = [
        {"nodes": nodes, "size": size, "form": form, "system": system}
        | {name: run.value(name, system) for name, *_ in _OF_PARTS.values()}
        for folder, nodes, size, form, systems, _ in _runs(known)
        if (run := Folder(out / folder)).is_complete
        for system in systems
    ]
    return pd.DataFrame(rows)


def _parts(out: Path) -> list[str]:
    """Return the table of each size, with the largest number of nodes of each system."""
    rows, lines = found(out), []
    for size in _SIZES:
        mine = rows[rows["size"] == size]
        largest = mine[mine["nodes"] == mine.groupby("system")["nodes"].transform("max")]
        cells = [
            [label_of(row["system"]), f"{row['nodes']:,}", row["form"]]
            + ["-" if pd.isna(row[name]) else shown.format(row[name] / divisor)
               for name, divisor, shown in _OF_PARTS.values()]
            for _, row in largest.sort_values("system", kind="stable").iterrows()
        ]  # fmt: skip
        lines += [*table(("system", "nodes", "publication", *_OF_PARTS), cells), ""]
    return lines


def _parts_figure(out: Path, folder: Path) -> None:
    """Draw the 99th percentile of the delay by the number of nodes."""
    rows = found(out)
    panels: list[list[Panel]] = []
    known = sorted({*rows["nodes"]})
    ticks = {"xticks": np.log10(known), "xticklabels": [f"{nodes:,}" for nodes in known]}
    for size in _SIZES:
        panels.append([])
        for system in dict.fromkeys(rows["system"]):
            mine = rows[(rows["size"] == size) & (rows["system"] == system)]
            drawn = {
                form: of.set_index(np.log10(of["nodes"]))["latency.p99"].dropna() / 1000
                for form, of in mine.groupby("form", sort=False)
            }
            title = f"{label_of(system)}, {size}"
            axes: dict[str, Any] = {"title": title, "xlabel": "nodes", "ylim": (0, None)}
            axes |= ticks | ({} if panels[-1] else {"ylabel": "99th percentile, s"})
            panels[-1].append(Panel({form: of for form, of in drawn.items() if len(of)}, axes))
    panels[-1][-1] = panels[-1][-1]._replace(legend="center")
    heading = "Delay of publications whole, in parts and coded"
    draw(folder / "figure-parts.svg", heading, panels)


PARTS = Page(
    {
        folder: f"run --config data/parts.toml --nodes {nodes} --group-size {nodes} "
        f"--message-size {size} --engine tasks {options} --systems {','.join(systems)}"
        for folder, nodes, size, _, systems, options in _runs(map(int, _NODES))
    },
    {"parts": ("*/metrics.json", _parts)},
    figures=_parts_figure,
)
