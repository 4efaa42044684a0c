"""How good the tables are beside perfect ones, and overlays with perfect tables."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..ring import SortedRing
from .overlay import NodeState, Overlay


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


def perfect_state(overlay: Overlay, node: int) -> NodeState:
    """The state of a live node with perfect tables: each cell the nearest live node that fits."""
    state = overlay.new_state(node)
    for other in overlay.live:
        overlay.offer(state, other)
    return state


def table_quality(overlay: Overlay) -> TableQuality:
    """Compare every cell of the live nodes with the perfect one."""
    total, delays, nearest = TableQuality(), 0, 0
    for node in overlay.live:
        state = overlay.states[node]
        total.dead += len(state.entries() - overlay.live)
        for row, column, best in perfect_state(overlay, node).cells():
            entry = state.cell(row, column)
            total.fillable += 1
            total.missing += entry is None
            if entry in overlay.live:
                delays += overlay.delay(node, entry)
                nearest += overlay.delay(node, best)
                total.nearest += entry == best
                total.other += entry != best
    held = max(1, total.nearest + total.other)
    total.mean_delay, total.mean_nearest = delays / held, nearest / held
    return total


def enter_perfect(overlay: Overlay, nodes: Iterable[int]) -> None:
    """Nodes of an empty overlay are alive with perfect tables and the ring's leaf sets."""
    for node in nodes:
        overlay.enter(overlay.new_state(node))
        overlay.entered[node] = 0
    leaf_sets = SortedRing(overlay.idents, overlay.live).leaf_sets(overlay.rules.l // 2)
    for node, state in overlay.states.items():
        state.smaller, state.larger = leaf_sets[node]
        state.rows = perfect_state(overlay, node).rows
