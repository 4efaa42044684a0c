"""The bottleneck remover, one child at a time (JSAC section IV.E; ties and rounds of DESIGN.md)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .pastry import Overlay, nearness, shared_prefix
from .scribe import Edge

SHED_GROUP = ("largest", "random")
SHED_CHILD = ("farthest", "nearest", "random")
SHED_TABLE = ("remaining", "whole")
MAX_ROUNDS = 10_000
MAX_ATTEMPTS = 1_000

#: So often a node drops a child; if it comes back then, it stays.
MOST_DROPS = 8

Delay = Callable[[int, int], int]
Draw = Callable[..., int]
Reroute = Callable[[int, int, int], list[int]]
Parents = dict[tuple[int, int], int]
Tables = dict[int, set[int]]


@dataclass(frozen=True)
class Drop:
    """``parent`` drops ``child`` and sends it ``table``: the siblings that it may join."""

    group: int
    parent: int
    child: int
    table: frozenset[int]


@dataclass(frozen=True)
class Join:
    """The JOIN that a dropped child sends to a sibling, whether it is accepted or refused."""

    round: int
    group: int
    dropped_by: int
    child: int
    to: int
    probes: int


@dataclass(frozen=True)
class Refusal:
    """A JOIN refused; ``attempt`` is None for one sent to a sibling, else that of the route."""

    round: int
    group: int
    child: int
    by: int
    attempt: int | None


@dataclass(frozen=True)
class Rejoin:
    """A routed JOIN accepted by ``to``; ``forwarders`` entered the tree, the child's first."""

    round: int
    group: int
    child: int
    attempt: int
    to: int
    forwarders: tuple[int, ...]


@dataclass
class Removal:
    """What the bottleneck remover did.

    Attributes
    ----------
    edges : set of (group, parent, child)
        The trees it leaves.
    joins : list of Join
        Every JOIN sent to a sibling, refused ones too: by round, then by the node that dropped,
        then in the order in which it dropped.  Rounds count from 1.
    rounds : int
        Rounds in which a child was dropped.
    overloaded : dict of node to int
        Children of the nodes still above their limit: they have one in every table.
    refused : list of Refusal
        Per round: the siblings' refusals in the order of ``joins``, then those of routed JOINs.
    rejoins : list of Rejoin
        Per round and attempt in the order of (group, child).
    """

    edges: set[Edge] = field(default_factory=set)
    joins: list[Join] = field(default_factory=list)
    rounds: int = 0
    overloaded: dict[int, int] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    rejoins: list[Rejoin] = field(default_factory=list)


def remove_bottlenecks(
    edges: Iterable[Edge],
    delay: Delay,
    limits: Mapping[int, int],
    *,
    shed_group: str = "largest",
    shed_child: str = "farthest",
    shed_table: str = "remaining",
    draws: Draw | None = None,
    rejoin: Reroute | None = None,
) -> Removal:
    """Drop children of overloaded nodes, round by round, until no overloaded node can.

    A round:

    1. All nodes with more children, over all groups, than their limit drop children, each from its
       tables as the round found them (`drops_of`).
    2. Each dropped child probes every node of the table it was sent and sends a JOIN to the one
       with the least D(child, s) + D(s, parent), the smallest node of several.
    3. All dropped children hang loose.  Table by table, in the order in which they were dropped,
       their JOINs are answered: refused if the child is on the receiver's path, else accepted.
       (The order of the tables makes no difference.  A loop has all its nodes in one table of the
       round's beginning, as new parents are never deeper in the old tree than the child.)
    4. The refused children route a JOIN each, all at once (`rejoin_all`); those refused again route
       another, and so on.

    A child that a node has dropped eight times stays when it comes back.

    Parameters
    ----------
    edges : iterable of (group, parent, child)
        Trees: the root of each is the one parent in it that is no child.
    delay : callable (node, node) -> int
        D in microseconds.
    limits : mapping of node to int
        Of every node that gets a child.
    shed_group, shed_child, shed_table : str
        See `drops_of`.
    draws : callable (purpose, *ids) -> int, optional
        ("shed", group, node, child).
    rejoin : callable (child, group, attempt) -> list of nodes, optional
        The randomised route of a refused child: the nodes after it, the last one the root.
        Attempts count from 0, and from 0 again when the child is refused in a later round.

    Raises
    ------
    ValueError
        An option is unknown, or a tree has not one root.
    RuntimeError
        No end in sight: rounds, or attempts of one child, beyond all measure.
    """
    for value, known in (
        (shed_group, SHED_GROUP),
        (shed_child, SHED_CHILD),
        (shed_table, SHED_TABLE),
    ):
        if value not in known:
            raise ValueError(f"{value!r} is none of {known}")
    parent_of = {(group, child): parent for group, parent, child in edges}
    roots = roots_of(edges)
    removal = Removal()
    before: Counter[tuple[int, int, int]] = Counter()  # group, parent, child: drops
    while True:
        # 1. Overloaded nodes drop.
        tables = children_tables(parent_of)
        drops = []
        for node in sorted(tables):
            often = [drop for drop, times in before.items() if times == MOST_DROPS]
            stays = {(group, child) for group, parent, child in often if parent == node}
            of_node = (node, tables[node], limits[node], delay)
            drops += drops_of(*of_node, shed_group, shed_child, shed_table, draws, stays)
        before.update((drop.group, drop.parent, drop.child) for drop in drops)
        if not drops:
            break
        removal.rounds += 1
        if removal.rounds > MAX_ROUNDS:
            raise RuntimeError(f"still overloaded after {MAX_ROUNDS} rounds")

        # 2. The dropped children choose.
        joins = [join_of(removal.rounds, drop, delay) for drop in drops]
        removal.joins += joins

        # 3. The siblings answer.
        for drop in drops:
            del parent_of[drop.group, drop.child]
        waiting = []
        for join in joins:
            if join.child in climb(parent_of, join.group, join.to):
                refusal = Refusal(removal.rounds, join.group, join.child, join.to, attempt=None)
                removal.refused.append(refusal)
                waiting.append((join.group, join.child))
            else:
                parent_of[join.group, join.child] = join.to

        # 4. The refused children route their JOINs.
        attempt = 0
        while waiting:
            if rejoin is None:
                raise ValueError(
                    "a JOIN was refused, and there is no randomised route to rejoin by"
                )
            if attempt == MAX_ATTEMPTS:
                raise RuntimeError(f"{waiting[0]} was refused {MAX_ATTEMPTS} times")
            waiting = rejoin_all(parent_of, roots, waiting, attempt, rejoin, removal)
            attempt += 1
    removal.edges = {(group, parent, child) for (group, child), parent in parent_of.items()}
    loads = {node: load(of_node) for node, of_node in tables.items()}
    removal.overloaded = {node: n for node, n in sorted(loads.items()) if n > limits[node]}
    return removal


def drops_of(
    node: int,
    tables: Tables,
    limit: int,
    delay: Delay,
    shed_group: str,
    shed_child: str,
    shed_table: str,
    draws: Draw | None,
    stays: Collection[tuple[int, int]] = (),
) -> list[Drop]:
    """Return what a node drops in a round, in order, given its tables (group -> children).

    As long as it has more children than ``limit`` and a table with at least two left, it takes of
    these tables the largest (by children left; the smallest group of several) or the one whose next
    child to be dropped has the least draw; and of the children left in it the farthest, the
    nearest, or the one with the least draw (the smallest node of several).  Children that join it
    in this round do not count.

    The child is sent the children left in the table without it ("remaining": some of them may be
    dropped after it), or all that were there when the round began, without it ("whole").

    In worlds the children in ``stays``, (group, child), are not dropped (rule S28).
    """

    def free(group: int) -> set[int]:
        return {child for child in left[group] if (group, child) not in stays}

    left = {group: set(children) for group, children in tables.items()}

    def group_rank(group: int) -> tuple[int, int]:
        if shed_group == "largest":
            return (-len(left[group]), group)
        child = min(child_rank(group, child) for child in free(group))[1]
        return (drawn(draws, "shed", group, node, child), group)

    def child_rank(group: int, child: int) -> tuple[int, int]:
        if shed_child == "random":
            return (drawn(draws, "shed", group, node, child), child)
        sign = -1 if shed_child == "farthest" else 1
        return (sign * delay(child, node), child)

    drops = []
    while load(left) > limit:
        droppable = [group for group in left if len(left[group]) >= 2 and free(group)]
        if not droppable:
            break
        _, group = min(group_rank(group) for group in droppable)
        _, child = min(child_rank(group, child) for child in free(group))
        left[group].remove(child)
        table = left[group] if shed_table == "remaining" else tables[group] - {child}
        drops.append(Drop(group, node, child, frozenset(table)))
    return drops


def join_of(round_number: int, drop: Drop, delay: Delay) -> Join:
    """Return the JOIN of a dropped child: to the sibling through which its parent is nearest."""
    to = min(drop.table, key=lambda s: (delay(drop.child, s) + delay(s, drop.parent), s))
    return Join(round_number, drop.group, drop.parent, drop.child, to, probes=len(drop.table))


def rejoin_all(
    parent_of: Parents,
    roots: Mapping[int, int],
    waiting: list[tuple[int, int]],
    attempt: int,
    rejoin: Reroute,
    removal: Removal,
) -> list[tuple[int, int]]:
    """Let refused children, (group, child), join along randomised routes; return those refused.

    The trees are as they are before any of them is answered.  The first node of the tree on a route
    answers: the root, or whoever has a parent or a child in the group.  Refused children have no
    parent, but have children, so they and what hangs on them are in the tree; a path may begin at
    one of them.  If the path of the node that answers begins at the child itself, or at another
    refused child with a greater number, the JOIN is refused: of two that wait only the one with the
    greater number may hang below the other.  Otherwise the nodes before it become forwarders; one
    that is on several routes goes by that of the smallest child.
    """
    below, refused, entered = dict(parent_of), [], set[tuple[int, int]]()
    for group, child in sorted(waiting):
        tree = {roots[group]}
        tree |= {node for (its_group, _), node in below.items() if its_group == group}
        tree |= {node for its_group, node in below if its_group == group}
        route = rejoin(child, group, attempt)
        stop = next(place for place, node in enumerate(route) if node in tree)
        answering, upwards = route[stop], climb(below, group, route[stop])
        top = upwards[-1]
        if child in upwards or (top != roots[group] and top > child):
            removal.refused.append(Refusal(removal.rounds, group, child, answering, attempt))
            refused.append((group, child))
            continue
        parent_of[group, child] = route[0]
        forwarders = [node for node in route[:stop] if (group, node) not in entered]
        for node, above in itertools.pairwise(route[: stop + 1]):
            if node in forwarders:
                parent_of[group, node] = above
        entered |= {(group, node) for node in forwarders}
        accepted = Rejoin(removal.rounds, group, child, attempt, answering, tuple(forwarders))
        removal.rejoins.append(accepted)
    return refused


def randomised_route(
    overlay: Overlay,
    key: int,
    group: int,
    child: int,
    attempt: int,
    draws: Draw,
    attempts: int | None = None,
) -> list[int]:
    """Return the nodes after ``child`` on a randomised Pastry route to the root of ``key``.

    Each hop goes to one of the known nodes (leaf set and routing table) that share a prefix with
    the key at least as long as here and are numerically closer to it: the one with the least
    draw ("rejoin", group, child, attempt, node, candidate), the smallest node of several.  Where
    there is none, the root is in the leaf set with a shorter prefix, and is the next hop.

    All nodes that a child can route by may hang on the child itself.  From attempt ``attempts`` on
    (None: never) it therefore goes straight to the root, which it knows from its former path.
    """
    if attempts is not None and attempt >= attempts:
        return [overlay.root(key)]
    visited = [child]
    while visited[-1] != overlay.root(key):
        node = visited[-1]
        prefix = shared_prefix(overlay.ids[node], key, overlay.b)
        candidates = [
            y
            for y in overlay.leaf_set(node) | set(overlay.routing_table(node).values())
            if shared_prefix(overlay.ids[y], key, overlay.b) >= prefix
            and nearness(overlay.ids[y], key) < nearness(overlay.ids[node], key)
        ]
        if not candidates and not overlay.in_leaf_span(node, key):
            raise RuntimeError(f"node {node} knows no node closer to {key:032x}")
        ranks = [(draws("rejoin", group, child, attempt, node, y), y) for y in candidates]
        visited.append(min(ranks)[1] if ranks else overlay.root(key))
    return visited[1:]


def path(edges: Iterable[Edge], root: int, node: int, group: int) -> list[int]:
    """Return the nodes from ``root`` to ``node`` in a group's tree, both ends.

    Raises
    ------
    ValueError
        The node does not hang on the root.
    RuntimeError
        There is a loop above the node.
    """
    upwards = climb({(g, child): parent for g, parent, child in edges}, group, node)
    if upwards[-1] != root:
        raise ValueError(f"node {node} hangs on {upwards[-1]}, not on the root {root}")
    return upwards[::-1]


def climb(parent_of: Parents, group: int, node: int) -> list[int]:
    """Return ``node``, its parent and so on, up to the node that has no parent."""
    upwards = [node]
    while (group, upwards[-1]) in parent_of:
        above = parent_of[group, upwards[-1]]
        if above in upwards:
            raise RuntimeError(f"group {group} loops: {upwards} then {above}")
        upwards.append(above)
    return upwards


def roots_of(edges: Iterable[Edge]) -> dict[int, int]:
    """Return the root of each group that has an edge: the one parent that is no child."""
    edges = set(edges)
    below = {(group, child) for group, _, child in edges}
    tops = {(group, parent) for group, parent, _ in edges} - below
    if len(below) < len(edges) or sorted(g for g, _ in tops) != sorted({g for g, _ in below}):
        raise ValueError("each group must have one root, and each other node one parent")
    return dict(tops)


def children_tables(parent_of: Parents) -> dict[int, Tables]:
    """Return node -> group -> children, for nodes and groups that have any."""
    tables: dict[int, Tables] = defaultdict(lambda: defaultdict(set))
    for (group, child), parent in parent_of.items():
        tables[parent][group].add(child)
    return tables


def load(tables: Tables) -> int:
    """Return a node's number of children over all groups."""
    return sum(len(children) for children in tables.values())


def drawn(draws: Draw | None, purpose: str, *ids: int) -> int:
    """Return a draw; one must have been given."""
    if draws is None:
        raise ValueError(f"nothing to draw {purpose} with")
    return draws(purpose, *ids)
