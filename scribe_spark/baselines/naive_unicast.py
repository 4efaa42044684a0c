"""Naive multicast: the source sends a separate unicast packet to every member.

References
----------
JSAC 2002, Section IV.D (naive multicast).
"""

from __future__ import annotations

from scribe_spark.baselines.unicasts import deliveries_of
from scribe_spark.multicast import Multicast
from scribe_spark.runtime.batches import Table


def naive_unicast(star: Table) -> Multicast:
    """Return naive unicast: the source sends a separate packet to every member.

    Parameters
    ----------
    star : DataFrame or Batches
        The result of :func:`~scribe_spark.baselines.unicasts.unicasts`.
    """
    return Multicast("naive_unicast", star, deliveries_of(star))
