"""How a host finds its parent and its children: by asking the DHT who owns a key (Section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

from .dht import Answer, Dht, Keyset
from .tree import Subtree


@dataclass(frozen=True)
class Found:
    """What a host finds.

    Attributes
    ----------
    parent_asked, child_asked : tuple of keys
        The keys it asked for, in that order: one look-up each.
    """

    parent: int | None
    children: frozenset[int]
    parent_asked: tuple[int, ...]
    child_asked: tuple[int, ...]

    @property
    def neighbours(self) -> frozenset[int]:
        """Parent and children."""
        return self.children | ({self.parent} if self.parent is not None else set())


def find_neighbours(dht: Dht, host: int) -> Found:
    """The parent and the children of ``host``; the two searches share no answers."""
    parent, parent_asked = find_parent(dht, host)
    children, child_asked = find_children(dht, host)
    return Found(parent, children, tuple(parent_asked), tuple(child_asked))


def find_parent(dht: Dht, host: int) -> tuple[int | None, list[int]]:
    """The parent of ``host`` (None: there is none), and the keys that it asks for."""
    asked: list[int] = []
    answers: list[Answer] = []
    for key in dht.reference.ancestors(dht.topmost[host]):
        # No ancestor of its topmost key is in its own keyset.
        known = [answer for answer in answers if key in answer.keyset]
        if not known:
            asked.append(key)
            known = [dht.lookup(key)]
            answers += known
        if known[0].topmost == key:
            return known[0].owner, asked
    return None, asked


def find_children(dht: Dht, host: int) -> tuple[frozenset[int], list[int]]:
    """The children of ``host``, and the keys that it asks for."""
    own = dht.keysets[host]
    asked: list[int] = []
    children: set[int] = set()
    # Subtrees to visit, with the host's own keyset and those of the owners of keys above them.
    # Such an owner's topmost key is not below: it has a key that comes before.
    start = dht.reference.subtree(dht.topmost[host])
    level: list[tuple[Subtree, tuple[Keyset, ...]]]
    level = [(tree, (own,)) for tree in dht.reference.subtrees(start)]
    while level:
        following = []
        for tree, known in level:
            if any(keyset.covers(tree.low, tree.high) for keyset in known):
                continue
            if not any(tree.node in keyset for keyset in known):
                asked.append(tree.node)
                answer = dht.lookup(tree.node)
                if answer.topmost == tree.node:
                    children.add(answer.owner)
                    continue
                if answer.keyset not in known:
                    known = (*known, answer.keyset)
            following += [(inner, known) for inner in dht.reference.subtrees(tree)]
        level = following
    return frozenset(children), asked
