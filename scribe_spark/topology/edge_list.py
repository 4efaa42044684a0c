"""Router graphs from lists of links: tables with a header, and published lists without one.

A table (CSV or Parquet) has ``src, dst, delay_ms[, weight, rate]``.  A bare list has two numbers
per line, separated by blanks or ``|``, and comments that begin with ``#``: graphs of SNAP, and
CAIDA's AS relationships (``a|b|-1|bgp``).  It has no delays: each link takes the same time.  A
third column with other numbers than relationships is refused, as these may be delays or weights.

References
----------
Leskovec, Krevl, "SNAP Datasets: Stanford large network dataset collection", 2014.
"The CAIDA AS Relationships Dataset", www.caida.org/catalog/datasets/as-relationships.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pandas as pd
from pandas.io.common import get_handle
from pyspark.sql import SparkSession

from scribe_spark.config.given_graph import MOST_ROWS
from scribe_spark.core.cells import without_comments
from scribe_spark.core.errors import InputError, listed, one_line, shown
from scribe_spark.core.inputs import read_table
from scribe_spark.core.paths import local_path, read_packed
from scribe_spark.runtime.remote_inputs import collect_remote
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.links import EDGE_COLUMNS, FIELD, OPTIONAL, graph_of_links
from scribe_spark.topology.regions import is_matrix

#: The delay of each link of a bare list; the distance D then counts hops.
HOP_MS = 1.0

#: The first row of a bare list: two numbers and anything after them.
_BARE = re.compile(rb"\s*[0-9]{1,18}(?:[ \t]+|\|)[0-9]{1,18}(?:[ \t|].*)?\s*")

#: A whole row.  After the two ends may be a relationship of CAIDA (-1, 0, 1 or 2) and a word for
#: its source, or the mark by which NetworkX says that a link has no attributes.
_ROW = (
    rb"[ \t]*+[0-9]{1,18}(?:[ \t]++|\|)[0-9]{1,18}"
    rb"(?:(?:[ \t]++|\|)(?:(?P<more>(?:-1|[012])(?:(?:[ \t]++|\|)[A-Za-z][^\r\n]*+)?)|\{\}))?"
    rb"[ \t|]*+\r?"
)

#: A line that is no row and not empty.
_NO_ROW = re.compile(rb"(?m)^(?!" + _ROW + rb"$)[^\n]*[^\s][^\n]*")

_START = 2**16  # bytes


def edge_list(path: str) -> Graph:
    """Return the graph of a local list of links, with or without a header."""
    start = _start(path)
    first = next((line for line in start.split(b"\n") if line.strip()), b"")
    if _BARE.fullmatch(first):
        return _bare_list(path)
    if is_matrix(start):
        remedy = f"is a matrix of latencies between regions; give --regions {listed([path])}"
        raise InputError(FIELD, path, remedy)
    edges = read_table(path, FIELD, EDGE_COLUMNS, optional=OPTIONAL)
    return graph_of_links(None, edges, path)


def remote_edge_list(url: str, spark: SparkSession) -> Graph:
    """Return the graph of an edge list that only Spark can reach."""
    edges = collect_remote(spark, url, FIELD, EDGE_COLUMNS, optional=OPTIONAL, most=MOST_ROWS)
    return graph_of_links(None, edges, url)


def _start(path: str) -> bytes:
    """Return the first lines of a text without comments; nothing for a folder or a broken file."""
    if local_path(path).is_dir():
        return b""
    try:
        with get_handle(local_path(path), "rb", compression="infer", is_text=False) as opened:
            start: Any = opened.handle.read(_START)
            while len(start) < 2**24 and not without_comments(start).strip():  # long comments
                more: Any = opened.handle.read(_START)
                if not more:
                    return b""
                start += more
    except Exception:  # the reader of tables reports the error
        return b""
    return without_comments(start)


def _bare_list(path: str) -> Graph:
    try:
        data = without_comments(read_packed(local_path(path)))
    except Exception as error:  # each compression has its own errors
        raise InputError(FIELD, path, f"cannot be read ({one_line(error)})") from None
    if (line := _NO_ROW.search(data)) is not None:
        raise InputError(FIELD, path, _fault(data, line))
    separator = "|" if b"|" in data else r"\s+"
    try:
        rows = pd.read_csv(
            io.BytesIO(data), sep=separator, header=None, usecols=[0, 1], dtype="int64"
        )
    except Exception as error:  # pandas and its parser have errors of several kinds
        remedy = f"cannot be read as a list of links: {one_line(error)}"
        raise InputError(FIELD, path, remedy) from None
    if len(rows) > MOST_ROWS:
        raise InputError(FIELD, path, f"has more than {MOST_ROWS:,} links")
    ends = rows.to_numpy()
    loops = ends[:, 0] == ends[:, 1]
    links = pd.DataFrame(np.unique(np.sort(ends[~loops], axis=1), axis=0), columns=["src", "dst"])
    links = links.assign(delay_ms=HOP_MS, weight=1.0)
    graph = graph_of_links(None, links, path)
    notes = [f"the list has no delays: each link takes {HOP_MS:g} ms, both ways"]
    if loops.any():
        notes.append(f"self-loops are left out: {int(loops.sum()):,}")
    first = re.search(rb"(?m)" + _ROW + rb"$", data)
    if first is not None and first["more"]:
        notes.append("what stands beside the two ends of a link (a relationship) is ignored")
    return Graph(graph.vertices, graph.edges, path, notes=tuple(notes))


def _fault(data: bytes, line: re.Match[bytes]) -> str:
    """Return what is wrong with a line of a list, and the remedy, in words."""
    text = shown(line[0].decode("utf-8", "replace").strip(), 60)
    number = data.count(b"\n", 0, line.start()) + 1
    if not _BARE.fullmatch(line[0]):
        return f"line {number} must be two whole numbers, not {text}"
    return (
        f"line {number}: {text} has more than two routers and a relationship (-1, 0, 1 or 2); for "
        "delays or weights, give a table with the header src,dst,delay_ms,weight; otherwise leave "
        "the column out"
    )
