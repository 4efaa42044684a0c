"""Router graphs in files: lists of links, GML (Shadow, Topology Zoo) and GraphML (Topology Zoo).

A list of links is a table (CSV or Parquet) with a header, ``src, dst, delay_ms[, weight, rate]``,
or a bare list: two numbers per line, separated by blanks or ``|``, and comments that begin with
``#``, as graphs of SNAP, and CAIDA's AS relationships (``a|b|-1|bgp``).  Each link of a bare list
takes the same time; other third columns are refused, as these may be delays.  GraphML may have
nested graphs; data with parts (figures of yEd) are left out.  :mod:`.attributes` reads the
attributes of nodes and edges.

References
----------
Leskovec, Krevl, "SNAP Datasets: Stanford large network dataset collection", 2014.
"The CAIDA AS Relationships Dataset", www.caida.org/catalog/datasets/as-relationships.
Shadow, "Network Graph Specification" (shadow.github.io).
Knight, Nguyen, Falkner, Bowden, Roughan, "The Internet Topology Zoo", IEEE JSAC 29(9), 2011.
Himsolt, "GML: A portable graph file format", University of Passau, 1997.
Brandes, Eiglsperger, Lerner, Pich, "Graph markup language (GraphML)", 2013.
"""

from __future__ import annotations

import html
import io
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np
import pandas as pd
from pandas.io.common import get_handle
from pyspark.sql import SparkSession

from scribe_spark.config.given_graph import MOST_ROWS
from scribe_spark.core.cells import without_comments
from scribe_spark.core.errors import InputError, listed, one_line, shown
from scribe_spark.core.paths import local_path, read_packed
from scribe_spark.runtime.remote_inputs import read_input
from scribe_spark.topology.attributes import Element, Elements, graph_of_elements
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.links import EDGE_COLUMNS, FIELD, OPTIONAL, graph_of_links
from scribe_spark.topology.regions import is_matrix

# --- lists of links


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
    return remote_edge_list(path, None)


def remote_edge_list(url: str, spark: SparkSession | None) -> Graph:
    """Return the graph of an edge list with a header, which perhaps only Spark can reach."""
    edges = read_input(spark, url, FIELD, EDGE_COLUMNS, OPTIONAL)
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


# --- GML and GraphML


# --- GML: names with values, in blocks


#: A name, its value (a text, or the entries of a block), and the line of the name.
Entry = tuple[str, "str | list[Entry]", int]

_TOKEN = re.compile(
    r"(?P<blank>\s+|#[^\n]*)|(?P<bracket>[\[\]])"
    r'|(?P<text>"[^"]*")'
    r"|(?P<word>(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[A-Za-z]\w*)"
    r'(?![^\s\[\]"#]))',
    re.ASCII,
)

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)


def read_gml(text: str) -> Elements:
    """Return the nodes and edges of a GML text; a ValueError names the fault and its line."""
    graphs = [entry for entry in _entries(text) if entry[0] == "graph"]
    if len(graphs) != 1:
        raise ValueError(f"has {len(graphs)} graphs; needs one, graph [ ... ]")
    entries = _block(graphs[0])
    nodes = [_element(one, ("id",)) for one in entries if one[0] == "node"]
    edges = [_element(one, ("source", "target")) for one in entries if one[0] == "edge"]
    is_directed = _flag(entries, "directed")[0] == "1"
    is_multigraph, line = _flag(entries, "multigraph")
    if is_multigraph == "0":
        _refuse_parallel(edges, is_directed, line)
    return Elements(nodes, edges, is_directed)


def _entries(text: str) -> list[Entry]:
    """Return the entries outside all blocks of a GML text; a block is an entry with a list."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks: list[list[Entry]] = [[]]
    begins: list[tuple[str, list[Entry], int]] = []  # the open blocks
    name, line, named, at = "", 1, 1, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _unexpected(line, text[at : at + 40].split("\n")[0])
        cell, at = token[0], token.end()
        if token["blank"]:
            line += cell.count("\n")
        elif not name and _NAME.fullmatch(cell):
            name, named = cell, line
        elif not name and cell == "]" and begins:
            blocks.pop()
            begins.pop()
        elif not name or cell == "]":
            raise _unexpected(line, cell)
        elif cell == "[":
            begins.append((name, [], named))
            blocks[-1].append(begins[-1])
            blocks.append(begins[-1][1])
            name = ""
        else:
            value = html.unescape(cell[1:-1]) if token["text"] else cell
            blocks[-1].append((name, value, named))
            line += cell.count("\n")
            name = ""
    if name or begins:
        last, line = (name, named) if name else (begins[-1][0], begins[-1][2])
        raise ValueError(f"ends within {listed([last])}, which begins in line {line}")
    return blocks[0]


def _unexpected(line: int, found: str) -> ValueError:
    return ValueError(
        f"line {line}: {shown(found, 60)} is not expected there; an entry of GML is a name and a "
        "number, a text in quotes, or a block in brackets"
    )


def _block(entry: Entry) -> list[Entry]:
    name, value, line = entry
    if not isinstance(value, list):
        raise ValueError(f"line {line}: {name} must be a block, {name} [ ... ]")
    return value


def _flag(entries: list[Entry], name: str) -> tuple[str | None, int]:
    """Return the value (0, 1, or None if it is absent) and the line of a flag of the graph."""
    found = [(value, line) for key, value, line in entries if key == name]
    for value, line in found:
        if len(found) > 1 or value not in ("0", "1"):
            raise ValueError(f"line {line}: {name} must be 0 or 1, and occur once")
        return str(value), line
    return None, 0


def _element(entry: Entry, names: tuple[str, ...]) -> Element:
    values: dict[str, str | list] = {}
    for name, value, line in _block(entry):
        if name in ("node", "edge") and isinstance(value, list):
            what = f"the {name} in line {line} is inside the {entry[0]} in line {entry[2]}"
            raise ValueError(f"{what}; a bracket ] is missing before the {name}")
        values[name] = value if name not in values else [values[name], value]
    ends = []
    for name in names:
        end = values.pop(name, None)
        if not isinstance(end, str):
            fault = "has no" if end is None else "needs one number or text as its"
            raise ValueError(f"the {entry[0]} in line {entry[2]} {fault} {name}")
        is_number = end.isascii() and end.isdigit()
        ends.append((end.lstrip("0") or "0") if is_number else end)
    return Element(tuple(ends), values, entry[2])


def _refuse_parallel(edges: list[Element], is_directed: bool, line: int) -> None:
    known: dict[tuple[str, ...], Element] = {}
    for edge in edges:
        ends = edge.ends if is_directed else tuple(sorted(edge.ends))
        if (other := known.setdefault(ends, edge)) is not edge:
            remedy = "multigraph 1 allows parallel edges"
            if edge.ends != other.ends:
                remedy += ", and directed 1 an edge for each direction"
            raise ValueError(
                f"{edge} joins the nodes of the edge in line {other.line}, but line {line} says "
                f"multigraph 0; delete one of the edges, or change the line: {remedy}"
            )


# --- GraphML: nodes, edges, and data that belong to declared keys


#: The kinds of elements for which a key can be declared.
_DOMAINS = ("all", "graphml", "graph", "node", "edge", "hyperedge", "port", "endpoint")

_EDGE_DEFAULTS = {"directed": True, "undirected": False}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}

#: XML elements that have a text, and the word for the XML elements inside these.
_TEXTS, _PART = ("data", "default"), "part"


def read_graphml(text: str) -> Elements:
    """Return the nodes and edges of a GraphML text; a ValueError names the fault and its line."""
    reader = _GraphReader(text)
    nodes = [reader.element(one, ("id",)) for one in reader.found["node"]]
    edges = [reader.element(one, ("source", "target")) for one in reader.found["edge"]]
    return Elements(nodes, edges, reader.is_directed())


@dataclass(slots=True)
class _Key:
    """A declared attribute of nodes, edges or the graph; ``name`` is None for figures of yEd."""

    id: str
    name: str | None
    domain: str
    line: int
    default: str | None = None


class _Datum(NamedTuple):
    key: str
    text: str
    line: int


@dataclass(slots=True)
class _Tag:
    """An XML element: its name, attributes and line, and the ``data`` elements in it."""

    name: str
    attributes: dict[str, str]
    line: int
    data: list[_Datum] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    has_parts: bool = False


class _GraphReader:
    """Reads the XML of GraphML; a key may be declared after the elements that use it."""

    def __init__(self, text: str) -> None:
        #: The graphs outside other graphs, and all nodes and edges.
        self.found: dict[str, list[_Tag]] = {"graph": [], "node": [], "edge": []}
        self._keys: dict[str, _Key] = {}
        self._named: dict[tuple[str, str], _Key] = {}
        self._open: list[_Tag] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.CharacterDataHandler = self._add_text
        self._parser.EndElementHandler = self._end
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            raise ValueError(str(error)) from None
        self._defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}}
        for key in self._keys.values():
            for domain, defaults in self._defaults.items():
                if key.domain in ("all", domain) and key.name and key.default is not None:
                    defaults[key.name] = key.default

    # --- the XML

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        name, line = name.rpartition(" ")[2], self._parser.CurrentLineNumber
        outside = self._open[-1] if self._open else None
        if outside is None and name != "graphml":
            raise ValueError(f"line {line}: the file begins with {listed([name])}, not graphml")
        if outside is not None and outside.name in (*_TEXTS, _PART):
            outside.has_parts, name = True, _PART
        tag = _Tag(name, attributes, line)
        if name == "hyperedge":
            raise ValueError(f"line {line}: a hyperedge is no link; give an edge for each pair")
        if name == "key":
            self._declare(tag)
        elif name in self.found and (name != "graph" or len(self._open) == 1):
            self.found[name].append(tag)
        self._open.append(tag)

    def _add_text(self, text: str) -> None:
        if self._open[-1].name in _TEXTS:
            self._open[-1].text.append(text)

    def _end(self, _: str) -> None:
        tag = self._open.pop()
        if tag.name in _TEXTS and not tag.has_parts:
            outside, text = self._open[-1], "".join(tag.text)
            if tag.name == "data":
                outside.data.append(_Datum(tag.attributes.get("key", ""), text, tag.line))
            elif outside.name == "key":
                self._keys[outside.attributes["id"]].default = text

    def _declare(self, tag: _Tag) -> None:
        """Add a declared key; refuse two of one id, or of one name for the same elements."""
        given = tag.attributes
        for name in ("id", "attr.name"):
            if name not in given and (name == "id" or "yfiles.type" not in given):
                raise ValueError(f"the key in line {tag.line} has no {name}")
        key = _Key(given["id"], given.get("attr.name"), given.get("for", "all"), tag.line)
        others = [self._keys.get(key.id)]
        if key.name is not None:
            domains = _DOMAINS if key.domain == "all" else ("all", key.domain)
            others += [self._named.get((key.name, domain)) for domain in domains]
            self._named[key.name, key.domain] = key
        for other in others:
            if other is not None:
                what = "one id" if other.id == key.id else f"one name, {listed([key.name])}"
                raise ValueError(
                    f"the keys {listed([other.id])} (line {other.line}) and {listed([key.id])} "
                    f"(line {key.line}) have {what}; rename or delete one"
                )
        self._keys[key.id] = key

    # --- its meaning

    def is_directed(self) -> bool:
        """Return True if all edges are directed, False if none is."""
        graphs = self.found["graph"]
        if len(graphs) != 1:
            raise ValueError(f"has {len(graphs)} graphs; needs one")
        usual = graphs[0].attributes.get("edgedefault", "undirected")
        if usual not in _EDGE_DEFAULTS:
            remedy = f"edgedefault = {shown(usual)} must be one of {listed(_EDGE_DEFAULTS)}"
            raise ValueError(f"line {graphs[0].line}: {remedy}")
        for edge in self.found["edge"]:
            given = edge.attributes.get("directed")
            if given is not None and _TRUTH.get(given) != _EDGE_DEFAULTS[usual]:
                raise ValueError(
                    f"line {edge.line}: an edge has directed = {shown(given)}, but the graph is "
                    f"{usual} by its edgedefault; all edges must be of one kind"
                )
        return _EDGE_DEFAULTS[usual]

    def element(self, tag: _Tag, names: tuple[str, ...]) -> Element:
        """Return a node or an edge: its data as texts by key, and the defaults of other keys."""
        ends = [tag.attributes.get(name) for name in names]
        for name, end in zip(names, ends, strict=True):
            if end is None:
                raise ValueError(f"the {tag.name} in line {tag.line} has no {name}")
        given: dict[str, str] = {}
        keys: dict[str, str] = {}
        for datum in tag.data:
            key = self._keys.get(datum.key)
            if key is None:
                raise ValueError(f"line {datum.line}: the key {shown(datum.key)} is not declared")
            if key.name is None:
                continue
            if key.name in given:
                raise ValueError(
                    f"line {datum.line}: the {tag.name} has {listed([key.name])} twice, by the "
                    f"keys {listed([keys[key.name], key.id])}; keep one"
                )
            given[key.name], keys[key.name] = datum.text, key.id
        return Element(tuple(map(str, ends)), self._defaults[tag.name] | given, tag.line)


# --- the graph of a file


#: The greatest file; each element needs a kilobyte of memory.
_MOST_BYTES = 2**28

_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def is_graph_file(path: str) -> bool:
    """Return True if a path has the ending of a graph format, or of a compressed one."""
    return _format_of(path) is not None


def graph_file(path: str) -> Graph:
    """Return the router graph of a local GML or GraphML file."""
    name = _format_of(path)
    assert name is not None
    text = _text(path, name)
    try:
        elements = _FORMATS[name](text)
    except ValueError as error:
        raise InputError(FIELD, path, f"cannot be read as {name}: {error}") from None
    return graph_of_elements(elements, path)


def _format_of(path: str) -> str | None:
    name = path.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return {"gml": "GML", "graphml": "GraphML"}.get(name.rpartition(".")[2])


def _text(path: str, name: str) -> str:
    try:
        return read_packed(local_path(path), _MOST_BYTES).decode("utf-8-sig")
    except Exception as error:  # each compression has its own errors
        raise InputError(FIELD, path, f"cannot be read as {name}: {one_line(error)}") from None


_FORMATS = {"GML": read_gml, "GraphML": read_graphml}
