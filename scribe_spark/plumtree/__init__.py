"""HyParView and Plumtree: a gossip overlay, and a broadcast tree that is embedded in it."""
