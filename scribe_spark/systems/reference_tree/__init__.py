"""The reference tree of Costa and Frey: one tree over all hosts of a hash table.

`tree` has the tree of all keys and topmost keys of intervals; `hash_table` the keysets of hosts.
The programs of the engine that play the tree on buckets of the ring handle these messages:

| message | sent to | handler |
|---|---|---|
| `search.PARENTS` | the bucket of an ancestor of the host's topmost key | `search.climb` |
| `search.CHILDREN` | the bucket of a key below it | `search.explore` |
| `search.RESULT` | the bucket of the host that searches | `search.look_up` |
| `reconfiguration.NOTICE` | each old or new neighbour | `reconfiguration.Reconfigure` |

`places.FindPlaces` lets all hosts search at once; `reconfiguration.Reconfigure` lets hosts search
again after an event, round by round; `live` does so in worlds, `experiment` on many independent
rings, and `failures` for single hosts of a run.  `multicast` is the tree as a multicast system.
Definitions: docs/reference_tree.md.
"""
