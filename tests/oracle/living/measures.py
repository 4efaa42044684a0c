"""How good the tables are beside perfect ones, and overlays with perfect tables."""

from collections.abc import Iterable

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


def perfect_state(overlay: Overlay, node: int) -> NodeState:
    """The state of a live node with perfect tables: each cell the nearest live node that fits."""
    state = overlay.new_state(node)
    for other in overlay.live:
        overlay.offer(state, other)
    return state


def dead_entries(overlay: Overlay) -> int:
    """How many entries of the live nodes' tables are dead."""
    return sum(len(overlay.states[node].entries() - overlay.live) for node in overlay.live)


def enter_perfect(overlay: Overlay, nodes: Iterable[int]) -> None:
    """Nodes of an empty overlay are alive with perfect tables and the ring's leaf sets."""
    for node in nodes:
        overlay.enter(overlay.new_state(node))
        overlay.entered[node] = 0
    leaf_sets = SortedRing(overlay.idents, overlay.live).leaf_sets(overlay.rules.l // 2)
    for node, state in overlay.states.items():
        state.smaller, state.larger = leaf_sets[node]
        state.rows = perfect_state(overlay, node).rows
