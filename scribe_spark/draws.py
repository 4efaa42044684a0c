"""Keyed draws: every random value is a pure function of (seed, purpose, row).

Columns use ``xxhash64`` (Spark's ``rand`` depends on the partitioning); numpy kernels use a
``Philox`` stream keyed by the same triple.  Of numpy only the raw bits of the stream are used: they
are the same in all versions, which the methods of ``numpy.random.Generator`` do not promise.  Equal
configs give equal draws on any cluster.
"""

from __future__ import annotations

import hashlib

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = [
    "below",
    "bits",
    "bits_np",
    "distinct_below",
    "stream",
    "stream_at",
    "uniform",
    "whole_numbers",
]


def bits(seed: int, purpose: str, *rows: Column | str) -> Column:
    """64 random bits (BIGINT) for each row, keyed by (seed, purpose, rows)."""
    keys = [(F.col(r) if isinstance(r, str) else r).cast("bigint") for r in rows]
    return F.xxhash64(F.lit(purpose), F.lit(seed).cast("bigint"), *keys)


def bits_np(seed: int, purpose: str, *rows: np.ndarray | int) -> np.ndarray:
    """The bits of :func:`bits` without Spark: uint64, in the shape that the rows have together.

    Parameters
    ----------
    purpose : str
        At most 31 bytes.
    rows : ndarray of int64, or int
    """
    state = _hash_whole(_hash_text(purpose.encode()), seed)
    found = np.array(state, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for row in rows:
            found = _hash_wholes(found, np.asarray(row, dtype=np.int64).view(np.uint64))
    return found


def below(n: int, seed: int, purpose: str, *rows: Column | str) -> Column:
    """A uniform whole number in [0, n) (BIGINT) for each row; the bias is below n / 2**64."""
    return F.pmod(bits(seed, purpose, *rows), F.lit(n).cast("bigint"))


def stream(seed: int, purpose: str, row: int = 0) -> np.random.Philox:
    """A stream of random bits keyed by (seed, purpose, row); ``random_raw`` gives the next ones."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{row}".encode()).digest()
    return np.random.Philox(key=np.frombuffer(digest[:16], dtype="<u8"))


def stream_at(seed: int, purpose: str, row: int, places: np.ndarray) -> np.ndarray:
    """The bits at some places (from 0) of a stream: uint64; they do not depend on what the rest is.

    Parameters
    ----------
    places : ndarray of int64
        For example numbers of nodes: a node's bits do not depend on how many nodes there are.
    """
    return stream(seed, purpose, row).random_raw(int(places.max(initial=-1)) + 1)[places]


def uniform(raw: np.random.Philox, count: int) -> np.ndarray:
    """Uniform numbers in [0, 1), multiples of 2**-53: float64, shape (count,)."""
    return (raw.random_raw(count) >> np.uint64(11)) * 2.0**-53


def whole_numbers(raw: np.random.Philox, n: int, count: int) -> np.ndarray:
    """Uniform whole numbers in [0, n), n < 2**32: int64, shape (count,).

    Each takes 32 bits, without bias; they are the numbers of ``Generator.integers(0, n, count)``.

    References
    ----------
    Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019.
    """
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < count:
        words = raw.random_raw((count - len(kept) + 1) // 2)
        halves = np.column_stack([words & _LOW_32, words >> np.uint64(32)]).ravel()
        product = halves * np.uint64(n)
        unbiased = (product & _LOW_32) >= np.uint64(2**32 % n)
        kept = np.concatenate([kept, (product[unbiased] >> np.uint64(32)).astype(np.int64)])
    return kept[:count]


def distinct_below(n: int, size: int, seed: int, purpose: str, row: int) -> np.ndarray:
    """`size` distinct uniform whole numbers in [0, n), ascending.

    The first distinct values of a stream of uniform values are kept; beyond half of n the values
    left out are drawn instead.  Only the bit generator's raw output is used, which numpy keeps
    stable between versions.

    Returns
    -------
    ndarray of int64, shape (size,)
    """
    if size > n:
        raise ValueError(f"cannot draw {size} distinct values below {n}")
    if size > n // 2:
        out = distinct_below(n, n - size, seed, purpose, row) if size < n else _EMPTY
        return np.setdiff1d(np.arange(n, dtype=np.int64), out, assume_unique=True)
    raw, drawn = stream(seed, purpose, row), _EMPTY
    kept = _EMPTY
    while len(kept) < size:
        # enough for the expected repeats at half of n (n ln 2 draws), then more if need be
        more = raw.random_raw(size + size // 2 + 8) % np.uint64(n)
        drawn = np.concatenate([drawn, more.astype(np.int64)])
        values, first = np.unique(drawn, return_index=True)
        kept = values[np.argsort(first, kind="stable")]
    return np.sort(kept[:size])


# --- XXH64 as Spark's function ``xxhash64`` uses it: a value's hash is the next one's seed

_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_LOW_64 = 2**64 - 1
_SPARK_SEED = 42


def _turn(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _LOW_64


def _hash_text(text: bytes) -> int:
    one, two, three, _, five = _PRIMES
    if len(text) > 31:
        raise ValueError(f"a purpose has at most 31 bytes: {text!r}")
    state = _SPARK_SEED + five + len(text)
    rest = text
    while len(rest) >= 8:
        word = int.from_bytes(rest[:8], "little")
        state = _mix_word(state, word)
        rest = rest[8:]
    if len(rest) >= 4:
        state = (state ^ int.from_bytes(rest[:4], "little") * one) & _LOW_64
        state = (_turn(state, 23) * two + three) & _LOW_64
        rest = rest[4:]
    for byte in rest:
        state = (state ^ byte * five) & _LOW_64
        state = _turn(state, 11) * one & _LOW_64
    return _finish(state)


def _hash_whole(state: int, value: int) -> int:
    return _finish(_mix_word(state + _PRIMES[4] + 8, value & _LOW_64))


def _mix_word(state: int, word: int) -> int:
    one, two, _, four, _ = _PRIMES
    mixed = _turn(word * two & _LOW_64, 31) * one & _LOW_64
    return (_turn((state & _LOW_64) ^ mixed, 27) * one + four) & _LOW_64


def _finish(state: int) -> int:
    _, two, three, _, _ = _PRIMES
    state = (state ^ state >> 33) * two & _LOW_64
    state = (state ^ state >> 29) * three & _LOW_64
    return state ^ state >> 32


def _hash_wholes(state: np.ndarray, values: np.ndarray) -> np.ndarray:
    """As :func:`_hash_whole`, for arrays of uint64."""
    one, two, three, four, five = map(np.uint64, _PRIMES)
    mixed = _turn_np(values * two, 31) * one
    state = _turn_np((state + (five + np.uint64(8))) ^ mixed, 27) * one + four
    state = (state ^ state >> np.uint64(33)) * two
    state = (state ^ state >> np.uint64(29)) * three
    return state ^ state >> np.uint64(32)


def _turn_np(words: np.ndarray, by: int) -> np.ndarray:
    return words << np.uint64(by) | words >> np.uint64(64 - by)


_EMPTY = np.empty(0, dtype=np.int64)
_LOW_32 = np.uint64(2**32 - 1)
