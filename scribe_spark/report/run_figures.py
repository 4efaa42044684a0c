"""Figures of a run that the paper does not have: delays by group size and over time, and bytes."""

from __future__ import annotations

import itertools
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
    Panel,
    draw,
    draw_on,
    equal_curves,
    legend_above,
    line_of,
    share_line,
)
from scribe_spark.report.style import (
    ABSENT,
    PERCENT,
    as_bytes,
    as_percent,
    as_text,
    byte_tick,
    curve_style,
    in_order,
    label_of,
    percent_tick,
    short_tick,
    system_styles,
)
from scribe_spark.report.svg import (
    Line,
    PageFigure,
    Readout,
    Spot,
    new_figure,
    shape,
    svg_element,
)
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
    drawn = [
        line_of(label_of(name) if len(order) > 1 else "", styles[name], line.index, line)
        for name, line in ((name, lines[name]) for name in order)
    ]
    least = min(line.index[0] for line in lines.values())
    most = max(line.max() for line in lines.values())
    return draw(
        Panel(
            *("figure-rad-by-group-size", "RAD by group size", "sizes", drawn),
            Axis("group size (members)", low=0.8 * least, scale="decades"),
            Axis(f"RAD (mean delay / by {ip.label})", 0, most * 1.08, ticks=6, tick=short_tick),
            " ".join(_size_words(name, lines[name]) for name in order),
            lambda size: f"about {as_text(size)} members",
            labels="ends",
            marks=lambda axes: axes.axhline(1, color=styles[ip.name]["color"], linewidth=0.7),
            note="Each point is the median RAD of groups of similar size, drawn at their median "
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


def _size_words(name: str, line: pd.Series) -> str:
    size, value = line.index[-1], line.iloc[-1]
    first = f"{as_text(line.iloc[0])} in groups of about {as_text(line.index[0])} members, "
    largest = f"{as_text(value)} in the largest of {as_text(size)}."
    return f"{label_of(name)}: {first if len(line) > 1 else ''}{largest}"


# --- coverage over time: the share of the members that have the message


@dataclass(frozen=True)
class Latency:
    """The deliveries of a run by their latency.

    Attributes
    ----------
    counts : DataFrame
        ``system, unit, value, count``: deliveries by their latency, rounded up to whole `unit`.
    expected : mapping of str to float
        System -> the number of expected receivers, over all groups.
    deadlines : tuple of str
        The deadlines of the run, such as ``800ms``.
    """

    counts: pd.DataFrame
    expected: Mapping[str, float]
    deadlines: tuple[str, ...] = ()


#: The marked percentiles.
_MARKED = (50, 90, 95, 99)


def draw_coverage(latency: Latency | None, systems: set[str]) -> PageFigure | None:
    """Draw a line of the share reached over time for each system; None without latencies in ms."""
    if latency is None:
        return None
    of_time = latency.counts[latency.counts["unit"] == "ms"]
    found = {str(name): histogram_of_rows(rows) for name, rows in of_time.groupby("system")}
    order = in_order(found)
    if not order:
        return None
    styles = system_styles({*systems, *order})
    lines, sentences = [], []
    for name in order:
        label, look = label_of(name), {"color": styles[name]["color"]}
        line = share_line(label, look, found[name], latency.expected.get(name) or 0)
        times = ", ".join(f"{percent}{PERCENT} {_when(line, percent)}" for percent in _MARKED)
        sentences.append(f"{label}: {times}.")
        lines.append(from_zero(line))

    def marks(axes: Axes) -> None:
        for group in equal_curves([line.points for line in lines]):
            for below, line in enumerate(lines[number] for number in reversed(group)):
                x, y = line.points
                at = [np.searchsorted(y, percent) for percent in _MARKED if y[-1] >= percent]
                dot: dict[str, Any] = {"marker": "o", "markersize": 3.5 + 2 * below}
                dot |= {"zorder": 3 - 0.1 * below, "linestyle": ""}
                axes.plot(x[at], y[at], color=line.colour, **dot)
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
            note="The share of the expected members that have the message after x ms, over all "
            "groups: the cumulative distribution of latency. Dots mark 50, 90, 95 and 99 %."
            + marked
            * bool(deadlines),
            tables=("latency_counts", "latency"),
        )
    )


def _within(ms: float) -> str:
    return f"within {as_text(ms)} ms"


def from_zero(line: Line) -> Line:
    """Return the line with the point (0, 0) before its first point."""
    x, y = line.points
    return replace(line, points=(np.r_[0.0, x], np.r_[0.0, y]))


def _when(line: Line, percent: float) -> str:
    """Return the time at which `percent` of the members have the message; a dash for never."""
    ms, shares = line.points
    if shares[-1] < percent:
        return ABSENT
    return _within(ms[np.searchsorted(shares, percent)])


# --- latency by class or region of nodes: a small chart for each system, a curve for each part

#: The columns of `schemas.PART_LATENCIES`.
COLUMNS = ("by", "part", "system", "value", "count")

_PERCENTILES = (50, 90, 99)
_ACROSS, _CHART = 2, 1.55  # charts side by side, and the height of a chart in inches


def draw_part_latencies(counts: pd.DataFrame) -> Iterator[PageFigure]:
    """Yield figures of latencies: one by class of nodes and one by region, if there are any."""
    for by, rows in counts.groupby("by", sort=True):
        yield _part_latencies(str(by), rows)


def _part_latencies(by: str, rows: pd.DataFrame) -> PageFigure:
    found = {
        (str(system), str(part)): histogram_of_rows(of)
        for (system, part), of in rows.groupby(["system", "part"], sort=False)
    }
    systems, parts = in_order({system for system, _ in found}), sorted({part for _, part in found})
    looks = {part: curve_style(number) for number, part in enumerate(parts)}
    name, title = f"figure-latency-by-{by}", f"Latency by {by} of nodes"
    words = " ".join(_part_words(system, part, of) for (system, part), of in sorted(found.items()))
    down = -(-len(systems) // _ACROSS)
    right = 1.02 * max(of.values[-1] for of in found.values())
    height = _CHART * down + 0.3
    shares: dict[float, str] = {share: str(share) for share in (0, 50, 90, 100)}
    with new_figure(_WIDTH, height) as figure:
        readouts: list[Readout] = []
        for number, system in enumerate(systems):
            row, column = divmod(number, _ACROSS)
            low = height - _CHART * (row + 1) + 0.08
            place = (0.56 + column * 2.05) / _WIDTH, low / height, 1.78 / _WIDTH, 1.2 / height
            axes = figure.add_axes(place)
            axes.set_title(label_of(system), y=1, fontsize=8, pad=3, loc="left")
            told = [
                from_zero(share_line(part, looks[part], of))
                for part in parts
                if (of := found.get((system, part)))
            ]
            is_last = number + _ACROSS >= len(systems)
            x = Axis("latency (ms)" * is_last, 0, right, ticks=4, tick=short_tick)
            y = Axis("deliveries (%)" * (column == 0), 0, 101, named=shares)
            panel = Panel(name, title, "large", told, x, y, "", _within, as_percent)
            readouts += draw_on(axes, panel)[0]
            axes.xaxis.labelpad = 1
            axes.tick_params(labelbottom=is_last, labelleft=column == 0)
        legend_above(figure, [(part, [looks[part]]) for part in parts])
        percent = np.arange(1, 101)
        columns = {
            f"{label_of(system)}, {part} (ms)": [of.nearest_rank(int(p)) for p in percent]
            for system in systems
            for part in parts
            if (of := found.get((system, part))) is not None
        }
        values = pd.DataFrame({"deliveries (%)": percent} | columns)
        svg = svg_element(figure, name, title, words, readouts, values)
    caption = (
        f"The share of the deliveries to the nodes of each {by} that arrive within x ms, for each "
        "system. All charts have the same axes."
    )
    return PageFigure(name, title, svg, caption, words, tables=("part_latencies", "by_part"))


def _part_words(system: str, part: str, of: Histogram) -> str:
    shares = ", ".join(
        f"{percent}{PERCENT} within {as_text(of.nearest_rank(percent))} ms"
        for percent in _PERCENTILES
    )
    return f"{label_of(system)}, {part}: {shares}."


# --- bytes of nodes: the mean by system and class as bars, and the distribution over the nodes

#: Direction -> the verb for it.
_DIRECTIONS = {"up": "sends", "down": "receives"}

#: The name of the part for bars of all nodes.
_ALL = ""

_PALE = 0.45
_ROW, _GAP, _TOP, _BOTTOM = 0.2, 0.12, 0.1, 0.45  # inches
_WIDTH, _RIGHT = 4.5, 1.05
#: The greatest number of characters of a label beside a bar; longer ones are cut.
_LONGEST = 30


@dataclass(frozen=True)
class _Bar:
    """The bytes of nodes of a system and class: means, and the payload that 95 % do not exceed."""

    system: str
    part: str
    payload: float
    control: float
    p95: float
    most: float

    @property
    def mean(self) -> float:
        return self.payload + self.control

    @property
    def label(self) -> str:
        return f"{label_of(self.system)}, {self.part}" if self.part else label_of(self.system)


def draw_node_bytes(
    distributions: pd.DataFrame, by_part: pd.DataFrame | None
) -> Iterator[PageFigure]:
    """Yield figures of the bytes of nodes; nothing for a run whose messages have no size."""
    if "measure" not in distributions:
        return
    for direction, does in _DIRECTIONS.items():
        payload = _histograms(distributions, f"bytes.{direction}")
        if not payload:
            continue
        control = _histograms(distributions, f"control_bytes.{direction}")
        bars = [
            _Bar(
                *(name, _ALL, of.mean() or 0.0, _mean(control.get(name))),
                *(of.nearest_rank(95) or 0.0, of.max or 0.0),
            )
            for name, of in payload.items()
        ]
        yield _bars(direction, does, _by_class(by_part, direction) or bars)
        yield _cumulative(direction, does, payload)


def _histograms(distributions: pd.DataFrame, measure: str) -> dict[str, Histogram]:
    rows = distributions[distributions["measure"] == measure]
    found = {str(name): histogram_of_rows(of) for name, of in rows.groupby("system")}
    return {name: found[name] for name in in_order(found)}


def _mean(of: Histogram | None) -> float:
    return 0.0 if of is None else of.mean() or 0.0


def _by_class(by_part: pd.DataFrame | None, direction: str) -> list[_Bar]:
    """Return the bars of each system and class of nodes; empty without classes.

    `direction` is ``up`` (sent bytes) or ``down`` (received bytes).
    """
    if by_part is None:
        return []
    rows = by_part[by_part["by"] == "class"]
    read = {
        kind: rows[rows["measure"] == f"bytes.{kind}_{direction}"].set_index(["system", "part"])
        for kind in ("payload", "control")
    }
    payload, control = read["payload"], read["control"]
    return [
        _Bar(
            *(str(system), str(part), float(payload.at[key, "mean"])),
            float(control.at[key, "mean"]) if key in control.index else 0.0,
            *(float(payload.at[key, "p95"]), float(payload.at[key, "max"])),
        )
        for system in in_order({name for name, _ in payload.index})
        for part in sorted({part for name, part in payload.index if name == system})
        for key in ((system, part),)
    ]


def _bars(direction: str, does: str, bars: list[_Bar]) -> PageFigure:

    name, title = f"figure-bytes-{direction}", f"Bytes that a node {does}"
    styles = system_styles({bar.system for bar in bars})
    words = " ".join(
        f"{bar.label}: {as_bytes(bar.payload)} of payload and {as_bytes(bar.control)} of control "
        f"messages in the mean; 95{PERCENT} of the nodes have at most {as_bytes(bar.p95)} of "
        f"payload, and the greatest value is {as_bytes(bar.most)}."
        for bar in bars
    )
    gaps = np.cumsum([0] + [a.system != b.system for a, b in itertools.pairwise(bars)])
    at = np.arange(len(bars)) * _ROW + gaps * _GAP * any(bar.part for bar in bars)
    height = _TOP + at[-1] + _ROW + _BOTTOM
    with new_figure(_WIDTH, height) as figure:
        axes = figure.add_axes((0.3, _BOTTOM / height, 0.5, (at[-1] + _ROW) / height))
        for y, bar in zip(at, bars, strict=True):
            colour, thick = styles[bar.system]["color"], _ROW * 0.7
            axes.barh(y, bar.payload, thick, color=colour)
            axes.barh(y, bar.control, thick, left=bar.payload, color=colour, alpha=_PALE)
            if bar.p95 > bar.mean:
                axes.plot([bar.mean, bar.p95], [y, y], color=colour, linewidth=0.9)
                axes.plot([bar.p95], [y], color=colour, marker="|", markersize=5)
            axes.annotate(
                f"mean {as_bytes(bar.mean)}",
                xy=(max(bar.mean, bar.p95), y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                annotation_clip=False,
            )
        axes.set_yticks(at, [_cut(bar.label) for bar in bars], fontsize=7.5, parse_math=False)
        axes.set_ylim(at[-1] + _ROW / 2, -_ROW / 2)
        axes.set_xlim(0, max(1.0, *(max(bar.mean, bar.p95) for bar in bars)))
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda size, _: byte_tick(size))
        axes.set_xlabel(f"bytes that a node {does}")
        labels = max(label.get_window_extent().width for label in axes.get_yticklabels())
        left = labels / figure.dpi + 0.1
        _, low, _, high = axes.get_position().bounds
        axes.set_position((left / _WIDTH, low, (_WIDTH - left - _RIGHT) / _WIDTH, high))

        def spots() -> Iterator[Spot]:
            wide, high = 72 * _WIDTH, 72 * height
            box, scale = axes.get_window_extent(), 72 / figure.dpi
            for y, bar in zip(at, bars, strict=True):
                middle = high - axes.transData.transform((0, y))[1] * scale
                top, row = middle - 36 * _ROW, 72 * _ROW
                area = shape("rect", x=0, y=top, width=wide, height=row)
                lines = [
                    bar.label,
                    f"payload: {as_bytes(bar.payload)}",
                    f"control: {as_bytes(bar.control)}",
                    f"95{PERCENT} of the nodes: {as_bytes(bar.p95)}",
                    f"greatest: {as_bytes(bar.most)}",
                ]
                yield Spot(area, (box.x0 + box.x1) / 2 * scale, middle + 8, lines)

        columns = ["payload mean (B)", "control mean (B)", "payload p95 (B)", "payload max (B)"]
        told = [
            (label_of(bar.system), bar.part, bar.payload, bar.control, bar.p95, bar.most)
            for bar in bars
        ]
        values = pd.DataFrame(told, columns=["system", "class", *columns])
        svg = svg_element(figure, name, title, words, values=values, spots=spots)
    caption = (
        f"Mean over the nodes{' of each class' if any(bar.part for bar in bars) else ''}: payload, "
        "and in a paler colour control messages. The thin line ends at the payload that "
        f"95{PERCENT} of the nodes do not exceed."
    )
    tables = ("bytes", "by_part") if any(bar.part for bar in bars) else ("bytes",)
    return PageFigure(name, title, svg, caption, words, tables=tables)


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


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
    size = Axis(
        f"payload that a node {does}", least, max(most, 2 * least), "log", 8, tick=byte_tick
    )
    return draw(
        Panel(
            f"figure-bytes-{direction}-nodes",
            f"Nodes by the payload that each {does}",
            "bytes",
            lines,
            size,
            Axis("nodes with at most x (%)", 0, 101, tick=percent_tick),
            " ".join(
                f"{label_of(system)}: half of the {as_text(of.total)} nodes have at most "
                f"{as_bytes(of.median() or 0)}, and the greatest value is {as_bytes(of.max or 0)}."
                for system, of in payload.items()
            ),
            lambda size: f"at most {as_bytes(size)}",
            as_percent,
            note=f"The share of the nodes that {'send' if direction == 'up' else 'receive'} at "
            "most x bytes of payload; a curve begins at the share of the nodes with none. Control "
            "messages are left out.",
            tables=("bytes", "distributions"),
        )
    )
