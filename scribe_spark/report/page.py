"""The report page: one self-contained HTML file, filled from a template.

Values come from users (paths, names) and are escaped by the template; only the drawings, which are
made here, enter it as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scribe_spark.report.by_size import draw_by_size
from scribe_spark.report.cards import run_cards
from scribe_spark.report.catalogue import shown_figures
from scribe_spark.report.comparison import (
    NOTABLE,
    deviation_words,
    headline,
    published_of_figure,
    sections,
    topologies,
)
from scribe_spark.report.coverage import draw_coverage
from scribe_spark.report.drawing import draw, page_systems
from scribe_spark.report.failures import COSTS, failure_rows, without_failures
from scribe_spark.report.latencies import latency_values, links_in_words, without_latencies
from scribe_spark.report.overlays import OVERLAYS, met, published_numbers
from scribe_spark.report.parts import parts_tables
from scribe_spark.report.provenance import as_mapping, facts, origin, phases, settings
from scribe_spark.report.series import series_of
from scribe_spark.report.svg import OwnFigure
from scribe_spark.report.text import PERCENT
from scribe_spark.report.tree_figures import RunTrees, tree_figures


@dataclass(frozen=True)
class Report:
    """A run's report.

    Attributes
    ----------
    html : str
        The page.
    figures : dict of str to str
        The SVG of each figure, by a name such as ``figure-07-delay-penalty``.
    """

    html: str
    figures: dict[str, str]


@dataclass(frozen=True)
class _Figure:
    """A figure as the page shows it; the drawing is markup."""

    name: str
    heading: str
    svg: Any
    caption: str
    words: str
    note: str = ""

    @classmethod
    def of(cls, own: OwnFigure) -> _Figure:
        """Return a figure that the paper does not have."""
        from markupsafe import Markup

        return cls(own.name, own.title, Markup(own.svg), own.caption, own.words)


@dataclass(frozen=True)
class Latency:
    """Deliveries of a run by their latency.

    Attributes
    ----------
    counts : DataFrame
        ``system, unit, value, count``: deliveries by their latency, rounded up to whole `unit`.
    expected : mapping of str to float
        System -> members that are to get the message, over all groups.
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

    Returns
    -------
    Report
    """
    from markupsafe import Markup

    drawn = [
        draw(spec, distributions, published_of_figure(spec, metrics))
        for spec in shown_figures(distributions)
    ]
    figures = [
        _Figure(
            *(d.spec.name, f"Figure {d.spec.number}. {d.spec.title}", Markup(d.svg)),
            *(d.spec.caption, d.words),
            deviation_words(d.spec, series_of(d.spec, distributions), metrics),
        )
        for d in drawn
    ]
    by_size = None if delays is None else draw_by_size(delays, page_systems(distributions))
    if by_size is not None:
        after = [d.spec.measures[0] for d in drawn].index("rad") + 1
        figures.insert(after, _Figure.of(by_size))
    coverage = None
    if latency is not None:
        coverage = draw_coverage(latency.counts, latency.expected, page_systems(distributions))
    if coverage is not None:
        figures.insert(0, _Figure.of(coverage))
    compared_rows = sections(without_latencies(without_failures(metrics)))
    differences = [row.difference for section in compared_rows for row in section.rows]
    compared = [difference for difference in differences if difference is not None]
    numbers = published_numbers(metrics)
    drawn_trees = [] if trees is None else tree_figures(trees)
    html = fill_template(
        "template.html",
        facts=facts(manifest),
        cards=run_cards(metrics),
        headlines=[row for section in compared_rows for row in headline(section)],
        compared=len(compared),
        near=sum(not difference.notable for difference in compared),
        notable=f"{NOTABLE:g}{PERCENT}",
        figures=figures,
        trees=[(figure, Markup(figure.svg)) for figure in drawn_trees],
        trees_left_out="" if trees is None else trees.left_out,
        sections=compared_rows,
        fitted=any(row.fitted for section in compared_rows for row in section.rows),
        any_by_hops=any(row.by_hops for section in compared_rows for row in section.rows),
        **latency_values(metrics, links_in_words(as_mapping(manifest.get("resolved")))),
        failures=failure_rows(metrics),
        failure_costs=COSTS,
        parts=parts_tables(by_part),
        overlays=OVERLAYS,
        published_numbers=numbers,
        met=met(numbers),
        topologies=topologies(metrics),
        settings=settings(manifest),
        origin=origin(manifest),
        phases=phases(manifest),
    )
    svgs = {figure.name: str(figure.svg) for figure in figures}
    return Report(html, svgs | {figure.name: figure.svg for figure in drawn_trees})


def fill_template(template: str, **values: Any) -> str:
    """A template with every value escaped but those that are markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("scribe_spark.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
