"""IP multicast.

References
----------
JSAC 2002, Section IV.A ("IP multicast routing used a shortest path tree formed by the merge of the
unicast routes from the source to each recipient").
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from scribe_spark.baselines.unicasts import deliveries_of
from scribe_spark.multicast import Multicast

__all__ = ["ip_multicast"]


def ip_multicast(star: DataFrame) -> Multicast:
    """Routers duplicate packets: the routes are merged, and end nodes keep no children.

    Parameters
    ----------
    star : DataFrame
        From :func:`~scribe_spark.baselines.unicasts.unicasts`.
    """
    return Multicast("ip_multicast", star, deliveries_of(star), merged=True)
