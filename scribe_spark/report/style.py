"""Values as text, and the style of all drawings: colours, dashes, sizes, ticks of axes.

A system has one colour and one marker in all figures, and one label (`systems.registry.System`).
If a figure shows two measures of a system, the first is solid and the second dashed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from scribe_spark.systems.registry import all_systems, find_system

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- values as text


PERCENT = "\N{NO-BREAK SPACE}%"
#: The text for a missing value.
ABSENT = "\N{EN DASH}"

_ABBREVIATIONS = ("ip", "rad", "rmd", "rdp")


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return True for a finite number (but not for true and false)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def as_text(value: Any) -> str:
    """Return a number to four digits, whole numbers in full; a dash for None."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ABSENT
    if not is_number(value):
        return str(value)
    without_decimals = value == int(value) or abs(value) >= 1000
    return f"{value:,.0f}" if without_decimals else f"{value:.4g}"


def as_percent(value: float) -> str:
    """Return a value in per cent as text, to four digits and with the sign: ``12.35 %``."""
    return as_text(float(f"{value:.4g}")) + PERCENT


def share_in_percent(share: float) -> str:
    """Return a share in per cent to three digits, or more: only a whole is 100 %."""
    percent = 100 * share
    near = (float(f"{percent:.{digits}g}") for digits in range(3, 18))
    rounded = next(value for value in near if value < 100 or percent >= 100)
    return repr(rounded).removesuffix(".0") + PERCENT


def reach_in_words(reached: Any) -> str:
    """Return a note on a system that does not reach all members; empty if the system does."""
    if not is_number(reached) or reached >= 1:
        return ""
    return f"reaches {share_in_percent(reached)} of the members"


def cut(words: str, most: int) -> str:
    """Return words with at most a number of characters; an ellipsis stands for the rest."""
    return words if len(words) <= most else words[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def as_bytes(size: float) -> str:
    """Return a number of bytes to three digits, in units of 1,000, such as ``22.9 MB``."""
    size = round(size, 6)  # a tick may be almost 0
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size) >= factor:
            return f"{float(f'{size / factor:.3g}'):,g} {unit}"
    return f"{float(f'{size:.3g}'):,g} B"


def as_spread(std: Any) -> str:
    """Return a standard deviation to three digits; empty for None."""
    return as_text(float(f"{std:.3g}")) if is_number(std) else ""


def as_setting(value: Any) -> str:
    """Return the value of a setting as text, as a user would write it."""
    if isinstance(value, list):
        return ",".join(map(as_setting, value)) or ABSENT
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {one}" for name, one in value.items()) + "}"
    return ABSENT if value is None else str(value)


def as_duration(seconds: float) -> str:
    """Return a duration such as ``2 min 5 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s" if minutes else f"{seconds:.1f} s"


def readable(name: str) -> str:
    """Return the name of a measure in words.

    Examples
    --------
    >>> readable("ip_multicast.link_stress.max"), readable("scribe.time_to_99.median")
    ('IP multicast, link stress, max', 'Scribe, time to 99\xa0%, median')
    """
    words = [
        word.upper() if word in _ABBREVIATIONS else word
        for word in name.replace(".", " , ").replace("_", " ").split()
    ]
    text = " ".join(words).replace(" ,", ",").replace("mean existing", "mean over all links")
    text = re.sub(r"\b(time|hops) to (\d+)\b", rf"\1 to \2{PERCENT}", text)
    return text[:1].upper() + text[1:]


# --- drawings


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
    *("#D55E00", "#E69F00", "#CC79A7", "#6A3D9A", "#C2185B"),  # its peers
    *("#B8860B", "#00868B", "#556B2F", "#3949AB"),  # Narada, NICE, Overcast, SplitStream
    *("#000000", "#7F7F7F"),  # the baselines
    *("#FF6F61", "#2F4F4F", "#7B3F00"),
)

#: Their number has no common divisor with that of the colours: 171 systems differ in colour or
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
    dashes = _DASHES[(number + number // len(_COLOURS)) % len(_DASHES)]
    return {"color": _COLOURS[number % len(_COLOURS)], "linestyle": dashes}


def marked_style(number: int) -> dict[str, Any]:
    """Return colour, dashes and marker of line `number`, of few points; the first 360 differ."""
    marker = _MARKERS[number // (len(_COLOURS) * len(_DASHES)) % len(_MARKERS)]
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


def depth_style(depth: int) -> tuple[str, float]:
    """Return the colour and the width of the edges to nodes at a depth, which is 1 or more."""
    return DEPTHS[min(depth, len(DEPTHS)) - 1]


def short_number(value: float) -> str:
    """Return a number with few digits for an axis: 1, 10, 2.5k, 1M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def log_axis(axes: Axes, which: str) -> None:
    """Set decades from 1, labelled 1, 10, 100, 1k, ..., with margins around the data.

    The axis begins below 1 if a mean over topologies does.
    """
    from matplotlib.ticker import FuncFormatter

    low, high = getattr(axes.dataLim, f"interval{which}")
    top = 10 ** (max(1.0, math.log10(max(high, 1.0))) * 1.04)
    axes.set(**{f"{which}lim": (0.85 * min(low, 1), top)})
    getattr(axes, f"{which}axis").set_major_formatter(FuncFormatter(lambda x, _: short_number(x)))


def short_tick(value: float) -> str:
    """Return the label of a tick with few digits: 0, 2.5, 10k."""
    return short_number(round(value, 9))


def percent_tick(percent: float) -> str:
    """Return the label of a tick at a number of per cent."""
    return f"{percent:.0f}%"


# --- names


def label_of(system: str) -> str:
    """Return the name of a system in figures: its label, or its name if it has no label."""
    known = find_system(system)
    return readable(system) if known is None else known.label


def measure_in_words(measure: str) -> str:
    """Return the name of a measure for readers; a system's name becomes its label.

    Examples
    --------
    >>> measure_in_words("gossipsub.rad.median")
    'GossipSub, RAD, median'
    """
    system, _, rest = measure.partition(".")
    if find_system(system) is None:
        return readable(measure)
    words = readable(rest)  # an abbreviation at its beginning stays as it is
    words = words if words[:2].isupper() else words[:1].lower() + words[1:]
    return f"{label_of(system)}, {words}"
