"""Subtrees of the tree of hosts: the reconfiguration area (4.2.2), and a group's multicast."""

from __future__ import annotations

from collections.abc import Iterable

from .host_tree import Neighbours


def joining_subtree(neighbours: Neighbours, ends: Iterable[int]) -> Neighbours:
    """The smallest subtree that has all of ``ends``: what is left when other leaves are cut off."""
    ends = set(ends)
    if not ends:
        return {}
    left = {host: set(others) for host, others in neighbours.items()}
    leaves = [host for host, others in left.items() if len(others) <= 1 and host not in ends]
    while leaves:
        leaf = leaves.pop()
        for other in left.pop(leaf):
            left[other].remove(leaf)
            if len(left[other]) <= 1 and other not in ends:
                leaves.append(other)
    return {host: frozenset(others) for host, others in left.items()}


def links(neighbours: Neighbours) -> set[frozenset[int]]:
    """The links, each a pair of hosts."""
    return {frozenset({host, other}) for host, others in neighbours.items() for other in others}


def reconfiguration_area(old: Neighbours, new: Neighbours) -> frozenset[int]:
    """The hosts of the area of one event: in the tree that has the host that came or went."""
    (host,) = set(old) ^ set(new)
    changed = links(old) ^ links(new)
    tree = new if host in new else old
    return frozenset(joining_subtree(tree, {end for link in changed for end in link}))


def multicast_edges(
    neighbours: Neighbours, source: int, members: Iterable[int]
) -> dict[int, tuple[int, int]]:
    """Who gets the message of ``source`` to ``members``: host -> (host that sends it, hops).

    The edges are those of the smallest subtree that joins the source and the members.
    """
    subtree = joining_subtree(neighbours, {source, *members})
    reached = {source: (source, 0)}
    waiting = [source]
    for sender in waiting:
        for receiver in sorted(subtree[sender]):
            if receiver not in reached:
                reached[receiver] = (sender, reached[sender][1] + 1)
                waiting.append(receiver)
    del reached[source]
    return reached
