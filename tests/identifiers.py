"""128-bit identifiers as the pairs of BIGINTs that tables have."""

from collections.abc import Iterable

import numpy as np


def signed(half: int) -> int:
    """An unsigned 64-bit number as the BIGINT of the same bits."""
    return half - 2**64 if half >= 2**63 else half


def halves(identifier: int) -> tuple[int, int]:
    """A 128-bit number as two BIGINTs, high and low."""
    return signed(identifier >> 64), signed(identifier % 2**64)


def whole(hi: int, lo: int) -> int:
    """Two BIGINTs as one 128-bit number."""
    return (hi % 2**64) << 64 | lo % 2**64


def flipped(u_hi: int, u_lo: int) -> int:
    """Two BIGINTs with flipped sign bits (`ids.unsigned`) as one 128-bit number."""
    return (u_hi + 2**63) << 64 | (u_lo + 2**63)


def parts(identifiers: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """High and low halves of identifiers: uint64."""
    whole = list(identifiers)
    high, low = [one >> 64 for one in whole], [one % 2**64 for one in whole]
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)
