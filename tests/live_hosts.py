"""The reference tree of live hosts, on buckets in process that cannot see each other."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from poisoned import PoisonedTask

from scribe_spark.config import OverlayConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.rounds.events import Lives
from scribe_spark.rounds.player import Environment, Observer, RoundPlayer
from scribe_spark.systems.reference_tree.live import (
    LiveHosts,
    LiveTree,
    find_live_tree,
    live_tree_measures,
)
from scribe_spark.systems.reference_tree.reconfiguration import LINKS, HostLinks
from scribe_spark.systems.reference_tree.tree import ReferenceTree


@dataclass(frozen=True)
class SmallTree(LiveTree):
    """A tree of keys of any number of bits."""

    bits: int = 128

    def hosts(self, player: RoundPlayer) -> LiveHosts:
        """See `LiveTree`."""
        tree = ReferenceTree(self.bits, self.children)
        return LiveHosts(player.environment, tree, self.assignment)


def ring_of(ids: Iterable[int]) -> Ring:
    """Nodes with these nodeIds, which are ascending."""
    halves = zip(*[divmod(one, 2**64) for one in ids], strict=True)
    hi, lo = (np.array(half, np.uint64) for half in halves)
    return Ring(hi, lo, np.arange(len(hi)), np.zeros(len(hi), np.int64))


class Hosts:
    """Nodes that come and go, and what their buckets know of the tree.

    Parameters
    ----------
    alive : ndarray of bool
    bounds : sequence of int
        Where buckets begin, and the number of nodes.
    """

    def __init__(self, kept: LiveTree, known: Ring, alive: np.ndarray, bounds) -> None:
        self.kept, self.known, self.bounds = kept, known, np.array(bounds, dtype=np.int64)
        self.lives = Lives.of(len(known), np.flatnonzero(alive))
        self.forget()

    def forget(self) -> None:
        """A world is resumed: the buckets know nothing of the tree."""
        engine = PoisonedTask([Tables() for _ in self.bounds[1:]])
        ring = RingInMemory(self.known)
        given = Environment(ring, self.bounds, OverlayConfig(leaf_set=8), None, Observer(()))
        self.player = RoundPlayer(engine, given, self.lives)

    def change(self, alive: np.ndarray) -> dict[str, float]:
        """Play a round after which others are alive; its measures."""
        find_live_tree(self.kept, self.player)
        self.lives.alive[:] = alive
        return live_tree_measures(self.kept, self.player)

    def neighbours(self) -> dict[int, set[int]]:
        """Return what hosts know, position by position; each in its own bucket."""
        found: dict[int, set[int]] = {}
        for bucket, mine in enumerate(self.player.engine.tables):
            if LINKS in mine:
                links = HostLinks(mine[LINKS]["pair"], len(self.known))
                first, last = self.bounds[bucket : bucket + 2]
                assert ((links.host >= first) & (links.host < last)).all()
                for host, other in zip(links.host.tolist(), links.neighbour.tolist(), strict=True):
                    found.setdefault(host, set()).add(other)
        return found
