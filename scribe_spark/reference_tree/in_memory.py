"""The reconfiguration on many rings at once, in one bucket in this process.

References
----------
Costa and Frey, Section 4: the experiment, on independent networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, sums_at
from scribe_spark.core.u128 import Numbers
from scribe_spark.engine import Tables
from scribe_spark.engine.in_task import play
from scribe_spark.engine.limits import counted, most_supersteps
from scribe_spark.engine.program import AT
from scribe_spark.reference_tree.climb import climb, climbs_from
from scribe_spark.reference_tree.links import Links
from scribe_spark.reference_tree.reconfiguration import LINKS, NOTICE, Reconfigure, Reconfigured
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.tree import ReferenceTree


@dataclass(frozen=True)
class _OneBucket:
    """The hash table of all rings; implements `Dht`."""

    tree: ReferenceTree
    rings: Rings
    here: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        return np.array([0, len(self.here)])

    def keysets(self, bucket: int, tables: Tables) -> Rings:
        return self.rings

    def at(self, key: Numbers) -> np.ndarray:
        return np.zeros(len(key), dtype=np.int64)

    def is_here(self, host: np.ndarray) -> np.ndarray:
        return self.here[host]


def reconfigure(
    tree: ReferenceTree, rings: Rings, links: Links, first: np.ndarray, here: np.ndarray
) -> Reconfigured:
    """Play the rounds of a reconfiguration, until a round sends no notice.

    `rings` are the keysets after the event, `links` the links before it.  The hosts `first` compute
    in round 0; `here` is true for hosts that are present after the event.
    """
    dht, tables = _OneBucket(tree, rings, here), Tables.of({LINKS: {"pair": links.pairs}})
    play(Reconfigure(dht, 0), [tables], {NOTICE: {AT: first}})
    for number in counted("reference_tree reconfiguration", most_supersteps(len(here)), "rounds"):
        if not any(play(Reconfigure(dht, number + 1), [tables])):
            break
    return Reconfigured.take(tables, dht)


def costs_by_ring(done: Reconfigured, ring_of: np.ndarray, rings: int) -> dict[str, np.ndarray]:
    """Return the costs of reconfigurations on each ring: int64, shape (rings,).

    They are the numbers of ``rounds`` in which a host computed anew, of ``hosts`` that did, of such
    ``computations`` (a host may compute in several rounds), of ``notices``, and of look-ups for
    parents and for children.  `ring_of` has the ring of each host.
    """
    host, asker = done.computed["host"], done.lookups["host"]
    ring, number = ring_of[host], done.computed["round"]

    def count(ring_of_row: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        ones = np.ones(len(ring_of_row), dtype=np.int64)
        return sums_at(ring_of_row, ones if weight is None else weight, rings)

    return {
        "hosts": count(ring_of[distinct(host)]),
        "computations": count(ring),
        "notices": count(ring, done.computed["notices"]),
        "rounds": count(distinct(number * rings + ring) % rings),
        "parent_lookups": count(ring_of[asker], done.lookups["up"]),
        "child_lookups": count(ring_of[asker], done.lookups["down"]),
    }


def all_parents(tree: ReferenceTree, rings: Rings, hosts: int) -> np.ndarray:
    """Return each host's parent: int64, shape (hosts,); `NONE` for roots and absent hosts."""
    parent = np.full(hosts, NONE)
    found, _ = climb(tree, rings, climbs_from(rings, np.arange(len(rings)), rings.node))
    parent[found.asker] = found.parent
    return parent
