"""Measures: what they read, what they collect, and the metrics and figures they produce.

A measure has up to three steps.  *Collect* counts rows of the tables of a run and returns a
small result to the driver.  A *distribution* is a histogram per system, for figures.  A *metric* is
one number of `metrics.json`, computed without Spark from the collected results and histograms.
The publications of a run with a schedule are few, and kept on the driver.  This module does not
import Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.core.histogram import Histogram
from scribe_spark.rounds.declaration import IP, MESH, TREE, System

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from scribe_spark.config import RunConfig
    from scribe_spark.measures.within import Asked
    from scribe_spark.runtime.batches import Batches
    from scribe_spark.underlay.protocol import Underlay

_SLOTS_PER_ROUTER = 200  # the paper's LAN slots: 100 per router, two directions


@dataclass(frozen=True)
class Size:
    """The numbers of nodes N, routers R and directed core links of a network."""

    nodes: int
    routers: int
    core_links: int

    @property
    def existing_links(self) -> int:
        """The number of existing directed links: core links and each node's two LAN links."""
        return self.core_links + 2 * self.nodes

    @property
    def paper_slots(self) -> int:
        """The paper's number of links: core links, and 200 LAN links (*slots*) a router."""
        return self.core_links + _SLOTS_PER_ROUTER * self.routers

    @property
    def has_slot_for_each_link(self) -> bool:
        """True if there is a slot for each LAN link; otherwise means per slot make no sense."""
        return self.existing_links <= self.paper_slots


@dataclass(frozen=True)
class RunTables:
    """The saved tables of a run with its size and systems; measures read them."""

    #: `SavedTables`, by name (see `schemas`), which kernels and the driver read without Spark's SQL
    #: where that is possible.  ``extra_joins`` and ``overloaded`` exist only in runs with variants;
    #: ``copies``, ``system_state`` and ``control`` only with systems that report them.
    tables: Any
    systems: tuple[System, ...]  # of multicast
    nodes: int  # N
    b: int  # Pastry's digits are base 2**b
    underlay: Underlay | None = None  # routes between routers
    seed: int = 0  # of random draws in measures
    config: RunConfig | None = None  # may affect systems
    buckets: int = 1  # in which kernels count
    asked: Asked | None = None  # the questions about coverage

    def __getitem__(self, name: str) -> DataFrame:
        return self.tables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tables

    @property
    def scheduled(self) -> bool:
        """True in a run with a schedule, whose tables have the column :data:`PUBLICATION`."""
        return SCHEDULE in self

    def batches(
        self, name: str, columns: Sequence[str], among: Mapping[str, Sequence[Any]] | None = None
    ) -> Batches:
        """Return columns of a table, for kernels; `among` (column -> values) selects rows."""
        return self.tables.batches(name, columns, among or {})

    def collect(
        self, name: str, columns: Sequence[str], among: Mapping[str, Sequence[Any]] | None = None
    ) -> pa.Table:
        """Return columns of a small table, or of a few rows, on the driver."""
        return self.tables.collect(name, columns, among or {})


@dataclass(frozen=True)
class Found:
    """The histograms and collected results from which metrics are computed, on the driver."""

    size: Size
    b: int = 0  # Pastry's digits are base 2**b; 0 in a round, whose measures do not need it
    #: (system, measure) -> its histogram; missing if there are no values.
    histograms: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    #: The name of a measure -> the result of its ``collect``.
    collected: Mapping[str, Any] = field(default_factory=dict)


#: The function of a metric; it takes `Found`, and for a system's metric also the system's name.
Value = Callable[..., float | None]


def collected(measure: str, name: str) -> Value:
    """Return the function of a metric that the step `collect` of a measure computes as `name`."""

    def value(found: Found, *system: str) -> float | None:
        result = found.collected.get(measure, {})
        for key in system:
            result = result.get(key, {})
        return result.get(name)

    return value


@dataclass(frozen=True)
class Metric:
    """One number of ``metrics.json``, or one number for each system.

    Attributes
    ----------
    name : str
        The name in ``metrics.json``; for a system's metric, the part after ``SYSTEM.``.
    unit : str
        The unit, such as ``ms``; empty for a ratio.
    figure : str or None
        The figure or section of the JSAC 2002 paper with this number.
    definition : str
        An exact definition in one sentence.
    value : callable
        ``value(found)``, or ``value(found, system_name)`` for a system's metric, returns the
        number from the collected results; None means no value.
    systems : callable or None
        ``systems(system)`` is True for systems with this metric; None for a metric of the run.
    note : str or None
        A short note beside the number in the report.
    """

    name: str
    unit: str
    figure: str | None
    definition: str
    value: Value
    systems: Callable[[System], bool] | None = None
    note: str | None = None

    def name_of(self, system: System) -> str:
        """Return the name of the metric of a system in ``metrics.json``: ``SYSTEM.name``."""
        return f"{system.name}.{self.name}"


def collected_metrics(
    measure: str,
    figure: str | None,
    rows: Mapping[str, tuple[str, str]],
    systems: Callable[[System], bool] | None = None,
) -> tuple[Metric, ...]:
    """Return metrics, by their names in the collected result: units and definitions."""
    return tuple(
        Metric(name, unit, figure, definition, collected(measure, name), systems)
        for name, (unit, definition) in rows.items()
    )


def metric_values(metrics: Iterable[Metric], found: Found, system: str) -> dict[str, float]:
    """Return the values of a system's metrics by name, without those that have no value."""
    values = {metric.name: metric.value(found, system) for metric in metrics}
    return {name: float(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Distribution:
    """The numbers of groups, nodes, members or links with each value, for each of some systems."""

    measure: str  # the value of the column ``measure`` in the table ``distributions``
    figure: str  # or section of the JSAC paper that shows the distribution
    #: ``values(run)`` returns ``system, value (DOUBLE)``, a row for each thing, as a Spark
    #: DataFrame or `Batches`; or counted values ``system, value, count`` as a pandas DataFrame; or
    #: None if the run has no such values.
    values: Callable[[RunTables], DataFrame | Batches | pd.DataFrame | None]


@dataclass(frozen=True)
class Measure:
    """A group of metrics and distributions that are computed together, from one collected result.

    Attributes
    ----------
    name : str
        The key of the collected result in `Found.collected`.
    metrics : tuple of Metric
        The numbers in ``metrics.json``.
    distributions : tuple of Distribution
        The histograms behind figures.
    collect : callable or None
        ``collect(run)`` counts rows of tables and returns a small result.
    early : bool
        True if `collect` only reads tables of the phases topology, overlay and trees, so that it
        can run in parallel with the jobs of the phase measures.
    used_when : callable or None
        ``used_when(config)`` is True for runs that have the measure; by default all runs.
    metrics_in : callable, optional
        ``metrics_in(config)`` returns further metrics, which depend on the config of the run or
        world: their names contain its settings.
    """

    name: str
    metrics: tuple[Metric, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    collect: Callable[[RunTables], Any] | None = None
    early: bool = False
    used_when: Callable[[RunConfig], bool] | None = None
    metrics_in: Callable[[Any], tuple[Metric, ...]] | None = None

    def metrics_of(self, config: Any) -> tuple[Metric, ...]:
        """Return all metrics in a config; without one (None), those of every config."""
        if config is None or self.metrics_in is None:
            return self.metrics
        return (*self.metrics, *self.metrics_in(config))


# --- conditions on systems


def every_system(system: System) -> bool:
    """Return True: every system has the metric."""
    return True


def forwards(system: System) -> bool:
    """Return True for systems whose end nodes forward copies, along trees or to neighbours."""
    return system.family in (TREE, MESH)


def keeps_children(system: System) -> bool:
    """Return True for systems whose end nodes keep children, so not for IP multicast."""
    return system.family != IP


#: The name of the table of publications.
SCHEDULE = "schedule"

#: The name of the column with the publication in tables of such a run.
PUBLICATION = "publication"


@dataclass(frozen=True)
class ScheduledMessages:
    """The publications of a schedule: arrays by the number of the publication."""

    #: int64: the group of each publication, its size in bytes, and the number of its source.
    group: np.ndarray
    size: np.ndarray
    source: np.ndarray = field(default_factory=whole_numbers)


def publications_of(run: RunTables) -> ScheduledMessages | None:
    """Return the publications of a run with a schedule, None for other runs."""
    if not run.scheduled:
        return None
    columns = "group", "bytes", "node"
    rows = run.collect(SCHEDULE, (PUBLICATION, *columns)).sort_by(PUBLICATION)
    return ScheduledMessages(*(rows.column(name).to_numpy() for name in columns))


def with_publication(run: RunTables, *columns: str) -> list[str]:
    """Return the names of columns and, in a run with a schedule, that of publications."""
    return [*columns, PUBLICATION] if run.scheduled else list(columns)
