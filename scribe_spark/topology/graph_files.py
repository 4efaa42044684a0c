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
from collections.abc import Mapping
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import pandas as pd
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


def edge_list(path: str) -> Graph:
    """Return the graph of a local list of links, with or without a header."""
    try:
        folder = local_path(path).is_dir()
        data = b"" if folder else without_comments(read_packed(local_path(path)))
    except Exception:  # the reader of tables reports the error
        data = b""
    first = next((line for line in io.BytesIO(data) if line.strip()), b"")
    if _BARE.fullmatch(first):
        return _bare_list(path, data)
    if is_matrix(data[:_START]):
        remedy = f"is a matrix of latencies between regions; give --regions {listed([path])}"
        raise InputError(FIELD, path, remedy)
    return remote_edge_list(path, None)


_START = 2**16  # bytes


def remote_edge_list(url: str, spark: SparkSession | None) -> Graph:
    """Return the graph of an edge list with a header, which perhaps only Spark can reach."""
    edges = read_input(spark, url, FIELD, EDGE_COLUMNS, OPTIONAL)
    return graph_of_links(None, edges, url)


def _bare_list(path: str, data: bytes) -> Graph:
    if (line := _NO_ROW.search(data)) is not None:
        text, number = line[0].decode("utf-8", "replace"), data.count(b"\n", 0, line.start()) + 1
        remedy = (
            f"line {number} must be two whole numbers, and perhaps a relationship (-1, 0, 1 or 2), "
            f"not {shown(text.strip(), 60)}; for delays or weights, give a table with the header "
            "src,dst,delay_ms,weight"
        )
        raise InputError(FIELD, path, remedy)
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
    notes = [f"the list has no delays: each link takes {HOP_MS:g} ms, both ways"]
    if loops.any():
        notes.append(f"self-loops are left out: {int(loops.sum()):,}")
    first = re.search(rb"(?m)" + _ROW + rb"$", data)
    if first is not None and first["more"]:
        notes.append("what stands beside the two ends of a link (a relationship) is ignored")
    links = links.assign(delay_ms=HOP_MS, weight=1.0)
    return graph_of_links(None, links, path, notes=tuple(notes))


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
    blocks: list[tuple[str, list[Entry], int]] = [("", [], 1)]  # the open ones
    name, named, line, at = "", 1, 1, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        cell = token[0] if token else text[at : at + 40].partition("\n")[0]
        if token and not name and _NAME.fullmatch(cell):
            name, named = cell, line
        elif token and not name and cell == "]" and len(blocks) > 1:
            blocks.pop()
        elif token is None or not (token["blank"] or (name and cell != "]")):
            raise ValueError(
                f"line {line}: {shown(cell, 60)} is not expected there; an entry of GML is a name "
                "and a number, a text in quotes, or a block in brackets"
            )
        elif not token["blank"]:
            if cell == "[":
                blocks.append((name, [], named))
                blocks[-2][1].append(blocks[-1])
            else:
                value = html.unescape(cell[1:-1]) if token["text"] else cell
                blocks[-1][1].append((name, value, named))
            name = ""
        line, at = line + cell.count("\n"), token.end()
    if name or len(blocks) > 1:
        last, line = (name, named) if name else (blocks[-1][0], blocks[-1][2])
        raise ValueError(f"ends within {listed([last])}, which begins in line {line}")
    return blocks[0][1]


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
            raise ValueError(
                f"{edge} joins the nodes of the edge in line {other.line}, but line {line} says "
                "multigraph 0; delete one of the edges, or change the line: multigraph 1 allows "
                "parallel edges, and directed 1 an edge for each direction"
            )


# --- GraphML: nodes, edges, and data that belong to declared keys


_EDGE_DEFAULTS = {"directed": True, "undirected": False}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}

#: The key of an XML element's attributes with its line; no attribute of XML has this name.
_LINE = " line"


class _Key(NamedTuple):
    """A declared attribute of nodes, edges or the graph; ``name`` is None for figures of yEd."""

    id: str
    name: str | None
    line: str
    default: str | None


def read_graphml(text: str) -> Elements:
    """Return the nodes and edges of a GraphML text; a ValueError names the fault and its line."""
    root, found = _tree(text), {}
    keys, named = _declared_keys(root)
    for domain, names in (("node", ("id",)), ("edge", ("source", "target"))):
        defaults = {
            name: key.default
            for (of, name), key in named.items()
            if of == domain and key.default is not None
        }
        found[domain] = [_of_xml(tag, names, keys, defaults) for tag in root.iter(domain)]
    return Elements(found["node"], found["edge"], _is_directed(root))


def _tree(text: str) -> ElementTree.Element:
    """Return the XML of GraphML without namespaces, and without data that have parts."""
    parser, builder = expat.ParserCreate(namespace_separator=" "), ElementTree.TreeBuilder()
    parser.buffer_text = True

    def begin(name: str, attributes: dict[str, str]) -> None:
        line = {_LINE: str(parser.CurrentLineNumber)}
        builder.start(name.rpartition(" ")[2], attributes | line)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda name: builder.end(name.rpartition(" ")[2])
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from None
    root = builder.close()
    if root.tag != "graphml":
        line = root.attrib[_LINE]
        raise ValueError(f"line {line}: the file begins with {listed([root.tag])}, not graphml")
    for tag in [*root.iter("data"), *root.iter("default")]:
        if len(tag):
            tag.tag, tag[:] = "parts", []
    for tag in root.iter("hyperedge"):
        line = tag.attrib[_LINE]
        raise ValueError(f"line {line}: a hyperedge is no link; give an edge for each pair")
    return root


def _declared_keys(
    root: ElementTree.Element,
) -> tuple[dict[str, _Key], dict[tuple[str, str], _Key]]:
    """Return declared keys by id, and by element and name; refuse two keys in one place."""
    keys, named = dict[str, _Key](), dict[tuple[str, str], _Key]()
    for tag in root.iter("key"):
        given, line = tag.attrib, tag.attrib[_LINE]
        for name in ("id", "attr.name"):
            if name not in given and (name == "id" or "yfiles.type" not in given):
                raise ValueError(f"the key in line {line} has no {name}")
        key = _Key(given["id"], given.get("attr.name"), line, tag.findtext("default"))
        others = [keys.setdefault(key.id, key)]
        of = given.get("for", "all")
        for domain in ("node", "edge") if of == "all" else (of,):
            if key.name is not None:
                others.append(named.setdefault((domain, key.name), key))
        for other in others:
            if other is not key:
                what = "one id" if other.id == key.id else f"one name, {listed([key.name])}"
                raise ValueError(
                    f"the keys {listed([other.id])} (line {other.line}) and {listed([key.id])} "
                    f"(line {line}) have {what}; rename or delete one"
                )
    return keys, named


def _is_directed(root: ElementTree.Element) -> bool:
    """Return True if all edges are directed, False if none is."""
    graphs = root.findall("graph")
    if len(graphs) != 1:
        raise ValueError(f"has {len(graphs)} graphs; needs one")
    usual = graphs[0].attrib.get("edgedefault", "undirected")
    if usual not in _EDGE_DEFAULTS:
        remedy = f"edgedefault = {shown(usual)} must be one of {listed(_EDGE_DEFAULTS)}"
        raise ValueError(f"line {graphs[0].attrib[_LINE]}: {remedy}")
    for edge in root.iter("edge"):
        given = edge.attrib.get("directed")
        if given is not None and _TRUTH.get(given) != _EDGE_DEFAULTS[usual]:
            raise ValueError(
                f"line {edge.attrib[_LINE]}: an edge has directed = {shown(given)}, but the graph "
                f"is {usual} by its edgedefault; all edges must be of one kind"
            )
    return _EDGE_DEFAULTS[usual]


def _of_xml(
    tag: ElementTree.Element,
    names: tuple[str, ...],
    keys: Mapping[str, _Key],
    defaults: Mapping[str, str],
) -> Element:
    """Return a node or an edge: its data as texts by key, and the defaults of other keys."""
    for name in names:
        if name not in tag.attrib:
            raise ValueError(f"the {tag.tag} in line {tag.attrib[_LINE]} has no {name}")
    given = dict[str, str]()
    for datum in tag.findall("data"):
        line, key = datum.attrib[_LINE], keys.get(datum.attrib.get("key", ""))
        if key is None:
            text = shown(datum.attrib.get("key", ""))
            raise ValueError(f"line {line}: the key {text} is not declared")
        if key.name in given:
            what = f"the {tag.tag} has {listed([key.name])} twice; keep one"
            raise ValueError(f"line {line}: {what}")
        if key.name is not None:
            given[key.name] = datum.text or ""
    ends = tuple(tag.attrib[name] for name in names)
    return Element(ends, {**defaults, **given}, int(tag.attrib[_LINE]))


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
