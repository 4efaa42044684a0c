"""Section IV of the paper: every experiment over every topology, and a page about all of them.

The points of this sweep are the runs: each (experiment, seed) is a run in
``OUT/<experiment>/seed=<seed>/``, resumed like any run; the experiments of a seed share its routes.
The summary is made from their `metrics.json` and `distributions`, and is written to OUT.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.config import Execution, Paper, RunConfig
from scribe_spark.experiments.checks import check_out, refuse_buckets
from scribe_spark.experiments.manifest import MANIFEST, PAPER, inside, run_folder
from scribe_spark.experiments.plan import Plan, non_default, plan_run, settings_of
from scribe_spark.experiments.reporting import DELAYS
from scribe_spark.experiments.steps import Work
from scribe_spark.experiments.sweep import play_inside
from scribe_spark.measures.published import PublishedNumber, published
from scribe_spark.report.comparison import (
    average_deviations,
    difference,
    mean_distributions,
    over_seeds,
)
from scribe_spark.report.run import render


class _Measured(NamedTuple):
    """Metrics, distributions and delays of the runs of one experiment, by seed."""

    metrics: dict[int, list[dict[str, Any]]]
    distributions: dict[int, pd.DataFrame]
    delays: dict[int, pd.DataFrame]


@dataclass(frozen=True)
class PaperSweep:
    """The experiments of the paper as a plan of points (`sweep.PlanOfPoints`): its runs."""

    paper: Paper

    @cached_property
    def _runs(self) -> dict[str, tuple[str, RunConfig]]:
        """The experiment and the config of each run, by folder in OUT, seed by seed."""
        runs = [(name, one) for of in self.paper.runs().values() for name, one in of.items()]
        return {run_folder(name, config.seed): (name, config) for name, config in runs}

    @property
    def configs(self) -> dict[str, RunConfig]:
        """The config of each run, by folder in OUT."""
        return {folder: config for folder, (_, config) in self._runs.items()}

    def plan(self, execution: Execution) -> Plan:
        """Return a plan that continues with other seeds and experiments, too."""
        experiments = {
            name: non_default(config.flat(), RunConfig(seed=config.seed).flat())
            for name, config in self.paper.runs()[1].items()
        }
        return Plan(
            PAPER,
            execution,
            *settings_of(self.paper),
            about={"experiments": experiments},
            done={"runs": []},
            free=("seeds", "experiments"),
        )

    def check(self, execution: Execution) -> None:
        """Refuse buckets, and a run in OUT that cannot be continued."""
        refuse_buckets(execution)
        if not execution.overwrite:
            for folder, config in self.configs.items():
                check_out(plan_run(config, inside(execution, folder)))

    def play_points(self, work: Work, execution: Execution) -> dict[str, _Measured]:
        spark, runs = work.folder.spark, self._runs
        titles = {place: f"{name}, seed {config.seed}" for place, (name, config) in runs.items()}
        work.save(self.plan(execution).new_manifest(spark))
        measured = {name: _Measured({}, {}, {}) for name in self.paper.experiments}
        for place, done in play_inside(
            *(spark, self.configs, execution, work.progress),
            lambda number, place: f"{titles[place]}: run {number} of {len(runs)}",
        ):
            name, config = runs[place]
            of, seed, phases = measured[name], config.seed, done.read_json(MANIFEST)["phases"]
            of.metrics[seed] = done.read_json("metrics.json")
            of.distributions[seed] = done.read_table("distributions").toPandas()
            of.delays[seed] = done.read_table("group_delay").select(*DELAYS).toPandas()
            entry = {
                "name": titles[place],
                "seconds": round(sum(phase["seconds"] for phase in phases), 3),
                "rows": sum(phase["rows"] for phase in phases),
            }
            work.save({**work.manifest, "runs": [*work.manifest["runs"], entry]})
        return measured

    def write(self, work: Work, results: Mapping[str, _Measured]) -> tuple[str, DataFrame]:
        """Write ``metrics.json``, the table `metrics`, the figures and the page."""
        with work.progress.phase("paper"):
            return _write(self.paper, work, results), work.folder.read_table("metrics")


# --- the summary


def _write(paper: Paper, work: Work, measured: Mapping[str, _Measured]) -> str:
    """Write what all experiments have measured into OUT; return the location of the page."""
    drawn = _drawn(measured)
    known = {name: published(config) for name, config in paper.runs()[1].items()}
    metrics = [row for name, of in measured.items() for row in _rows(name, of, known[name])]
    tidy = [
        (name, seed, row["name"], None if row["value"] is None else float(row["value"]))
        for name, of in measured.items()
        for seed, rows in of.metrics.items()
        for row in rows
    ]
    table = pd.DataFrame(tidy, columns=schemas.METRICS.names)
    manifest = {
        **work.manifest,
        "tables": work.write_tables({"metrics": table}),
        "texts": {"metrics.json": work.write_json("metrics.json", metrics)},
    }
    summary = {
        **manifest,
        "resolved": {**manifest["resolved"], **manifest["experiments"]},
        "phases": manifest["runs"],
    }
    first = next(iter(measured.values()))  # its delay penalties are drawn
    distributions = pd.concat(map(mean_distributions, drawn.values()))
    delays = pd.concat(first.delays.values())
    page = render(metrics, summary, distributions, delays=delays, tables=("metrics",))
    location = work.folder.write_page(page)
    work.save(manifest)
    return location


def _drawn(measured: Mapping[str, _Measured]) -> dict[str, list[pd.DataFrame]]:
    """Return each experiment's distributions, only for figures that no earlier experiment has."""
    drawn, taken = {}, set[str]()
    for name, of in measured.items():
        tables = list(of.distributions.values())
        mine = {figure for table in tables for figure in table["figure"]} - taken
        drawn[name] = [table[table["figure"].isin(mine)] for table in tables]
        taken |= mine
    return drawn


def _rows(
    name: str, of: _Measured, known: Mapping[str, PublishedNumber]
) -> Iterator[dict[str, Any]]:
    """Return an experiment's rows of `metrics.json`, with the differences in per cent."""
    tables = list(of.distributions.values())
    for row in (*over_seeds(of.metrics), *average_deviations(tables, known)):
        apart = difference(row["value"], row["paper"])
        yield {"experiment": name, **row, "difference": apart and apart.percent}
