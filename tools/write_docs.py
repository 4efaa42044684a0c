"""Write the generated pages of the documentation.

``python -m tools.write_docs [--paper OUT] [--example OUT] [--world OUT] [--bench FILE ...]
[--check]``

A page has its text, and marks around the parts that are written.  Always: the pages of the
reference.  With ``--paper``: ``docs/results.md``, ``docs/results.csv``.  With ``--example``: the
output of README's example run, and Figure 7.  With ``--world``: the table of ``docs/living.md``.
With ``--bench``: the tables in ``docs/performance.md``.  With ``--check`` nothing is written; a
page that would change is named, and the exit code is 1.
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.tables import OVERLAYS, met, published_numbers
from tools.pages import number, table, with_lines
from tools.reference_pages import reference

ROOT = Path(__file__).resolve().parents[1]

_FIGURE = "figure-07-delay-penalty.svg"


#: Metrics of the network and the groups, which are equal in all experiments.
_OF_ALL_EXPERIMENTS = ("topology.", "groups.", "links.")


def results(metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the parts of ``docs/results.md``: published numbers of the ``metrics.json`` of a paper."""
    most = max(len(row["seeds"]) for row in metrics)
    beside = {("main", row.measure) for row in published_numbers(metrics)}
    rows = [
        row
        for row in metrics
        if row["paper"] is not None
        and row["value"] is not None
        and row["experiment"] != OVERLAYS["arrivals"]
        and (row["experiment"], row["name"]) not in beside
        and (row["experiment"] == "main" or not row["name"].startswith(_OF_ALL_EXPERIMENTS))
        and (row["value"] != row["paper"] or row["std"])
    ]
    cells = (
        [row["experiment"], f"`{row['name']}`", row["unit"], number(row["paper"]), *measured(row)]
        for row in rows
    )
    header = ["experiment", "metric", "unit", "paper", "mean ± std", "difference"]
    topologies = f"{most} {'topology' if most == 1 else 'topologies'} (seeds 1 to {most})"
    parts = {"setting": [_SETTING.format(topologies=topologies)], "others": table(header, cells)}
    overlays = _overlays(metrics)
    return {**parts, "overlays": overlays} if overlays else parts


_SETTING = """\
This page compares the numbers that JSAC 2002 publishes in Section IV with simulated numbers. A simulated number is the mean over {topologies} ± the standard deviation between topologies. *Difference* is relative to the published number; [differences.md](differences.md) names the causes of the differences, as far as they are known; [measures_reference.md](measures_reference.md) defines the metrics. `make docs PAPER=out/paper` writes this page and [results.csv](results.csv), which has all metrics of all experiments."""

_OVERLAYS = """\
{count} published numbers depend on the routing tables, which are [perfect or made by arrivals](concepts.md#pastry). With perfect tables, {perfect} of the simulated numbers are within 10 % of the published numbers; with tables of arrivals, {arrivals} are."""


def results_csv(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return ``docs/results.csv``: every metric of every experiment, over its topologies."""
    lines = io.StringIO()
    names = ["experiment", "metric", "unit", "paper", "least", "mean", "greatest", "std"]
    written = csv.writer(lines, lineterminator="\n")
    written.writerow(names)
    for row in metrics:
        seeds = row["seeds"].values() if isinstance(row["seeds"], Mapping) else row["seeds"]
        values = [value for value in seeds if value is not None]
        if row["value"] is not None:
            of_topologies = [min(values, default=None), row["value"], max(values, default=None)]
            numbers = [row["paper"], *of_topologies, row.get("std")]
            cells = ["" if value is None else f"{value:.9g}" for value in numbers]
            written.writerow([row["experiment"], row["name"], row["unit"], *cells])
    return lines.getvalue()


def _overlays(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the published numbers beside both overlays; nothing for runs over one overlay."""
    numbers = published_numbers(metrics)
    if not numbers:
        return []
    rows = []
    for row in numbers:
        pairs = ((row.shown(side), str(row.apart(side) or "")) for side in row.others)
        rows.append([f"`{row.measure}`", row.shown(0), *(cell for pair in pairs for cell in pair)])
    heads = (head for overlay in OVERLAYS for head in (overlay, "difference"))
    lines = table(["metric", "paper", *heads], rows)
    return [_OVERLAYS.format(count=len(numbers), **met(numbers)), "", *lines]


def example_lines(out: str) -> list[str]:
    """Return the command of README's example run, and the seconds of each phase."""
    manifest = json.loads(Path(out, "manifest.json").read_text("utf-8"))
    seed = manifest["seed"]
    command = f"$ scribe-spark run --config data/paper.toml --seed {seed} --out out/seed{seed}"
    lines = [f"{phase['name']}: done in {phase['seconds']:.1f} s" for phase in manifest["phases"]]
    return ["```", command, *lines, f"out/seed{seed}", "```"]


def world_table(out: str) -> list[str]:
    """Return the cost of the failure of the world of docs/living.md for each system."""
    folder = Path(out, "tables")
    publications = pd.read_parquet(folder / "publications")
    rounds = pd.read_parquet(folder / "rounds")
    counts = ["due", "in_time", "first_copies", "duplicates"]
    sums = publications.groupby(["system", "round"])[counts].sum()
    # rounds whose publications are not due have no share
    shares = (100 * sums["in_time"] / sums["due"]).unstack("system")
    shown = range(2, 6)
    rows = []
    for system in shares:
        last = rounds[(rounds["system"] == system) & (rounds["round"] == shares.index.max())]
        of = last.set_index("measure")["value"]
        total = sums.loc[system].sum()
        cells = [f"{shares.loc[each, system]:.1f} %" for each in shown]
        cells += [number(of[f"{system}.latency.{name}"]) for name in ("p50", "p99")]
        rows.append([system, *cells, number(total["duplicates"] / total["first_copies"])])
    heads = [f"in time, round {each}" for each in shown]
    last_round = "delay in the last round"
    heads += [f"{last_round}, median, ms", f"{last_round}, 99th percentile, ms"]
    heads += ["duplicates per delivery, all rounds"]
    return table(["system", *heads], rows)


def benchmarks(benches: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of benchmarks in ``docs/performance.md``."""
    header = "nodes | groups | engine | Spark master | run, s | calibration, s | run / calibration | memory (RSS), GiB | memory (PSS), GiB | disk, GiB"
    rows: list[list[str]] = []
    more: list[str] = []
    for bench in benches:
        master = bench["config"]["master"]
        for size in bench["sizes"]:
            cells = [f"{size['nodes']:,}", f"{size['groups']:,}", size["engine"], f"`{master}`"]
            cells += [f"{size['seconds']:.0f}", f"{size['calibration']:.2f}"]
            cells.append(f"{size['calibrations']:.1f}")
            peaks = ("peak_rss", "peak_pss", "peak_disk")
            rows.append(cells + [f"{size[peak] / 2**30:.1f}" for peak in peaks])
        if bench["growth_exponent"] is not None:
            sizes = [size["nodes"] for size in bench["sizes"]]
            more += ["", f"From {min(sizes):,} to {max(sizes):,} nodes, the time grows as the number of nodes to the power {bench['growth_exponent']:.2f}."]  # fmt: skip
    return [*table(header, rows), *more]


def measured(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return mean ± std and difference of a metric."""
    std = f" ± {number(row['std'])}" if row.get("std") is not None else ""
    difference = "" if row.get("difference") is None else f"{row['difference']:+.1f} %"
    return number(row["value"]) + std, difference


def pages(
    paper: str | None, benches: Sequence[str], example: str | None = None, world: str | None = None
) -> dict[Path, str]:
    """Return every generated page and its text."""
    parts = reference()
    made = dict[Path, str]()
    if paper is not None:
        metrics = json.loads(Path(paper, "metrics.json").read_text("utf-8"))
        parts["docs/results.md"] = results(metrics)
        made[ROOT / "docs" / "results.csv"] = results_csv(metrics)
    if example is not None:
        parts["README.md"] = {"example": example_lines(example)}
        made[ROOT / "docs" / _FIGURE] = Path(example, "figures", _FIGURE).read_text("utf-8")
    if world is not None:
        parts["docs/living.md"] = {"world": world_table(world)}
    if benches:
        found = [json.loads(Path(bench).read_text("utf-8")) for bench in benches]
        parts["docs/performance.md"] = {"benchmarks": benchmarks(found)}
    for page, of in parts.items():
        text = (ROOT / page).read_text("utf-8")
        for name, lines in of.items():
            text = with_lines(text, name, lines)
        made[ROOT / page] = text
    return made


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages of the documentation.")
    parser.add_argument("--paper", metavar="OUT", help="folder that `make paper` wrote")
    parser.add_argument("--example", metavar="OUT", help="folder that README's example wrote")
    parser.add_argument("--world", metavar="OUT", help="folder that the world of living.md wrote")
    parser.add_argument("--bench", nargs="+", default=[], metavar="FILE", help="of `make bench`")
    parser.add_argument("--check", action="store_true", help="write nothing, name what is old")
    given = parser.parse_args(arguments)
    made = pages(given.paper, given.bench, given.example, given.world)
    old = [p for p, text in made.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in old:
        print(("old: " if given.check else "written: ") + str(path.relative_to(ROOT)))
        if not given.check:
            replace_file(path, made[path].encode())
    return 1 if old and given.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
