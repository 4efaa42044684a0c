"""Look-ups of a large reference tree on their way over Pastry: ``dht = routed``.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 3.4, 4.1.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.experiments.scope import Scope
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.progress import Progress
from scribe_spark.reference_tree import lookups, route_lookups
from scribe_spark.schemas import MICROSECONDS

__all__ = ["routed_lookups"]

#: What hosts look for -> the first part of the measures' names.
_PURPOSES = {"parent": "parent_lookup", "children": "child_lookup"}


def routed_lookups(
    network: Simulation, ids: DataFrame, hosts: int, children: int, progress: Progress
) -> dict[str, dict[int, int]]:
    """Hops and delays of the look-ups by which all hosts find their places.

    Parameters
    ----------
    network : Simulation
        Its routers and routes, and how it builds an overlay, are used; not its nodes' ids.
    ids : DataFrame
        ``node, id_hi, id_lo``, nodes numbered from 0.
    hosts : int
        How many.
    children : int
        Most children of a key.

    Returns
    -------
    dict
        ``parent_lookup_hops``, ``child_lookup_hops``, and of delays to whole milliseconds, one way,
        ``parent_lookup_delay``, ``child_lookup_delay``: value -> how often it occurs.
    """
    config = network.config.replace(nodes=hosts)
    with Simulation(network.spark, config, progress=progress, shares=network) as here, Scope() as s:
        placed = here.nodes.select("node", "router").join(ids, "node", "inner")
        here.saved["nodes"] = s.materialise(placed.select(schemas.NODES.names))
        asked = s.own_table(lookups(here.nodes, children=children, assignment="pastry"))
        routed = s.own_table(route_lookups(here.overlay, asked, progress))
        return _counts(routed, "hops", F.col("hops")) | _counts(
            routed, "delay", F.round(F.col("delay_us") / F.lit(MICROSECONDS)).cast("bigint")
        )


def _counts(routed: DataFrame, name: str, value: Column) -> dict[str, dict[int, int]]:
    rows = routed.groupBy("purpose", value.alias("value")).count().collect()
    found: dict[str, dict[int, int]] = {f"{first}_{name}": {} for first in _PURPOSES.values()}
    for row in rows:
        found[f"{_PURPOSES[row['purpose']]}_{name}"][int(row["value"])] = int(row["count"])
    return {measure: counts for measure, counts in found.items() if counts}
