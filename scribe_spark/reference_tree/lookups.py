"""The look-ups of all hosts, and their way through any overlay.

References
----------
Costa and Frey, Section 4.1: "an abstract component with the ability to map keys onto hosts".
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.u128 import halves
from scribe_spark.overlay import Application, Overlay
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import LOOKUP
from scribe_spark.reference_tree.bucket_steps import search
from scribe_spark.reference_tree.rings import CHORD
from scribe_spark.reference_tree.rows import LOOKUPS
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import materialise


def lookups(
    nodes: DataFrame,
    *,
    children: int = 2,
    assignment: str = CHORD,
    buckets: int | None = None,
) -> DataFrame:
    """The look-ups of all hosts: `rows.LOOKUPS`, materialised, to be freed with `release`.

    Parameters
    ----------
    nodes, children, assignment, buckets
        As of :func:`.places.places`, which counts them.
    """
    tree = ReferenceTree(128, children)
    searched = search(nodes, tree, assignment, buckets, name_lookups=True)
    result, _ = materialise(searched.rows(LOOKUPS, LOOKUP))
    searched.release()
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
