"""The nodes and edges of a graph file, before their attributes are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scribe_spark.errors import listed


@dataclass(frozen=True, slots=True)
class Element:
    """A node or an edge of a file.

    Attributes
    ----------
    ends : tuple of str
        The id of a node, or the ids of an edge's source and target.
    values : dict
        Name of an attribute -> its text; a list for an attribute that is no single text.
    line : int
        The line in which the element begins.
    """

    ends: tuple[str, ...]
    values: dict[str, Any]
    line: int

    def __str__(self) -> str:
        """Return the name of the element in messages: ``edge 0 to 1 (line 12)``."""
        what = "node" if len(self.ends) == 1 else "edge"
        return f"{what} {' to '.join(listed([end]) for end in self.ends)} (line {self.line})"


@dataclass(frozen=True)
class Elements:
    """The nodes and edges of a file in its order; ids are unique, and edges end at nodes."""

    nodes: list[Element]
    edges: list[Element]
    is_directed: bool

    def __post_init__(self) -> None:
        """Raise a ValueError for two nodes of one id, and for an edge without its nodes."""
        known: dict[str, Element] = {}
        for node in self.nodes:
            if (other := known.setdefault(node.ends[0], node)) is not node:
                raise ValueError(f"{node} has the id of the node in line {other.line}; rename one")
        for edge in self.edges:
            for end in edge.ends:
                if end not in known:
                    raise ValueError(f"{edge} needs a node {listed([end])}, which the file lacks")
