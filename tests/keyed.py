"""`draws.bits` in plain Python: Spark's xxhash64 of (purpose, seed, rows), column after column.

References
----------
XXH64 as published by its author; Spark hashes each column with the hash before it as the seed, 42
for the first.
"""

from collections.abc import Callable

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ALL = 2**64


def bits(seed: int, purpose: str, *rows: int) -> int:
    """64 random bits as a signed number."""
    state = xxh64(purpose.encode(), 42)
    for value in (seed, *rows):
        state = with_number(value, state)
    return state - _ALL if state >= _ALL // 2 else state


def draw_of(seed: int) -> Callable[..., int]:
    """Return the draws of a run as unsigned numbers."""
    return lambda purpose, *rows: bits(seed, purpose, *rows) % _ALL


def with_number(value: int, state: int) -> int:
    """XXH64 of a number of 64 bits after others, whose hash is `state`."""
    lane = value * _P2 % _ALL
    lane = (lane << 31 | lane >> 33) * _P1 % _ALL
    state = (state + _P5 + 8) % _ALL ^ lane
    state = ((state << 27 | state >> 37) % _ALL * _P1 + _P4) % _ALL
    state = (state ^ state >> 33) * _P2 % _ALL
    state = (state ^ state >> 29) * _P3 % _ALL
    return state ^ state >> 32


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 of less than 32 bytes."""
    assert len(data) < 32
    state, at = (seed + _P5 + len(data)) % _ALL, 0
    while at + 8 <= len(data):
        lane = int.from_bytes(data[at : at + 8], "little")
        state ^= _rotated(lane * _P2, 31) * _P1 % _ALL
        state = (_rotated(state, 27) * _P1 + _P4) % _ALL
        at += 8
    if at + 4 <= len(data):
        state ^= int.from_bytes(data[at : at + 4], "little") * _P1 % _ALL
        state = (_rotated(state, 23) * _P2 + _P3) % _ALL
        at += 4
    for byte in data[at:]:
        state ^= byte * _P5 % _ALL
        state = _rotated(state, 11) * _P1 % _ALL
    state = (state ^ state >> 33) * _P2 % _ALL
    state = (state ^ state >> 29) * _P3 % _ALL
    return state ^ state >> 32


def _rotated(value: int, by: int) -> int:
    value %= _ALL
    return (value << by | value >> 64 - by) % _ALL
