"""Answers of configs in data/: the tables of ``docs/questions.md`` and of ``docs/parts.md``.

``docs/parts.md``: ``data/parts.toml`` with publications whole, in parts and coded, of two sizes,
with two numbers of nodes (``make parts NODES=1000``: one); the page has all that are in OUT.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.report.style import label_of
from tools.folders import Folder
from tools.pages import Page, Panel, draw, table

ROOT = Path(__file__).resolve().parents[1]

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
    "ethereum_block": _TIMES,
    "waku": _TIMES,
    "peerdas": _TIMES,
}

#: The kinds of `--withhold-kind` -> the experiment; in all systems but the meshes, they are equal.
KINDS = {"payload": "withhold", "all": "withhold-all"}
_MESHES = ("gossipsub", "plumtree")

#: Scribe's delivery -> its world.
DELIVERIES = {"best-effort": "withhold-world", "reliable": "withhold-reliable"}
_WORLD = (
    "world --config data/withhold.toml --systems scribe --nodes 2000 --groups 20 "
    "--generator publications --rounds 10 --lookups 0"
)


def question_of(config: Path) -> str:
    """Return the question in the first comment of a config."""
    lines = config.read_text().splitlines()
    first = " ".join(line.removeprefix("# ") for line in lines[: lines.index("")])
    return first.partition("?")[0] + "?"


def _answers(out: Path) -> list[str]:
    """Return the table of each config: its answers by system."""
    lines = []
    for name, columns in COLUMNS.items():
        run = Folder(out / name)
        systems = run.systems(next(iter(columns.values())))
        rows = ([label_of(system), *_cells(run, system, columns.values())] for system in systems)
        lines += [*table(("system", *columns), rows), ""]
    return lines


def _withheld(out: Path) -> list[str]:
    """Return what systems deliver if some nodes forward nothing, or announce nothing, either."""
    rows = []
    for kind, name in KINDS.items():
        run = Folder(out / name)
        for system in run.systems("duplicates.mean"):
            cells = _cells(run, system, _WITHHELD.values())
            rows.append([label_of(system), f"`{kind}`", *cells])
    rows.sort(key=lambda row: row[0])
    return table(("system", "`--withhold-kind`", *_WITHHELD), rows)


def _delivered(out: Path) -> list[str]:
    """Return what Scribe delivers in worlds in which some nodes forward nothing."""
    rows = []
    for delivery, name in DELIVERIES.items():
        sums = Folder(out / name).told[["in_time", "late", "lost", "due"]].sum()
        shares = (f"{100 * sums[what] / sums['due']:.1f} %" for what in ("in_time", "late", "lost"))
        rows.append([f"`{delivery}`", *shares])
    return table(("Scribe's `--delivery`", "in time", "late", "lost"), rows)


def _cells(run: Folder, system: str, metrics: Iterable[str]) -> list[str]:
    return [_cell(metric, run.value(metric, system)) for metric in metrics]


def _cell(metric: str, value: float | None) -> str:
    if value is None:
        return "0" if metric.startswith("duplicates") else "never"  # of trees and IP multicast
    if metric.startswith(("reached", "within")):
        return f"{100 * value:.1f} %"
    if metric.startswith("duplicates"):
        return f"{value:.2f}"
    return f"{value:,.0f}" if metric.endswith("never") else f"{value:,.0f} ms"


QUESTIONS = Page(
    {
        **{name: f"run --config data/{name}.toml" for name in COLUMNS},
        "withhold": "run --config data/withhold.toml",
        "withhold-all": "run --config data/withhold.toml --withhold-kind all "
        f"--systems {','.join(_MESHES)}",
        **{name: f"{_WORLD} --delivery {delivery}" for delivery, name in DELIVERIES.items()},
    },
    {
        "answers": ("stake_quorum/metrics.json", _answers),
        "withheld": ("withhold-all/metrics.json", _withheld),
        "delivered": ("withhold-reliable/tables/rounds", _delivered),
    },
)

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
    "delay, median, ms": ("latency.p50", 1, "{:,.0f}"),
    "delay, 99th percentile, ms": ("latency.p99", 1, "{:,.0f}"),
    "members reached, %": ("reached", 0.01, "{:.3g}"),
    "parts beyond": ("parts.beyond.mean", 1, "{:.1f}"),
    "KB beyond": ("parts.bytes_beyond.mean", 1000, "{:,.0f}"),
}


def _playing(form: str, nodes: int) -> list[str]:
    return [one for one in _FORMS[form][1] if one != "splitstream" or nodes <= _SPLITSTREAM_MOST]


def _folder(nodes: int | str, size: str, form: str) -> str:
    return f"{nodes}-{size}-{list(_FORMS).index(form)}"


def found(out: Path) -> pd.DataFrame:
    """Return the metrics of the runs in OUT: ``nodes, size, form, system`` and those of columns."""
    known = sorted({int(one.name.partition("-")[0]) for one in out.iterdir()})
    rows = [
        {"nodes": nodes, "size": size, "form": form, "system": system}
        | {name: run.value(name, system) for name, *_ in _OF_PARTS.values()}
        for nodes in known
        for size in _SIZES
        for form in _FORMS
        if (run := Folder(out / _folder(nodes, size, form))).is_complete
        for system in _playing(form, nodes)
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
        _folder(nodes, size, form): f"run --config data/parts.toml --nodes {nodes} "
        f"--group-size {nodes} --message-size {size} --engine tasks {options} "
        f"--systems {','.join(_playing(form, int(nodes)))}"
        for nodes in _NODES
        for size in _SIZES
        for form, (options, _) in _FORMS.items()
    },
    {"parts": ("*/metrics.json", _parts)},
    figures=_parts_figure,
)
