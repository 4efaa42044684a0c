"""The reference tree of Costa and Frey: a tree over all hosts, kept by the keys that they own."""

from scribe_spark.reference_tree.dht import AbstractDht, lookups, route_lookups
from scribe_spark.reference_tree.experiment import MEASURED, Experiment, event_measures
from scribe_spark.reference_tree.host_tree import HostTree, ReconfigurationRound
from scribe_spark.reference_tree.keysets import keysets
from scribe_spark.reference_tree.places import places
from scribe_spark.reference_tree.rows import PLACES
from scribe_spark.reference_tree.tree import ReferenceTree

__all__ = [
    "MEASURED",
    "PLACES",
    "AbstractDht",
    "Experiment",
    "HostTree",
    "ReconfigurationRound",
    "ReferenceTree",
    "event_measures",
    "keysets",
    "lookups",
    "places",
    "route_lookups",
]
