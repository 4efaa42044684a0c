"""Reading of GML: names with values, in blocks.

Edges may be parallel unless the file says ``multigraph 0``.

References
----------
Himsolt, "GML: A portable graph file format", University of Passau, 1997.
"""

from __future__ import annotations

import html
import re

from scribe_spark.errors import listed, shown
from scribe_spark.topology.elements import Element, Elements

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
    """Return the entries outside all blocks; the others are in the lists of their blocks."""
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
    """Return the value of a flag, 0 or 1, and its line; None if the graph does not have it."""
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
