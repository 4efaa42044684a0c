"""The reference tree of Costa and Frey: a tree over all hosts, kept by the keys that they own."""

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
