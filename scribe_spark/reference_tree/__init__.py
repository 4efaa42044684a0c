"""The reference tree of Costa and Frey: one tree over all hosts of a hash table.

`tree` has the tree of all keys, `rings` the keysets of hosts, `topmost` their topmost keys; `climb`
and `explore` find parents and children by look-ups.  `bucket_steps` and `live` are programs of the
engine that play this on buckets of the ring.  Definitions: docs/reference_tree.md.
"""
