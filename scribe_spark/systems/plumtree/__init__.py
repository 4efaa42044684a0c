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

#: Whose rules: those of the papers, as iroh and Babel quote them, of iroh-gossip, or of Corrosion.
PAPER, IROH, CORROSION = "paper", "iroh", "corrosion"

#: How views come about: newcomers arrive in waves, or all at once; or views are drawn.
WAVES, AT_ONCE, STATIC = "waves", "at_once", "static"
