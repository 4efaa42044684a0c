"""Reading of GraphML: nodes, edges, and data that belong to declared keys.

The nodes and edges of nested graphs are read, too.  Data with parts (figures of yEd) are left out.

References
----------
Brandes, Eiglsperger, Lerner, Pich, "Graph markup language (GraphML)", in: Handbook of Graph
Drawing and Visualization, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from scribe_spark.errors import listed, shown
from scribe_spark.topology.elements import Element, Elements

#: The kinds of elements for which a key can be declared.
_DOMAINS = ("all", "graphml", "graph", "node", "edge", "hyperedge", "port", "endpoint")

_EDGE_DEFAULTS = {"directed": True, "undirected": False}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}

#: XML elements that have a text, and the word for the XML elements inside these.
_TEXTS, _PART = ("data", "default"), "part"


def read_graphml(text: str) -> Elements:
    """Return the nodes and edges of a GraphML text; a ValueError names the fault and its line."""
    reader = _Reader(text)
    nodes = [reader.element(one, ("id",)) for one in reader.found["node"]]
    edges = [reader.element(one, ("source", "target")) for one in reader.found["edge"]]
    return Elements(nodes, edges, reader.is_directed())


@dataclass(slots=True)
class _Key:
    """A declared attribute of the elements of a domain; None as name: a key of yEd."""

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
    """An XML element: its name, attributes and line, and the data in it."""

    name: str
    attributes: dict[str, str]
    line: int
    data: list[_Datum] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    has_parts: bool = False


class _Reader:
    """Reads the XML; a key may be declared after the elements that use the key."""

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
        """Add a key; refuse two keys of one id, or of one name for the same elements."""
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
        """Return a node or an edge with the texts of its data, and the defaults of other keys."""
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
