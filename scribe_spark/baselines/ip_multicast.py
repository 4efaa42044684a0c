"""IP multicast as a baseline.

References
----------
JSAC 2002, Section IV.A ("IP multicast routing used a shortest path tree formed by the merge of the
unicast routes from the source to each recipient").
"""

from __future__ import annotations

from scribe_spark.baselines.unicasts import deliveries_of
from scribe_spark.multicast import Multicast
from scribe_spark.runtime.batches import Table


def ip_multicast(star: Table) -> Multicast:
    """Return IP multicast: routers merge the routes and duplicate packets; no node has children.

    Parameters
    ----------
    star : DataFrame or Batches
        The result of :func:`~scribe_spark.baselines.unicasts.unicasts`.
    """
    return Multicast("ip_multicast", star, deliveries_of(star), merged=True)
