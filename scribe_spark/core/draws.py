"""Keyed draws: every random value is a pure function of (seed, purpose, row).

Columns use ``xxhash64`` (Spark's ``rand`` depends on the partitioning); numpy kernels use a
``Philox`` stream with the same key.  Only the raw bits of the stream are used: they are the same in
all versions of numpy, unlike the results of ``numpy.random.Generator``.  Equal configs give equal
draws on any cluster.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from scribe_spark.core.arrays import expand
from scribe_spark.core.row_hash import SEED, hash_bytes, hash_longs


def bits(seed: int, purpose: str, *rows: Column | str) -> Column:
    """Return 64 random bits (BIGINT) for each row, keyed by (seed, purpose, rows)."""
    keys = [(F.col(r) if isinstance(r, str) else r).cast("bigint") for r in rows]
    return F.xxhash64(F.lit(purpose), F.lit(seed).cast("bigint"), *keys)


def bits_np(seed: int, purpose: str, *rows: np.ndarray | int) -> np.ndarray:
    """Return the bits of :func:`bits` without Spark: uint64, in the common shape of the rows.

    Parameters
    ----------
    seed, purpose
        The key of all rows.
    rows : ndarray of int64, or int
        The numbers that key each draw.
    """
    with np.errstate(over="ignore"):
        found = _of_purpose(seed, purpose)
        for row in rows:
            found = hash_longs(np.asarray(row, dtype=np.int64).view(np.uint64), found)
    return found


@functools.lru_cache(maxsize=1024)
def _of_purpose(seed: int, purpose: str) -> np.ndarray:
    """Return the first 64 bits of all draws of a purpose, into which the rows are hashed."""
    found = hash_bytes(purpose.encode(), np.array(SEED, dtype=np.uint64))
    return hash_longs(np.asarray(seed, dtype=np.int64).view(np.uint64), found)


def more_bits(found: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return the bits of keys with one more number `row`, from the bits `found` without it: uint64.

    If many rows share all but the last number of their keys, the shared part is hashed once.
    """
    with np.errstate(over="ignore"):
        return hash_longs(np.asarray(row, dtype=np.int64).view(np.uint64), found)


def scaled(found: np.ndarray, most: np.ndarray | int) -> np.ndarray:
    """Return uniform whole numbers from 0 to `most` (below 2**31) from random bits: int64.

    Greater bits give no smaller numbers; the bias is below `most` / 2**32.
    """
    span = np.asarray(most, dtype=np.int64).astype(np.uint64) + np.uint64(1)
    return ((found >> np.uint64(32)) * span >> np.uint64(32)).astype(np.int64)


def below(n: int, seed: int, purpose: str, *rows: Column | str) -> Column:
    """Return a uniform whole number in [0, n) (BIGINT) for each row.

    The bias is below n / 2**64.
    """
    return F.pmod(bits(seed, purpose, *rows), F.lit(n).cast("bigint"))


def stream(seed: int, purpose: str, row: int = 0) -> np.random.Philox:
    """Return a stream of random bits keyed by (seed, purpose, row).

    Its method ``random_raw`` returns the next 64-bit words.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{row}".encode()).digest()
    return np.random.Philox(key=np.frombuffer(digest[:16], dtype="<u8"))


def stream_at(seed: int, purpose: str, row: int, places: np.ndarray) -> np.ndarray:
    """Return the 64-bit words at given positions (from 0) of a stream: uint64.

    Parameters
    ----------
    seed, purpose, row
        The key of the stream.
    places : ndarray of int64
        The positions, for example numbers of nodes: a node's bits do not depend on the number of
        nodes.
    """
    return stream(seed, purpose, row).random_raw(int(places.max(initial=-1)) + 1)[places]


def uniform(raw: np.random.Philox, count: int) -> np.ndarray:
    """Return uniform numbers in [0, 1), multiples of 2**-53: float64, shape (count,)."""
    return (raw.random_raw(count) >> np.uint64(11)) * 2.0**-53


def whole_numbers(raw: np.random.Philox, n: int, count: int) -> np.ndarray:
    """Return uniform whole numbers in [0, n), n < 2**32: int64, shape (count,).

    Each needs 32 bits and has no bias; they equal the numbers of ``Generator.integers(0, n,
    count)``.

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
    """Return `size` distinct uniform whole numbers in [0, n), ascending.

    These are the first distinct values of a stream of uniform values; if `size` is more than half
    of n, the values to leave out are drawn instead.  Only the raw bits of the generator are used,
    which numpy keeps stable between versions.

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
        # enough for the expected repeats at half of n (n ln 2 draws); more follow if needed
        more = raw.random_raw(size + size // 2 + 8) % np.uint64(n)
        drawn = np.concatenate([drawn, more.astype(np.int64)])
        values, first = np.unique(drawn, return_index=True)
        kept = values[np.argsort(first, kind="stable")]
    return np.sort(kept[:size])


_EMPTY = np.empty(0, dtype=np.int64)
_LOW_32 = np.uint64(2**32 - 1)


def sample_others(
    shared: np.ndarray, others: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw `count` different numbers below ``others[i]`` for each node i, without repeats.

    A node with at most `count` numbers to choose from gets all of them.

    Parameters
    ----------
    shared : ndarray of uint64, shape (n,)
        The random bits of each node, from which its draws are derived.
    others : ndarray of int64, shape (n,)
        How many numbers each node chooses from, such as the number of other members of a group.
    count : int
        How many numbers a node draws.

    Returns
    -------
    of : ndarray of int64
        The node of each drawn number, as an index in `others`, ascending.
    chosen : ndarray of int64
        The drawn numbers, from 0 to ``others[of] - 1``.

    References
    ----------
    R. W. Floyd in J. Bentley: Programming pearls, a sample of brilliance, CACM 30(9), 1987.
    """
    few, many = np.flatnonzero(others <= count), np.flatnonzero(others > count)
    of, every = expand(np.zeros(len(few), dtype=np.int64), others[few])
    drawn = _floyd(shared[many], others[many], count)
    whose = np.concatenate([few[of], np.repeat(many, count)])
    order = np.argsort(whose, kind="stable")
    return whose[order], np.concatenate([every, drawn.ravel()])[order]


def _floyd(shared: np.ndarray, others: np.ndarray, count: int) -> np.ndarray:
    """Return `count` drawn numbers below ``others[i]`` for each node i, in the order of the draws.

    All of `others` are greater than `count`; the result has the shape (n, count).
    """
    chosen = np.empty((len(shared), count), dtype=np.int64)
    for column in range(count):
        last = others - count + column
        drawn = more_bits(shared, last) % (last + 1).astype(np.uint64)
        place = drawn.astype(np.int64)
        again = (chosen[:, :column] == place[:, None]).any(axis=1)
        chosen[:, column] = np.where(again, last, place)
    return chosen


def order_of_draws(of: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the indices that sort rows by (`of`, `bits`), equal ones in their order: int64."""
    most = int(of.max(initial=0))
    low = most.bit_length()
    # one number of `of` and the upper bits of the draw sorts three times as fast as two columns
    together = (of.astype(np.uint64) << np.uint64(64 - low)) if low else np.zeros(1, np.uint64)
    together = together | (bits >> np.uint64(low))
    order = np.argsort(together)
    ordered = together[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((bits, of))
    return order
