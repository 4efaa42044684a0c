"""HyParView and Plumtree: a gossip overlay, and a broadcast tree that is embedded in it."""

#: Whose rules: those of the papers, as iroh and Babel quote them, of iroh-gossip, or of Corrosion.
PAPER, IROH, CORROSION = "paper", "iroh", "corrosion"

#: How views come about: newcomers arrive in waves, or all at once; or views are drawn.
WAVES, AT_ONCE, STATIC = "waves", "at_once", "static"
