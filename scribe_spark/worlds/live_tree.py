"""The reference tree over the live nodes of a world, and the cost of each round's events.

All events of a round are one change of the hash table, which is complete before the tree's hosts
compute their neighbours again.  The hosts' state stays in the buckets of the player from round to
round and is not saved with a world: each reconfiguration ends with the tree that would be computed
from scratch (this is checked), so a resumed world computes it again.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

from scribe_spark.engine.limits import counted, most_supersteps
from scribe_spark.engine.program import Together
from scribe_spark.reference_tree.live import (
    CROSSINGS,
    FRAGMENTS,
    KEYSETS,
    LARGEST,
    TREE_MEASURED,
    AssignKeys,
    FindParents,
    KeepLinks,
    LiveHosts,
    MeasureTree,
    depths_of_fragments,
)
from scribe_spark.reference_tree.reconfiguration import COMPUTING, Reconfigure
from scribe_spark.reference_tree.rings import PASTRY
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.rounds.player import RoundPlayer

#: All measures of a round with their units; see :func:`live_tree_measures`.
LIVE_TREE_MEASURES: dict[str, str] = {
    "reference_tree.hosts": "hosts",
    "reference_tree.links.removed": "links",
    "reference_tree.links.created": "links",
    "reference_tree.parent_lookups": "messages",
    "reference_tree.child_lookups": "messages",
    "reference_tree.notices": "messages",
    "reference_tree.rounds": "rounds",
    "reference_tree.degree.largest": "neighbours",
    "reference_tree.depth.largest": "hops",
    "reference_tree.depth.mean": "hops",
    "reference_tree.faults": "trees",
}


@dataclass(frozen=True)
class LiveTree:
    """The parameters of a world's reference tree.

    `children` is the maximal number of children of a key; `assignment` assigns keys to hosts:
    ``chord`` or ``pastry``.
    """

    children: int = 2
    assignment: str = PASTRY

    def hosts(self, player: RoundPlayer) -> LiveHosts:
        """Return the live hosts of the tree."""
        return LiveHosts.of(player.given, ReferenceTree(128, self.children), self.assignment)


def find_live_tree(kept: LiveTree, player: RoundPlayer) -> None:
    """Compute the tree of the live nodes from scratch, unless the buckets have it."""
    if not player.has(KEYSETS):
        hosts = kept.hosts(player)
        player.play(Together((AssignKeys(hosts), FindParents(hosts))))
        player.play(KeepLinks(hosts))


def live_tree_measures(kept: LiveTree, player: RoundPlayer) -> dict[str, float]:
    """Reconfigure the tree after the events of a round; return the values of measures.

    ``hosts``: hosts that computed their neighbours again.  ``links.removed``, ``links.created``:
    each link once.  ``parent_lookups``, ``child_lookups``, ``notices``, ``rounds``: of the
    reconfiguration.  ``degree.largest``, ``depth.largest``, ``depth.mean``: of the resulting tree.
    ``faults``: 1 if the result is not a tree of all live nodes, or differs from the tree computed
    from scratch, else 0.  The buckets have the tree before the events (:func:`find_live_tree`).
    """
    hosts = kept.hosts(player)
    # (FindParents computes the tree from scratch, for the comparison)
    player.play(Together((AssignKeys(hosts), FindParents(hosts))))
    most = most_supersteps(len(player.given.facts.ring))
    for number in counted("reference_tree reconfiguration", most, "rounds"):
        if not player.has(COMPUTING):
            break
        player.play(Reconfigure(hosts, number + 1))
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
        "links.removed": found["removed"] // 2,  # both ends count it
        "links.created": found["created"] // 2,
        "parent_lookups": found["up"],
        "child_lookups": found["down"],
        "notices": found["notices"],
        "rounds": found["rounds"],
        "degree.largest": found["degree"],
        "depth.largest": deepest,
        "depth.mean": (depth - unreached) / found["live"],  # hosts without a root have depth -1
        "faults": found["roots"] != 1 or unreached > 0 or found["different"] > 0,
    }
    return {f"reference_tree.{name}": float(value) for name, value in values.items()}
