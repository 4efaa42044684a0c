"""The baselines to which Scribe is compared: IP multicast and naive unicast."""

from scribe_spark.baselines.ip_multicast import ip_multicast
from scribe_spark.baselines.naive_unicast import naive_unicast
from scribe_spark.baselines.unicasts import unicasts

__all__ = ["ip_multicast", "naive_unicast", "unicasts"]
