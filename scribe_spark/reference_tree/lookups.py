"""The look-ups of all hosts, and their routes through an overlay.

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
    """Return the look-ups of all hosts: `rows.LOOKUPS`, materialised; free it with `release`.

    Parameters
    ----------
    nodes, children, assignment, buckets
        See :func:`.places.places`, which counts the look-ups.
    """
    tree = ReferenceTree(128, children)
    searched = search(nodes, tree, assignment, buckets, name_lookups=True)
    result, _ = materialise(searched.rows(LOOKUPS, LOOKUP))
    searched.release()
    return result


def route_lookups(
    overlay: Overlay, asked: DataFrame, progress: Progress | None = None
) -> DataFrame:
    """Route look-ups through an overlay (``dht = routed`` uses the overlay of the run).

    The keys that a host looks up do not depend on the routes.  Therefore all look-ups travel at the
    same time, although a host would wait for each answer; their hops and delays are the same.

    Parameters
    ----------
    overlay : Overlay
        An overlay of the same hosts, whose root of a key is the owner of the key (for Pastry:
        assignment ``pastry``).
    asked : DataFrame
        `rows.LOOKUPS`.

    Returns
    -------
    DataFrame
        `rows.LOOKUPS` and ``hops, delay_us`` of the question, without the answer; materialised,
        free it with `release`.

    Raises
    ------
    RuntimeError
        A message came to another host than the owner of its key.
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
