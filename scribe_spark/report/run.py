"""The page of a run: measured values beside published ones, figures, latencies and trees."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from scribe_spark.core import units
from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.measures.measure import forwards
from scribe_spark.report import page
from scribe_spark.report.charts import (
    Axis,
    Line,
    Panel,
    draw,
    equal_curves,
    exactly,
    from_zero,
    lines_panel,
    share_line,
)
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
from scribe_spark.report.pictures import RunTrees, tree_figures
from scribe_spark.report.style import (
    ABSENT,
    PERCENT,
    as_bytes,
    as_percent,
    as_text,
    curve_style,
    cut,
    in_order,
    is_number,
    label_of,
    percent_tick,
    short_tick,
    system_styles,
)
from scribe_spark.report.svg import PageFigure, Spot, new_figure, svg_element
from scribe_spark.report.tables import (
    both_overlays,
    failures,
    latencies,
    latencies_by_part,
    links_in_words,
    run_cards,
    verdict,
    without_tables_of_their_own,
)
from scribe_spark.systems.registry import baseline, find_system

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes


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
    figures = [
        *((page.TIME, one) for one in draw_coverage(latency, systems)),
        *((page.TIME, one) for one in draw_part_latencies(part_latencies)),
        *((page.BYTES, one) for one in draw_node_bytes(distributions, by_part)),
        *_figures_of_paper(metrics, distributions),
        *((page.TIME, one) for one in draw_by_size(delays, systems)),
        *((page.GROUPS, one) for one in ([] if trees is None else tree_figures(trees))),
    ]
    if tables is not None:  # without links to missing tables
        figures = [
            (section, replace(one, tables=tuple(name for name in one.tables if name in tables)))
            for section, one in figures
        ]
    several = topologies(metrics)
    compared = sections(without_tables_of_their_own(metrics))
    links = links_in_words(manifest.get("resolved", {}))
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


def _heading(manifest: Mapping[str, Any], is_paper: bool) -> str:
    """Return the title of the page."""
    if is_paper:
        return "Scribe over Pastry: measured against published"
    config = page.config_of(manifest)
    groups, nodes = config.get("groups"), config.get("nodes")
    if is_number(groups) and is_number(nodes):
        return f"One message to each of {groups:,} groups on {nodes:,} nodes"
    return "Report of a run"


# --- RAD by group size: a median over all groups mainly shows small ones, as most groups are small.
# The source of a small group of a mesh sends to all members itself; only large ones show the costs.


def draw_by_size(delays: pd.DataFrame | None, systems: set[str]) -> Iterator[PageFigure]:
    """Draw a line for each system whose nodes forward copies, if there are such systems."""
    lines = {}
    for name, of in () if delays is None else delays.groupby("system"):
        system = find_system(str(name))
        if system is None or forwards(system):
            lines[str(name)] = by_size(of)
    order = in_order(lines)
    if not order:
        return
    styles, ip = system_styles({*systems, *order}), baseline()
    by_label = {label_of(name) if len(order) > 1 else "": lines[name] for name in order}
    least = min(line.index[0] for line in lines.values())
    yield draw(
        lines_panel(
            *("sizes", "figure-rad-by-group-size", "RAD by group size", by_label),
            Axis("group size (members)", low=0.8 * least, scale="decades"),
            from_zero(f"RAD (mean delay / by {ip.label})", by_label, ticks=6),
            lambda size: f"about {as_text(size)} members",
            before="in groups of",
            looks={label: styles[name] for label, name in zip(by_label, order, strict=True)},
            marks=lambda axes: axes.axhline(1, color=styles[ip.name]["color"], linewidth=0.7),
            caption="Each point is the median RAD of groups of similar size, drawn at their median "
            "size; sizes within a point differ by a factor of up to two. The last point of a line "
            "is the largest group alone. RAD is the mean delay divided by that of IP multicast.",
            tables=("group_delay",),
        )
    )


def by_size(delays: pd.DataFrame) -> pd.Series:
    """Return the median RAD of each class of groups, by the median size of the class.

    A class has sizes between powers of 2; the largest group is a class of its own.
    """
    size = delays["size"].to_numpy()
    classes = np.floor(np.log2(size)).astype(int)
    classes[size == size.max()] = classes.max() + 1
    medians = delays[["size", "rad"]].groupby(classes).median()
    return pd.Series(medians["rad"].to_numpy(), medians["size"].to_numpy(dtype=float))


# --- coverage over time: the share of the members that have the message


@dataclass(frozen=True)
class Latency:
    """The deliveries of a run by their latency."""

    counts: pd.DataFrame  # system, unit, value (rounded up to whole `unit`), count
    expected: Mapping[str, float]  # system -> the number of expected receivers, over all groups
    deadlines: tuple[str, ...] = ()  # such as ``800ms``


#: The percentiles that figures mark, and those that words have.
_MARKED, _PERCENTILES = (50, 90, 95, 99), (50, 90, 99)


def draw_coverage(latency: Latency | None, systems: set[str]) -> Iterator[PageFigure]:
    """Draw a line of the share reached over time for each system, if there are latencies in ms."""
    if latency is None or not (latency.counts["unit"] == "ms").any():
        return
    found = _histograms(latency.counts[latency.counts["unit"] == "ms"])
    styles = system_styles({*systems, *found})
    lines, sentences = [], []
    for name, of in found.items():
        look = {"color": styles[name]["color"]}
        line = share_line(label_of(name), look, of, latency.expected.get(name) or 0)
        times = ", ".join(f"{percent}{PERCENT} {_when(line, percent)}" for percent in _MARKED)
        sentences.append(f"{line.label}: {times}.")
        lines.append(_from_zero(line))

    def marks(axes: Axes) -> None:
        for group in equal_curves([line.points for line in lines]):
            for below, line in enumerate(lines[number] for number in reversed(group)):
                x, y = line.points
                at = [np.searchsorted(y, percent) for percent in _MARKED if y[-1] >= percent]
                dot: dict[str, Any] = {"marker": "o", "markersize": 3.5 + 2 * below}
                dot |= {"zorder": 3 - 0.1 * below, "linestyle": ""}
                axes.plot(x[at], y[at], color=line.look["color"], **dot)
        for percent in _MARKED:
            axes.axhline(percent, color="#888888", linewidth=0.5, linestyle=(0, (2, 2)), zorder=0)
        for ms in deadlines:
            axes.axvline(ms, color="#57606a", linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)

    deadlines = [units.parse_time(one) / units.MICROSECONDS for one in latency.deadlines]
    right = 1.02 * max(*(of.values[-1] for of in found.values()), *deadlines, 0)
    marked = f" Vertical lines mark the deadlines: {', '.join(latency.deadlines)}."
    yield draw(
        Panel(
            *("figure-coverage", "Coverage over time", "large", lines),
            Axis("time since the message was sent (ms)", 0, right, tick=short_tick),
            Axis("members that have it (%)", 0, 101, tick=percent_tick),
            " ".join(sentences),
            _within,
            as_percent,
            marks=marks,
            caption="The share of the expected members that have the message after x ms, over all "
            "groups: the cumulative distribution of latency. Dots mark 50, 90, 95 and 99 %."
            + marked
            * bool(deadlines),
            tables=("latency_counts", "latency"),
        )
    )


def _within(ms: float | None) -> str:
    return f"within {as_text(ms)} ms"


def _from_zero(line: Line) -> Line:
    """Return the line with the point (0, 0) before its first point."""
    x, y = line.points
    return replace(line, points=(np.r_[0.0, x], np.r_[0.0, y]))


def _when(line: Line, percent: float) -> str:
    """Return the time at which `percent` of the members have the message; a dash for never."""
    ms, shares = line.points
    return _within(ms[np.searchsorted(shares, percent)]) if shares[-1] >= percent else ABSENT


def _histograms(rows: pd.DataFrame) -> dict[str, Histogram]:
    """Return the histogram of each system, in the order of the registry."""
    found = {str(name): histogram_of_rows(of) for name, of in rows.groupby("system")}
    return {name: found[name] for name in in_order(found)}


# --- latency by class or region of nodes: a small chart for each system, a curve for each part


def draw_part_latencies(counts: pd.DataFrame | None) -> Iterator[PageFigure]:
    """Yield a figure of latencies by class of nodes and one by region, if there are any.

    `counts` has the columns of `schemas.PART_LATENCIES`.
    """
    for by, rows in () if counts is None else counts.groupby("by", sort=True):
        parts = sorted({*rows["part"]})
        looks = {part: curve_style(number) for number, part in enumerate(parts)}
        percent, right = np.arange(1, 101), 1.02 * max(rows["value"])
        axis = Axis("latency (ms)", 0, right, ticks=4, tick=short_tick)
        shares = Axis("deliveries (%)", 0, 101, named={n: str(n) for n in (0, 50, 90, 100)})
        charts, table, words = [], [], []
        for system in in_order(rows["system"]):
            lines = []
            for part, of_part in rows[rows["system"] == system].groupby("part", sort=True):
                of, label = histogram_of_rows(of_part), f"{label_of(system)}, {part}"
                lines.append(_from_zero(share_line(str(part), looks[part], of)))
                ranks = np.array([of.nearest_rank(int(p)) for p in percent], dtype=float)
                table.append(Line(f"{label} (ms)", {}, percent, exactly(percent, ranks)))
                within = (f"{p}{PERCENT} {_within(of.nearest_rank(p))}" for p in _PERCENTILES)
                words.append(f"{label}: {', '.join(within)}.")
            chart = Panel("", label_of(system), "part", lines, axis, shares)
            charts.append(replace(chart, heading=_within, value=as_percent))
        yield draw(
            Panel(
                *(f"figure-latency-by-{by}", f"Latency by {by} of nodes", "part", (), shares, axis),
                words=" ".join(words),
                at=int,
                legend=[(str(part), [look]) for part, look in looks.items()],
                charts=charts,
                table=table,
                caption=f"The share of the deliveries to the nodes of each {by} that arrive within "
                "x ms, for each system. All charts have the same axes.",
                tables=("part_latencies", "by_part"),
            )
        )


# --- bytes of nodes: the mean by system and class as bars, and the distribution over the nodes

#: Direction -> the verb for it.
_DIRECTIONS = {"up": "sends", "down": "receives"}

_PALE = 0.45
_ROW, _GAP, _TOP, _BOTTOM = 0.2, 0.12, 0.1, 0.45  # inches
_WIDTH, _RIGHT = 4.5, 1.05
#: The greatest number of characters of a label beside a bar; longer ones are cut.
_LONGEST = 30

#: The columns of a table of bars, and of the file of its values: means, the payload that 95 % of
#: the nodes do not exceed, and the greatest payload.
_COLUMNS = {
    "payload": "payload mean (B)",
    "control": "control mean (B)",
    "p95": "payload p95 (B)",
    "most": "payload max (B)",
}


def draw_node_bytes(
    distributions: pd.DataFrame, by_part: pd.DataFrame | None
) -> Iterator[PageFigure]:
    """Yield figures of the bytes of nodes; nothing for a run whose messages have no size."""
    if "measure" not in distributions:
        return
    for direction, does in _DIRECTIONS.items():
        payload, control = (
            _histograms(distributions[distributions["measure"] == f"{kind}.{direction}"])
            for kind in ("bytes", "control_bytes")
        )
        if not payload:
            continue
        rows = [
            (name, "", of.mean(), control.get(name, Histogram()).mean() or 0.0,
             of.nearest_rank(95), of.max)
            for name, of in payload.items()
        ]  # fmt: skip
        bars = pd.DataFrame(rows, columns=["system", "part", *_COLUMNS])
        if by_part is not None and (by_part["by"] == "class").any():
            bars = _by_class(by_part[by_part["by"] == "class"], direction)
        yield _bars(direction, does, bars)
        yield _cumulative(direction, does, payload)


def _by_class(by_class: pd.DataFrame, direction: str) -> pd.DataFrame:
    """Return a bar for each system and class of nodes."""
    payload, control = (
        by_class[by_class["measure"] == f"bytes.{kind}_{direction}"].set_index(["system", "part"])
        for kind in ("payload", "control")
    )
    bars = pd.DataFrame(
        {
            "payload": payload["mean"],
            "control": control["mean"].reindex(payload.index).fillna(0.0),
            "p95": payload["p95"],
            "most": payload["max"],
        }
    ).reset_index()
    rank = bars["system"].map(in_order(bars["system"]).index)
    return bars.iloc[np.lexsort((bars["part"], rank))]


def _bars(direction: str, does: str, bars: pd.DataFrame) -> PageFigure:
    name, title = f"figure-bytes-{direction}", f"Bytes that a node {does}"
    has_parts, systems = bool(bars["part"].any()), bars["system"].map(label_of)
    labels = [", ".join(filter(None, of)) for of in zip(systems, bars["part"], strict=True)]
    texts = bars[[*_COLUMNS]].map(as_bytes)
    words = " ".join(
        f"{label}: {of.payload} of payload and {of.control} of control messages in the mean; "
        f"95{PERCENT} of the nodes have at most {of.p95} of payload, and the greatest value is "
        f"{of.most}."
        for label, of in zip(labels, texts.itertuples(), strict=True)
    )
    styles = system_styles(bars["system"])
    colours = np.array([styles[system]["color"] for system in bars["system"]])
    gaps = (bars["system"] != bars["system"].shift()).cumsum().to_numpy() - 1
    at = np.arange(len(bars)) * _ROW + gaps * _GAP * has_parts
    mean, p95 = (bars["payload"] + bars["control"]).to_numpy(), bars["p95"].to_numpy()
    right, some = np.maximum(mean, p95), p95 > mean
    height = _TOP + at[-1] + _ROW + _BOTTOM
    with new_figure(_WIDTH, height) as figure:
        axes = figure.add_axes((0.3, _BOTTOM / height, 0.5, (at[-1] + _ROW) / height))
        axes.barh(at, bars["payload"], _ROW * 0.7, color=colours)
        control: dict[str, Any] = {"left": bars["payload"], "color": colours, "alpha": _PALE}
        axes.barh(at, bars["control"], _ROW * 0.7, **control)
        axes.hlines(at[some], mean[some], p95[some], colours[some], linewidth=0.9)
        axes.scatter(p95[some], at[some], 25, colours[some], marker="|", linewidth=1)
        look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7.5}
        for y, x, value in zip(at, right, mean, strict=True):
            axes.annotate(f"mean {as_bytes(value)}", (x, y), (4, 0), annotation_clip=False, **look)
        short = [cut(label, _LONGEST) for label in labels]
        axes.set_yticks(at, short, fontsize=7.5, parse_math=False)
        axes.set(xlim=(0, max(1.0, *right)), ylim=(at[-1] + _ROW / 2, -_ROW / 2))
        axes.set_xlabel(f"bytes that a node {does}")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda size, _: as_bytes(size))
        left = max(one.get_window_extent().width for one in axes.get_yticklabels()) / 72 + 0.1
        wide, (_, low, _, high) = _WIDTH - left - _RIGHT, axes.get_position().bounds
        axes.set_position((left / _WIDTH, low, wide / _WIDTH, high))
        spots = []
        for y, label, of in zip(at, labels, texts.itertuples(), strict=True):
            told = {"payload": of.payload, "control": of.control}
            told |= {f"95{PERCENT} of the nodes": of.p95, "greatest": of.most}
            lines = [label, *(f"{what}: {size}" for what, size in told.items())]
            area = 0, 72 * (_TOP + y), 72 * _WIDTH, 72 * _ROW
            spots.append(Spot(area, 72 * (left + wide / 2), area[1] + 36 * _ROW + 8, lines))
        svg = svg_element(figure, name, title, words, spots)
    values = pd.DataFrame({"system": systems, "class": bars["part"]})
    values[[*_COLUMNS.values()]] = bars[[*_COLUMNS]].to_numpy()
    caption = (
        f"Mean over the nodes{' of each class' * has_parts}: payload, "
        "and in a paler colour control messages. The thin line ends at the payload that "
        f"95{PERCENT} of the nodes do not exceed."
    )
    tables = ("bytes", "by_part")[: 1 + has_parts]
    return PageFigure(name, title, svg, caption, words, "", tables, figure, values)


def _cumulative(direction: str, does: str, payload: Mapping[str, Histogram]) -> PageFigure:
    styles = system_styles(payload)
    positive = [of.values[of.values > 0] for of in payload.values()]
    least = min((values[0] for values in positive if len(values)), default=1.0) / 2
    most = max((of.values[-1] for of in payload.values()), default=1.0) * 1.3
    lines = []
    for (system, of), x in zip(payload.items(), positive, strict=True):
        share = 100 * of.at_most / of.total
        start = share[0] if len(x) < len(share) else 0.0
        points = np.r_[least, x, most], np.r_[start, share[len(share) - len(x) :], 100.0]
        look = {"color": styles[system]["color"]}
        lines.append(Line(label_of(system), look, x, of.share_at_most, points))
    right = max(most, 2 * least)
    return draw(
        Panel(
            *(f"figure-bytes-{direction}-nodes", f"Nodes by the payload that each {does}"),
            *("bytes", lines),
            Axis(f"payload that a node {does}", least, right, "log", 8, tick=as_bytes),
            Axis("nodes with at most x (%)", 0, 101, tick=percent_tick),
            " ".join(
                f"{label_of(system)}: half of the {as_text(of.total)} nodes have at most "
                f"{as_bytes(of.median() or 0)}, and the greatest value is {as_bytes(of.max or 0)}."
                for system, of in payload.items()
            ),
            lambda size: f"at most {as_bytes(size)}",
            as_percent,
            caption=f"The share of the nodes that {does.removesuffix('s')} at "
            "most x bytes of payload; a curve begins at the share of the nodes with none. Control "
            "messages are left out.",
            tables=("bytes", "distributions"),
        )
    )
