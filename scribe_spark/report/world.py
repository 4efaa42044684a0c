"""The page of a world: the measures of each round, drawn over the rounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.measures.incomplete import (
    has_gap,
    incomplete_rounds,
    rounds_not_due,
    words_in_place,
)
from scribe_spark.report.axes import short_numbers
from scribe_spark.report.cards import world_cards
from scribe_spark.report.chart import chart, line_of
from scribe_spark.report.coverage import draw_coverage
from scribe_spark.report.figure_sections import FigureSection
from scribe_spark.report.page import Latency, Report, make_page
from scribe_spark.report.provenance import as_mapping, facts
from scribe_spark.report.readouts import Line
from scribe_spark.report.style import marked_style, system_styles
from scribe_spark.report.svg import Drawn, PageFigure
from scribe_spark.report.tables import latencies_of_last_round, links_in_words, parts_tables
from scribe_spark.report.text import as_text
from scribe_spark.report.tree_scene import scene_figures, scene_of
from scribe_spark.report.world_notes import world_notes
from scribe_spark.report.world_panels import (
    BYTES_PANELS,
    GROUP_PANELS,
    PANELS,
    TREE_PANELS,
    Panel,
    system_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MESSAGES, _LOST = "messages.", "messages.lost "
_MOST_FREQUENT, _MOST_KINDS = "messages", 5
_MOST_OPEN = 6  # the number of visible figures of a section
_MOST_MARKERS = 30  # up to this number of rounds, each has a marker


def _costs(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the means of a round's supersteps, messages and bytes, if nodes are in buckets."""
    costs = list(manifest.get("world", {}).get("costs", {}).values())
    if not costs:
        return []
    supersteps, messages, size = (
        sum(one[name] for one in costs) / len(costs) for name in ("supersteps", "messages", "bytes")
    )
    words = f"{supersteps:,.0f} supersteps, {messages:,.0f} messages of {size / 1e6:,.1f} MB"
    return [("A round, in the mean", words)]


def render_world(
    rounds: pd.DataFrame,
    manifest: Mapping[str, Any],
    watched: pd.DataFrame | None = None,
    latency: Latency | None = None,
    by_part: pd.DataFrame | None = None,
) -> Report:
    """Draw the figures and write the page of a world."""
    from scribe_spark.worlds.summary import measures_by_round  # imported here, as it imports Spark

    length = as_mapping(manifest.get("round"))
    table = measures_by_round(rounds)
    seconds = float(length.get("seconds", NOMINAL_SECONDS))
    sections: list[FigureSection] = []
    shown: list[Panel] = []
    figures: list[PageFigure] = []
    for title, panels in (
        ("Systems side by side", system_panels(table.columns)),
        ("Scribe's trees", (*GROUP_PANELS, *BYTES_PANELS)),
        ("Nodes and lookups", (*PANELS, _messages_panel(table))),
        ("The reference tree", TREE_PANELS),
    ):
        lines = [(panel, _lines(panel, table, seconds)) for panel in panels]
        steady = [
            panel.name
            for panel, those in lines
            if all(line.nunique() <= 1 for line in those.values())
        ]
        drawn = [(panel, _draw(panel, those, table)) for panel, those in lines if those]
        drawn.sort(key=lambda one: one[0].name in steady)
        if drawn:
            listed = [figure for _, figure in drawn]
            name = f"section-{len(sections) + 1}"
            sections.append(FigureSection(name, title, listed, most_open=_MOST_OPEN))
            shown += [
                p for p, those in lines if those and p.name != _MOST_FREQUENT and not p.across
            ]
            figures += listed
    coverage = None
    if latency is not None:
        systems = {str(name) for name in latency.counts["system"]}
        coverage = draw_coverage(latency.counts, latency.expected, systems)
    of_last_round = None
    if by_part is not None:  # of the last round with deliveries
        delays = by_part[by_part["measure"] == "delay_ms"]
        of_last_round = delays[delays["round"] == delays["round"].max()]
    scene = None if watched is None else scene_of(watched)
    drawn_trees = [] if scene is None else scene_figures(scene)
    figures += [*([] if coverage is None else [coverage]), *drawn_trees]
    return make_page(
        "world.html",
        manifest,
        figures,
        facts=[
            *facts(manifest),
            ("Rounds", as_text(len(table))),
            *([("A round", as_text(length["has"]))] if "has" in length else []),
            *_costs(manifest),
        ],
        cards=world_cards(table),
        notes=world_notes(table),
        **latencies_of_last_round(table, links_in_words(as_mapping(manifest.get("resolved")))),
        parts_table="rounds_by_part",
        parts=parts_tables(of_last_round),
        coverage=coverage,
        has_latency_table=coverage is not None,
        sections=sections,
        has_groups=watched is not None,
        scene=scene,
        trees=drawn_trees,
        rounds=[
            (
                number,
                [_cell(table, number, name) for of in shown for name in of.measures],
            )
            for number in table.index
        ],
        heads=[f"{panel.title}: {label}" for panel in shown for label in panel.measures.values()],
    )


def _lines(panel: Panel, table: pd.DataFrame, seconds: float) -> dict[str, pd.Series]:
    """Return label -> values by round (or by `across`), for each measure that was taken."""
    if panel.across:
        found = {label: _distribution(table, name) for name, label in panel.measures.items()}
        return {label: counts for label, counts in found.items() if len(counts)}
    there = {label: name for name, label in panel.measures.items() if name in table}
    if not panel.every_round:
        lines = {label: with_gaps(table, name) for label, name in there.items()}
        return {label: line for label, line in lines.items() if line.notna().any()}
    lines = {label: table[name] for label, name in there.items()}
    if panel.name != _MOST_FREQUENT:
        return lines
    nodes = table["nodes.live"] * seconds
    return {label: line.fillna(0) / nodes for label, line in lines.items()}


def _distribution(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return counts of all rounds by the number at the end of the measures' names; 0 in gaps."""
    from scribe_spark.worlds.summary import totals_by_number  # imported here, as it imports Spark

    counts = totals_by_number(table, measure)
    return pd.Series(counts).reindex(range(max(counts, default=-1) + 1), fill_value=0.0)


def with_gaps(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return the values of a measure by round; NaN, a gap in its line, in a round with multicasts
    of the system but without a value.
    """
    line = table[measure]
    return line[line.notna() | has_gap(table, measure)]


def _draw(panel: Panel, lines: Mapping[str, pd.Series], table: pd.DataFrame) -> PageFigure:
    """Describe a panel in words, and draw it."""
    words = " ".join(
        distribution_words(line, panel.across) if panel.across else line_words(label, line)
        for label, line in lines.items()
    )
    in_place = words_in_place(table)
    words += "".join(
        f" {label}: {in_place[name]}." for name, label in panel.measures.items() if name in in_place
    )
    across = panel.across or "round"
    name = f"round-{panel.name}"
    styles = system_styles(panel.systems.values())
    looks = {label: styles[system] for label, system in panel.systems.items()}
    hollow = {label: incomplete_rounds(table, name) for name, label in panel.measures.items()}
    drawing = draw_rounds(
        *(name, panel.title, words, lines),
        across=across,
        looks=looks,
        unit=panel.axis,
        hollow=hollow,
    )
    return PageFigure(name, panel.title, drawing, words=words, unit=panel.unit, tables=("rounds",))


def _messages_panel(table: pd.DataFrame) -> Panel:
    """Return the panel with the most frequent kinds of messages."""
    sent = [name for name in table if name.startswith(_MESSAGES) and not name.startswith(_LOST)]
    most = sorted(sent, key=lambda name: (-table[name].sum(), name))[:_MOST_KINDS]
    kinds = {name: name.removeprefix(_MESSAGES) for name in most}
    unit = "per live node and second"
    return Panel(_MOST_FREQUENT, "Messages, the most frequent kinds", unit, kinds)


def _cell(table: pd.DataFrame, number: int, name: str) -> str:
    """Return a measure in a round as text."""
    system, _, measure = name.partition(".")
    if measure == "publications.lost" and number in rounds_not_due(table, system):
        return "not due"
    if name not in table or pd.isna(table.at[number, name]):
        return as_text(None)
    return as_text(float(table.at[number, name]))


def line_words(label: str, line: pd.Series) -> str:
    """Return the first and the last value of a line, and its extremes, in a sentence."""
    known = line.dropna()
    first, last = as_text(float(known.iloc[0])), as_text(float(known.iloc[-1]))
    least, most = as_text(float(known.min())), as_text(float(known.max()))
    text = f"{label[:1].upper()}{label[1:]}: {first} in"
    if len(known) == 1:
        return f"{text} round {known.index[0]}."
    if known.min() == known.max():
        return f"{text} rounds {known.index[0]} to {known.index[-1]}."
    text = f"{text} round {known.index[0]}, {last} in round {known.index[-1]}"
    return f"{text}, between {least} and {most}."


def distribution_words(counts: pd.Series, across: str) -> str:
    """Return the median and the greatest value of a distribution, given by counts, in words."""
    shares = counts.cumsum() / counts.sum()
    median, most = (int((shares >= share).idxmax()) for share in (0.5, 1.0))
    sentence = f"{across[:1].upper()}{across[1:]}"
    return f"{sentence}: {median} for half of {as_text(float(counts.sum()))}, at most {most}."


def draw_rounds(
    name: str,
    title: str,
    words: str,
    lines: Mapping[str, pd.Series],
    legend: bool = True,
    across: str = "round",
    looks: Mapping[str, dict[str, Any]] | None = None,
    unit: str = "",
    hollow: Mapping[str, Collection[int]] | None = None,
) -> Drawn:
    """Return a drawing over the rounds.

    Parameters
    ----------
    hollow : mapping of str to collection of int, optional
        Label -> the rounds that have a hollow marker.
    """
    from matplotlib.ticker import MaxNLocator

    by_label = {label: marked_style(n) for n, label in enumerate(lines)} | dict(looks or {})
    drawn = [line_of(label, by_label[label], line.index, line) for label, line in lines.items()]
    values = np.concatenate([line.points[1][~np.isnan(line.points[1])] for line in drawn])
    whole = bool((values == np.round(values)).all())

    def kept(line: Line) -> np.ndarray:
        return np.isin(line.points[0], [*(hollow or {}).get(line.label, ())])

    def prepare(axes: Axes) -> None:
        for line, given in zip(axes.lines, drawn, strict=True):
            count = len(given.points[0])
            line.set_markevery(-(-count // 10) if count > _MOST_MARKERS else 1)
            rounds, values_of = (points[kept(given)] for points in given.points)
            edges = {"edgecolors": given.look["color"], "facecolors": "white", "linewidths": 0.9}
            marker = given.look.get("marker", "o")
            axes.scatter(rounds, values_of, s=20, marker=marker, zorder=4, clip_on=False, **edges)
        axes.set_ylim(0, values.max() * 1.08 or 1)
        # of one round too
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=steps, integer=whole, min_n_ticks=1))
        short_numbers(axes.yaxis)

    return chart(
        *(name, title, words, drawn),
        lambda x: f"{across} {as_text(x)}",
        prepare,
        labels=(across, unit),
        size=(4.6, 2.7),
        box=(0.15, 0.17, 0.81, 0.78),
        ends=True,
        legend=legend,
        clip_on=False,
        zorder=3,
    )
