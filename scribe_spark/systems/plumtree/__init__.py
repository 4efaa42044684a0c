"""HyParView and Plumtree: a gossip overlay, and a broadcast tree that is embedded in it.

Messages between members, and the methods that handle them:

======================  ==================================================================
message                 handler
======================  ==================================================================
join                    `hyparview.HyParView.on_join`
forward_join            `hyparview.HyParView.on_forward_join`
neighbor                `hyparview.HyParView.on_neighbor`
accept, refuse          `hyparview.HyParView.on_accept`, `hyparview.HyParView.on_refuse`
disconnect              `hyparview.HyParView.on_disconnect`
shuffle                 `hyparview.HyParView.on_shuffle`
shuffle_reply           `hyparview.HyParView.on_shuffle_reply`
gossip                  `plumtree.Plumtree.on_gossip`
ihave                   `plumtree.Plumtree.on_ihave`
graft                   `plumtree.Plumtree.on_graft`
prune                   `plumtree.Plumtree.on_prune`
======================  ==================================================================
"""

#: Whose rules: those of the papers, as iroh and Babel quote them, of iroh-gossip, or of Corrosion.
PAPER, IROH, CORROSION = "paper", "iroh", "corrosion"

#: How views come about: newcomers arrive in waves, or all at once; or views are drawn.
WAVES, AT_ONCE, STATIC = "waves", "at_once", "static"
