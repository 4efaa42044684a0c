"""Keyed draws: every random value is a pure function of (seed, purpose, row); hashes of rows.

Columns use ``xxhash64`` (Spark's ``rand`` depends on the partitioning); numpy kernels use a
``Philox`` stream with the same key, of which only the raw bits are used: they are the same in all
versions of numpy.  The hash of a row is that of ``xxhash64``, in numpy: the hash of a column is the
seed of the next column's hash, NULL does not change it, and bytes have the hash of their CRC-32.

References
----------
Y. Collet: xxHash, https://github.com/Cyan4973/xxHash (XXH64).
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from scribe_spark.core.arrays import expand

# --- hashes of rows


#: The seed of the first column's hash.
SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
        *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
    )
)
_P5_AND_8 = np.uint64((int(_P5) + 8) % 2**64)
_BITS = [np.uint64(bits) for bits in range(64)]


def hash_rows(columns: Sequence[pa.Array]) -> np.ndarray:
    """Return a hash of each row: the ``xxhash64`` of its values, changed by NULLs: uint64."""
    with np.errstate(over="ignore"):
        hashed = _hash_columns(columns)
        if not any(column.null_count for column in columns):
            return hashed
        # a kind has a bit for each column with NULLs
        null = [place for place, column in enumerate(columns) if column.null_count]
        kind = np.zeros(len(hashed), dtype=np.int64)
        for bit, place in enumerate(null):
            kind |= columns[place].is_null().to_numpy(zero_copy_only=False).astype(np.int64) << bit
        for one in np.flatnonzero(np.bincount(kind)):
            if places := ",".join(str(place) for bit, place in enumerate(null) if one >> bit & 1):
                rows = kind == one
                which = _hash_columns([pa.array(["NULL in"]), pa.array([places])])
                hashed[rows] = hash_longs(which, hashed[rows])
    return hashed


def _hash_columns(columns: Sequence[pa.Array]) -> np.ndarray:
    hashed = np.full(len(columns[0]), SEED, dtype=np.uint64)
    for start in range(0, len(hashed), _ROWS_AT_ONCE):
        some = hashed[start : start + _ROWS_AT_ONCE]
        for column in (column.slice(start, _ROWS_AT_ONCE) for column in columns):
            found = _hash(column, some)
            if column.null_count:
                found = np.where(column.is_valid().to_numpy(zero_copy_only=False), found, some)
            some[:] = found
    return hashed


#: The number of rows that are hashed together, so that they stay in the processor's cache.
_ROWS_AT_ONCE = 2**15


def _hash(column: pa.Array, seed: np.ndarray) -> np.ndarray:
    kind = column.type
    if pa.types.is_string(kind):
        return _hash_texts(column, seed)
    if pa.types.is_binary(kind):
        sums = [zlib.crc32(value.as_buffer()) if value.is_valid else 0 for value in column]
        return hash_longs(np.array(sums, dtype=np.uint64), seed)
    values = pc.fill_null(column, False if pa.types.is_boolean(kind) else 0)
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_float64(kind):
        # there is one zero, and one NaN
        numbers = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
        return hash_longs(numbers.view(np.uint64), seed)
    if pa.types.is_int64(kind):
        return hash_longs(numbers.view(np.uint64), seed)
    value = numbers.astype(np.int32).view(np.uint32).astype(np.uint64)
    return _mixed(_with_int(seed + _P5 + np.uint64(4), value))


def _hash_texts(column: pa.Array, seed: np.ndarray) -> np.ndarray:
    """Return the hash of each text in a column; equal texts are hashed once."""
    encoded = column.dictionary_encode()
    index = pc.fill_null(encoded.indices, -1).to_numpy()
    hashed = seed.copy()
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        rows = index == number
        hashed[rows] = hash_bytes(text.encode(), seed[rows])
    return hashed


def hash_longs(value: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """Return the hashes of 64-bit numbers, modulo 2**64: uint64."""
    if max(value.size, seed.size) <= _ROWS_AT_ONCE:
        return _hash_longs(value, seed)
    value, seed = np.broadcast_arrays(value, seed)
    hashed = np.empty(value.shape, dtype=np.uint64)
    step = max(1, _ROWS_AT_ONCE * len(value) // value.size)
    for first in range(0, len(value), step):
        some = slice(first, first + step)
        hashed[some] = _hash_longs(value[some], seed[some])
    return hashed


def _hash_longs(value: np.ndarray, seed: np.ndarray) -> np.ndarray:
    return _mixed(_with_long(seed + _P5_AND_8, value))


def hash_bytes(text: bytes, seed: np.ndarray) -> np.ndarray:
    """Return the hashes of one text with several seeds, modulo 2**64: uint64."""
    longs = np.frombuffer(text[: len(text) // 8 * 8], "<u8")
    at = len(text) // 32 * 4
    if at:
        lanes = [seed + _P1 + _P2, seed + _P2, seed + np.uint64(0), seed - _P1]
        for number, value in enumerate(longs[:at]):
            lanes[number % 4] = _round(lanes[number % 4], value)
        turns = zip(lanes, (1, 7, 12, 18), strict=True)
        hashed = np.zeros_like(seed)
        for lane, bits in turns:
            hashed = hashed + _turned(lane + np.uint64(0), bits)
        for lane in lanes:
            hashed = (hashed ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    else:
        hashed = seed + _P5
    hashed = hashed + np.uint64(len(text))
    for value in longs[at:]:
        hashed = _with_long(hashed, value)
    rest = text[len(longs) * 8 :]
    if len(rest) >= 4:
        hashed = _with_int(hashed, np.uint64(int.from_bytes(rest[:4], "little")))
        rest = rest[4:]
    for byte in rest:
        hashed = _turned(hashed ^ (np.uint64(byte) * _P5), 11) * _P1
    return _mixed(hashed)


def _round(lane: np.ndarray, value: np.ndarray | np.uint64) -> np.ndarray:
    return _turned(lane + value * _P2, 31) * _P1


def _with_long(hashed: np.ndarray, value: np.ndarray | np.uint64) -> np.ndarray:
    # in place as far as possible: most of the time goes into new arrays
    turned = _turned(value * _P2, 31)
    turned *= _P1
    found = _turned(hashed ^ turned, 27)
    found *= _P1
    found += _P4
    return found


def _with_int(hashed: np.ndarray, value: np.ndarray | np.uint64) -> np.ndarray:
    return _turned(hashed ^ (value * _P1), 23) * _P2 + _P3


def _turned(value: Any, bits: int) -> Any:
    """Rotate 64-bit numbers left by some bits and return them; an array is changed in place."""
    rest = value >> _BITS[64 - bits]
    value <<= _BITS[bits]
    value |= rest
    return value


def _mixed(hashed: Any) -> Any:
    """Return the last step of XXH64: mixed bits of numbers; an array is changed in place."""
    for bits, factor in ((33, _P2), (29, _P3)):
        hashed ^= hashed >> _BITS[bits]
        hashed *= factor
    hashed ^= hashed >> _BITS[32]
    return hashed


# --- draws


def bits(seed: int, purpose: str, *rows: Column | str) -> Column:
    """Return 64 random bits (BIGINT) for each row, keyed by (seed, purpose, rows)."""
    keys = [(F.col(r) if isinstance(r, str) else r).cast("bigint") for r in rows]
    return F.xxhash64(F.lit(purpose), F.lit(seed).cast("bigint"), *keys)


def bits_np(seed: int, purpose: str, *rows: np.ndarray | int) -> np.ndarray:
    """Return the bits of :func:`bits` without Spark: uint64, in the common shape of the rows."""
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
    """Return the bits of keys with one more number `row`, from the bits without it: uint64."""
    with np.errstate(over="ignore"):
        return hash_longs(np.asarray(row, dtype=np.int64).view(np.uint64), found)


def scaled(found: np.ndarray, most: np.ndarray | int) -> np.ndarray:
    """Return uniform whole numbers from 0 to `most` < 2**31, ascending with the bits: int64."""
    span = np.asarray(most, dtype=np.int64).astype(np.uint64) + np.uint64(1)
    return ((found >> np.uint64(32)) * span >> np.uint64(32)).astype(np.int64)


def below(n: int, seed: int, purpose: str, *rows: Column | str) -> Column:
    """Return a uniform whole number in [0, n) (BIGINT) for each row, for users' rules.

    The bias is below n / 2**64.
    """
    return F.pmod(bits(seed, purpose, *rows), F.lit(n).cast("bigint"))


def stream(seed: int, purpose: str, row: int = 0) -> np.random.Philox:
    """Return a stream, keyed by (seed, purpose, row), whose ``random_raw`` returns 64-bit words."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{row}".encode()).digest()
    return np.random.Philox(key=np.frombuffer(digest[:16], dtype="<u8"))


def stream_at(seed: int, purpose: str, row: int, places: np.ndarray) -> np.ndarray:
    """Return the words of a stream at places (from 0), such as numbers of nodes: uint64."""
    return stream(seed, purpose, row).random_raw(int(places.max(initial=-1)) + 1)[places]


def uniform(raw: np.random.Philox, count: int) -> np.ndarray:
    """Return uniform numbers in [0, 1), multiples of 2**-53: float64, shape (count,)."""
    return (raw.random_raw(count) >> np.uint64(11)) * 2.0**-53


def whole_numbers(raw: np.random.Philox, n: int, count: int) -> np.ndarray:
    """Return uniform whole numbers in [0, n), n < 2**32, as ``Generator.integers(0, n, count)``.

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

    They are the first distinct values of a stream; above half of n, the values to leave out are
    drawn.
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
    """Draw `count` different numbers below ``others[i]`` for each node i: its index, and a number.

    A node with fewer numbers to choose from gets all of them; `shared` has the random bits of
    nodes.

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
    """Return `count` drawn numbers below ``others[i]`` for each node i, in drawn order."""
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
