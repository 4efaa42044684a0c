"""Equal curves: each can be seen in the drawing, and one entry of the legend names them all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from scribe_spark.measures.histogram import Histogram
from scribe_spark.report.charts import equal_curves, striped
from scribe_spark.report.compare import shares_panel
from scribe_spark.report.paper_figures import FIGURES, draw, draw_figure
from scribe_spark.report.reference_tree import hosts_panel
from scribe_spark.report.run_figures import (
    COLUMNS,
    Latency,
    draw_by_size,
    draw_coverage,
    draw_node_bytes,
    draw_part_latencies,
)
from scribe_spark.report.style import curve_style, label_of, marked_style, system_styles
from scribe_spark.report.sweep import _panel as swept_panel

from .sample import rounds_svg

#: Two systems with equal values, and one with others.
EQUAL = ("ip_multicast", "naive_unicast")
SYSTEMS = ("scribe", *EQUAL)
STYLES = system_styles(SYSTEMS)

VALUES = {"scribe": (30, 60, 90), **dict.fromkeys(EQUAL, (20, 50, 80))}


@pytest.fixture
def figures(monkeypatch) -> list[Figure]:
    """Every figure that is drawn, as it is when it is saved."""
    found: list[Figure] = []
    save = Figure.savefig

    def saved(figure: Figure, *arguments, **options) -> None:
        found.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    return found


def _coverage() -> None:
    counts = pd.DataFrame(
        [(system, "ms", float(ms), 5) for system in SYSTEMS for ms in VALUES[system]],
        columns=["system", "unit", "value", "count"],
    )
    draw_coverage(Latency(counts, dict.fromkeys(SYSTEMS, 15.0)), set(SYSTEMS))


def _of_paper(number: str, measure: str, systems: tuple[str, ...]) -> None:
    rows = [
        (number, system, measure, float(v), 5)
        for system, of in zip(systems, VALUES.values(), strict=True)
        for v in of
    ]
    columns = ["figure", "system", "measure", "value", "count"]
    (spec,) = (spec for spec in FIGURES if spec.number == number)
    drawn = draw_figure(spec, pd.DataFrame(rows, columns=columns))
    labels = [label_of(name) for name in systems[1:]]
    assert drawn.caption.endswith(f" Equal curves: {' = '.join(labels)}.")


def _lines() -> dict[str, pd.Series]:
    return {label_of(name): pd.Series(of, [1, 2, 3], dtype=float) for name, of in VALUES.items()}


def _rounds() -> None:
    looks = {label_of(name): STYLES[name] for name in SYSTEMS}
    rounds_svg(_lines(), looks=looks)


def _bytes() -> None:
    rows = [("V", s, "bytes.up", 1000.0 * v, 5) for s in SYSTEMS for v in VALUES[s]]
    columns = ["figure", "system", "measure", "value", "count"]
    list(draw_node_bytes(pd.DataFrame(rows, columns=columns), None))


def _compared() -> None:
    ones = np.full(3, 5.0)
    found = {name: Histogram(np.array(of, dtype=float), ones) for name, of in VALUES.items()}
    labels = {label_of(name): of for name, of in found.items()}
    looks = {label: marked_style(number) for number, label in enumerate(labels)}
    draw(shares_panel("name", "title", labels, "axis", "things", False, looks))


def _swept() -> None:
    grid = {"nodes": [1, 2, 3], "name": [*VALUES]}
    value = {(n, name, "x"): of[n - 1] for name, of in VALUES.items() for n in grid["nodes"]}
    draw(swept_panel("x", value, grid, "nodes", "ms"))


def _parts() -> None:
    rows = [("class", label_of(s), "scribe", v, 5) for s in SYSTEMS for v in VALUES[s]]
    list(draw_part_latencies(pd.DataFrame(rows, columns=COLUMNS)))


def _by_size() -> None:
    # the figure has no baselines
    of = dict(zip(SYSTEMS, ("scribe", "bayeux", "flooding"), strict=True))
    sizes = (2, 8, 50)
    rows = [(of[s], *row) for s in SYSTEMS for row in zip(sizes, VALUES[s], strict=True)]
    draw_by_size(pd.DataFrame(rows, columns=["system", "size", "rad"]), {*of.values()})


def colours(look, numbers) -> list[str]:
    return [look(number)["color"] for number in numbers]


OF_SYSTEMS = [STYLES[name]["color"] for name in EQUAL]
PEERS = [system_styles(["bayeux"])[name]["color"] for name in ("bayeux", "flooding")]


@pytest.mark.parametrize(
    ("drawn", "wanted", "label"),
    [
        (_coverage, OF_SYSTEMS, "IP multicast = Naive unicast"),
        (lambda: _of_paper("9", "children_entries", ("scribe", "bayeux", "flooding")), PEERS,
         "Bayeux = Flooding over Pastry"),
        # naive unicast is in the inset only
        (lambda: _of_paper("10", "link_stress", SYSTEMS), OF_SYSTEMS, None),
        (_rounds, OF_SYSTEMS, "IP multicast = Naive unicast"),
        (_bytes, OF_SYSTEMS, "IP multicast = Naive unicast"),
        (_by_size, PEERS, "Bayeux = Flooding over Pastry"),
        (_compared, colours(marked_style, (1, 2)), "IP multicast = Naive unicast"),
        (lambda: draw(hosts_panel("n", "t", "hosts", _lines())), colours(marked_style, (1, 2)),
         "IP multicast = Naive unicast"),
        (_swept, colours(marked_style, (1, 2)), None),  # the legend is beside the drawings
        (_parts, colours(curve_style, (0, 1)), None),  # the legend is that of all systems
    ],
)  # fmt: skip
def test_each_of_equal_curves_is_seen(figures, drawn, wanted, label):
    drawn()
    figure = figures[-1]
    for text in (*figure.texts, *(one for axes in figure.axes for one in axes.texts)):
        text.set_visible(False)
    (legend,) = figure.legends or [None]
    labels = [] if legend is None else [text.get_text() for text in legend.get_texts()]
    if label is not None:
        assert label in labels
        assert len(labels) == 2
    for one in figure.legends:
        one.remove()
    for axes in figure.axes:  # lines without markers
        for line in (*axes.lines, *(line for child in axes.child_axes for line in child.lines)):
            line.set_marker("")
            line.set_visible(not axes.child_axes or line.axes is not axes)  # the inset alone
    pixels = [_pixels(figure, colour) for colour in wanted]
    assert min(pixels) > 0.3 * max(pixels) > 0


def _pixels(figure: Figure, colour: str) -> int:
    """Return how many pixels have a colour."""
    figure.set_dpi(300)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[..., :3].astype(float) / 255
    return int((np.abs(image - to_rgb(colour)).max(axis=2) < 0.05).sum())


def test_curves_are_equal_in_all_points():
    x, y = np.arange(3.0), np.array([1.0, np.nan, 2.0])
    nothing = np.full(3, np.nan)
    points = [(x, y), (x, y + 1), (x.copy(), y.copy()), (x[:2], y[:2]), (x, nothing), (x, nothing)]
    groups = equal_curves(points)
    assert groups == [[0, 2], [1], [3], [4], [5]]
    looks = striped([{"color": str(n), "linestyle": "-"} for n in range(6)], groups)
    assert [look["linestyle"] for look in looks[1:2] + looks[3:]] == ["-"] * 4
    assert looks[0]["linestyle"] != looks[2]["linestyle"]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_stripes_take_turns(count):
    """At each place of the path, one curve is drawn."""
    looks = striped([{"color": str(n)} for n in range(count)], [[*range(count)]])
    for place in np.arange(0.5, 100):
        drawn = 0
        for look in looks:
            offset, (on, off) = look["linestyle"]
            drawn += (place + offset) % (on + off) < on
        assert drawn == 1
