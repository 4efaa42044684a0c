"""The registry of measures, and the numbers of a run (`metrics.json`) that come of them.

A new measure is a file that makes a :class:`~scribe_spark.measures.measure.Measure`, and a line in
:data:`_MEASURES`; from outside the package, a call of :func:`register_measure`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from scribe_spark.config import RunConfig
from scribe_spark.core.registry import Registry
from scribe_spark.errors import shown
from scribe_spark.measures.convergence import CONVERGENCE
from scribe_spark.measures.copies import CONTROL, DUPLICATES, STATE
from scribe_spark.measures.delay import DELAY
from scribe_spark.measures.distributions import distributions, read_histograms
from scribe_spark.measures.failures import FAILURES
from scribe_spark.measures.group_size import GROUP_SIZE
from scribe_spark.measures.joining import JOINING
from scribe_spark.measures.latency import LATENCY_MEASURE
from scribe_spark.measures.link_stress import LINK_STRESS
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables, Size
from scribe_spark.measures.message_bytes import BYTES
from scribe_spark.measures.network import NETWORK
from scribe_spark.measures.node_stress import NODE_STRESS
from scribe_spark.measures.overlay import OVERLAY
from scribe_spark.measures.published import Published
from scribe_spark.runtime.users_code import analysed
from scribe_spark.systems import System, all_systems, find_system

#: In the order of metrics.
_MEASURES: Registry[Measure] = Registry(
    "measure",
    *(NETWORK, GROUP_SIZE, OVERLAY, CONVERGENCE, DELAY, NODE_STRESS, LINK_STRESS, JOINING),
    *(DUPLICATES, STATE, CONTROL, FAILURES, LATENCY_MEASURE, BYTES),
)


def register_measure(measure: Measure) -> Measure:
    """Add a measure to all later runs.

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


#: Take a user's measure out again: see `Registry.unregister`.
unregister_measure = _MEASURES.unregister


def all_measures() -> tuple[Measure, ...]:
    """All measures, in the order of metrics."""
    return tuple(_MEASURES.values())


def measure_distributions(run: RunTables, replaced: Mapping[str, str]) -> pd.DataFrame:
    """The histograms behind the figures (`schemas.DISTRIBUTIONS`).

    Parameters
    ----------
    run : RunTables
    replaced : mapping of str to str
        Figures that are replaced in this experiment, and by which
        (:func:`~scribe_spark.measures.published.replaced_figures`).
    """

    def figure_of(figure: str, measure: str, system: str) -> str:
        return _figure(figure, measure, find_system(system), replaced)

    return distributions(run, all_measures(), figure_of)


def collect(run: RunTables, early: bool) -> dict[str, Any]:
    """Collect what metrics are made from: name of a measure -> what it has collected.

    Parameters
    ----------
    run : RunTables
    early : bool
        For the measures that are `early`, or for the others.
    """
    found = {}
    for measure in all_measures():
        if measure.collect is not None and measure.early == early:
            with analysed("measure", measure.name):
                found[measure.name] = measure.collect(run)
    return found


def find(run: RunTables, collected: Mapping[str, Any], spread: pd.DataFrame) -> Found:
    """Return the numbers that metrics are made of.

    Parameters
    ----------
    collected : mapping of str to Any
        From :func:`collect`, all of it.
    spread : pandas.DataFrame
        From :func:`measure_distributions`.
    """
    network = collected[NETWORK.name]
    size = Size(run.nodes, network["routers"], network["core_links"])
    return Found(size, run.b, read_histograms(spread), collected)


def metric_rows(
    found: Found,
    systems: tuple[System, ...],
    published: Mapping[str, Published],
    replaced: Mapping[str, str],
    config: RunConfig | None = None,
) -> list[dict[str, Any]]:
    """The rows of `metrics.json`: every metric of every measure, published or not.

    Parameters
    ----------
    found : Found
    systems : tuple of System
        The systems of the run.
    published : mapping of str to Published
        What the paper publishes of this very experiment, by the metric's name.
    replaced : mapping of str to str
        As :func:`measure_distributions`.
    config : RunConfig, optional
        Of the run; systems may tell by it which clock their copies arrive by.

    Returns
    -------
    list of dict
        ``name, value, unit, clock, figure, paper, check, note, fitted``; the clock is None of what
        is of no system.
    """
    rows = []
    for metric, system in _metrics_of(systems, config):
        name = metric.name if system is None else metric.name_of(system)
        value = metric.value(found) if system is None else metric.value(found, system.name)
        known = published.get(name, Published())
        rows.append(
            {
                "name": name,
                "value": _plain(value),
                "unit": metric.unit,
                "clock": None if system is None else system.clock_in_words(config),
                "figure": _metric_figure(metric, system, replaced),
                "paper": known.paper,
                "check": known.check,
                "note": known.note or metric.note,
                "fitted": known.fitted,
            }
        )
    return rows


def metric_definitions(systems: tuple[System, ...] | None = None) -> dict[str, Metric]:
    """The name of every metric that a run may have -> what it is, in the order of `metrics.json`.

    Parameters
    ----------
    systems : tuple of System, optional
        By default all that are registered.
    """
    every = _metrics_of(all_systems() if systems is None else systems)
    return {
        metric.name if system is None else metric.name_of(system): metric
        for metric, system in every
    }


def _metrics_of(
    systems: tuple[System, ...], config: RunConfig | None = None
) -> Iterator[tuple[Metric, System | None]]:
    """Measure by measure, of each system by system; a metric of the run as a whole has none."""
    for measure in _MEASURES.values():
        if config is not None and measure.used_when and not measure.used_when(config):
            continue
        for system in systems:
            for metric in measure.metrics:
                if metric.systems is not None and metric.systems(system):
                    yield metric, system
        for metric in measure.metrics:
            if metric.systems is None:
                yield metric, None


def _metric_figure(
    metric: Metric, system: System | None, replaced: Mapping[str, str]
) -> str | None:
    if metric.figure is None:
        return None
    return _figure(metric.figure, metric.name.split(".")[0], system, replaced)


def _figure(figure: str, measure: str, system: System | None, replaced: Mapping[str, str]) -> str:
    """The figure that shows a measure of a system, where `figure` is the one that usually does."""
    own = {} if system is None else system.own_figures
    return own.get(measure, replaced.get(figure, figure))


def _plain(value: Any) -> int | float | None:
    """A JSON number; None for what is not there or not finite."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)
