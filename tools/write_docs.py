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
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.tables import OVERLAYS, met, published_numbers
from tools.pages import ROOT, number, table, with_lines
from tools.reference_pages import reference

_FIGURE = "figure-07-delay-penalty.svg"

_SETTING = """\
This page compares the numbers that JSAC 2002 publishes in Section IV with simulated numbers. A simulated number is the mean over {topologies} ± the standard deviation between topologies. *Difference* is relative to the published number; [differences.md](differences.md) names the causes of the differences, as far as they are known; [measures_reference.md](measures_reference.md) defines the metrics. `make docs PAPER=out/paper` writes this page and [results.csv](results.csv), which has all metrics of all experiments."""

_OVERLAYS = """\
{count} published numbers depend on the routing tables, which are [perfect or made by arrivals](concepts.md#pastry). With perfect tables, {perfect} of the simulated numbers are within 10 % of the published numbers; with tables of arrivals, {arrivals} are."""

#: Metrics of the network and the groups, which are equal in all experiments.
_OF_ALL_EXPERIMENTS = ("topology.", "groups.", "links.")

Rows = Sequence[Mapping[str, Any]]


def results(metrics: Rows) -> dict[str, list[str]]:
    """Return the parts of ``docs/results.md``: published numbers of the ``metrics.json`` of a paper."""
    most = max(len(row["seeds"]) for row in metrics)
    both = published_numbers(metrics)
    beside = {("main", row.measure) for row in both}
    cells = [
        [row["experiment"], f"`{row['name']}`", row["unit"], number(row["paper"]), *measured(row)]
        for row in metrics
        if row["paper"] is not None
        and row["value"] is not None
        and row["experiment"] != OVERLAYS["arrivals"]
        and (row["experiment"], row["name"]) not in beside
        and (row["experiment"] == "main" or not row["name"].startswith(_OF_ALL_EXPERIMENTS))
        and (row["value"] != row["paper"] or row["std"])
    ]
    topologies = f"{most} {'topology' if most == 1 else 'topologies'} (seeds 1 to {most})"
    others = table("experiment | metric | unit | paper | mean ± std | difference", cells)
    parts = {"setting": [_SETTING.format(topologies=topologies)], "others": others}
    if both:  # the published numbers beside both overlays
        rows = []
        for row in both:
            pairs = ((row.shown(side), str(row.apart(side) or "")) for side in row.others)
            rows.append(
                [f"`{row.measure}`", row.shown(0), *(cell for two in pairs for cell in two)]
            )
        heads = (head for overlay in OVERLAYS for head in (overlay, "difference"))
        words = _OVERLAYS.format(count=len(both), **met(both))
        parts["overlays"] = [words, "", *table(["metric", "paper", *heads], rows)]
    return parts


def measured(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return mean ± std and difference of a metric."""
    std = f" ± {number(row['std'])}" if row.get("std") is not None else ""
    difference = "" if row.get("difference") is None else f"{row['difference']:+.1f} %"
    return number(row["value"]) + std, difference


def results_csv(metrics: Rows) -> str:
    """Return ``docs/results.csv``: every metric of every experiment, over its topologies."""
    rows = []
    for row in (row for row in metrics if row["value"] is not None):
        seeds = row["seeds"].values() if isinstance(row["seeds"], Mapping) else row["seeds"]
        values = [value for value in seeds if value is not None]
        ends = min(values, default=None), row["value"], max(values, default=None)
        rows.append([row["experiment"], row["name"], row["unit"], row["paper"], *ends, row.get("std")])  # fmt: skip
    numbers = ["paper", "least", "mean", "greatest", "std"]
    every = pd.DataFrame(rows, columns=["experiment", "metric", "unit", *numbers])
    every[numbers] = every[numbers].astype(float)
    return every.to_csv(index=False, float_format="%.9g", lineterminator="\n")


def example_lines(out: str) -> list[str]:
    """Return the command of README's example run, and the seconds of each phase."""
    manifest = json.loads(Path(out, "manifest.json").read_text("utf-8"))
    seed = manifest["seed"]
    command = f"$ scribe-spark run --config data/paper.toml --seed {seed} --out out/seed{seed}"
    lines = [f"{phase['name']}: done in {phase['seconds']:.1f} s" for phase in manifest["phases"]]
    return ["```", command, *lines, f"out/seed{seed}", "```"]


_WORLD = "system | in time, round 2 | in time, round 3 | in time, round 4 | in time, round 5 | delay in the last round, median, ms | delay in the last round, 99th percentile, ms | duplicates per delivery, all rounds"


def world_table(out: str) -> list[str]:
    """Return the cost of the failure of the world of docs/living.md for each system."""
    publications, rounds = (pd.read_parquet(f"{out}/tables/{n}") for n in ("publications", "rounds"))  # fmt: skip
    values = rounds.set_index(["round", "measure"])["value"]
    rows = []
    for system, of in publications.groupby("system"):
        sums = of.groupby("round")[["due", "in_time", "first_copies", "duplicates"]].sum()
        shares, total = 100 * sums["in_time"] / sums["due"], sums.sum()
        delays = (values[sums.index.max(), f"{system}.latency.{name}"] for name in ("p50", "p99"))
        numbers = [*delays, total["duplicates"] / total["first_copies"]]
        rows.append([system, *(f"{shares[n]:.1f} %" for n in range(2, 6)), *map(number, numbers)])
    return table(_WORLD, rows)


_BENCHMARKS = "nodes | groups | engine | Spark master | run, s | calibration, s | run / calibration | memory (RSS), GiB | memory (PSS), GiB | disk, GiB"
_BENCHMARK = "{nodes:,} | {groups:,} | {engine} | `{master}` | {seconds:.0f} | {calibration:.2f} | {calibrations:.1f}"


def benchmarks(benches: Rows) -> list[str]:
    """Return the table of benchmarks in ``docs/performance.md``."""
    rows: list[list[str]] = []
    more: list[str] = []
    for bench in benches:
        for size in bench["sizes"]:
            cells = _BENCHMARK.format(**size, master=bench["config"]["master"]).split(" | ")
            peaks = ("peak_rss", "peak_pss", "peak_disk")
            rows.append(cells + [f"{size[peak] / 2**30:.1f}" for peak in peaks])
        if bench["growth_exponent"] is not None:
            sizes = [size["nodes"] for size in bench["sizes"]]
            more += ["", f"From {min(sizes):,} to {max(sizes):,} nodes, the time grows as the number of nodes to the power {bench['growth_exponent']:.2f}."]  # fmt: skip
    return [*table(_BENCHMARKS, rows), *more]


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
