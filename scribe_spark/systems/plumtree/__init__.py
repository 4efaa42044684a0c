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

from scribe_spark.rounds.declaration import MESH, System, function_at

#: Whose rules: those of the papers, as iroh and Babel quote them, of iroh-gossip, or of Corrosion.
PAPER, IROH, CORROSION = "paper", "iroh", "corrosion"

#: How views come about: by waves of newcomers, or all at once; drawn; or drawn near and far.
WAVES, AT_ONCE, STATIC, FULL = "waves", "at_once", "static", "full"

_PLUMTREE = function_at("scribe_spark.systems.plumtree.overlay:system_of")
_LINKS = "links per membership"

PLUMTREE = System(
    "plumtree",
    "Plumtree",
    MESH,
    requested=True,
    config="scribe_spark.systems.plumtree.config:PlumtreeConfig",
    control=True,
    world=lambda config: _PLUMTREE(config.plumtree.for_tasks()),
    world_measures={"active": _LINKS, "eager": _LINKS, "passive": "entries per membership"},
)
