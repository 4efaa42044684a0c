"""Naive multicast by unicast.

References
----------
JSAC 2002, Section IV.D (naive multicast).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from scribe_spark.baselines.unicasts import deliveries_of
from scribe_spark.multicast import Multicast

__all__ = ["naive_unicast"]


def naive_unicast(star: DataFrame) -> Multicast:
    """The source sends a packet of its own to every member.

    Parameters
    ----------
    star : DataFrame
        From :func:`~scribe_spark.baselines.unicasts.unicasts`.
    """
    return Multicast("naive_unicast", star, deliveries_of(star))
