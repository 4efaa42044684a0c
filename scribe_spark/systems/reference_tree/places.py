"""The place of every host in the reference tree, and the look-ups that find it, also over Pastry.

Costa and Frey, Sections 3.3, 3.4, and 4.1 ("an abstract component with the ability to map keys onto
hosts").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.core.progress import Progress
from scribe_spark.core.u128 import halves
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, Names, read_view
from scribe_spark.engine.on_spark import BucketTables, Layout
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import append
from scribe_spark.overlay import Application, Overlay
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import describe_jobs, parallelism
from scribe_spark.systems.reference_tree.hash_table import CHORD, HashTable, packed, table_of_hosts
from scribe_spark.systems.reference_tree.search import CHILDREN, PARENTS, LookUps, look_up
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: A row for each host.  ``topmost_hi, topmost_lo`` is its topmost key, and ``depth`` is the depth
#: of this key in the reference tree; ``parent`` is NULL for the root; the last two are the numbers
#: of look-ups of the host, for its parent and for its children.
PLACES = (
    "node bigint, topmost_hi bigint, topmost_lo bigint, depth int, parent bigint, "
    "parent_lookups bigint, child_lookups bigint"
)

#: A row for each look-up: the host that asked, the key, the owner of the key, and ``purpose``:
#: whether the host searched for its ``parent`` or its ``children``.
LOOKUPS = "node bigint, key_hi bigint, key_lo bigint, owner bigint, purpose string"

#: The tables of a bucket, with positions on the ring as hosts.
FOUND_PLACES, _LOOKUPS = "places", "look-ups"

_PURPOSES = {PARENTS: "parent", CHILDREN: "children"}


@dataclass(frozen=True)
class FindPlaces:
    """A program: all hosts search for parents or children; `named` notes each look-up."""

    hosts: HashTable
    named: bool = False
    kinds: tuple[str, ...] = (PARENTS, CHILDREN)

    @property
    def bounds(self) -> np.ndarray:
        return self.hosts.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Start the searches of a bucket's hosts, and answer searches from other buckets."""
        first, last = self.bounds[bucket : bucket + 2]
        if first == last:
            return {}
        hosts = np.arange(first, first if superstep else last)
        if not superstep:
            rings = self.hosts.assign(bucket, tables)
            rows = rings.find(hosts)
            place = {"node": hosts, "topmost": rings.topmost[rows], "depth": rings.depth[rows]}
            none, no_lookups = np.full(len(hosts), -1), np.zeros(len(hosts), dtype=np.int64)
            counts = {"parent_lookups": no_lookups, "child_lookups": no_lookups}
            tables[FOUND_PLACES] = {**packed(place), "parent": none, **counts}
        asked: dict[str, list[LookUps]] = {kind: [] for kind in _PURPOSES}
        named = asked if self.named else None
        found, sent = look_up(
            self.hosts, bucket, tables, inbox, hosts, kinds=self.kinds, asked=named
        )
        if len(found["host"]):
            tables[FOUND_PLACES] = _with_results(tables[FOUND_PLACES], found["host"] - first, found)
        for kind, some in asked.items():
            if some:
                each = LookUps.join(*some)
                purpose = np.full(len(each), _PURPOSES[kind])
                columns = packed({"node": each.asker, "key": each.key, "owner": each.owner})
                append(tables, _LOOKUPS, {**columns, "purpose": purpose})
        return sent


def _with_results(place: Columns, row: np.ndarray, found: Columns) -> dict[str, np.ndarray]:
    """Return places with the parents and counts of look-ups that searches found."""
    new = {name: place[name].copy() for name in ("parent", "parent_lookups", "child_lookups")}
    is_up = found["up"].astype(bool)
    new["parent"][row[is_up]] = found["neighbour"][is_up]
    np.add.at(new["parent_lookups"], row[is_up], found["lookups"][is_up])
    np.add.at(new["child_lookups"], row[~is_up], found["lookups"][~is_up])
    return {**place, **new}


def places(
    nodes: DataFrame,
    tree: ReferenceTree,
    assignment: str = CHORD,
    buckets: int | None = None,
    *,
    named: bool = False,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the place of every host in the reference tree, found by look-ups: `PLACES`.

    A look-up is one message to the owner of the key (``dht = abstract``). All hosts search at
    the same time; in one superstep a search makes all look-ups of keys in the same bucket of
    the ring. The result is materialised; free it with
    :func:`scribe_spark.runtime.blocks.release`.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``: the hosts, and their ids, which are less than 2**bits of `tree`.
    assignment : str
        The rule that assigns keys to hosts: ``chord`` or ``pastry``.
    buckets : int, optional
        The number of buckets of the ring; it does not affect the result.
    named : bool
        True to return the look-ups (`LOOKUPS`) in place of the places.

    Raises
    ------
    InputError
        There are no hosts or more hosts than keys, or ids are equal or too large.
    """
    spark = nodes.sparkSession
    with describe_jobs(spark, "reference tree: hosts"):
        facts, hosts = table_of_hosts(nodes, tree, assignment, buckets)
    count = len(hosts.bounds) - 1
    ring = BucketRing(facts, hosts.bounds, Layout(spark, count, 4 * parallelism(spark)))
    tables = BucketTables(ring.layout, ring.starts())
    tables.play(FindPlaces(hosts, named), "reference tree", progress)
    rows, schema = tables.rows(_LOOKUPS if named else FOUND_PLACES), LOOKUPS if named else PLACES
    with describe_jobs(spark, "reference tree: places"):
        result, _ = materialise(read_view(rows, Names(facts, None, whole_numbers()), schema).frame)
    tables.release()
    ring.layout.release()
    facts.release()
    return result


def route_lookups(
    overlay: Overlay, asked: DataFrame, progress: Progress | None = None
) -> DataFrame:
    """Route look-ups (`LOOKUPS`) through an overlay of the same hosts (``dht = routed``).

    All travel at the same time, although a host would wait for each answer, because the keys do not
    depend on the routes.  The result has ``hops, delay_us`` of the questions, too; free it with
    `release`.  A message that ends at another host than the owner of its key is a RuntimeError.
    """
    key = halves("key")
    routed = overlay.route(
        Application(),
        asked.select("node", *key, "owner", "purpose"),
        name="look-ups",
        progress=progress,
    )
    arrived = routed.outcomes()
    strayed = arrived.where("node <> owner").count()
    if strayed:
        raise RuntimeError(f"{strayed} look-ups ended at a host that does not own the key")
    node = F.col("start").alias("node")
    result, _ = materialise(arrived.select(node, *key, "owner", "purpose", "hops", "delay_us"))
    routed.release()
    return result
