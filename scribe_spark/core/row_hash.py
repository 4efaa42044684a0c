"""The hash of the rows of a table, as Spark's ``xxhash64`` computes it, in numpy.

The hash of a column is the seed of the next column's hash; NULL does not change it.  The hash of
bytes is that of their CRC-32, because XXH64 of long values is slow in numpy.

References
----------
Y. Collet: xxHash, https://github.com/Cyan4973/xxHash (XXH64).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    """Return a hash of each row, which also depends on the positions of NULLs: uint64.

    The hash of a row without NULL is the ``xxhash64`` of its values.
    """
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
    """Return the hash of each text in a column; equal texts are hashed once.

    `seed` has the hash of each row's columns before.
    """
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
