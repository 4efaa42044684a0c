"""Values as text: numbers, settings, seconds, and names that readers understand."""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

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
    """Return a share in per cent to three digits, or more: only a whole is 100 %.

    Examples
    --------
    >>> share_in_percent(0.94217), share_in_percent(0.99996), share_in_percent(1.0)
    ('94.2\xa0%', '99.996\xa0%', '100\xa0%')
    """
    percent = 100 * share
    near = (float(f"{percent:.{digits}g}") for digits in range(3, 18))
    rounded = next(value for value in near if value < 100 or percent >= 100)
    return repr(rounded).removesuffix(".0") + PERCENT


def reach_in_words(reached: Any) -> str:
    """Return a note on a system that does not reach all members; empty if the system does.

    Examples
    --------
    >>> reach_in_words(0.94217), reach_in_words(1.0), reach_in_words(None)
    ('reaches 94.2\xa0% of the members', '', '')
    """
    if not is_number(reached) or reached >= 1:
        return ""
    return f"reaches {share_in_percent(reached)} of the members"


def as_bytes(size: float) -> str:
    """Return a number of bytes to three digits, in units of 1,000.

    Examples
    --------
    >>> as_bytes(999), as_bytes(128_000), as_bytes(22_912_000)
    ('999 B', '128 KB', '22.9 MB')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size) >= factor:
            return f"{float(f'{size / factor:.3g}'):,g} {unit}"
    return f"{float(f'{size:.3g}'):,g} B"


def as_spread(std: Any) -> str:
    """Return a standard deviation to three digits; empty for None."""
    return as_text(float(f"{std:.3g}")) if is_number(std) else ""


def _entry(value: Any) -> str:
    """Return an element of a setting's list as text; a table as its keys and values."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {one}" for name, one in value.items()) + "}"
    return str(value)


def as_setting(value: Any) -> str:
    """Return the value of a setting as text, as a user would write it."""
    if isinstance(value, list):
        return ",".join(map(_entry, value)) or ABSENT
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
