"""Where a router graph comes from: drawn, a real network, a file, or DataFrames the caller has.

Delays are kept to the microsecond and weights to a millionth.  Where an input has no ``weight``,
the delay is the weight, so that routes are those of least delay.  A link given in one direction
gets its reverse with the same delay and weight; of parallel links the one of least weight, then
least delay, is kept.
"""

from __future__ import annotations

import difflib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.config import RunConfig
from scribe_spark.errors import InputError
from scribe_spark.inputs import Kind, is_local, local_path, read_table, typed
from scribe_spark.topology import power_law, transit_stub
from scribe_spark.topology.checks import LEAST_WEIGHT, check
from scribe_spark.topology.graph import DELAY_DECIMALS, Graph, both_ways, router_frame

if TYPE_CHECKING:
    from graphframes import GraphFrame

__all__ = ["KM_PER_MS", "edge_list", "from_frames", "from_graphframe", "load", "topohub_network"]

#: Light in fibre: 5 microseconds per kilometre.
KM_PER_MS = 200.0

_FIELD = "topology"
_TOPOHUB = "topohub:"
_EDGE_COLUMNS: dict[str, Kind] = {
    "src": "int",
    "dst": "int",
    "delay_ms": "float",
    "weight": "float",
}
_ID: dict[str, Kind] = {"id": "int"}
_PLACE: dict[str, Kind] = {"domain": "int", "x": "float", "y": "float"}


def load(config: RunConfig, spark: SparkSession | None = None) -> Graph:
    """The router graph that ``config.topology.kind`` names, checked.

    Parameters
    ----------
    config : RunConfig
        ``topology.kind`` is ``transit-stub``, ``power-law``, ``topohub:NAME``, or the path or URL
        of an edge list.
    spark : SparkSession, optional
        Reads URLs that are not of this machine (``s3a:``, ``hdfs:``, ``dbfs:``); unused otherwise.

    Raises
    ------
    InputError
        Unknown name, unreadable table, or a graph that
        :func:`~scribe_spark.topology.check` refuses.
    """
    topology = config.topology.kind
    if topology == "transit-stub":
        return transit_stub.generate(config.topology, config.seed)
    if topology == "power-law":
        return power_law.generate(
            config.topology.power_law_routers, config.topology.power_law_links, config.seed
        )
    if topology.startswith(_TOPOHUB):
        return topohub_network(topology.removeprefix(_TOPOHUB))
    if is_local(topology):
        return edge_list(topology)
    if spark is None:
        remedy = "is not on this machine; reading it takes a Spark session"
        raise InputError(_FIELD, topology, remedy)
    return _remote_edge_list(topology, spark)


def topohub_network(name: str) -> Graph:
    """A network of the topohub package, for example ``sndlib/germany50`` or ``topozoo/Abilene``.

    topohub gives the length of a link in kilometres; its delay is that of light in fibre, 200 km
    per ms.  ``x`` and ``y`` are longitude and latitude in degrees.

    Raises
    ------
    InputError
        topohub is not installed, or has no network of that name.

    References
    ----------
    Jurkiewicz, "TopoHub: a repository of reference Gabriel graph and real-world topologies for
    networking research", SoftwareX 24, 2023.
    """
    source = _TOPOHUB + name
    try:
        import topohub
    except ImportError:
        remedy = "needs the topohub package: pip install 'scribe_spark[topohub]'"
        raise InputError(_FIELD, source, remedy) from None
    names = _names(resources.files(topohub) / "data")
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.0)
        remedy = "is unknown to topohub; the nearest names are " + ", ".join(near)
        raise InputError(_FIELD, source, remedy)
    network = topohub.get(name)
    ids = [int(node["id"]) for node in network["nodes"]]
    x, y = np.array([node["pos"] for node in network["nodes"]], dtype=np.float64).T
    links = [(int(e["source"]), int(e["target"]), e["dist"]) for e in network["edges"]]
    edges = pd.DataFrame(links, columns=["src", "dst", "delay_ms"])
    edges = edges.astype({"src": "int64", "dst": "int64", "delay_ms": "float64"})
    edges["delay_ms"] /= KM_PER_MS
    return _finished(router_frame(ids, x=x, y=y), edges, source)


def edge_list(path: str) -> Graph:
    """The graph of a local edge list: CSV or Parquet with ``src, dst, delay_ms[, weight]``.

    Raises
    ------
    InputError
        Missing or malformed table, or a graph that cannot be simulated.
    """
    if not local_path(path).exists():
        remedy = (
            "does not exist; give transit-stub, power-law, topohub:NAME, or an edge list's path"
        )
        raise InputError(_FIELD, path, remedy)
    edges = read_table(path, _FIELD, _EDGE_COLUMNS, optional=("weight",))
    return _finished(None, edges, path)


def from_frames(vertices: DataFrame | None, edges: DataFrame, source: str = "DataFrames") -> Graph:
    """The graph of DataFrames that the caller has.

    Parameters
    ----------
    vertices : DataFrame or None
        ``id``, and any of ``kind, domain, x, y``.  None: the ends of the edges.
    edges : DataFrame
        ``src, dst, delay_ms`` (ms), and ``weight`` or not.  Other columns are ignored.
    source : str
        The value that error messages name.

    Raises
    ------
    InputError
        Missing column, bad value, or a graph that cannot be simulated.
    """
    links = typed(
        _collected(edges, list(_EDGE_COLUMNS)),
        f"{_FIELD} edges",
        source,
        _EDGE_COLUMNS,
        optional=("weight",),
        empty=vertices is not None,
    )
    return _finished(None if vertices is None else _vertices(vertices, source), links, source)


def from_graphframe(graphframe: GraphFrame) -> Graph:
    """The graph of a GraphFrame whose edges carry ``delay_ms`` (ms), and ``weight`` or not.

    Raises
    ------
    InputError
        As :func:`from_frames`.
    """
    return from_frames(graphframe.vertices, graphframe.edges, "GraphFrame")


def _finished(vertices: pd.DataFrame | None, edges: pd.DataFrame, source: str) -> Graph:
    """Weights where there are none, checked as given, then one row per direction."""
    if vertices is None:
        vertices = router_frame(np.unique(edges[["src", "dst"]].to_numpy()))
    if "weight" not in edges:
        # the delay as it is kept; a link of no delay (two routers at one place) still weighs
        weight = edges["delay_ms"].round(DELAY_DECIMALS).clip(lower=LEAST_WEIGHT)
        edges = edges.assign(weight=weight)
    given = Graph(vertices, edges, source)
    check(given, _FIELD)
    return Graph(vertices, both_ways(edges), source)


def _vertices(vertices: DataFrame, source: str) -> pd.DataFrame:
    field = f"{_FIELD} vertices"
    rows = _collected(vertices, ["id", "kind", *_PLACE])
    ids = typed(rows, field, source, _ID)["id"]
    known = {
        name: _known(rows, name, kind, field, source)
        for name, kind in _PLACE.items()
        if name in rows
    }
    if "kind" in rows:
        known["kind"] = rows["kind"].astype(object).where(rows["kind"].notna(), None)
    return router_frame(ids, **known)


def _known(rows: pd.DataFrame, name: str, kind: Kind, field: str, source: str) -> pd.Series:
    """A column that may be NULL here and there, typed where it is not."""
    present = rows.loc[rows[name].notna(), [name]]
    values = typed(present, field, source, {name: kind}, empty=True)[name]
    values.index = present.index
    return values.astype("Int64" if kind == "int" else "float64").reindex(rows.index)


def _remote_edge_list(url: str, spark: SparkSession) -> Graph:
    name = url.rstrip("/").lower()
    reader = spark.read.options(header=True, inferSchema=True)
    try:
        table = reader.csv(url) if name.endswith((".csv", ".csv.gz")) else reader.parquet(url)
        return from_frames(None, table, url)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0].rstrip(". ")
        raise InputError(_FIELD, url, f"cannot be read by Spark: {reason}") from None


def _collected(frame: DataFrame, names: list[str]) -> pd.DataFrame:
    """The named columns that `frame` has; of size R, so the driver holds it."""
    wanted = [name for name in names if name in frame.columns] or frame.columns
    return frame.select(*wanted).toArrow().to_pandas()


def _names(folder: Traversable, prefix: str = "") -> list[str]:
    """Names of all networks below a folder of topohub's data: ``sndlib/germany50``, ..."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            found.append(prefix + entry.name.removesuffix(".json"))
    return sorted(found)
