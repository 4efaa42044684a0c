"""Two ways to smaller trees, step by step (JSAC section IV.F; ties and waves of DESIGN.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from .scribe import Edge

Draw = Callable[..., int]
Waves = Sequence[Sequence[tuple[int, int]]]


def collapse(
    edges: Iterable[Edge], members: Mapping[int, Iterable[int]], roots: Mapping[int, int]
) -> set[Edge]:
    """Let nodes leave a tree that are neither member nor root and have one child in it.

    One at a time, until there is none; the parent of one that leaves takes its child.  (The order
    makes no difference: nobody's number of children changes.)

    Parameters
    ----------
    edges : iterable of (group, parent, child)
    members : mapping of group to nodes
    roots : mapping of group to node
    """
    edges = set(edges)
    stay = {(group, m) for group, its_members in members.items() for m in its_members}
    stay |= set(roots.items())
    while True:
        below: dict[tuple[int, int], list[int]] = defaultdict(list)
        for group, parent, child in edges:
            below[group, parent].append(child)
        leaving = [at for at, children in below.items() if len(children) == 1 and at not in stay]
        if not leaving:
            return edges
        group, node = leaving[0]
        (child,) = below[group, node]
        (above,) = [parent for g, parent, c in edges if (g, c) == (group, node)]
        edges -= {(group, above, node), (group, node, child)}
        edges.add((group, above, child))


def in_waves(members: Mapping[int, Iterable[int]], draws: Draw) -> list[list[tuple[int, int]]]:
    """Return the (group, member) of each wave, sorted.

    A group's members (a root that is one included) come in the order of draws ("wave", group,
    member), the smaller node of two with the same draw first: one in wave 0, then two, then four.
    """
    waves: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for group, its_members in members.items():
        in_order = sorted((draws("wave", group, member), member) for member in its_members)
        for place, (_, member) in enumerate(in_order):
            waves[(place + 1).bit_length() - 1].append((group, member))
    return [sorted(waves[number]) for number in sorted(waves)]


def grow_lazily(
    routes: Mapping[tuple[int, int], Sequence[int]],
    waves: Waves,
    roots: Mapping[int, int],
    limits: Mapping[int, int],
) -> set[Edge]:
    """Grow trees wave by wave; a JOIN goes on to the first node that is in the tree.

    What a wave's JOINs see is what the waves before left: which nodes are in a group's tree (the
    root, and all with a parent), and every node's load (children over all groups).

    A member in the tree sends no JOIN.  Otherwise p is the first node of its route that is in the
    tree, and q the one before p, or the member itself if p is the first of the route.  Each p
    takes its JOINs of all groups in order of (group, member):

    - The first ``limits[p] - load(p)`` (none, if that is negative) become its children, whether q
      is the member or not.
    - Of any other, q takes the member as child, whatever q's load, and p takes q, once for all
      members that come by it.  Where q is the member, that is: p takes it whatever its load.

    If q joins in this wave itself, its own JOIN decides who takes it; on memoryless routes, as
    Pastry's are, that is p too.

    Parameters
    ----------
    routes : mapping of (group, node) to nodes
        The route to the group's root from every member: the nodes after it, the root last.
    waves : sequence of (group, member) sequences
        As `in_waves` returns.
    roots : mapping of group to node
    limits : mapping of node to int
    """
    parent_of: dict[tuple[int, int], int] = {}
    for wave in waves:
        in_tree = set(roots.items()) | set(parent_of)
        loads = Counter(parent_of.values())

        # 1. JOINs arrive at the first node of the tree.
        arrived: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for group, member in wave:
            if (group, member) in in_tree:
                continue
            route = [member, *routes[group, member]]
            place = next(i for i, node in enumerate(route) if (group, node) in in_tree)
            arrived[route[place]].append((group, member, route[place - 1]))

        # 2. It takes them, or has the nodes before it take them.
        taken: dict[tuple[int, int], int] = {}
        asked: dict[tuple[int, int], int] = {}
        for p, joins in arrived.items():
            free = max(0, limits[p] - loads[p])
            for place, (group, member, q) in enumerate(sorted(joins)):
                if place < free or q == member:
                    taken[group, member] = p
                else:
                    taken[group, member] = q
                    if asked.setdefault((group, q), p) != p:
                        raise ValueError(f"routes of group {group} part at node {q}")

        # 3. Who was asked to take members gets a parent, unless its own JOIN has found one.
        parent_of |= asked | taken
    return {(group, parent, child) for (group, child), parent in parent_of.items()}
