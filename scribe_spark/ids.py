"""128-bit ring arithmetic on nodeIds and keys, as Columns and as numpy.

An id is the two halves of an unsigned 128-bit number, each in a BIGINT (``hi``, ``lo``), so
bit patterns are kept and signed order is *not* ring order: comparisons flip the sign bit.  Digits
are base 2**b, most significant first.

References
----------
JSAC 2002, Section II: nodeIds and keys as sequences of digits with base 2**b.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = [
    "BITS",
    "digit",
    "digit_at_np",
    "digit_np",
    "half_of_digest",
    "halves",
    "le",
    "lt",
    "lt_np",
    "midpoint_np",
    "prefix_digits",
    "shared_digits_np",
    "unsigned",
]

BITS = 128
_SIGN = -(2**63)


def halves(name: str) -> tuple[Column, Column]:
    """The columns of the id `name`: ``name_hi, name_lo``."""
    return F.col(f"{name}_hi"), F.col(f"{name}_lo")


def unsigned(half: Column) -> Column:
    """A BIGINT whose signed order is the unsigned order of `half`."""
    return half.bitwiseXOR(F.lit(_SIGN).cast("bigint"))


def lt(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column) -> Column:
    """a < b as unsigned 128-bit numbers (BOOLEAN)."""
    return (unsigned(a_hi) < unsigned(b_hi)) | ((a_hi == b_hi) & (unsigned(a_lo) < unsigned(b_lo)))


def le(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column) -> Column:
    """a <= b as unsigned 128-bit numbers (BOOLEAN)."""
    return (unsigned(a_hi) < unsigned(b_hi)) | ((a_hi == b_hi) & (unsigned(a_lo) <= unsigned(b_lo)))


def half_of_digest(digest_hex: Column, half: int) -> Column:
    """Half 0 (high) or 1 (low) of the first 128 bits of a hex digest, as BIGINT."""
    piece = F.substring(digest_hex, 1 + 16 * half, 16)
    return F.conv(piece, 16, -10).cast("bigint")


def digit(hi: Column, lo: Column, position: Column, b: int) -> Column:
    """The digit (INT, base 2**b) at `position` (INT, 0 = most significant)."""
    per_half = 64 // b
    in_low = position >= per_half
    half = F.when(in_low, lo).otherwise(hi)
    shift = F.lit(64 - b) - (position - F.when(in_low, per_half).otherwise(0)) * b
    shifted = F.call_function("shiftrightunsigned", half, shift.cast("int"))
    return shifted.bitwiseAND(F.lit(2**b - 1).cast("bigint")).cast("int")


def prefix_digits(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column, b: int) -> Column:
    """How many leading digits a and b share (INT), at most all but the last.

    Spark has no clz; ``bin`` prints a BIGINT as unsigned binary without leading zeros.
    """
    high, low = a_hi.bitwiseXOR(b_hi), a_lo.bitwiseXOR(b_lo)
    differing = F.when(high == 0, F.length(F.bin(low))).otherwise(F.length(F.bin(high)) + 64)
    return F.call_function("div", F.lit(BITS) - differing, F.lit(b)).cast("int")


def digit_np(hi: np.ndarray, lo: np.ndarray, position: int, b: int) -> np.ndarray:
    """The digit at `position` of uint64 halves: int64, same shape."""
    per_half = 64 // b
    half, place = (hi, position) if position < per_half else (lo, position - per_half)
    shift = np.uint64(64 - b * (place + 1))
    return ((half >> shift) & np.uint64(2**b - 1)).astype(np.int64)


def _leading_zeros_np(x: np.ndarray) -> np.ndarray:
    high = x >> np.uint64(32)
    in_high = high != 0
    # 32 bits are a float without loss, and its exponent is their length
    _, length = np.frexp(np.where(in_high, high, x).astype(np.float64))
    return np.where(in_high, 32, 64) - length.astype(np.int64)


def digit_at_np(hi: np.ndarray, lo: np.ndarray, position: np.ndarray, b: int) -> np.ndarray:
    """The digit of each id at its own position: int64."""
    per_half = 64 // b
    half = np.where(position < per_half, hi, lo)
    shift = (64 - b * (position % per_half + 1)).astype(np.uint64)
    return ((half >> shift) & np.uint64(2**b - 1)).astype(np.int64)


def shared_digits_np(a_hi, a_lo, b_hi, b_lo, b: int) -> np.ndarray:
    """How many leading digits a and b share, row by row: int64, 128 / b for equal ids."""
    high, low = a_hi ^ b_hi, a_lo ^ b_lo
    zeros = np.where(high != 0, _leading_zeros_np(high), 64 + _leading_zeros_np(low))
    return zeros // b


def lt_np(a_hi, a_lo, b_hi, b_lo) -> np.ndarray:
    """a < b, row by row (uint64 halves)."""
    return (a_hi < b_hi) | ((a_hi == b_hi) & (a_lo < b_lo))


def midpoint_np(a_hi, a_lo, b_hi, b_lo) -> tuple[np.ndarray, np.ndarray]:
    """The last key, clockwise from a to b, that is numerically closer to a (uint64 halves).

    Ties go to the smaller id; with a == b every key is a's, up to the one before it.
    """
    one, top = np.uint64(1), np.uint64(63)
    tie_to_b = lt_np(b_hi, b_lo, a_hi, a_lo)
    # gap - tie, halved, past a; with a == b the gap is the whole ring, 0 in 128 bits
    lo = b_lo - a_lo
    hi = b_hi - a_hi - (b_lo < a_lo).astype(np.uint64)
    entire_ring = (hi == 0) & (lo == 0)
    take = (tie_to_b | entire_ring).astype(np.uint64)
    hi, lo = hi - (lo < take).astype(np.uint64), lo - take
    lo = np.where(entire_ring, lo, (lo >> one) | (hi << top))
    hi = np.where(entire_ring, hi, hi >> one)
    out_lo = a_lo + lo
    return a_hi + hi + (out_lo < lo).astype(np.uint64), out_lo
