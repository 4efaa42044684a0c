"""A measure: the tables it reads, what it collects, the metrics and figures it makes of that.

A measure has up to three steps.  *Collect* runs Spark jobs over a run's tables and brings something
small to the driver; a *distribution* is a histogram per system, for the figures; a *metric* is one
number of `metrics.json`, made from what was collected and from the histograms, without Spark.

Nothing here loads Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scribe_spark.measures.histogram import Histogram
from scribe_spark.systems import IP, MESH, TREE, System
from scribe_spark.underlay.size import Size

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from scribe_spark.config import RunConfig
    from scribe_spark.runtime.batches import Batches
    from scribe_spark.underlay.protocol import Underlay

__all__ = [
    "Distribution",
    "Found",
    "Measure",
    "Metric",
    "RunTables",
    "Size",
    "every_system",
    "forwards",
    "keeps_children",
]


@dataclass(frozen=True)
class RunTables:
    """The tables that a run has saved, and its size and systems: measures collect from them.

    Attributes
    ----------
    tables : mapping of str to DataFrame
        By name (see `schemas`); ``extra_joins`` and ``overloaded`` only in runs with variants,
        ``copies``, ``system_state``, ``control`` only in runs with systems that hand them over.
    systems : tuple of System
        The multicast systems of the run.
    nodes : int
        N.
    b : int
        Pastry's digits are base 2**b.
    underlay : Underlay
        Routes between routers.
    seed : int
        Key of what a measure draws.
    config : RunConfig, optional
        What systems are configured by.
    buckets : int
        In how many parts kernels count.
    read : callable, optional
        ``read(name, columns, among)``: a table for kernels, where there is a shorter way than by
        Spark.
    """

    tables: Mapping[str, DataFrame]
    systems: tuple[System, ...]
    nodes: int
    b: int
    underlay: Underlay | None = None
    seed: int = 0
    config: RunConfig | None = None
    buckets: int = 1
    read: Callable[[str, Sequence[str], Mapping[str, Sequence[Any]]], Batches] | None = None

    def __getitem__(self, name: str) -> DataFrame:
        return self.tables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tables

    def batches(
        self, name: str, columns: Sequence[str], among: Mapping[str, Sequence[Any]] | None = None
    ) -> Batches:
        """Some columns of a table, for kernels.

        Parameters
        ----------
        among : mapping of str to sequence, optional
            Column (one of these) -> values: only the rows that have one of them.
        """
        from scribe_spark.runtime.batches import Batches

        if self.read is not None:
            return self.read(name, columns, among or {})
        return Batches.of(self[name], columns, among or {})


@dataclass(frozen=True)
class Found:
    """The collected numbers that metrics are made of, all of them on the driver.

    Attributes
    ----------
    size : Size
    b : int
        Pastry's digits are base 2**b.
    histograms : mapping
        (system, measure) -> Histogram; nothing where no thing has a value.
    collected : mapping of str to Any
        Name of a measure -> what its ``collect`` returned.
    """

    size: Size
    b: int
    histograms: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    collected: Mapping[str, Any] = field(default_factory=dict)


#: A run's metric gets what was found; a system's metric also the system's name.
Value = Callable[..., float | None]


@dataclass(frozen=True)
class Metric:
    """One number of `metrics.json`, or one number for each system.

    Attributes
    ----------
    name : str
        The name in `metrics.json`; for a system's metric, the part after ``SYSTEM.``.
    unit : str
    figure : str or None
        The figure or section of the JSAC paper with this number.
    definition : str
        An exact definition in one sentence.
    value : callable
        ``value(found)``, or ``value(found, system_name)`` for a system's metric.  None: no value.
    systems : callable or None
        ``systems(system)`` is true for systems with this metric; None: a metric of the run.
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
        """Return the name of a system's metric in `metrics.json`."""
        return f"{system.name}.{self.name}"


@dataclass(frozen=True)
class Distribution:
    """The numbers of groups, nodes, members or links with each value, for each of some systems.

    Attributes
    ----------
    measure : str
        Its name in the column ``measure`` of the table ``distributions``.
    figure : str
        The figure or section of the JSAC paper that it belongs to.
    values : callable
        ``values(run)`` gives a Spark DataFrame ``system, value (DOUBLE)``, or `Batches` of these
        columns, a row for each thing; or a pandas one ``system, value, count`` of what is on the
        driver anyway; or None where the run has nothing of the kind.
    """

    measure: str
    figure: str
    values: Callable[[RunTables], DataFrame | Batches | pd.DataFrame | None]


@dataclass(frozen=True)
class Measure:
    """Metrics and distributions that every run measures.

    Attributes
    ----------
    name : str
        The key of the collected results in `Found.collected`.
    metrics : tuple of Metric
    distributions : tuple of Distribution
    collect : callable or None
        ``collect(run)`` runs Spark jobs and returns a small result.
    early : bool
        True if `collect` reads tables of the topology, overlay and trees phases only, and so can
        run beside the jobs of the measures phase.
    used_when : callable or None
        ``used_when(config)`` is true for runs with the metrics; by default for every run.
    """

    name: str
    metrics: tuple[Metric, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    collect: Callable[[RunTables], Any] | None = None
    early: bool = False
    used_when: Callable[[RunConfig], bool] | None = None


# --- which systems have a metric


def every_system(system: System) -> bool:
    """Every system has the metric."""
    return True


def forwards(system: System) -> bool:
    """Systems have the metric whose end nodes forward copies, along trees or to neighbours."""
    return system.family in (TREE, MESH)


def keeps_children(system: System) -> bool:
    """Systems have the metric whose end nodes keep children: not where routers duplicate."""
    return system.family != IP
