"""Figures of a run that the paper does not have: delays by group size and over time, and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.core import units
from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.measures.measure import forwards
from scribe_spark.report.charts import (
    Axis,
    Line,
    Panel,
    draw,
    draw_on,
    equal_curves,
    from_zero,
    legend_above,
    lines_panel,
    panel_spots,
    share_line,
)
from scribe_spark.report.style import (
    ABSENT,
    PERCENT,
    as_bytes,
    as_percent,
    as_text,
    curve_style,
    cut,
    in_order,
    label_of,
    percent_tick,
    short_tick,
    system_styles,
)
from scribe_spark.report.svg import PageFigure, Spot, new_figure, svg_element
from scribe_spark.systems.registry import baseline, find_system

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes

# --- RAD by group size: a median over all groups mainly shows small ones, as most groups are small.
# The source of a small group of a mesh sends to all members itself; only large ones show the costs.


def draw_by_size(delays: pd.DataFrame, systems: set[str]) -> PageFigure | None:
    """Draw a line for each system whose nodes forward copies; return None without such systems."""
    lines = {}
    for name, of in delays.groupby("system"):
        system = find_system(str(name))
        if system is None or forwards(system):
            lines[str(name)] = by_size(of)
    order = in_order(lines)
    if not order:
        return None
    styles, ip = system_styles({*systems, *order}), baseline()
    by_label = {label_of(name) if len(order) > 1 else "": lines[name] for name in order}
    least = min(line.index[0] for line in lines.values())
    return draw(
        lines_panel(
            *("sizes", "figure-rad-by-group-size", "RAD by group size", by_label),
            Axis("group size (members)", low=0.8 * least, scale="decades"),
            from_zero(f"RAD (mean delay / by {ip.label})", by_label, ticks=6),
            lambda size: f"about {as_text(size)} members",
            before="in groups of",
            looks={label: styles[name] for label, name in zip(by_label, order, strict=True)},
            labels="ends",
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


def draw_coverage(latency: Latency | None, systems: set[str]) -> PageFigure | None:
    """Draw a line of the share reached over time for each system; None without latencies in ms."""
    if latency is None:
        return None
    found = _histograms(latency.counts[latency.counts["unit"] == "ms"])
    if not found:
        return None
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
    return draw(
        Panel(
            *("figure-coverage", "Coverage over time", "large", lines),
            Axis("time since the message was sent (ms)", 0, right, tick=short_tick),
            Axis("members that have it (%)", 0, 101, tick=percent_tick),
            " ".join(sentences),
            _within,
            as_percent,
            labels="ends",
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

_ACROSS, _CHART = 2, 1.55  # charts side by side, and the height of a chart in inches


def draw_part_latencies(counts: pd.DataFrame) -> Iterator[PageFigure]:
    """Yield a figure of latencies by class of nodes and one by region, if there are any.

    `counts` has the columns of `schemas.PART_LATENCIES`.
    """
    for by, rows in counts.groupby("by", sort=True):
        yield _part_latencies(str(by), rows)


def _part_latencies(by: str, rows: pd.DataFrame) -> PageFigure:
    found = {str(part): _histograms(of) for part, of in rows.groupby("part", sort=True)}
    systems = in_order(rows["system"])
    looks = {part: curve_style(number) for number, part in enumerate(found)}
    name, title = f"figure-latency-by-{by}", f"Latency by {by} of nodes"
    down = -(-len(systems) // _ACROSS)
    right = 1.02 * max(rows["value"])
    height = _CHART * down + 0.3
    ticks: dict[float, str] = {share: str(share) for share in (0, 50, 90, 100)}
    with new_figure(_WIDTH, height) as figure:
        drawn, percent = [], np.arange(1, 101)
        columns, words = dict[str, Any]({"deliveries (%)": percent}), []
        for number, system in enumerate(systems):
            row, column = divmod(number, _ACROSS)
            low = height - _CHART * (row + 1) + 0.08
            place = (0.56 + column * 2.05) / _WIDTH, low / height, 1.78 / _WIDTH, 1.2 / height
            axes = figure.add_axes(place)
            axes.set_title(label_of(system), y=1, fontsize=8, pad=3, loc="left")
            mine = {part: of[system] for part, of in found.items() if system in of}
            for part, of in mine.items():
                label = f"{label_of(system)}, {part}"
                columns[f"{label} (ms)"] = [of.nearest_rank(int(p)) for p in percent]
                within = (f"{p}{PERCENT} {_within(of.nearest_rank(p))}" for p in _PERCENTILES)
                words.append(f"{label}: {', '.join(within)}.")
            told = [_from_zero(share_line(part, looks[part], of)) for part, of in mine.items()]
            is_last = number + _ACROSS >= len(systems)
            x = Axis("latency (ms)" * is_last, 0, right, ticks=4, tick=short_tick)
            y = Axis("deliveries (%)" * (column == 0), 0, 101, named=ticks)
            drawn += draw_on(
                axes, Panel(name, title, "large", told, x, y, "", _within, as_percent)
            )[0]
            axes.xaxis.labelpad = 1
            axes.tick_params(labelbottom=is_last, labelleft=column == 0)
        legend_above(figure, [(part, [look]) for part, look in looks.items()])
        spots = (spot for one in drawn for spot in panel_spots(*one))
        svg = svg_element(figure, name, title, " ".join(words), spots, pd.DataFrame(columns))
    caption = (
        f"The share of the deliveries to the nodes of each {by} that arrive within x ms, for each "
        "system. All charts have the same axes."
    )
    tables = "part_latencies", "by_part"
    return PageFigure(name, title, svg, caption, " ".join(words), tables=tables)


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
    has_parts = bool(bars["part"].any())
    systems = bars["system"].map(label_of)
    labels = [
        f"{of}, {part}" if part else of for of, part in zip(systems, bars["part"], strict=True)
    ]
    texts = bars[[*_COLUMNS]].map(as_bytes)
    words = " ".join(
        f"{label}: {of.payload} of payload and {of.control} of control messages in the mean; "
        f"95{PERCENT} of the nodes have at most {of.p95} of payload, and the greatest value is "
        f"{of.most}."
        for label, of in zip(labels, texts.itertuples(), strict=True)
    )
    styles = system_styles(bars["system"])
    colours = [styles[system]["color"] for system in bars["system"]]
    gaps = (bars["system"] != bars["system"].shift()).cumsum().to_numpy() - 1
    at = np.arange(len(bars)) * _ROW + gaps * _GAP * has_parts
    mean, p95 = (bars["payload"] + bars["control"]).to_numpy(), bars["p95"].to_numpy()
    right = np.maximum(mean, p95)
    height = _TOP + at[-1] + _ROW + _BOTTOM
    with new_figure(_WIDTH, height) as figure:
        axes = figure.add_axes((0.3, _BOTTOM / height, 0.5, (at[-1] + _ROW) / height))
        thick = _ROW * 0.7
        axes.barh(at, bars["payload"], thick, color=colours)
        axes.barh(at, bars["control"], thick, left=bars["payload"], color=colours, alpha=_PALE)
        some = p95 > mean
        shown = [colour for colour, is_shown in zip(colours, some, strict=True) if is_shown]
        axes.hlines(at[some], mean[some], p95[some], shown, linewidth=0.9)
        axes.scatter(p95[some], at[some], 25, shown, marker="|", linewidth=1)
        for y, x, value in zip(at, right, mean, strict=True):
            words_at = axes.annotate(
                f"mean {as_bytes(value)}", (x, y), (4, 0), textcoords="offset points", va="center"
            )
            words_at.set(fontsize=7.5, annotation_clip=False)
        short = [cut(label, _LONGEST) for label in labels]
        axes.set_yticks(at, short, fontsize=7.5, parse_math=False)
        axes.set(xlim=(0, max(1.0, *right)), ylim=(at[-1] + _ROW / 2, -_ROW / 2))
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda size, _: as_bytes(size))
        axes.set_xlabel(f"bytes that a node {does}")
        left = max(one.get_window_extent().width for one in axes.get_yticklabels())
        left = left / figure.dpi + 0.1
        _, low, _, high = axes.get_position().bounds
        axes.set_position((left / _WIDTH, low, (_WIDTH - left - _RIGHT) / _WIDTH, high))

        def spots() -> Iterator[Spot]:
            centre = 72 * (left + (_WIDTH - left - _RIGHT) / 2)
            for y, label, of in zip(at, labels, texts.itertuples(), strict=True):
                middle = 72 * (_TOP + _ROW / 2 + y)
                told = {"payload": of.payload, "control": of.control}
                told |= {f"95{PERCENT} of the nodes": of.p95, "greatest": of.most}
                lines = [label, *(f"{what}: {size}" for what, size in told.items())]
                area = 0, middle - 36 * _ROW, 72 * _WIDTH, 72 * _ROW
                yield Spot(area, centre, middle + 8, lines)

        values = pd.DataFrame({"system": systems, "class": bars["part"]})
        values[[*_COLUMNS.values()]] = bars[[*_COLUMNS]].to_numpy()
        svg = svg_element(figure, name, title, words, spots(), values)
    caption = (
        f"Mean over the nodes{' of each class' * has_parts}: payload, "
        "and in a paler colour control messages. The thin line ends at the payload that "
        f"95{PERCENT} of the nodes do not exceed."
    )
    return PageFigure(
        name, title, svg, caption, words, tables=("bytes", "by_part")[: 1 + has_parts]
    )


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
