"""Random draws, all of them asked of one callable, and the delays that tests use."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

#: draw(purpose, *key, among=k) -> integer in [0, k); among=None -> any integer, to sort by.
Draw = Callable[..., int]


def keyed_draw(seed: int) -> Draw:
    """The default draw: SHA-256 of (seed, purpose, key)."""

    def draw(purpose: str, *key: object, among: int | None = None) -> int:
        text = "/".join(str(part) for part in (seed, purpose, *key))
        value = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16])
        return value if among is None else value % among

    return draw


def choose(draw: Draw, items: Sequence[int], purpose: str, *key: object) -> int:
    """One of the items, whose order is given by the caller and is part of the definition."""
    return items[draw(purpose, *key, among=len(items))]


def drawn_order(
    draw: Draw, nodes: Iterable[int], idents: Mapping[int, int], purpose: str, *key: object
) -> list[int]:
    """The nodes sorted by a draw of each, then by nodeId."""
    return sorted(nodes, key=lambda node: (draw(purpose, *key, node), idents[node]))


class Plane:
    """Delays on a square: whole microseconds of the distance of drawn points, and two LAN links."""

    def __init__(self, count: int, seed: int, places: int, side: float = 100_000.0) -> None:
        random = np.random.default_rng(seed)
        points = random.uniform(0, side, size=(places, 2))
        self.router = random.integers(0, places, size=count)
        self.points = points[self.router]
        self._x, self._y = self.points.T.tolist()

    def __call__(self, a: int, b: int) -> int:
        if a == b:
            return 0
        dx, dy = self._x[a] - self._x[b], self._y[a] - self._y[b]
        return int(math.sqrt(dx * dx + dy * dy)) + 2000


class Matrix:
    """Delays given as a symmetric matrix of routers and a router for each node."""

    def __init__(self, between: np.ndarray, router: np.ndarray, lan: int = 2000) -> None:
        self.between, self.router, self.lan = between, router, lan

    def __call__(self, a: int, b: int) -> int:
        return 0 if a == b else int(self.between[self.router[a], self.router[b]]) + self.lan


def random_idents(count: int, seed: int) -> dict[int, int]:
    """Node -> a nodeId drawn uniformly."""
    draw = keyed_draw(seed)
    return {node: draw("nodeId", node) for node in range(count)}
