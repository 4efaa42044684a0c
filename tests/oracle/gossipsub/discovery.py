"""Who dials whom (rules G1 to G3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .settings import Draw


def sample(
    others: Iterable[int], count: int, draw: Callable[[int], int], idents: Mapping[int, int]
) -> list[int]:
    """Return `count` of the others without repeats (Floyd's sample), all if there are no more."""
    in_order = sorted(others, key=lambda node: idents[node])
    if len(in_order) <= count:
        return in_order
    taken: set[int] = set()
    for i in range(len(in_order) - count, len(in_order)):
        p = draw(i) % (i + 1)
        taken.add(i if p in taken else p)
    return [in_order[p] for p in sorted(taken)]


def dialled_in_topic(
    topic: int, x: int, among: Iterable[int], dials: int, h: int, draw: Draw, idents: Mapping
) -> list[int]:
    """Return whom a subscriber draws of the others in a topic (G2)."""
    others = [node for node in among if node != x]
    return sample(others, dials, lambda i: draw("gossipsub dial", h, topic, x, i), idents)


def dialled_by_all(
    nodes: Iterable[int], dials: int, draw: Draw, idents: Mapping[int, int]
) -> set[tuple[int, int]]:
    """Return (who dials, whom) of the one graph for all topics (G3)."""
    everybody = list(nodes)

    def drawn_by(x: int) -> list[int]:
        others = [node for node in everybody if node != x]
        return sample(others, dials, lambda i: draw("gossipsub graph", x, i), idents)

    return {(x, y) for x in everybody for y in drawn_by(x)}
