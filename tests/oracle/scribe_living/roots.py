"""Roots: replicas, failover, hand-over to a nearer newcomer (JSAC III.B.1)."""

from dataclasses import dataclass, replace

from .figures import send_leave
from .state import Copy, Entry, Join, Scribe


@dataclass(frozen=True)
class Letter:
    """The group's state on its way from one node to another."""

    group: int
    sender: int
    to: int
    copy: Copy


def rank(scribe: Scribe, group: int, node: int) -> int:
    """How many nodes of its leaf set are nearer to the groupId than the node itself."""
    own = scribe.nearness(group, node)
    return sum(scribe.nearness(group, leaf) < own for leaf in scribe.overlay.states[node].leaves())


def is_root(scribe: Scribe, group: int, node: int) -> bool:
    """Whether the node takes itself for the group's root."""
    entry = scribe.entry(group, node)
    return entry is not None and entry.root


def new_leafs(scribe: Scribe) -> None:
    """Whoever has a group's state looks at its leaf set (the upcall newLeafs; rule S15).

    1. A root that is not the nearest hands over; who has a copy of a root that is gone, and is not
       the nearest, passes it on; all at once.
    2. Who has a copy and is the nearest becomes the root; roots that handed over join under it.
    3. Roots bring their replicas up to date.
    4. Who is not of the k nearest drops its copy, once that is safe.
    """
    handed = []
    letters = []
    for group, node in sorted(scribe.copies):
        if rank(scribe, group, node) == 0:
            continue
        nearest = scribe.leaves_by_nearness(group, node)[0]
        if is_root(scribe, group, node):
            handed.append(Letter(group, node, nearest, scribe.copies[group, node]))
        elif root_is_gone(scribe, group, node):
            letters.append(Letter(group, node, nearest, scribe.copies[group, node]))
    letters = [one for one in letters if scribe.overlay.send("replica", one.sender, one.to)]
    passed_on = {(one.group, one.sender) for one in letters}
    handed = [one for one in handed if scribe.overlay.send("replica", one.sender, one.to)]
    letters = by_nearness(scribe, letters + handed)
    letters = [replace(one, copy=replace(one.copy)) for one in letters]  # as they were sent
    for one in handed:
        step_down(scribe, one.group, one.sender, one.to)
    for one in letters:
        receive_state(scribe, one.group, one.to, one.copy)
    for group, node in dict.fromkeys((one.group, one.to) for one in handed):
        become_root(scribe, group, node)
    for group, node in sorted(scribe.copies):
        if rank(scribe, group, node) == 0:
            become_root(scribe, group, node)
    for group in sorted(scribe.groups):
        for root in scribe.roots(group):
            replicate(scribe, group, root)
    drop_far_copies(scribe, passed_on)


def by_nearness(scribe: Scribe, letters: list[Letter]) -> list[Letter]:
    """The order that settles ties: the sender nearest to the groupId comes first."""
    return sorted(letters, key=lambda one: (one.group, scribe.nearness(one.group, one.sender)))


def root_is_gone(scribe: Scribe, group: int, node: int) -> bool:
    """Whether the root that a copy names has left the leaf set, or came back without its state."""
    copy = scribe.copies[group, node]
    return (
        copy.root not in scribe.overlay.states[node].leaves()
        or scribe.incarnation.get(copy.root, -1) != copy.incarnation
    )


def receive_state(scribe: Scribe, group: int, node: int, copy: Copy) -> None:
    """A node keeps the newest state it hears of; of two that are equally new the first."""
    own = scribe.copies.get((group, node))
    if own is None or own.state.age < copy.state.age:
        if own is not None and is_root(scribe, group, node):
            own.state = copy.state
            join_itself(scribe, group, node)
        else:
            scribe.copies[group, node] = Copy(copy.state, copy.root, copy.incarnation)


def step_down(scribe: Scribe, group: int, node: int, successor: int) -> None:
    """An old root: it keeps its subtree, and joins under the new one in this round's JOINs."""
    entry = scribe.entries[group][node]
    entry.root, entry.cause, entry.tried = False, "hand-over", True
    copy = scribe.copies[group, node]
    copy.root, copy.incarnation = successor, scribe.incarnation.get(successor, -1)
    scribe.replicas.pop((group, node), None)


def become_root(scribe: Scribe, group: int, node: int) -> Entry:
    """A node that has the group's state is its root from now on."""
    entry = scribe.entry(group, node)
    if entry is not None and entry.root:
        return entry
    if entry is None:
        entry = scribe.enter(group, node, "own")
    if entry.tried:
        join_itself(scribe, group, node)
    parent, entry.parent, entry.root, entry.path = entry.parent, None, True, ()
    copy = scribe.copies[group, node]
    copy.root, copy.incarnation = node, scribe.incarnation.get(node, -1)
    scribe.changed.add((group, node))
    if parent is not None:
        send_leave(scribe, group, node, parent, entry.number)
    return entry


def join_itself(scribe: Scribe, group: int, node: int) -> None:
    """A root's repairing JOIN is delivered at itself."""
    join = Join(group, node, scribe.round, scribe.entries[group][node].cause)
    extra = scribe.application.fault_handler(scribe.local(group, node), join)
    scribe.added.append((node, replace(join, extra=extra)))


def replicate(scribe: Scribe, group: int, root: int) -> None:
    """A root sends the state to the k - 1 nearest of its leaf set that have not answered it.

    What they have taken from it the root knows, not what else they have (rule S15).
    """
    own = scribe.copies[group, root]
    for leaf in scribe.leaves_by_nearness(group, root)[: scribe.settings.replicas - 1]:
        if is_replica(scribe, group, root, leaf):
            continue
        if not scribe.overlay.send("replica", root, leaf):
            continue
        copy = scribe.copies.get((group, leaf))
        if is_root(scribe, group, leaf) or (copy and copy.state.age > own.state.age):
            continue  # refused
        scribe.copies[group, leaf] = Copy(own.state, own.root, own.incarnation)
        known = scribe.replicas.setdefault((group, root), {})
        known[leaf] = own.state.age, scribe.incarnation.get(leaf, -1)
    scribe.changed.discard((group, root))


def is_replica(scribe: Scribe, group: int, root: int, leaf: int) -> bool:
    """Whether a leaf that answers has taken the root's state as it is now."""
    known = scribe.replicas.get((group, root), {}).get(leaf)
    now = scribe.copies[group, root].state.age, scribe.incarnation.get(leaf, -1)
    return leaf in scribe.overlay.live and known == now


def replicate_changed(scribe: Scribe) -> None:
    """Roots that are new, or whose state has changed, do so at once."""
    idents = scribe.overlay.idents
    for group, root in sorted(scribe.changed, key=lambda one: (one[0], idents[one[1]])):
        if is_root(scribe, group, root):
            replicate(scribe, group, root)
    scribe.changed = set()


def has_replica(scribe: Scribe, group: int, root: int) -> bool:
    """Whether one of the k - 1 nearest leaves has a root's state; none is needed if it is alone."""
    leaves = scribe.leaves_by_nearness(group, root)[: scribe.settings.replicas - 1]
    return not leaves or any(is_replica(scribe, group, root, leaf) for leaf in leaves)


def drop_far_copies(scribe: Scribe, passed_on: set[tuple[int, int]]) -> None:
    """Who knows k nodes nearer to the groupId than itself drops its copy, once that is safe.

    It says so to the root that it names, and keeps the copy if nobody answers; if that root is
    gone from its leaf set, it keeps the copy until it has passed it on (rule S15).
    """
    far = [
        (group, node)
        for group, node in sorted(scribe.copies)
        if not is_root(scribe, group, node)
        and rank(scribe, group, node) >= scribe.settings.replicas
    ]
    for group, node in far:
        if root_is_gone(scribe, group, node):
            safe = (group, node) in passed_on
        else:
            root = scribe.copies[group, node].root
            safe = scribe.overlay.send("replica goodbye", node, root)
            scribe.replicas.get((group, root), {}).pop(node, None)
        if safe:
            del scribe.copies[group, node]


def lost_groups(scribe: Scribe, created: set[int]) -> set[int]:
    """Groups that were created and of whose state no live node has a copy."""
    return created - {group for group, _ in scribe.copies}
