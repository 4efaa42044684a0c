"""The reference tree of Costa and Frey: one tree over all hosts of a hash table.

`tree` has the tree of all keys and topmost keys of intervals; `hash_table` the keysets of hosts;
`search` the look-ups of keys by which hosts find their parents and children.

| message | sent to | handler |
|---|---|---|
| `reconfiguration.NOTICE` | each old or new neighbour | `reconfiguration.Reconfigure` |

`live` reconfigures the tree in worlds, `experiment` on many independent rings, and
`failures_by_depth` for single hosts of a run.  `multicast` is the tree as a multicast
system.  Definitions: docs/reference_tree.md.
"""
