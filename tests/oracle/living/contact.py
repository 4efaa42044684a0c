"""The contact of an arriving node: the first live node that it talks to."""

from __future__ import annotations

import numpy as np

from .draws import choose
from .overlay import Overlay


def contact_of(overlay: Overlay, node: int) -> int:
    """The contact by the rule in force; probes are counted for `discovered` (rule P10)."""
    if overlay.rules.contact == "nearest":
        return nearest_live(overlay, node)
    if overlay.rules.contact == "latest":
        return latest_of_nearest(overlay, node)
    live = overlay.live_in_ring_order()
    drawn = choose(overlay.draw, live, "contact", overlay.round, node)
    return drawn if overlay.rules.contact == "random" else discover(overlay, node, drawn)


def nearest_live(overlay: Overlay, node: int) -> int:
    """The live node with the least (delay, nodeId)."""
    if not hasattr(overlay.delay, "row"):
        return min(overlay.live, key=lambda other: overlay.nearness(node, other))
    live = np.fromiter(overlay.live, np.int64, len(overlay.live))
    delays = overlay.delay.row(node)[live]
    return min(live[delays == delays.min()].tolist(), key=lambda other: overlay.idents[other])


def latest_of_nearest(overlay: Overlay, node: int) -> int:
    """Of the live nodes with the least delay the one that entered last (rule P30)."""
    return min(
        overlay.live,
        key=lambda other: (
            overlay.delay(node, other),
            -overlay.entered[other],
            overlay.idents[other],
        ),
    )


def discover(overlay: Overlay, node: int, start: int) -> int:
    """Nearby-node search from a live node; a node is probed (and counted) once."""
    probed: set[int] = set()

    def nearest(others: list[int]) -> int:
        """The nearest of some nodes; dead ones do not answer the probe."""
        for other in others:
            if other not in probed:
                probed.add(other)
                overlay.send("probe", node, other)
        return min(overlay.alive_of(others), key=lambda other: overlay.nearness(node, other))

    at = nearest([start, *sorted(overlay.states[start].leaves())])
    for row in range(overlay.states[at].last_row(), -1, -1):
        at = nearest([at, *overlay.states[at].row(row)])
    while True:
        nearer = nearest([at, *overlay.states[at].row(0)])
        if nearer == at:
            return at
        at = nearer
