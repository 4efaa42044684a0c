"""HyParView and Plumtree: a gossip overlay, and a broadcast tree that is embedded in it.

Messages between members, and their handlers:

=============  =======================================  ======================================
message        sent by                                  handler
=============  =======================================  ======================================
join           a newcomer, to its contact               `hyparview.HyParView.on_join`
forward_join   the contact, then each node of the walk  `hyparview.HyParView.on_forward_join`
neighbor       a node that lost a neighbour             `hyparview.HyParView.on_neighbor`
accept         a node that took the receiver in         `hyparview.HyParView.on_accept`
refuse         a node with a full view                  `hyparview.HyParView.on_refuse`
disconnect     a node that dropped the receiver         `hyparview.HyParView.on_disconnect`
shuffle        the origin, then each node of the walk   `hyparview.HyParView.on_shuffle`
shuffle_reply  the node at the end of the walk          `hyparview.HyParView.on_shuffle_reply`
gossip         a node, to its eager neighbours          `plumtree.Plumtree.on_gossip`
ihave          a node, to its lazy neighbours           `plumtree.Plumtree.on_ihave`
graft          a node without an announced publication  `plumtree.Plumtree.on_graft`
prune          a node that got a copy in vain           `plumtree.Plumtree.on_prune`
=============  =======================================  ======================================

The clock calls `on_down` for a message to a dead node or a broken connection, `on_wait` for timers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import MESH, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets

#: Whose rules: those of the papers, as iroh and Babel quote them, of iroh-gossip, or of Corrosion.
PAPER, IROH, CORROSION = "paper", "iroh", "corrosion"

#: How views come about: by waves of newcomers, or all at once; drawn; or drawn near and far.
WAVES, AT_ONCE, STATIC, FULL = "waves", "at_once", "static", "full"


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.rounds.clocked import ClockedSystem, near_and_far_links, ring_links
    from scribe_spark.systems.plumtree.overlay import PlumtreeKernel

    rules = config.plumtree.for_tasks()
    rings = partial(ring_links, slots=rules.active)
    return ClockedSystem(
        PlumtreeKernel,
        rules,
        least_wait_us=min(rules.us[name] for name in ("first_wait", "next_wait", "request")),
        growth=rules.growth if rules.views == WAVES else None,
        refresh_us=rules.us["shuffle"] if rules.grows else 0,
        links=None if rules.grows else near_and_far_links if rules.views == FULL else rings,
        state={"active": "active view", "passive": "passive view"},
    )


_LINKS = "links per membership"

PLUMTREE = System(
    "plumtree",
    "Plumtree",
    MESH,
    requested=True,
    config="scribe_spark.systems.plumtree.config:PlumtreeConfig",
    control=True,
    world=_live,
    world_measures={"active": _LINKS, "eager": _LINKS, "passive": "entries per membership"},
)
