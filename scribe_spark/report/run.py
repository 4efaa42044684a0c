"""The page of a run: measured values beside published ones, figures, latencies and trees."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from scribe_spark.report import page
from scribe_spark.report.cards import run_cards, verdict
from scribe_spark.report.comparison import (
    NOTABLE,
    comparison_section,
    deviation_words,
    difference_of,
    headline_cards,
    published_of_figure,
    sections,
    topologies,
)
from scribe_spark.report.paper_figures import draw_figure, page_systems, series_of, shown_figures
from scribe_spark.report.run_figures import (
    Latency,
    draw_by_size,
    draw_coverage,
    draw_node_bytes,
    draw_part_latencies,
)
from scribe_spark.report.style import PERCENT, is_number
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.tables import (
    both_overlays,
    failures,
    latencies,
    latencies_by_part,
    links_in_words,
    without_tables_of_their_own,
)
from scribe_spark.report.trees import RunTrees, tree_figures


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
) -> page.Report:
    """Draw the figures and write the page.

    `metrics` are the rows of ``metrics.json``, in the order of the page; the first of each figure
    with a published value is a headline number. With several topologies, they also have
    ``experiment``, ``std`` and ``seeds``, and `value` is the mean. `manifest` may lack any part.
    `distributions`, `by_part` and `part_latencies` are tables of `schemas`; `delays` has ``system,
    size, rad``, a row for each system and group. Figures link to `tables`, by default to all from
    which they come.
    """
    systems = page_systems(distributions)
    by_size = None if delays is None else draw_by_size(delays, systems)
    figures = [
        *_own_figures(distributions, by_part, latency, part_latencies),
        *_figures_of_paper(metrics, distributions),
        *([] if by_size is None else [(page.TIME, by_size)]),
        *((page.GROUPS, one) for one in ([] if trees is None else tree_figures(trees))),
    ]
    if tables is not None:  # without links to missing tables
        figures = [(section, one.with_tables(tables)) for section, one in figures]
    several = topologies(metrics)
    compared = sections(without_tables_of_their_own(metrics))
    links = links_in_words(page.as_mapping(manifest.get("resolved")))
    has_latency_table = tables is None or "latency" in tables
    found = [_with_trees(one, trees) for one in page.measure_sections(figures)]
    at = next((n for n, one in enumerate(found, start=1) if one.name == page.TIME), len(found))
    differences = [
        one for _, of in compared for metric in of if (one := difference_of(metric)) is not None
    ]
    near, notable = sum(not one.notable for one in differences), f"{NOTABLE:g}{PERCENT}"
    told = page.Text(_MET.format(near=near, compared=len(differences), notable=notable))
    cards = run_cards(metrics)
    return page.make_page(
        _heading(manifest, bool(differences)),
        [
            _PAPER * bool(differences),
            page.NamedValues(page.facts(manifest), "facts"),
            page.Text(verdict(cards), "verdict"),
            page.Cards(cards),
            page.Cards(headline_cards(compared), "Headline numbers", "tiles"),
            told if differences else _NO_EXPERIMENT * bool(compared),
        ],
        [
            _FIGURES + _SEVERAL * bool(several),
            *found[:at],
            *latencies(metrics, links, has_latency_table),
            *latencies_by_part(by_part, "by_part"),
            *found[at:],
            comparison_section(compared, bool(several)),
            *failures(metrics),
            *both_overlays(metrics),
            *several,
            page.provenance(manifest, phases=True),
        ],
    )


_FIGURES = (
    "A system has the same colour in all figures. Figures with a number have it from the paper, "
    f"and thin dashed lines are values that the paper quotes. {page.HOW_TO_READ}"
)
_SEVERAL = (
    " Curves are means over the topologies; medians and maxima are those of all topologies "
    "together. The average standard deviation is the one over the topologies at each x, averaged "
    "over x."
)
_TREES = (
    "The trees are Scribe's, unless a heading names another system. An edge leads from a parent to "
    "a child and is one hop of the overlay. Point at a node to see its number, its depth and, in a "
    "small tree, its path to the root."
)
_PAPER = (
    "A simulation of the evaluation in Castro, Druschel, Kermarrec and Rowstron, “Scribe: a "
    "large-scale and decentralized application-level multicast infrastructure”, IEEE JSAC 20(8), "
    "2002, Section IV."
)
_NO_EXPERIMENT = (
    "The settings are those of none of the paper's experiments, so the page compares no number "
    "with a published one."
)
_MET = Markup(
    "{near} of {compared} published numbers are met within {notable}; "
    '<a href="#comparison">the table marks the others</a>.'
)


def _with_trees(section: page.PageSection, trees: RunTrees | None) -> page.PageSection:
    """Return a section of figures of trees, with words about the trees."""
    if trees is None or section.name != page.GROUPS:
        return section
    intro, *others = section.parts
    return replace(section, parts=[intro, f"{_TREES} {trees.left_out}".rstrip(), *others])


def _figures_of_paper(
    metrics: Sequence[Mapping[str, Any]], distributions: pd.DataFrame
) -> Iterator[tuple[str, PageFigure]]:
    """Yield each figure of the paper with the name of its section."""
    for spec in shown_figures(distributions):
        note = deviation_words(spec, series_of(spec, distributions), metrics)
        published = published_of_figure(spec, metrics)
        yield page.section_of(spec.measures[0]), draw_figure(spec, distributions, published, note)


def _own_figures(
    distributions: pd.DataFrame,
    by_part: pd.DataFrame | None,
    latency: Latency | None,
    part_latencies: pd.DataFrame | None,
) -> Iterator[tuple[str, PageFigure]]:
    """Yield figures that the paper does not have, of time and bytes, with their sections."""
    coverage = draw_coverage(latency, page_systems(distributions))
    yield from [] if coverage is None else [(page.TIME, coverage)]
    if part_latencies is not None:
        yield from ((page.TIME, one) for one in draw_part_latencies(part_latencies))
    yield from ((page.BYTES, one) for one in draw_node_bytes(distributions, by_part))


def _heading(manifest: Mapping[str, Any], is_paper: bool) -> str:
    """Return the title of the page."""
    if is_paper:
        return "Scribe over Pastry: measured against published"
    config = page.config_of(manifest)
    groups, nodes = config.get("groups"), config.get("nodes")
    if is_number(groups) and is_number(nodes):
        return f"One message to each of {groups:,} groups on {nodes:,} nodes"
    return "Report of a run"
