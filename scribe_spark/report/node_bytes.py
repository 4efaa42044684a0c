"""Bytes of nodes: the mean by system and class as bars, and the distribution over the nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.report.axes import byte_numbers
from scribe_spark.report.chart import chart
from scribe_spark.report.readouts import Line, Spot, coordinate
from scribe_spark.report.series import label_of
from scribe_spark.report.style import in_order, system_styles
from scribe_spark.report.svg import PageFigure, new_figure, svg_element
from scribe_spark.report.text import PERCENT, as_bytes, as_percent, as_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """The bytes of the nodes of a part: means, and the payload that 95 % do not exceed."""

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
    """Yield the figures of a run whose messages have a size; nothing for other runs."""
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
    """Return the bars of each system and class; empty without classes."""
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
        byte_numbers(axes.xaxis)
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
                area = (
                    f'rect x="0" y="{coordinate(middle - 36 * _ROW)}" width="{coordinate(wide)}" '
                    f'height="{coordinate(72 * _ROW)}"'
                )
                lines = [
                    (bar.label, ""),
                    (f"payload: {as_bytes(bar.payload)}", ""),
                    (f"control: {as_bytes(bar.control)}", ""),
                    (f"95{PERCENT} of the nodes: {as_bytes(bar.p95)}", ""),
                    (f"greatest: {as_bytes(bar.most)}", ""),
                ]
                yield Spot(area, (box.x0 + box.x1) / 2 * scale, middle + 8, lines)

        values = pd.DataFrame(
            {
                "system": [label_of(bar.system) for bar in bars],
                "class": [bar.part for bar in bars],
                "payload mean (B)": [bar.payload for bar in bars],
                "control mean (B)": [bar.control for bar in bars],
                "payload p95 (B)": [bar.p95 for bar in bars],
                "payload max (B)": [bar.most for bar in bars],
            }
        )
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
    from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

    name, title = f"figure-bytes-{direction}-nodes", f"Nodes by the payload that each {does}"
    styles = system_styles(payload)
    words = " ".join(
        f"{label_of(system)}: half of the {as_text(of.total)} nodes have at most "
        f"{as_bytes(of.median() or 0)}, and the greatest value is {as_bytes(of.max or 0)}."
        for system, of in payload.items()
    )
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

    def prepare(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_xlim(least, max(most, 2 * least))
        axes.set_ylim(0, 101)
        axes.xaxis.set_major_locator(LogLocator(numticks=8))
        axes.xaxis.set_minor_formatter(NullFormatter())
        byte_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))

    svg = chart(
        *(name, title, words, lines),
        lambda size: f"at most {as_bytes(size)}",
        prepare,
        labels=(f"payload that a node {does}", "nodes with at most x (%)"),
        box=(0.165, 0.135, 0.79, 0.83),
        value=as_percent,
        drawstyle="steps-post",
    )
    caption = (
        f"The share of the nodes that {'send' if direction == 'up' else 'receive'} at most x bytes "
        "of payload; a curve begins at the share of the nodes with none. Control messages are left "
        "out."
    )
    return PageFigure(name, title, svg, caption, words, tables=("bytes", "distributions"))
