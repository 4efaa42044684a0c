"""A run's variants of the trees: steps of a world's round on trees that are given (JSAC IV.E, F).

A run is a world in which nobody comes or goes. Nodes know their paths to the root as they are, not
as the answers to JOINs have brought them; so of the JOINs to siblings only those of two that have
chosen each other are refused, and paths end at the root (S29).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..living.draws import Draw
from ..living.measures import enter_perfect
from ..living.overlay import Delay, Overlay, Rules
from ..random_cases import Case
from . import bottleneck, collapse, lazy
from .bottleneck import Drop, Removal
from .phase import Phase
from .state import Access, Child, Copy, Group, GroupState, Join, Scribe, Settings

Edge = tuple[int, int, int]  # group, parent, child


class RemovalInRun(Removal):
    """Children that were dropped together in a run; what became of them is written down.

    `routed` has JOINs with randomised routes: the nodes up to the first of the tree, and its
    answer.
    """

    def __init__(self, scribe: Scribe, phase: Phase) -> None:
        super().__init__(scribe, phase)
        self.drops: list[Drop] = []
        self.routed: list[tuple[Join, list[int], bool]] = []

    def tell(self, drops: list[Drop]) -> None:
        """See `Removal`."""
        self.drops = drops
        super().tell(drops)

    def known_path(self, group: int, node: int) -> tuple[int, ...]:
        """No sibling has the child on its path, unless the two have chosen each other."""
        return ()

    def top(self, group: int, node: int) -> int:
        """The end of the path is the root."""
        (root,) = self.scribe.roots(group)
        return root

    def takes(self, join: Join, path: list[int]) -> bool:
        """See `Removal`."""
        accepted = super().takes(join, path)
        self.routed.append((join, path, accepted))
        return accepted

    def chosen(self) -> list[tuple[int, int, int, int, int]]:
        """(group, who dropped, child, the sibling it joins, probes), in the order of the drops."""
        to = {place: one.to for place, one in self.dropped.items()}
        return [
            (drop.group, drop.parent, drop.child, to[drop.group, drop.child], len(drop.table))
            for drop in self.drops
        ]


def perfect_overlay(case: Case, delay: Delay, draw: Draw) -> Overlay:
    """The nodes of a case with perfect tables."""
    overlay = Overlay(case.ids, delay, draw, Rules(b=case.b, l=case.leaf_set_size))
    enter_perfect(overlay, case.ids)
    return overlay


def plant(
    overlay: Overlay,
    keys: Mapping[int, int],
    roots: Mapping[int, int],
    members: Mapping[int, Iterable[int]],
    edges: Iterable[Edge] = (),
    limits: Mapping[int, int] | None = None,
    **settings: Any,
) -> Scribe:
    """Groups with these trees; members that are in none wait."""
    groups = {group: Group(key) for group, key in keys.items()}
    if limits is not None:
        settings |= {"limit": 0, "capacities": tuple(limits[node] for node in sorted(limits))}
    scribe = Scribe(overlay, groups, Settings(replicas=1, **settings))
    for group, root in roots.items():
        scribe.enter(group, root, "own").root = True
        scribe.copies[group, root] = Copy(GroupState(root, 0, 0, Access()), root, -1)
    for group, its_members in members.items():
        for node in its_members:
            entry = scribe.entry(group, node) or scribe.enter(group, node, "own")
            entry.member, entry.joined = True, scribe.round
    for group, parent, child in sorted(edges):
        above, below = (
            scribe.entry(group, node) or scribe.enter(group, node, "forwarder")
            for node in (parent, child)
        )
        above.children[child] = Child(scribe.round, scribe.round)
        below.parent, below.number = parent, scribe.round
    return scribe


def edges_of(scribe: Scribe) -> set[Edge]:
    """(group, parent, child), on which both are agreed."""
    edges = {
        (group, node, child) for group, node, at in scribe.all_entries() for child in at.children
    }
    parents = {(group, at.parent, node) for group, node, at in scribe.all_entries() if not at.root}
    assert edges == parents
    return edges


def remove_bottlenecks(scribe: Scribe) -> list[RemovalInRun]:
    """Overloaded nodes drop children until none can; what came of it each time."""
    made: list[RemovalInRun] = []

    def begin(*args: Any) -> RemovalInRun:
        made.append(RemovalInRun(*args))
        return made[-1]

    bottleneck.remove_bottlenecks(scribe, Phase(scribe.overlay), begin)
    return made


def collapse_paths(scribe: Scribe) -> set[Edge]:
    """Collapse; the edges that are left."""
    collapse.collapse(scribe, Phase(scribe.overlay))
    return edges_of(scribe)


def grow_lazily(scribe: Scribe) -> set[Edge]:
    """Members join wave by wave; the edges."""
    lazy.send_lazily(scribe, Phase(scribe.overlay))
    return edges_of(scribe)
