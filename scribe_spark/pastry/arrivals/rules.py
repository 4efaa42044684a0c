"""The rules of arrival, as kernels need them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ArrivalRules"]


@dataclass(frozen=True)
class ArrivalRules:
    """How nodes arrive.

    Attributes
    ----------
    b, leaf_set : int
        Digits are base 2**b; l.
    growth : float
        A wave has max(1, floor(n (growth - 1))) nodes.
    contact : str
        ``nearest``, of equally near ones the smallest nodeId; ``latest``, of equally near ones the
        last that arrived in an earlier wave; ``random``; or ``discovered``: by nearby-node search
        from a random node.
    rows : str
        ``route``: row i from the first node on the route that shares i digits; ``all``: every node
        on the route sends all rows that it shares.
    announce : str
        ``row`` or ``self``: what an arrived node tells the nodes that it knows.
    introduce : bool
        Whether the nodes of a wave are introduced to those of them that came earlier.
    maintenance : int
        How often routing tables are maintained after each wave.
    seed : int
        Key of the draws.
    """

    b: int
    leaf_set: int
    growth: float = 1.25
    contact: str = "nearest"
    rows: str = "route"
    announce: str = "row"
    introduce: bool = True
    maintenance: int = 0
    seed: int = 1
