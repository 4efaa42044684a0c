"""No legend exceeds its figure, and all lines can be told apart, with as many systems as there are.

Figures are looked at as matplotlib has them when they are saved.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scribe_spark.report.charts import draw
from scribe_spark.report.paper_figures import FIGURES, draw_figure, page_systems
from scribe_spark.report.run import by_size, draw_by_size
from scribe_spark.report.style import label_of, marked_style, system_styles
from scribe_spark.report.world import _panel, group_panels, system_panels
from scribe_spark.rounds.declaration import MESH, System
from scribe_spark.systems.registry import all_systems, register_system, unregister_system

from .sample import COLUMNS

#: Systems of a user, which are registered; and one that is not, as when a page is drawn again.
LABELS = {
    "mine": "Mine",
    "long": "A multicast system of mine that has a label as long as a whole sentence of a paper",
    "wide": "W" * 80,
    "last": "Last & least <mesh>",
}


@pytest.fixture(scope="module", autouse=True)
def users() -> Iterator[None]:
    for name, label in LABELS.items():
        register_system(System(name, label, MESH, lambda config: None))
    yield
    for name in LABELS:
        unregister_system(name)


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


@pytest.fixture
def systems() -> list[str]:
    """The package's systems, the user's, and one that nobody knows."""
    return [*(system.name for system in all_systems()), "of_somebody_else"]


def distributions(systems: list[str]) -> pd.DataFrame:
    draws = np.random.default_rng(3)
    rows = [
        (spec.number, system, measure, value, 1 + draws.integers(9))
        for spec in FIGURES
        if spec.number != "6"
        for system in systems
        for measure in spec.measures
        for value in 1 + np.unique(draws.integers(0, 40, 30))
    ]
    rows += [("6", "all", "group_size", rank, 100 // rank) for rank in range(1, 20)]
    return pd.DataFrame(rows, columns=COLUMNS)


def look(line: Line2D) -> tuple[str, str, str]:
    """How a line looks: colour, dashes, marker."""
    dashes = str(line.get_linestyle()) + str(line._dash_pattern)
    return str(line.get_color()), dashes, str(line.get_marker())


def check(figure: Figure) -> dict[str, str]:
    """Label -> colour of a figure's legend."""
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert box.x0 >= 0
    assert box.x1 <= whole.width
    assert box.y1 <= whole.height + 0.5
    for axes in figure.axes:
        assert box.y0 >= axes.get_window_extent().y1 - 0.5, "the legend covers the axes"
        assert axes.get_legend() is None
    for text in legend.get_texts():
        assert text.get_window_extent().x1 <= whole.width
    looks = [look(line) for line in legend.legend_handles]
    assert len(looks) > 1
    assert len({*looks}) == len(looks), "two entries look alike"
    for axes in figure.axes:
        for one in (axes, *axes.child_axes):
            drawn = [look(line) for line in one.lines if len(line.get_xdata()) > 2]
            assert len({*drawn}) == len(drawn), "two lines look alike"
    labels = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    assert len({*labels}) == len(labels)
    return dict(zip(labels, (colour for colour, *_ in looks), strict=True))


def test_figures_of_runs(figures, systems):
    """Of all systems; a system has one colour and one spelling in all figures."""
    table = distributions(systems)
    for spec in FIGURES[1:5:3]:
        assert draw_figure(spec, table).words != "No data."
    delays = pd.DataFrame(
        [(name, size, 1.0 + n) for n, name in enumerate(systems) for size in (11, 30, 999)],
        columns=["system", "size", "rad"],
    )
    assert list(draw_by_size(delays, page_systems(table)))
    told: dict[str, set[str]] = {}
    for figure in figures:
        if len(figure.legends):
            for label, colour in check(figure).items():
                told.setdefault(label.removesuffix(" (inset only)"), set()).add(colour)
    assert all(len(colours) == 1 for colours in told.values()), told
    labels = {label_of(name) for name in systems}
    labels |= {f"{label}, {measure}" for label in labels for measure in ("RAD", "RMD")}
    wanted = {label.replace(" ", "") for label in labels}
    assert {label.replace(" ", "") for label in told} <= wanted


def test_styles_of_lines_differ():
    def distinct(looks) -> int:
        return len({tuple(map(str, look.values())) for look in looks})

    assert distinct(map(marked_style, range(360))) == 360
    many = [f"system_{number}" for number in range(100)]
    styles = system_styles(many)
    assert distinct(styles.values()) == len(styles) > 100


def test_systems_side_by_side_in_worlds(figures, systems):
    """As many as live, in the colours that they have in runs."""
    panels = system_panels([f"{name}.control" for name in systems])
    links = [panel for panel in group_panels() if panel.systems]
    assert len(links) == 2
    for panel in (panels[0], links[-1]):
        names = [*panel.measures, "nodes.live"]
        table = pd.DataFrame({name: np.arange(9.0) + n for n, name in enumerate(names)})
        draw(_panel(panel, table, 1.0, {}))
    styles = system_styles(systems)
    wanted = {label_of(name): styles[name]["color"] for name in systems}
    for figure in figures:
        found = check(figure)
        assert {label: wanted.get(label, colour) for label, colour in found.items()} == found
    assert list(check(figures[-1])) == ["Scribe", "IP multicast", "Naive unicast"]


def test_the_largest_group_is_a_point_of_its_own():
    """Medians are of classes of sizes, whatever the order of rows."""
    delays = pd.DataFrame(
        {"size": [100, 16, 31, 20, 90, 33, 64], "rad": [9.0, 1.0, 1.2, 1.1, 5.0, 2.0, 4.0]}
    )
    expected = {20.0: 1.1, 33.0: 2.0, 77.0: 4.5, 100.0: 9.0}
    assert by_size(delays).to_dict() == expected
    assert by_size(delays[::-1]).to_dict() == expected
    assert by_size(delays[:1]).to_dict() == {100.0: 9.0}


def test_each_of_equal_curves_is_seen(figures):
    """Equal curves have dashes that take turns; one entry of the legend names both."""
    systems, equal = ("scribe", "bayeux", "flooding"), ("bayeux", "flooding")
    rows = [
        ("9", system, "children_entries", value, 5)
        for system in systems
        for value in ((20.0, 50.0, 80.0) if system in equal else (30.0, 60.0, 90.0))
    ]
    (spec,) = (spec for spec in FIGURES if spec.number == "9")
    drawn = draw_figure(spec, pd.DataFrame(rows, columns=COLUMNS))
    assert drawn.caption.endswith(" Equal curves: Bayeux = Flooding over Pastry.")
    (figure,) = figures
    (legend,) = figure.legends
    assert "Bayeux = Flooding over Pastry" in [text.get_text() for text in legend.get_texts()]
    assert len(legend.get_texts()) == 2
    styles = system_styles(["bayeux"])
    dashes: dict[str, set[str]] = {styles[name]["color"]: set() for name in equal}
    for axes in (one for outer in figure.axes for one in (outer, *outer.child_axes)):
        for line in axes.lines:
            if line.get_color() in dashes and line.get_linestyle() == "--":
                dashes[line.get_color()].add(str(line._dash_pattern))
    first, second = dashes.values()
    assert first
    assert second
    assert not first & second
