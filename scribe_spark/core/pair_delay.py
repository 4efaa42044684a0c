"""The distribution of the delays of pairs of nodes, and their jitter, as users spell them.

``--pair-delay uniform:10ms:150ms``, ``lognormal:50ms:0.4`` (the median, and the standard deviation
of the logarithm), ``constant:50ms``; ``--message-jitter 10%``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scribe_spark.core.units import canonical, parse_percentage, parse_time

#: The shortest and the longest delay of a pair in microseconds; draws beyond them are cut.
LEAST_US, MOST_US = 1, 10**9

MOST_SIGMA = 3.0

_NUMBER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,9})?", re.ASCII)
_FORMS = "uniform:LEAST:MOST, lognormal:MEDIAN:SIGMA or constant:DELAY, such as uniform:10ms:150ms"


@dataclass(frozen=True)
class PairDelay:
    """A distribution: `us` is its least delay, median or delay; `most_us` its greatest, or `us`."""

    law: str
    us: int
    most_us: int
    sigma: float = 0.0

    @classmethod
    def parse(cls, text: str) -> PairDelay:
        """Return the distribution that a text spells; a ValueError says what would be good."""
        law, *parts = text.split(":")
        if len(parts) != {"uniform": 2, "lognormal": 2, "constant": 1}.get(law):
            raise ValueError(f"must be {_FORMS}")
        us = _time(parts[0])
        if law == "lognormal":
            sigma = float(parts[1]) if _NUMBER.fullmatch(parts[1]) else 0.0
            if not 0 < sigma <= MOST_SIGMA:
                raise ValueError("needs a SIGMA above 0 and at most 3, such as lognormal:50ms:0.4")
            return cls(law, us, us, sigma)
        most = _time(parts[-1])
        if most < us:
            raise ValueError("must have its least delay first, such as uniform:10ms:150ms")
        return cls(law, us, most)

    def __str__(self) -> str:
        """Return the one spelling of the distribution."""
        parts = [canonical("time", self.us)]
        parts += [canonical("time", self.most_us)] * (self.law == "uniform")
        parts += [f"{self.sigma:g}"] * (self.law == "lognormal")
        return ":".join([self.law, *parts])


def _time(text: str) -> int:
    us = parse_time(text)
    if not LEAST_US <= us <= MOST_US:
        raise ValueError("needs delays from 1us to 1000s")
    return us


#: The greatest jitter, in millionths.
MOST_JITTER = 10**7


def parse_jitter(text: str) -> int:
    """Return a percentage as a whole number of millionths; a ValueError says what would be good."""
    share = parse_percentage(text)
    if share is None or share * 10**6 > MOST_JITTER:
        raise ValueError("must be a percentage from 0% to 1000%, such as 10%")
    return round(share * 10**6)


def jitter_in_words(millionths: int) -> str:
    """Return the one spelling of a jitter: ``10%``."""
    return f"{millionths / 10**4:g}%"
