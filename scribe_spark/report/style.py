"""The style of all drawings: colours, dashes, sizes, and numbers on axes.

A system has one colour and one marker in all figures, and one label (`systems.System`).  If a
figure shows two measures of a system, the first is solid and the second dashed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scribe_spark.systems import all_systems

#: The colours of curves that belong to no system; the first are those of Okabe and Ito, which
#: colour-blind readers can distinguish.
_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#000000", "#E69F00", "#56B4E9", "#7F7F7F"),
)

#: The dashes of a second measure.
DASHED = (0, (5, 1.6))

_DASHES: tuple[Any, ...] = (
    "-",
    DASHED,
    (0, (1.2, 1.4)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (3, 1.2, 1, 1.2, 1, 1.2)),
)

#: The colours of systems in the order of their registry; users' systems come after the package's.
_SYSTEM_COLOURS = (
    *("#0072B2", "#56B4E9", "#009E73", "#8DB600", "#8C564B"),  # Scribe, its variants, one tree
    *("#D55E00", "#E69F00", "#CC79A7", "#6A3D9A"),  # its peers
    *("#000000", "#7F7F7F"),  # the baselines
    *("#C2185B", "#00868B", "#B8860B"),
)

#: Their number has no common divisor with that of the colours: 126 systems differ in colour or
#: marker.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

#: The colour and the width of a tree's edges by the depth of the child, from 1; the last one is
#: also for deeper edges.
DEPTHS: tuple[tuple[str, float], ...] = (
    ("#8b1a1a", 1.7),
    ("#d55e00", 1.3),
    ("#009e73", 1.0),
    ("#0072b2", 0.8),
    ("#9a86b8", 0.7),
)

#: matplotlib's settings, in place of the user's.
RC = {
    "svg.hashsalt": "scribe_spark",  # ids are equal in every run
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "text.parse_math": False,  # names are the user's, and a $ in one is a $
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first comes with matplotlib
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#333333",
    "axes.labelcolor": "#222222",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "path.simplify": True,
}


def curve_style(number: int) -> dict[str, Any]:
    """Return colour and dashes of a curve by its number, from 0; the first 40 differ."""
    again = number // len(_COLOURS)
    dashes = _DASHES[(number + again) % len(_DASHES)]
    return {"color": _COLOURS[number % len(_COLOURS)], "linestyle": dashes}


def marked_style(number: int) -> dict[str, Any]:
    """Return colour, dashes and marker of a line of few points; the first 360 differ."""
    again = number // (len(_COLOURS) * len(_DASHES))
    marker = _MARKERS[again % len(_MARKERS)]
    return {**curve_style(number), "marker": marker, "markersize": 3}


def in_order(names: Iterable[str]) -> list[str]:
    """Return systems in the order of the registry, then unregistered ones by name."""
    there, registered = {*names}, [system.name for system in all_systems()]
    return [name for name in registered if name in there] + sorted(there - {*registered})


def system_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and the marker of each system, the same in all figures."""
    registered = [system.name for system in all_systems()]
    numbers = registered + sorted(set(names) - set(registered))
    return {
        name: {
            "color": _SYSTEM_COLOURS[number % len(_SYSTEM_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
            "markersize": 3,
        }
        for number, name in enumerate(numbers)
    }


def spaced_markers(number: int) -> tuple[float, float]:
    """Return the first marker of a long curve and the distance of markers, in axes' diagonals."""
    return 0.02 + 0.03 * (number % 5), 0.17


def depth_style(depth: int) -> tuple[str, float]:
    """Return the colour and the width of the edges to nodes of a depth, from 1."""
    return DEPTHS[min(depth, len(DEPTHS)) - 1]


def short_number(value: float) -> str:
    """Return a number with few digits for an axis: 1, 10, 2.5k, 1M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
