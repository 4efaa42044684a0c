"""The report page: one self-contained HTML file from a template.

Values come from users (paths, names), so the template escapes them; only the drawings, which are
made here, are inserted as markup.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from scribe_spark.report.by_size import draw_by_size
from scribe_spark.report.cards import run_cards, verdict
from scribe_spark.report.catalogue import shown_figures
from scribe_spark.report.comparison import (
    NOTABLE,
    deviation_words,
    published_of_figure,
    sections,
    topologies,
)
from scribe_spark.report.coverage import draw_coverage
from scribe_spark.report.drawing import draw, page_systems
from scribe_spark.report.figure_sections import BYTES, GROUPS, TIME, figure_sections, section_of
from scribe_spark.report.node_bytes import draw_node_bytes
from scribe_spark.report.part_latency import draw_part_latencies
from scribe_spark.report.provenance import as_mapping, facts, origin, phases, settings
from scribe_spark.report.series import series_of
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.tables import (
    COSTS,
    OVERLAYS,
    failure_rows,
    latency_values,
    links_in_words,
    met,
    parts_tables,
    published_numbers,
    without_tables_of_their_own,
)
from scribe_spark.report.text import PERCENT, is_number
from scribe_spark.report.tree_figures import RunTrees, tree_figures

if TYPE_CHECKING:  # only drawing needs it
    from jinja2 import Environment

#: The text of every page about its figures.
HOW_TO_READ = (
    "Point at a figure or touch it to read its values, or choose it with the Tab key and use the "
    "arrow keys."
)


@dataclass(frozen=True)
class Report:
    """A page and its figures.

    Attributes
    ----------
    html : str
        The page.
    figures : dict of str to str
        The SVG of each figure (`svg.Drawn`, which also has PNG and CSV, where matplotlib drew it),
        by a name such as ``figure-07-delay-penalty``.
    """

    html: str
    figures: dict[str, str]


@dataclass(frozen=True)
class Latency:
    """The deliveries of a run by their latency.

    Attributes
    ----------
    counts : DataFrame
        ``system, unit, value, count``: deliveries by their latency, rounded up to whole `unit`.
    expected : mapping of str to float
        System -> the number of expected receivers, over all groups.
    """

    counts: pd.DataFrame
    expected: Mapping[str, float]


def render(
    metrics: Sequence[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    distributions: pd.DataFrame,
    trees: RunTrees | None = None,
    delays: pd.DataFrame | None = None,
    by_part: pd.DataFrame | None = None,
    latency: Latency | None = None,
    part_latencies: pd.DataFrame | None = None,
    tables: Collection[str] | None = None,
) -> Report:
    """Draw the figures and write the page.

    Parameters
    ----------
    metrics : sequence of mappings
        ``name, value, unit, paper, figure``; value, paper and figure may be None.  Optional:
        ``check`` (the independent check's range, as text), ``note`` and ``fitted`` (parameters were
        fitted to the published value); of several topologies
        ``experiment``, ``std`` and ``seeds`` (each seed's value), `value` being the mean.  Rows
        keep their order; the first of each figure that has a published value is one of the
        headline numbers.
    manifest : mapping
        ``config, resolved, versions, seed, phases, machine``, any of them absent.
    distributions : DataFrame
        ``figure, system, measure, value, count``: how many things (groups, nodes, links) have each
        value.  For Figure 6 value is the rank and count the group's size.
    trees : RunTrees, optional
        The trees that are drawn.
    delays : DataFrame, optional
        ``system, size, rad``: a row for each system and group, of all topologies.
    by_part : DataFrame, optional
        Measures by class and region, the columns `parts.COLUMNS`.
    latency : Latency, optional
        Deliveries by their latency.
    part_latencies : DataFrame, optional
        Deliveries by latency, class and region, the columns `part_latency.COLUMNS`.
    tables : collection of str, optional
        The tables of the folder; by default all that figures come from.

    Returns
    -------
    Report
    """
    systems = page_systems(distributions)
    by_size = None if delays is None else draw_by_size(delays, systems)
    figures = [
        *_own_figures(distributions, by_part, latency, part_latencies),
        *_figures_of_paper(metrics, distributions),
        *([] if by_size is None else [(TIME, by_size)]),
        *((GROUPS, one) for one in ([] if trees is None else tree_figures(trees))),
    ]
    if tables is not None:  # without links to missing tables
        figures = [(section, one.with_tables(tables)) for section, one in figures]
    compared_rows = sections(without_tables_of_their_own(metrics))
    rows = [row for _, of in compared_rows for row in of]
    compared = [row["difference"] for row in rows if row["difference"] is not None]
    of_figures = ([row for row in of if row["difference"] is not None] for _, of in compared_rows)
    headlines = [row for first in of_figures for row in first[:1]]
    numbers, cards = published_numbers(metrics), run_cards(metrics)
    return make_page(
        "template.html",
        manifest,
        [one for _, one in figures],
        heading=_heading(manifest, bool(compared)),
        facts=facts(manifest),
        verdict=verdict(cards),
        cards=cards,
        headlines=headlines,
        compared=len(compared),
        near=sum(not difference.notable for difference in compared),
        notable=f"{NOTABLE:g}{PERCENT}",
        figure_sections=figure_sections(figures),
        has_trees=trees is not None,
        trees_left_out="" if trees is None else trees.left_out,
        sections=compared_rows,
        number_count=len(rows),
        fitted=any(row["fitted"] for row in rows),
        any_by_hops=any(row["by_hops"] for row in rows),
        **latency_values(metrics, links_in_words(as_mapping(manifest.get("resolved")))),
        has_latency_table=tables is None or "latency" in tables,
        failures=failure_rows(metrics),
        failure_costs=COSTS,
        parts=parts_tables(by_part),
        parts_table="by_part",
        overlays=OVERLAYS,
        published_numbers=numbers,
        met=met(numbers),
        topologies=topologies(metrics),
        phases=phases(manifest),
    )


def _figures_of_paper(
    metrics: Sequence[Mapping[str, Any]], distributions: pd.DataFrame
) -> Iterator[tuple[str, PageFigure]]:
    """Yield each figure of the paper with the name of its section."""
    for spec in shown_figures(distributions):
        one = draw(spec, distributions, published_of_figure(spec, metrics))
        note = deviation_words(spec, series_of(spec, distributions), metrics)
        yield (
            section_of(spec.measures[0]),
            PageFigure(
                spec.name,
                f"Figure {spec.number}. {spec.title}",
                one.svg,
                " ".join(filter(None, (spec.caption, note, one.equal))),
                one.words,
                tables=("distributions",),
            ),
        )


def _own_figures(
    distributions: pd.DataFrame,
    by_part: pd.DataFrame | None,
    latency: Latency | None,
    part_latencies: pd.DataFrame | None,
) -> Iterator[tuple[str, PageFigure]]:
    """Yield figures of time and bytes, which the paper does not have, with their sections."""
    if latency is not None:
        systems = page_systems(distributions)
        coverage = draw_coverage(latency.counts, latency.expected, systems)
        yield from [] if coverage is None else [(TIME, coverage)]
    if part_latencies is not None:
        yield from ((TIME, one) for one in draw_part_latencies(part_latencies))
    yield from ((BYTES, one) for one in draw_node_bytes(distributions, by_part))


def _heading(manifest: Mapping[str, Any], is_paper: bool) -> str:
    """Return the title of the page."""
    if is_paper:
        return "Scribe over Pastry: measured against published"
    config = {**as_mapping(manifest.get("config")), **as_mapping(manifest.get("resolved"))}
    groups, nodes = config.get("groups"), config.get("nodes")
    if is_number(groups) and is_number(nodes):
        return f"One message to each of {groups:,} groups on {nodes:,} nodes"
    return "Report of a run"


@cache
def environment() -> Environment:
    """Return the environment of the templates, which compiles each template once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("scribe_spark.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def make_page(
    template: str, manifest: Mapping[str, Any], figures: Iterable[PageFigure], **values: Any
) -> Report:
    """Fill a template with values, the settings and the origin; all but markup is escaped."""
    filled = {"settings": settings(manifest), "origin": origin(manifest), "phases": [], **values}
    html = environment().get_template(template).render(how_to_read=HOW_TO_READ, **filled)
    return Report(html, {one.name: one.drawing for one in figures})


# --- in advance

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
    """Import the libraries that draw the report, and compile the templates, in a thread; return
    the thread.
    """
    thread = threading.Thread(target=_load, name="preload-report", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(module)
    for template in environment().list_templates(extensions=["html"]):
        environment().get_template(template)
