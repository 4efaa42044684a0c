"""The reference tree over the live nodes of a world: what a round's events cost it.

The events of a round are one change of the hash table, which is settled before the tree's hosts
compute anew.  What hosts know of one another is in the buckets of the player, from round to round,
and is no part of what a world saves: each reconfiguration ends with the tree computed from nothing
(and is checked to), so a world that goes on finds it again.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

from scribe_spark.engine.program import Together
from scribe_spark.pastry.player import Player
from scribe_spark.reference_tree import ReferenceTree
from scribe_spark.reference_tree.live import (
    CROSSINGS,
    FRAGMENTS,
    KEYSETS,
    LARGEST,
    TREE_MEASURED,
    FindParents,
    KeepLinks,
    LiveHosts,
    MeasureTree,
    Settle,
    depths_of_fragments,
)
from scribe_spark.reference_tree.reconfiguration import COMPUTING, Reconfigure
from scribe_spark.reference_tree.rings import PASTRY

#: The first part of the measures' names.
PREFIX = "reference_tree."

#: Every measure of a round -> its unit; see :func:`live_tree_measures`.
LIVE_TREE_MEASURES: dict[str, str] = {
    f"{PREFIX}{name}": unit
    for name, unit in (
        ("hosts", "hosts"),
        ("links.removed", "links"),
        ("links.created", "links"),
        ("parent_lookups", "messages"),
        ("child_lookups", "messages"),
        ("notices", "messages"),
        ("rounds", "rounds"),
        ("degree.largest", "neighbours"),
        ("depth.largest", "hops"),
        ("depth.mean", "hops"),
        ("faults", "trees"),
    )
}


@dataclass(frozen=True)
class LiveTree:
    """The parameters of the reference tree that a world keeps.

    Attributes
    ----------
    children : int
        Most children of a key.
    assignment : str
        ``chord`` or ``pastry``.
    """

    children: int = 2
    assignment: str = PASTRY

    def hosts(self, player: Player) -> LiveHosts:
        """Return the live hosts of the tree."""
        return LiveHosts.of(player.given, ReferenceTree(128, self.children), self.assignment)


def find_live_tree(kept: LiveTree, player: Player) -> None:
    """Let the live nodes find their neighbours from nothing, where they know nothing of a tree."""
    if not player.has(KEYSETS):
        hosts = kept.hosts(player)
        player.play(Together((Settle(hosts), FindParents(hosts))))
        player.play(KeepLinks(hosts))


def live_tree_measures(kept: LiveTree, player: Player) -> dict[str, float]:
    """Reconfigure the tree after the events of a round; measure -> value.

    ``hosts`` that computed their neighbours anew; ``links.removed`` and ``links.created``, each
    link once; ``parent_lookups`` and ``child_lookups``, ``notices`` and ``rounds`` of the
    reconfiguration; of the tree afterwards ``degree.largest``, ``depth.largest`` and
    ``depth.mean``; and ``faults``: 1 where it is no tree of all live nodes, or not the one
    computed from nothing, else 0.  Names begin with :data:`PREFIX`.

    Parameters
    ----------
    player : Player
        Of buckets that know the tree before the events: see :func:`find_live_tree`.
    """
    hosts, number = kept.hosts(player), 1
    # (the tree from nothing is looked up beside round 0, in the keysets that this settles)
    player.play(Together((Settle(hosts), FindParents(hosts))))
    while player.has(COMPUTING):
        player.play(Reconfigure(hosts, number))
        number += 1
    player.play(MeasureTree(hosts))
    taken = player.take(TREE_MEASURED, FRAGMENTS, CROSSINGS)
    found = {
        name: int(column.max() if name in LARGEST else column.sum())
        for name, column in taken[TREE_MEASURED].items()
    }
    reached, depth, deepest = depths_of_fragments(
        *[taken.get(name, {}) for name in (FRAGMENTS, CROSSINGS)]
    )
    unreached = found["live"] - reached
    values = {
        "hosts": found["hosts"],
        "links.removed": found["removed"] // 2,  # each end knows of it
        "links.created": found["created"] // 2,
        "parent_lookups": found["up"],
        "child_lookups": found["down"],
        "notices": found["notices"],
        "rounds": found["rounds"],
        "degree.largest": found["degree"],
        "depth.largest": deepest,
        "depth.mean": (depth - unreached) / found["live"],  # who hangs below no root is at -1
        "faults": found["roots"] != 1 or unreached > 0 or found["different"] > 0,
    }
    return {f"{PREFIX}{name}": float(value) for name, value in values.items()}
