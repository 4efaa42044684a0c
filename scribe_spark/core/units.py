"""Sizes, rates and times with units, as people and Shadow's files write them, in whole base units.

A size is in bytes, a rate in bits per second, a time in microseconds.  KB is 1,000 bytes and KiB is
1,024 bytes.  Upper and lower case matter only where they distinguish bits from bytes, or milli from
mega.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

from scribe_spark.core.errors import listed

Quantity = Literal["size", "rate", "time"]

#: Limits that keep the microseconds of a transmission in 64 bits: 8,000,000 MOST_BYTES < 2**63.
MOST_BYTES = 10**12
MOST_BITS_PER_SECOND = 10**15
MOST_MICROSECONDS = 10**12

#: Microseconds in a millisecond.  Internal delays are integer microseconds, so that sums are exact
#: in any order; tables have DOUBLE milliseconds.
MICROSECONDS = 1000

#: The default length of a round: the period of maintenance of Pastry and Scribe.
NOMINAL_SECONDS = 30.0

_NUMBER = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))\s*(.{0,20})", re.ASCII
)

#: The factors of prefixes, by their short and long spellings.
_PREFIXES = {
    **{"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12},
    **{"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40},
}
_LONG_PREFIXES = {"": 1, "kilo": 10**3, "mega": 10**6, "giga": 10**9, "tera": 10**12}
_LONG_PREFIXES |= {"kibi": 2**10, "mebi": 2**20, "gibi": 2**30, "tebi": 2**40}


def _prefixed(short: tuple[str, ...], long: tuple[str, ...], times: int) -> dict[str, Fraction]:
    spelled = {f"{prefix}{unit}": n for prefix, n in _PREFIXES.items() for unit in short}
    spelled |= {f"{prefix}{unit}": n for prefix, n in _LONG_PREFIXES.items() for unit in long}
    return {unit: Fraction(n * times) for unit, n in spelled.items()}


_TIMES = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), Fraction(1, 1000)),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "microsecond", "microseconds"), Fraction(1)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), Fraction(10**3)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(10**6)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Fraction(60 * 10**6)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Fraction(3600 * 10**6)),
}


@dataclass(frozen=True)
class _Scale:
    """The units of a quantity, its greatest value, and the spellings of :func:`canonical`."""

    units: dict[str, Fraction]
    base: str
    most: int
    greatest: str
    example: str
    spellings: tuple[str, ...]


_SCALES: dict[Quantity, _Scale] = {
    "size": _Scale(
        _prefixed(("B",), ("byte", "bytes"), 1),
        "bytes",
        MOST_BYTES,
        "1TB",
        "128KB",
        ("TB", "GB", "MB", "KB", "GiB", "MiB", "KiB", "B"),
    ),
    "rate": _Scale(
        _prefixed(("bit", "bits", "bit/s", "bits/s", "bps", "b/s"), ("bit", "bits"), 1)
        | _prefixed(("B/s",), ("byte/s", "bytes/s"), 8),
        "bits per second",
        MOST_BITS_PER_SECOND,
        "1000Tbit/s",
        "50Mbit/s",
        ("Tbit/s", "Gbit/s", "Mbit/s", "kbit/s", "bit/s"),
    ),
    "time": _Scale(_TIMES, "microseconds", MOST_MICROSECONDS, "1000000s", "5ms", ("s", "ms", "us")),
}


def parse(quantity: Quantity, text: object, least: int = 0, usual: str = "") -> int:
    """Return a text with a unit as whole base units: bytes, bits per second or microseconds.

    `least` is the least number that is accepted; `usual` is the unit of a number without one, which
    is refused if it is empty.  A ValueError says what would be good.
    """
    scale = _SCALES[quantity]
    found = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    unit = found and (found[2].strip() or usual)
    if not unit and (found or isinstance(text, int | float)):
        raise ValueError(f"must have a unit, such as {scale.example}")
    if not found or unit not in scale.units:
        common = listed(scale.spellings)
        raise ValueError(f"must be a number and a unit ({common}), such as {scale.example}")
    value = Fraction(found[1]) * scale.units[unit]
    if value.denominator != 1:
        raise ValueError(f"must be a whole number of {scale.base}")
    if value < least:
        what = "above 0" if least == 1 else f"at least {canonical(quantity, least)}"
        raise ValueError(f"must be {what}, such as {scale.example}")
    if value > scale.most:
        raise ValueError(f"must be at most {scale.greatest}")
    return int(value)


#: The bytes, the bits per second and the microseconds of a text.
parse_size = partial(parse, "size", least=1)
parse_rate = partial(parse, "rate", least=1)
parse_time = partial(parse, "time")


_PERCENTAGE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?) ?%", re.ASCII)


def parse_percentage(text: str) -> Fraction | None:
    """Return the share that a percentage stands for; None of a text that is no percentage."""
    found = _PERCENTAGE.fullmatch(text)
    return None if found is None else Fraction(found[1]) / 100


def canonical(quantity: Quantity, value: int) -> str:
    """Return the one spelling of a base value, with the largest unit that keeps it whole."""
    scale = _SCALES[quantity]
    fits = (unit for unit in scale.spellings if value and value % scale.units[unit] == 0)
    unit = next(fits, scale.spellings[-1])
    return f"{value // scale.units[unit]}{unit}"
