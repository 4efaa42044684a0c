"""How all drawings look: colours, dashes, sizes, and numbers on axes."""

from __future__ import annotations

from typing import Any

__all__ = ["DEPTHS", "RC", "STYLES", "curve_style", "depth_style", "short_number"]

#: Colour (Okabe-Ito, safe for the colour-blind) and dashes of each curve of a figure, in order.
STYLES: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", (0, (5, 1.6))),
    ("#009E73", (0, (1.2, 1.4))),
    ("#CC79A7", (0, (6, 1.5, 1.2, 1.5))),
    ("#000000", (0, (3, 1.2, 1, 1.2, 1, 1.2))),
)

#: Colour and width of the edges of a tree by the depth of the child, from 1; the last of all deeper
#: ones, too.
DEPTHS: tuple[tuple[str, float], ...] = (
    ("#8b1a1a", 1.7),
    ("#d55e00", 1.3),
    ("#009e73", 1.0),
    ("#0072b2", 0.8),
    ("#9a86b8", 0.7),
)

#: matplotlib's settings, whatever the user's are.
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
    """Colour and dashes of a figure's curve by its number, from 0; used again after the last."""
    colour, dashes = STYLES[number % len(STYLES)]
    return {"color": colour, "linestyle": dashes}


def depth_style(depth: int) -> tuple[str, float]:
    """Colour and width of the edges to nodes of a depth, from 1."""
    return DEPTHS[min(depth, len(DEPTHS)) - 1]


def short_number(value: float) -> str:
    """A number with few digits on an axis: 1, 10, 2.5k, 1M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
