"""The kinds of topology, by name, and the graph that a config asks for.

A new kind is one module with a :class:`~scribe_spark.topology.source.Source`, and one line below;
from outside of the package, one call of :func:`register`.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from scribe_spark.config import RunConfig
from scribe_spark.errors import InputError
from scribe_spark.inputs import is_local, local_path
from scribe_spark.topology import power_law, topohub, transit_stub
from scribe_spark.topology.checks import check
from scribe_spark.topology.edge_list import edge_list, remote_edge_list
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.links import FIELD
from scribe_spark.topology.source import Source

__all__ = ["find", "is_path", "load", "needs_spark", "register", "sources"]

_SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        transit_stub.SOURCE,
        power_law.SOURCE,
        topohub.SOURCE,
    )
}


def sources() -> dict[str, Source]:
    """Every kind of topology, by its name."""
    return dict(_SOURCES)


def register(source: Source) -> None:
    """Add a kind of topology to this process, or replace the one of that name."""
    _SOURCES[source.name] = source


def find(topology: str) -> tuple[Source, str] | None:
    """The kind that `topology` names, and its argument; None for a path or URL."""
    name, colon, argument = topology.partition(":")
    source = _SOURCES.get(name)
    return None if source is None or bool(colon) != bool(source.argument) else (source, argument)


def is_path(topology: str) -> bool:
    """Whether `topology` is the path or URL of an edge list."""
    return find(topology) is None


def needs_spark(topology: str) -> bool:
    """Whether only Spark can read it: a URL that is not of this machine."""
    return is_path(topology) and not is_local(topology)


def load(config: RunConfig, spark: SparkSession | None = None) -> Graph:
    """The router graph that ``config.topology.kind`` names, checked.

    Parameters
    ----------
    config : RunConfig
        ``topology.kind`` is the name of a kind (:func:`sources`), or the path or URL of an edge list.
    spark : SparkSession, optional
        Reads URLs that are not of this machine (``s3a:``, ``hdfs:``, ``dbfs:``); unused otherwise.

    Raises
    ------
    InputError
        Unknown name, unreadable table, or a graph that
        :func:`~scribe_spark.topology.check` refuses.
    """
    topology = config.topology.kind
    if (found := find(topology)) is not None:
        source, argument = found
        graph = source.make(argument, config.topology, config.seed)
        check(graph)
        return graph
    if not is_local(topology):
        if spark is None:
            remedy = "is not on this machine; reading it takes a Spark session"
            raise InputError(FIELD, topology, remedy)
        return remote_edge_list(topology, spark)
    if not local_path(topology).exists():
        kinds = ", ".join(source.spelling for source in _SOURCES.values())
        raise InputError(FIELD, topology, f"does not exist; give {kinds}, or an edge list's path")
    return edge_list(topology)
