"""The registry of measures, and the numbers of a run (`metrics.json`) that they produce.

A new measure is a file that defines a :class:`~scribe_spark.measures.measure.Measure`, and an entry
in :data:`_MEASURES`.  Outside of the package, call :func:`register_measure`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import shown
from scribe_spark.core.registry import Registry
from scribe_spark.measures.copies import CONTROL, DUPLICATES, MESH_LINKS, PARTS, STATE
from scribe_spark.measures.coverage import COVERAGE
from scribe_spark.measures.delay import DELAY
from scribe_spark.measures.distributions import distributions, read_histograms
from scribe_spark.measures.joins_and_failures import FAILURES, JOINING
from scribe_spark.measures.latency import LATENCY_MEASURE
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables, Size
from scribe_spark.measures.message_bytes import BYTES
from scribe_spark.measures.overlay import CONVERGENCE, GROUP_SIZE, NETWORK, OVERLAY
from scribe_spark.measures.parts import TREES
from scribe_spark.measures.published import PublishedNumber
from scribe_spark.measures.stress import LINK_STRESS, NODE_STRESS
from scribe_spark.runtime.users_code import analysed
from scribe_spark.systems.registry import System, all_systems, clock_in_words, find_system

#: All measures, in the order of their metrics in `metrics.json`.
_MEASURES: Registry[Measure] = Registry(
    "measure",
    *(NETWORK, GROUP_SIZE, OVERLAY, CONVERGENCE, DELAY, NODE_STRESS, LINK_STRESS, JOINING),
    *(DUPLICATES, PARTS, STATE, MESH_LINKS, CONTROL, FAILURES, LATENCY_MEASURE, COVERAGE, BYTES),
    TREES,
)


def register_measure(measure: Measure) -> Measure:
    """Add a measure to all later runs of this process.

    Raises
    ------
    ValueError
        The package has a measure of that name, or another measure has a metric or distribution of
        the same name.
    """
    for other in _MEASURES.values():
        if other.name == measure.name:
            continue
        names = {m.name for m in other.metrics} & {m.name for m in measure.metrics}
        names |= {d.measure for d in other.distributions} & {
            d.measure for d in measure.distributions
        }
        if names:
            raise ValueError(
                f"{shown(min(names))} belongs to the measure {shown(other.name)} already"
            )
    return _MEASURES.register(measure)


#: Remove a user's measure, see `Registry.unregister`.
unregister_measure = _MEASURES.unregister


def all_measures() -> tuple[Measure, ...]:
    """Return all measures, in the order of metrics."""
    return tuple(_MEASURES.values())


def _measures_of(config: RunConfig | None) -> Iterator[Measure]:
    """Yield the measures that a config has; all measures without a config."""
    for measure in _MEASURES.values():
        if config is None or measure.used_when is None or measure.used_when(config):
            yield measure


def measure_distributions(run: RunTables, replaced: Mapping[str, str]) -> pd.DataFrame:
    """Return the histograms behind the figures: `schemas.DISTRIBUTIONS`."""

    def figure_of(figure: str, measure: str, system: str) -> str:
        return _figure(figure, measure, find_system(system), replaced)

    return distributions(run, _measures_of(run.config), figure_of)


def collect(run: RunTables, early: bool) -> dict[str, Any]:
    """Run the step `collect` of measures that are `early` or not; return the results by name."""
    found = {}
    for measure in _measures_of(run.config):
        if measure.collect is not None and measure.early == early:
            with analysed("measure", measure.name):
                found[measure.name] = measure.collect(run)
    return found


def find(run: RunTables, collected: Mapping[str, Any], spread: pd.DataFrame) -> Found:
    """Return the data from which metrics are computed: sizes, histograms, collected results."""
    network = collected[NETWORK.name]
    size = Size(run.nodes, network["routers"], network["core_links"])
    return Found(size, run.b, read_histograms(spread), collected)


def metric_rows(
    found: Found,
    systems: tuple[System, ...],
    published: Mapping[str, PublishedNumber],
    replaced: Mapping[str, str],
    config: RunConfig | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of `metrics.json`; the clock is None for metrics of the run."""
    rows = []
    for metric, system in _metrics_of(systems, config):
        name = metric.name if system is None else metric.name_of(system)
        value = metric.value(found) if system is None else metric.value(found, system.name)
        known = published.get(name, PublishedNumber())
        rows.append(
            {
                "name": name,
                "value": _plain(value),
                "unit": metric.unit,
                "clock": None if system is None else clock_in_words(system, config),
                "figure": _metric_figure(metric, system, replaced),
                "paper": known.paper,
                "check": known.check,
                "note": known.note or metric.note,
                "fitted": known.fitted,
            }
        )
    return rows


def metric_definitions(
    systems: tuple[System, ...] | None = None, config: RunConfig | None = None
) -> dict[str, Metric]:
    """Return every metric that a run (of a config) may have, in the order of `metrics.json`."""
    every = _metrics_of(all_systems() if systems is None else systems, config)
    return {
        metric.name if system is None else metric.name_of(system): metric
        for metric, system in every
    }


def _metrics_of(
    systems: tuple[System, ...], config: RunConfig | None = None
) -> Iterator[tuple[Metric, System | None]]:
    """Yield each metric with its system, by measure, then by system; None: a metric of the run."""
    for measure in _measures_of(config):
        metrics = measure.metrics_of(config)
        for system in systems:
            for metric in metrics:
                if metric.systems is not None and metric.systems(system):
                    yield metric, system
        for metric in metrics:
            if metric.systems is None:
                yield metric, None


def _metric_figure(
    metric: Metric, system: System | None, replaced: Mapping[str, str]
) -> str | None:
    if metric.figure is None:
        return None
    return _figure(metric.figure, metric.name.split(".")[0], system, replaced)


def _figure(figure: str, measure: str, system: System | None, replaced: Mapping[str, str]) -> str:
    """Return the figure that shows a system's measure; `figure` is the usual one."""
    own = {} if system is None else system.own_figures
    return own.get(measure, replaced.get(figure, figure))


def _plain(value: Any) -> int | float | None:
    """Convert a value to a JSON number; None for a missing or infinite value."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)
