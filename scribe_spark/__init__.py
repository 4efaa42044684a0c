"""Scribe over Pastry, simulated on Spark: the evaluation of the JSAC 2002 paper.

>>> from scribe_spark import RunConfig, run
>>> done = run(RunConfig(nodes=2_000, groups=50), out="out/small")
>>> done.table("tree_edges").groupBy("system").count().show()

The registry of systems is loaded at once, because systems declare sections of the configs.  Each
other name below is loaded at its first use, so that ``import scribe_spark`` (and the command line's
``--help``) does not wait for pyspark.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from scribe_spark.core.errors import shown
from scribe_spark.systems.registry import System, register_system, tree_variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from scribe_spark.config import Execution, RunConfig, WorldConfig
    from scribe_spark.core.errors import InputError
    from scribe_spark.core.progress import Progress
    from scribe_spark.experiments import Run, Simulation, make_world
    from scribe_spark.measures.measure import Measure, Metric
    from scribe_spark.measures.metrics import register_measure
    from scribe_spark.overlay import Application, Overlay, Routed, Step
    from scribe_spark.overlays import OverlayKind, register_overlay
    from scribe_spark.pastry.overlay import PastryOverlay
    from scribe_spark.runtime.session import session
    from scribe_spark.systems.scribe.variants import Variant
    from scribe_spark.topology.graph import TopologyKind
    from scribe_spark.topology.links import Topology
    from scribe_spark.topology.registry import register_topology
    from scribe_spark.worlds.world import World

__all__ = [
    "RunConfig",
    "WorldConfig",
    "Execution",
    "InputError",
    "session",
    "run",
    "Run",
    "Simulation",
    "World",
    "make_world",
    "Application",
    "Overlay",
    "Routed",
    "Step",
    "Topology",
    "System",
    "register_system",
    "Variant",
    "tree_variant",
    "Measure",
    "Metric",
    "register_measure",
    "OverlayKind",
    "PastryOverlay",
    "register_overlay",
    "TopologyKind",
    "register_topology",
]

#: The module of each name that is loaded at its first use.
_HOMES = {
    "RunConfig": "config",
    "WorldConfig": "config",
    "Execution": "config",
    "InputError": "core.errors",
    "Run": "experiments",
    "Simulation": "experiments",
    "World": "worlds.world",
    "make_world": "experiments",
    "Application": "overlay",
    "Overlay": "overlay",
    "Routed": "overlay",
    "Step": "overlay",
    "Topology": "topology.links",
    "Variant": "systems.scribe.variants",
    "Measure": "measures.measure",
    "Metric": "measures.measure",
    "register_measure": "measures.metrics",
    "OverlayKind": "overlays",
    "PastryOverlay": "pastry.overlay",
    "register_overlay": "overlays",
    "TopologyKind": "topology.graph",
    "register_topology": "topology.registry",
    "session": "runtime.session",
}


def run(
    config: RunConfig,
    out: str = "out/run",
    *,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    application: Callable[[int], Any] | None = None,
) -> Run:
    """Run an experiment into a folder, as the command ``scribe-spark run`` does.

    Parameters
    ----------
    config : RunConfig
        The settings of the experiment.
    out : str
        The output folder, or a URL to which Spark can write.
    spark : SparkSession, optional
        The session to use; by default the active session, or a new one that stays open.
    partitions : int, optional
        The number of partitions of tables with a row per node; by default chosen by cores and
        size.
    resume, overwrite : bool
        Continue an earlier run in `out` after its last complete phase, or replace it.  By default,
        a folder with an earlier run is refused.
    progress : Progress, optional
        The object to which phases and rounds are reported; by default a progress bar on a
        terminal, else lines on stderr.
    application : callable, optional
        ``application(nodes)`` returns your own Scribe application
        (`scribe_spark.systems.scribe.upcalls.ScribeApplication`) for a number of nodes.  It must be
        picklable.

    Returns
    -------
    Run
        The finished run, with its tables, metrics, manifest and `simulation`.

    Raises
    ------
    InputError
        The topology, the table of members or `out` is bad; the message is one line that names the
        setting.
    """
    from scribe_spark import experiments
    from scribe_spark.config import Execution
    from scribe_spark.core.progress import pick
    from scribe_spark.runtime.java import check_java
    from scribe_spark.runtime.session import session

    how = Execution(out=out, partitions=partitions, resume=resume, overwrite=overwrite)
    experiments.check(config, how)
    if spark is None:
        check_java()
        spark = session(how, config.overlay.nodes, config.estimated_work)
    return experiments.run(spark, config, how, progress=progress or pick(), application=application)


def __getattr__(name: str) -> Any:
    """Return a name of :data:`__all__`, or ``__version__``; the first use loads its module."""
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("scribe_spark")
    elif name in _HOMES:
        value = resolve_name(f"{__name__}.{_HOMES[name]}:{name}")
    else:
        raise AttributeError(f"module {shown(__name__)} has no attribute {shown(name)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
