"""The baselines to which Scribe is compared: IP multicast and naive unicast."""

from scribe_spark.systems.baselines.unicasts import ip_multicast, naive_unicast, unicasts

__all__ = ["ip_multicast", "naive_unicast", "unicasts"]
