"""The look-ups of all hosts, and their way through any overlay.

References
----------
Costa and Frey, Section 4.1: "an abstract component with the ability to map keys onto hosts".
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.u128 import halves
from scribe_spark.overlay import Application, Overlay, start_path
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import (
    LOOKUP,
)
from scribe_spark.reference_tree.bucket_steps import (
    cut_ring,
    each_bucket,
    is_letter,
    keysets_of,
    search,
)
from scribe_spark.reference_tree.rings import CHORD
from scribe_spark.reference_tree.rows import LOOKUPS
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import materialise, release, union_tables

__all__ = ["lookups", "route_lookups"]


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
    found, _ = materialise(each_bucket(hosts, cut))
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
