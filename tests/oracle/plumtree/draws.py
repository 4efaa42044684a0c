"""Draws of an event: XXH64 of (purpose, seed, time, node, sender, member), in plain Python."""

from collections.abc import Callable

from keyed import bits, xxh64

from .event_queue import Draw

_ALL = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def keyed_draw(seed: int) -> Draw:
    """Return draws as unsigned numbers; the part of the key without the member is hashed once."""

    def draw(purpose: str, at: int, node: int, sender: int) -> Callable[[int], int]:
        state = xxh64(purpose.encode(), 42)
        for value in (seed, at, node, sender):
            state = _with_long(value, state)
        return lambda member: _with_long(member, state)

    return draw


def one_draw(seed: int, purpose: str, *numbers: int) -> int:
    """Return the draw of a key, unsigned."""
    return bits(seed, purpose, *numbers) & _ALL


def _with_long(value: int, seed: int) -> int:
    """XXH64 of a number of 64 bits."""
    lane = (value & _ALL) * _P2 & _ALL
    lane = (lane << 31 | lane >> 33) * _P1 & _ALL
    state = (seed + _P5 + 8 & _ALL) ^ lane
    state = ((state << 27 | state >> 37) & _ALL) * _P1 + _P4 & _ALL
    state = (state ^ state >> 33) * _P2 & _ALL
    state = (state ^ state >> 29) * _P3 & _ALL
    return state ^ state >> 32
