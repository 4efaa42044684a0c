"""How good the tables are beside perfect ones, and overlays with perfect tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..ring import BITS, SortedRing, digit, shared_digits
from .overlay import Overlay


def wrong_leaf_sets(overlay: Overlay) -> list[int]:
    """Live nodes whose leaf set (side by side) is not the ring's."""
    truth = SortedRing(overlay.idents, overlay.live).leaf_sets(overlay.rules.l // 2)
    return [
        node
        for node in sorted(overlay.live)
        if (overlay.states[node].smaller, overlay.states[node].larger) != truth[node]
    ]


def gap_of(overlay: Overlay, dead: set[int]) -> int:
    """Most dead nodes that stand side by side on the ring of the live ones and these."""
    ring = SortedRing(overlay.idents, overlay.live | dead).nodes
    longest = run = 0
    for node in ring + ring:
        run = run + 1 if node in dead else 0
        longest = max(longest, run)
    return min(longest, len(dead))


@dataclass
class TableQuality:
    """Cells of the live nodes' tables; delays in microseconds, means over live entries."""

    fillable: int = 0  # cells for which a live node exists
    missing: int = 0
    dead: int = 0
    nearest: int = 0  # live entry, and it is the one of a perfect table
    other: int = 0  # live entry, and another node would be nearer (or smaller at a tie)
    mean_delay: float = 0.0
    mean_nearest: float = 0.0

    @property
    def not_nearest(self) -> float:
        """Share of the live entries that are not the perfect table's."""
        return self.other / max(1, self.other + self.nearest)


def prefix_groups(overlay: Overlay) -> tuple[dict[int, int], dict[tuple[int, int], np.ndarray]]:
    """Node -> rows of its perfect table; (digits, prefix) -> live nodes with it, by nodeId."""
    bits, idents = overlay.rules.b, overlay.idents
    in_order = overlay.live_in_ring_order()
    beside = [shared_digits(idents[a], idents[b], bits) for a, b in pairwise(in_order)]
    rows = {
        node: max([-1, *beside[max(0, at - 1) : at + 1]]) + 1 for at, node in enumerate(in_order)
    }
    members: dict[tuple[int, int], list[int]] = defaultdict(list)
    for node in in_order:
        for digits in range(1, rows[node] + 1):
            members[digits, idents[node] >> (BITS - bits * digits)].append(node)
    return rows, {key: np.array(nodes) for key, nodes in members.items()}


def table_quality(overlay: Overlay) -> TableQuality:
    """Compare every cell of the live nodes with the perfect one."""
    bits = overlay.rules.b
    rows, groups = prefix_groups(overlay)
    total, delays, nearest = TableQuality(), 0, 0
    for node in overlay.live_in_ring_order():
        state, ident = overlay.states[node], overlay.idents[node]
        row_delays = delays_from(overlay, node)
        total.dead += len(state.entries() - overlay.live)
        for row in range(rows[node]):
            prefix = ident >> (BITS - bits * row)
            for column in set(range(1 << bits)) - {digit(ident, row, bits)}:
                group = groups.get((row + 1, prefix << bits | column))
                if group is None:
                    continue
                total.fillable += 1
                entry = state.cell(row, column)
                if entry is None:
                    total.missing += 1
                elif entry in overlay.live:
                    best = int(group[np.argmin(row_delays[group])])  # first of a tie: least nodeId
                    delays += int(row_delays[entry])
                    nearest += int(row_delays[best])
                    total.nearest += entry == best
                    total.other += entry != best
    held = max(1, total.nearest + total.other)
    total.mean_delay, total.mean_nearest = delays / held, nearest / held
    return total


def delays_from(overlay: Overlay, node: int) -> np.ndarray:
    """Delays from a node to all others, by node number."""
    if hasattr(overlay.delay, "row"):
        return overlay.delay.row(node)
    delays = np.zeros(max(overlay.idents) + 1, np.int64)
    for other in overlay.live:
        delays[other] = overlay.delay(node, other)
    return delays


# --- perfect tables -------------------------------------------------------------------------------


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
