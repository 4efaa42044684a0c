"""Perfect tables: each cell the nearest node that fits, each leaf set the ring's."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .measures import delays_from, prefix_groups
from .overlay import Overlay
from .ring import BITS, SortedRing, digit


def enter_perfect(overlay: Overlay, nodes: Iterable[int]) -> None:
    """Nodes of an empty overlay are alive with perfect state, without any message."""
    for node in nodes:
        overlay.enter(overlay.new_state(node))
        overlay.entered[node] = 0
    bits = overlay.rules.b
    rows, groups = prefix_groups(overlay)
    leaf_sets = SortedRing(overlay.idents, overlay.live).leaf_sets(overlay.rules.l // 2)
    for node, state in overlay.states.items():
        state.smaller, state.larger = leaf_sets[node]
        delays = delays_from(overlay, node)
        for row in range(rows[node]):
            prefix = state.ident >> (BITS - bits * row)
            for column in set(range(1 << bits)) - {digit(state.ident, row, bits)}:
                group = groups.get((row + 1, prefix << bits | column))
                if group is not None:  # by nodeId, so the first of a tie is the smallest
                    state.set_cell(row, column, int(group[np.argmin(delays[group])]))
