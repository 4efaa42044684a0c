"""128-bit arithmetic on nodeIds and keys: as Columns, as halves in numpy, and as `Wide` numbers.

An id is two halves: as Columns BIGINTs (``hi``, ``lo``) with the same bits, so signed order is
*not* ring order; in numpy uint64, with functions that end in ``_np``. Digits have base 2**b, most
significant first.  Kernels for keys of any length take arrays of uint64 for at most 63 bits, else
`Wide`, which has numpy's operators; functions here take both.

References
----------
JSAC 2002, Section II: nodeIds and keys as sequences of digits with base 2**b.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

BITS = 128


# --- Columns


def halves(name: str) -> tuple[Column, Column]:
    """Return the columns of the id `name`: ``name_hi, name_lo``."""
    return F.col(f"{name}_hi"), F.col(f"{name}_lo")


def half_of_digest(digest_hex: Column, half: int) -> Column:
    """Return half 0 (high) or 1 (low) of the first 128 bits of a hex digest, as BIGINT."""
    piece = F.substring(digest_hex, 1 + 16 * half, 16)
    return F.conv(piece, 16, -10).cast("bigint")


# --- halves in numpy


def digit_np(hi: np.ndarray, lo: np.ndarray, position: int, b: int) -> np.ndarray:
    """Return the digit of b bits at `position` (0: the first) of ids in halves: int64."""
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
    """Return the digit of b bits of each id at its own `position` (0: the first): int64."""
    per_half = 64 // b
    half = np.where(position < per_half, hi, lo)
    shift = (64 - b * (position % per_half + 1)).astype(np.uint64)
    return ((half >> shift) & np.uint64(2**b - 1)).astype(np.int64)


def shared_digits_np(a_hi, a_lo, b_hi, b_lo, b: int) -> np.ndarray:
    """Return the number of leading digits that a and b share: int64, 128 / b for equal ids."""
    high, low = a_hi ^ b_hi, a_lo ^ b_lo
    zeros = np.where(high != 0, _leading_zeros_np(high), 64 + _leading_zeros_np(low))
    return zeros // b


def lt_np(a_hi, a_lo, b_hi, b_lo) -> np.ndarray:
    """Return True where a < b, row by row, for numbers in uint64 halves."""
    return (a_hi < b_hi) | ((a_hi == b_hi) & (a_lo < b_lo))


# --- numbers of up to 128 bits

#: Keys of more bits than this are `Wide`: a difference or a sum of two shorter ones is a uint64.
NARROW_BITS = 63

_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


class Wide:
    """Unsigned 128-bit numbers, modulo 2**128, as two halves of uint64."""

    __slots__ = ("hi", "lo")

    def __init__(self, hi: np.ndarray, lo: np.ndarray) -> None:
        self.hi, self.lo = hi, lo

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, index: Any) -> Wide:
        return Wide(self.hi[index], self.lo[index])

    @classmethod
    def join(cls, *parts: Wide) -> Wide:
        """Return the numbers of several arrays, one after the other."""
        hi, lo = (np.concatenate([getattr(part, half) for part in parts]) for half in cls.__slots__)
        return cls(hi, lo)

    def __setitem__(self, index: Any, value: Wide) -> None:
        self.hi[index], self.lo[index] = value.hi, value.lo

    def __add__(self, other: Wide) -> Wide:
        lo = self.lo + other.lo
        return Wide(self.hi + other.hi + (lo < self.lo), lo)

    def __sub__(self, other: Wide) -> Wide:
        return Wide(self.hi - other.hi - (self.lo < other.lo), self.lo - other.lo)

    def __and__(self, other: Wide) -> Wide:
        return Wide(self.hi & other.hi, self.lo & other.lo)

    def __rshift__(self, by: int) -> Wide:
        """Return the numbers shifted right by 0 to 127 bits."""
        if by == 0:
            return self
        if by >= 64:
            return Wide(np.zeros_like(self.hi), self.hi >> np.uint64(by - 64))
        down, up = np.uint64(by), np.uint64(64 - by)
        return Wide(self.hi >> down, (self.lo >> down) | (self.hi << up))

    def __lt__(self, other: Wide) -> np.ndarray:
        return lt_np(self.hi, self.lo, other.hi, other.lo)

    def __gt__(self, other: Wide) -> np.ndarray:
        return lt_np(other.hi, other.lo, self.hi, self.lo)

    def __le__(self, other: Wide) -> np.ndarray:
        return ~(self > other)

    def __ge__(self, other: Wide) -> np.ndarray:
        return ~(self < other)

    def __eq__(self, other: Any) -> np.ndarray:  # type: ignore[override]
        return (self.hi == other.hi) & (self.lo == other.lo)

    def __ne__(self, other: Any) -> np.ndarray:  # type: ignore[override]
        return (self.hi != other.hi) | (self.lo != other.lo)

    __hash__ = None  # type: ignore[assignment]


#: Numbers of one column: an array of uint64 up to :data:`NARROW_BITS`, else `Wide`.  (To a type
#: checker these two have no operators in common.)
Numbers: TypeAlias = Any


def constant(value: int, bits: int) -> Any:
    """Return one number for all rows: a uint64, or a `Wide` of two uint64."""
    if bits <= NARROW_BITS:
        return np.uint64(value)
    return Wide(np.uint64(value >> 64), np.uint64(value & (2**64 - 1)))  # type: ignore[arg-type]


def number(value: np.ndarray, like: Numbers) -> Numbers:
    """Return whole numbers below 2**63 in the type of the numbers `like`: uint64, or `Wide`."""
    value = value.astype(np.uint64)
    return Wide(np.zeros_like(value), value) if isinstance(like, Wide) else value


def from_halves(hi: np.ndarray, lo: np.ndarray, bits: int) -> Numbers:
    """Return numbers of `bits` bits from their halves (int64 or uint64 with the same bits)."""
    hi, lo = hi.view(np.uint64), lo.view(np.uint64)
    return lo if bits <= NARROW_BITS else Wide(hi, lo)


def halves_of(numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Return the high and low halves of numbers: uint64."""
    if isinstance(numbers, Wide):
        return numbers.hi, numbers.lo
    return np.zeros_like(numbers), numbers


def where(condition: np.ndarray, a: Numbers, b: Numbers) -> Numbers:
    """Return elements of `a` or `b` as ``numpy.where`` does: uint64, or `Wide`."""
    if isinstance(a, Wide):
        assert isinstance(b, Wide)
        return Wide(np.where(condition, a.hi, b.hi), np.where(condition, a.lo, b.lo))
    return np.where(condition, a, b)


def minimum(a: Numbers, b: Numbers) -> Numbers:
    """Return the lesser number of each row."""
    return where(a < b, a, b)


def maximum(a: Numbers, b: Numbers) -> Numbers:
    """Return the greater number of each row."""
    return where(a > b, a, b)


def concatenate(parts: Sequence[Numbers]) -> Numbers:
    """Return arrays (uint64 or `Wide`), one after the other, as ``numpy.concatenate`` does."""
    return Wide.join(*parts) if isinstance(parts[0], Wide) else np.concatenate(parts)


def lexsort(numbers: Numbers, ring: np.ndarray) -> np.ndarray:
    """Return the order of rows by `ring`, then by number: indices."""
    if isinstance(numbers, Wide):
        return np.lexsort((numbers.lo, numbers.hi, ring))
    return np.lexsort((numbers, ring))


def to_float(numbers: Numbers) -> np.ndarray:
    """Return numbers as the nearest float64, exact up to one unit in the last place."""
    if isinstance(numbers, Wide):
        return numbers.hi * 2.0**64 + numbers.lo
    return numbers.astype(np.float64)


def divide(numbers: Numbers, by: np.ndarray | int) -> tuple[Numbers, np.ndarray]:
    """Return quotient and remainder (uint64) of numbers by whole numbers from 1 to 2**32 - 1."""
    if isinstance(by, int) and by & (by - 1) == 0:
        rest = (numbers.lo if isinstance(numbers, Wide) else numbers) & np.uint64(by - 1)
        if isinstance(numbers, Wide):
            return numbers >> (by.bit_length() - 1), rest
        return numbers >> np.uint64(by.bit_length() - 1), rest
    divisor = np.uint64(by) if isinstance(by, int) else by.astype(np.uint64)
    if not isinstance(numbers, Wide):
        return numbers // divisor, numbers % divisor
    # long division with digits of 32 bits, from the most significant one
    hi = numbers.hi // divisor
    rest = numbers.hi - hi * divisor
    lo = np.zeros_like(numbers.lo)
    for digit in (numbers.lo >> _HALF, numbers.lo & _LOW):
        part = (rest << _HALF) | digit
        quotient = part // divisor
        rest = part - quotient * divisor
        lo = (lo << _HALF) | quotient
    return Wide(hi, lo), rest


def times(numbers: Numbers, by: np.ndarray) -> Numbers:
    """Return products of numbers and whole numbers below 2**32, modulo 2**64 or 2**128."""
    factor = by.astype(np.uint64)
    if not isinstance(numbers, Wide):
        return numbers * factor
    low = (numbers.lo & _LOW) * factor
    high = (numbers.lo >> _HALF) * factor + (low >> _HALF)
    return Wide(numbers.hi * factor + (high >> _HALF), (high << _HALF) | (low & _LOW))
