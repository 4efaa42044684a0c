"""The hash table as an overlay, and look-ups on their way through any overlay.

References
----------
Costa and Frey, Section 4.1: "an abstract component with the ability to map keys onto hosts".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.core.u128 import from_halves, halves
from scribe_spark.overlay import Application, Overlay, start_path
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import (
    LOOKUP,
    first_answers,
    keysets_and_places,
)
from scribe_spark.reference_tree.bucket_steps import (
    bucket_rings,
    cut_ring,
    each_bucket,
    is_letter,
    keysets_of,
    search,
)
from scribe_spark.reference_tree.buckets import Buckets, bucket_column
from scribe_spark.reference_tree.rings import CHORD
from scribe_spark.reference_tree.rows import LOOKUPS
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import materialise, release, union_tables
from scribe_spark.underlay.protocol import Underlay

__all__ = ["AbstractDht", "lookups", "route_lookups"]


@dataclass(frozen=True)
class AbstractDht(Overlay):
    """A hash table in which every host knows the owner of every key: one hop.

    Attributes
    ----------
    nodes : DataFrame
        ``node, router``, partitioned by node.
    underlay : Underlay
    buckets : Buckets
    keysets : DataFrame
        The keysets of each bucket.
    owned : sequence of DataFrame
        Tables that :meth:`release` frees.
    """

    nodes: DataFrame
    underlay: Underlay
    buckets: Buckets
    keysets: DataFrame
    owned: Sequence[DataFrame] = ()

    reserved_columns = frozenset({"bucket", "key_owner"})

    @classmethod
    def of(
        cls,
        nodes: DataFrame,
        underlay: Underlay,
        *,
        bits: int = 128,
        assignment: str = CHORD,
        buckets: int | None = None,
    ) -> AbstractDht:
        """The hash table of `nodes` (`schemas.NODES`); to be freed by :meth:`release`."""
        cut, hosts = cut_ring(nodes, ReferenceTree(bits), assignment, buckets)
        found, _ = materialise(each_bucket(hosts, cut, keysets_and_places))
        routers = nodes.select("node", "router").repartition("node").persist()
        return cls(routers, underlay, cut, keysets_of(found), [found])

    def release(self) -> None:
        """Free the nodes and the keysets."""
        super().release()
        for table in self.owned:
            release(table)

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """See :meth:`Overlay.next_hop`."""
        bucket = bucket_column(self.buckets.tree, self.buckets.bits, "key").alias("bucket")
        found = StructType([*messages.schema.fields, StructField("key_owner", LongType())])
        both = messages.select(*messages.columns, bucket).groupBy("bucket")
        owned = both.cogroup(self.keysets.groupBy("bucket")).applyInArrow(
            _owners(self.buckets, found), found
        )
        here = owned.hint("shuffle_hash").join(self.nodes, "node", "inner")
        following = F.nullif(F.col("key_owner"), F.col("node")).alias("next")
        return here.select(*messages.columns, "router", following)

    def routing_table(self) -> DataFrame:
        """An empty one: nobody needs it."""
        spark = self.nodes.sparkSession
        return schemas.local_table(spark, [], schemas.ROUTING_TABLE)


def _owners(buckets: Buckets, columns: StructType) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The kernel of a hop: messages of a bucket of keys, with the owners of the keys."""
    nothing = to_arrow_schema(columns).empty_table()

    def run(messages: pa.Table, keysets: pa.Table) -> pa.Table:
        if not messages.num_rows:
            return nothing
        rings = bucket_rings(buckets, messages.column("bucket")[0].as_py(), keysets)
        hi, lo = (messages.column(name).to_numpy() for name in ("key_hi", "key_lo"))
        key = from_halves(hi, lo, buckets.tree.bits)
        owner = rings.node[rings.owner(np.zeros(len(hi), dtype=np.int64), key)]
        return messages.drop_columns("bucket").append_column("key_owner", pa.array(owner))

    return run


def lookups(
    nodes: DataFrame,
    *,
    bits: int = 128,
    children: int = 2,
    assignment: str = CHORD,
    buckets: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """The look-ups of all hosts: `rows.LOOKUPS`, materialised, to be freed with `release`.

    Parameters
    ----------
    nodes, bits, children, assignment, buckets, progress
        As of :func:`.places.places`, which counts them.
    """
    tree = ReferenceTree(bits, children)
    cut, hosts = cut_ring(nodes, tree, assignment, buckets)
    cut = replace(cut, name_lookups=True)
    found, _ = materialise(each_bucket(hosts, cut, first_answers))
    finished = search(cut, keysets_of(found), found.where(is_letter()), progress)
    late = finished.outcomes()
    rows = union_tables([found, *([] if late is None else [late])])
    asked = rows.where(F.col("what") == LOOKUP)
    result, _ = materialise(asked.select(LOOKUPS.names))
    finished.release()
    release(found)
    return result


def route_lookups(
    overlay: Overlay, asked: DataFrame, progress: Progress | None = None
) -> DataFrame:
    """Look-ups routed through an overlay (``dht = routed``: the run's own).

    Which keys a host asks for does not depend on how they are routed; so all look-ups are on their
    way at once, and hops and delays are those of one after the other.

    Parameters
    ----------
    overlay : Overlay
        With the same hosts; its root of a key is the key's owner (Pastry's: ``pastry``).
    asked : DataFrame
        `rows.LOOKUPS`.

    Returns
    -------
    DataFrame
        `rows.LOOKUPS` and ``hops, delay_us``, one way; materialised, to be freed with `release`.

    Raises
    ------
    RuntimeError
        A message has come to another host than the key's owner.
    """
    key = halves("key")
    messages = asked.select("node", *key, F.col("node").alias("asker"), "owner", "purpose")
    finished = overlay.route(
        Application(),
        messages.select("*", start_path()).repartition("node"),
        name="look-ups",
        progress=progress,
    )
    arrived = finished.outcomes()
    assert arrived is not None
    strayed = arrived.where("node <> owner").count()
    if strayed:
        raise RuntimeError(f"{strayed} look-ups ended at a host that does not own the key")
    timed = overlay.add_path_delay(arrived.drop("router", "next"))
    result, _ = materialise(
        timed.select(F.col("asker").alias("node"), *key, "owner", "purpose", "hops", "delay_us")
    )
    finished.release()
    return result
