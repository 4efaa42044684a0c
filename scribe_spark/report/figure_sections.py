"""The sections of a page: figures of the same kind stand together, and further ones are folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scribe_spark.report.svg import PageFigure

TIME, BYTES, NODES, LINKS = "time", "bytes", "nodes", "links"
DELIVERIES, OVERLAY, GROUPS, OTHER = "deliveries", "overlay", "groups", "other"

#: Name of a section -> its title and its first sentence, in the order of a page.
_SECTIONS = {
    DELIVERIES: ("Deliveries", "How many members get the messages, in time, late or never."),
    TIME: (
        "Time",
        "How soon the members of the groups have a message, and how this compares with IP "
        "multicast.",
    ),
    BYTES: ("Bytes", "How many bytes the nodes send and receive, and the links carry."),
    NODES: (
        "Load of nodes",
        "How many copies the nodes forward, and how many entries they keep. An entry of a "
        "children table costs one copy of every message.",
    ),
    LINKS: (
        "Load of links",
        "The stress of a directed link is the number of packets that it carries when every group "
        "gets one message.",
    ),
    OVERLAY: ("Overlay", "The nodes, their tables, and the lookups between them."),
    GROUPS: ("Groups and trees", "The sizes of the groups, and the trees of some of them."),
    OTHER: ("Other measures", "Measures of no section above, such as the cost of the simulation."),
}

#: Part of a measure's name -> its section; the first fitting part counts.
_OF_MEASURES = (
    (r"publications|multicasts|deliveries|reached|duplicates|orphans|repair|joins\b", DELIVERIES),
    (r"latency|rad|rmd|rdp|time_to|hops_to|coverage", TIME),
    (r"bytes|control_bytes|core_bytes", BYTES),
    (r"link_stress|control_stress|messages|packets", LINKS),
    (r"children_tables|children_entries|state|join_messages|depth|control|overloaded", NODES),
    (r"nodes|pastry|leaf_sets|cells|lookups|routing_table|table_entries|hops", OVERLAY),
    (r"group_size|groups|members", GROUPS),
)


def section_of(measure: str) -> str:
    """Return the name of a measure's section.

    Examples
    --------
    >>> section_of("scribe.rad.median"), section_of("lookups.hops.last"), section_of("cost.seconds")
    ('time', 'overlay', 'other')
    """
    parts = measure.split(".")
    for pattern, section in _OF_MEASURES:
        if any(re.fullmatch(pattern, part) for part in parts):
            return section
    return OTHER


@dataclass(frozen=True)
class FigureSection:
    """A section of a page."""

    name: str
    title: str
    listed: Sequence[PageFigure]
    intro: str = ""
    most_open: int | None = None  # the number of visible figures; by default all

    @property
    def figures(self) -> Sequence[PageFigure]:
        """The visible figures."""
        return self.listed[: self.most_open]

    @property
    def more(self) -> Sequence[PageFigure]:
        """The folded figures."""
        return self.listed[len(self.figures) :]


def figure_sections(
    figures: Iterable[tuple[str, PageFigure]], most_open: int | None = None
) -> list[FigureSection]:
    """Return the sections that have figures; each figure comes with the name of its section."""
    listed = list(figures)
    found = []
    for name, (title, intro) in _SECTIONS.items():
        of = [one for section, one in listed if section == name]
        if of:
            found.append(FigureSection(name, title, of, intro, most_open))
    return found
