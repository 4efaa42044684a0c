"""The model of a page: parts and sections, which one template turns into one HTML file.

Values come from users (paths, names), so the template escapes them; only drawings, and texts that
are `Markup` here, are inserted as markup.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import redacted
from scribe_spark.report.style import ABSENT, as_duration, as_setting, as_text, is_number
from scribe_spark.report.svg import PageFigure

if TYPE_CHECKING:  # only drawing needs it
    from jinja2 import Environment

#: The text of every page about its figures.
HOW_TO_READ = (
    "Point at a figure or touch it to read its values, or choose it with the Tab key and use the "
    "arrow keys."
)

#: The number of visible figures of a section; further ones are folded.
MOST_OPEN = 6


@dataclass(frozen=True)
class Report:
    """A page and its figures."""

    html: str
    figures: Sequence[PageFigure]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The content of each file of the figures by its name, drawn once."""
        return {name: make() for one in self.figures for name, make in one.files.items()}


# --- the parts of a page: a plain string is a small grey ("soft") paragraph


class PagePart:
    """A part of a page; its class selects the markup. Empty parts are left out."""

    @property
    def kind(self) -> str:
        """The name of the part's class, for the template."""
        return type(self).__name__


PageParts = Sequence[PagePart | str]


@dataclass(frozen=True)
class Text(PagePart):
    """A paragraph or other element of text, with its own tag and style."""

    words: str  # `Markup` for words with links
    look: str = ""  # a class of the style sheet
    tag: str = "p"


@dataclass(frozen=True)
class NamedValues(PagePart):
    """Names and values: the facts in the head of a page, or settings."""

    pairs: Sequence[tuple[str, Any]]
    look: str = "pairs"  # or ``facts``
    bold: bool = False  # True for bold names


@dataclass(frozen=True)
class Card:
    """A card: the main numbers of a system, of the overlay, or of a measure."""

    title: str
    value: str  # the main number
    what: str  # its meaning
    colour: str = ""  # of the system in the figures
    lines: Sequence[tuple[str, str]] = ()  # further numbers: meaning and value
    number: float | None = None  # the main number, if cards are compared by it
    share: float | None = None  # the card's bar: per cent of the greatest number of all cards
    note: str = ""  # a fact without which the numbers mislead; it comes first
    difference: str = ""
    is_notable: bool = False  # True if the difference is marked


@dataclass(frozen=True)
class Cards(PagePart):
    """Cards side by side."""

    cards: Sequence[Card]
    label: str = "Main numbers"
    look: str = "tiles cards"


class Cell(NamedTuple):
    """A cell of a table: its text, and what stands beside and below the text."""

    text: str = ""
    small: str = ""  # behind the text
    code: str = ""  # below the text
    note: str = ""  # below all
    look: str = "number"  # classes of the style sheet


#: Cells; a text is a cell without more.
Row = Sequence[Any]


@dataclass(frozen=True)
class PageTable(PagePart):
    """A table; the first cell of a row is the row's head."""

    heads: Row
    rows: Sequence[Row] = ()
    label: str = ""  # by default the title of the section
    groups: Sequence[tuple[str, Sequence[Row]]] = ()  # titles and rows
    look: str = ""

    @property
    def bodies(self) -> Sequence[tuple[str, Sequence[Row]]]:
        """The groups of rows with their titles; without groups, all rows are one without title."""
        return self.groups or [("", self.rows)]


@dataclass(frozen=True)
class Legend(PagePart):
    """Names of lines beside samples of the lines, which are ``<svg>`` elements."""

    label: str
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Figures(PagePart):
    """Figures side by side."""

    figures: Sequence[PageFigure]
    look: str = ""  # ``three`` in a row, or ``small`` ones


@dataclass(frozen=True)
class Folded(PagePart):
    """Parts of a page that are hidden until the reader clicks on their summary."""

    summary: str
    parts: PageParts
    is_open: bool = False
    look: str = ""


@dataclass(frozen=True)
class PageSection(PagePart):
    """A section of a page: its heading, and its parts."""

    name: str
    title: str
    parts: PageParts
    contents: str | None = None  # its name in the table of contents: by default the title, or empty
    count: int = 0  # of its figures; 0 for no number in the contents


def unfolded(figures: Sequence[PageFigure], most: int | None, look: str = "") -> list[PagePart]:
    """Return the figures as parts of a page; those after the first `most` are folded."""
    shown = figures[:most]
    more = figures[len(shown) :]
    titles = "; ".join(one.title for one in more)
    summary = f"{len(more)} more figure{'s' * (len(more) > 1)}: {titles}"
    folded = [Folded(summary, [Figures(more, look)], look="more")] if more else []
    return [Figures(shown, look), *folded]


def measure_sections(
    figures: Iterable[tuple[str, PageFigure]], most: int | None = None, look: str = ""
) -> list[PageSection]:
    """Return the sections that have figures; each figure comes with the name of its section.

    In each section, `most` figures are visible; by default all.
    """
    listed = list(figures)
    return [
        PageSection(name, title, [intro, *unfolded(of, most, look)], count=len(of))
        for name, (title, intro) in _SECTIONS.items()
        if (of := [one for section, one in listed if section == name])
    ]


# --- sections by kinds of measures

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
    (r"latency|rad|rmd|rdp|time_to|hops_to|coverage|within_\w+|quorum|replies", TIME),
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
    fitting = (of for pattern, of in _OF_MEASURES if any(re.fullmatch(pattern, p) for p in parts))
    return next(fitting, OTHER)


# --- the origin of a result: command, versions, duration; without secrets


def facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the main facts of a run, name and value, for the head of its page."""
    config = redacted(config_of(manifest))
    times = (phase.get("seconds") for phase in manifest.get("phases", ()))
    took = [seconds for seconds in times if is_number(seconds)]
    found = [
        ("Topology", config.get("topology")),
        ("Nodes", config.get("nodes")),
        ("Groups", config.get("groups")),
        ("Experiments", as_setting(config["experiments"]) if "experiments" in config else None),
        ("Topologies", config.get("seeds")),
        ("Seed", manifest.get("seed", config.get("seed"))),
        ("Computed in", as_duration(sum(took)) if took else None),
    ]
    return [(what, as_text(value)) for what, value in found if value is not None]


def config_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a manifest: the user's, and those that follow from them."""
    return {**(manifest.get("config") or {}), **(manifest.get("resolved") or {})}


def settings(manifest: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return each setting in a manifest, its value, and True if the user has set it."""
    by_user, resolved = (redacted(_flat(manifest.get(part))) for part in ("config", "resolved"))
    shown = {**by_user, **resolved}
    for section in RunConfig.sections.values():
        shown = section.completed(shown)
    return [(key, as_setting(value), key in by_user) for key, value in shown.items()]


def origin(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the versions of software in a manifest, and the machine, as names and values."""
    both = _flat(manifest.get("versions")) | _flat(manifest.get("machine"))
    return [(key, as_setting(value)) for key, value in both.items()]


def provenance(manifest: Mapping[str, Any], phases: bool = False) -> PageSection:
    """Return the section with the settings and the versions and, if wanted, the phases."""
    shown, versions = settings(manifest), origin(manifest)
    by_user, defaults = (
        [(k, v) for k, v, is_set in shown if is_set == one] for one in (True, False)
    )
    rows = [
        (phase["name"], f"{took:,.1f}" if is_number(took := phase.get("seconds")) else ABSENT,
         as_text(phase.get("rows")))
        for phase in (manifest.get("phases", ()) if phases else ())
    ]  # fmt: skip
    parts: list[PagePart | str] = []
    if shown:
        parts += [_SETTINGS, NamedValues(by_user, bold=True)]
        parts.append(Folded(f"{len(defaults)} default settings", [NamedValues(defaults)]))
    if versions:
        parts.append(Folded("Versions and machine", [NamedValues(versions)]))
    if rows:
        table = PageTable(("Phase", "Seconds", "Rows"), rows, label="Phases", look="phases")
        parts += [Text("Phases", tag="h3"), table]
    nothing = Text("The manifest has no settings and no versions.")
    return PageSection("run", "Settings and versions", parts or [nothing])


_SETTINGS = (
    "The command set the values in bold. The other values are defaults; a dash marks a setting "
    "without a value."
)


def _flat(nested: Mapping[str, Any] | None, prefix: str = "") -> dict[str, Any]:
    """Return a mapping without inner mappings; names of nested keys are joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in (nested or {}).items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat


# --- HTML


def make_page(heading: str, head: PageParts, body: PageParts, title: str = "") -> Report:
    """Fill the template; all but markup is escaped.

    `head` has the parts before the table of contents, `body` the sections after it and parts
    between them; `title` is that of the window, by default the heading.
    """
    values = {"heading": heading, "title": title or heading, "head": head, "body": body}
    html = environment().get_template("page.html").render(values)
    return Report(html, [*_figures(body)])


def _figures(parts: PageParts) -> Iterator[PageFigure]:
    """Yield the figures of parts, in the order of the page."""
    for part in parts:
        if isinstance(part, Figures):
            yield from part.figures
        elif isinstance(part, PageSection | Folded):
            yield from _figures(part.parts)


@cache
def environment() -> Environment:
    """Return the environment of the template, which compiles the template once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("scribe_spark.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


#: The libraries, whose import takes 0.4 s of processor time together.
_MODULES = (
    "matplotlib.style",
    "matplotlib.figure",
    "matplotlib.legend",
    "matplotlib.ticker",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "PIL.PngImagePlugin",
)


def preload() -> threading.Thread:
    """Import the libraries that draw the report, and compile the template, in a thread."""

    def load() -> None:
        for module in _MODULES:
            importlib.import_module(module)
        environment().get_template("page.html")

    thread = threading.Thread(target=load, name="preload-report", daemon=True)
    thread.start()
    return thread
