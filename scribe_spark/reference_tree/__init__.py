"""The reference tree of Costa and Frey: one tree over all hosts of a hash table.

`tree` has the tree of all keys, `rings` the keysets of hosts, `topmost` their topmost keys; `climb`
and `explore` find parents and children by look-ups.  `bucket_steps` and `live` are programs of the
engine that play this on buckets of the ring.  Definitions: docs/reference_tree.md.
"""

from scribe_spark.reference_tree.experiment import MEASURED, Experiment, event_measures
from scribe_spark.reference_tree.lookups import lookups, route_lookups
from scribe_spark.reference_tree.places import places
from scribe_spark.reference_tree.rows import PLACES
from scribe_spark.reference_tree.tree import ReferenceTree

__all__ = [
    "MEASURED",
    "PLACES",
    "Experiment",
    "ReferenceTree",
    "event_measures",
    "lookups",
    "places",
    "route_lookups",
]
