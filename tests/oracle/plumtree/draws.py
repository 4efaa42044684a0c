"""Draws of an event: XXH64 of (purpose, seed, time, node, sender, member), in plain Python."""

from collections.abc import Callable

from keyed import bits, with_number, xxh64

from .event_queue import Draw


def keyed_draw(seed: int) -> Draw:
    """Return draws as unsigned numbers; the part of the key without the member is hashed once."""

    def draw(purpose: str, at: int, node: int, sender: int) -> Callable[[int], int]:
        state = xxh64(purpose.encode(), 42)
        for value in (seed, at, node, sender):
            state = with_number(value, state)
        return lambda member: with_number(member, state)

    return draw


def one_draw(seed: int, purpose: str, *numbers: int) -> int:
    """Return the draw of a key, unsigned."""
    return bits(seed, purpose, *numbers) % 2**64
