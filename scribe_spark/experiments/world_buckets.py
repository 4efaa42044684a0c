"""The default number of buckets of a world.

One bucket has no superstep to wait for, but one core and one process' memory.  Several play at the
same time, and each round waits for dozens of small Spark jobs.  The figures are those of
docs/performance.md, "One bucket or several", which `python -m tools.world_buckets` measures.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from scribe_spark.config import WorldConfig
from scribe_spark.runtime.memory import memory_limit
from scribe_spark.runtime.sessions import parallelism


@dataclass(frozen=True)
class RoundCosts:
    """The costs of a round.

    Attributes
    ----------
    one : float
        Seconds a node in one bucket, on one core.
    floor : float
        Seconds of the supersteps of several buckets, however few nodes there are.
    each : float
        Seconds a node and core in several buckets.
    bytes : int
        Memory a node while it is played.
    """

    one: float
    floor: float
    each: float
    bytes: int

    def is_faster(self, nodes: int, cores: int) -> bool:
        """Return whether a bucket for each core is faster than one."""
        return cores > 1 and self.floor + self.each * nodes / cores < self.one * nodes


#: Of the table (only how they compare matters); the bytes are those of a million nodes.
WITH_GROUPS = RoundCosts(one=10e-6, floor=5.7, each=29e-6, bytes=13_000)

#: Pastry alone: a fiftieth of the kernels' time, a quarter of the supersteps.
WITHOUT_GROUPS = RoundCosts(one=0.2e-6, floor=1.4, each=0.6e-6, bytes=1_000)

#: Of the memory, what the nodes that are played at a time may take; the rest is the JVM's.
_SHARE = 0.75


def buckets_of(config: WorldConfig, spark: SparkSession) -> int:
    """Return in how many buckets the nodes of a config's world are."""
    costs = WITH_GROUPS if config.scribe.has_groups else WITHOUT_GROUPS
    return choose_buckets(config.overlay.nodes, parallelism(spark), memory_limit(), costs)


def choose_buckets(nodes: int, cores: int, memory: int, costs: RoundCosts) -> int:
    """Return in how many buckets the nodes of a world are.

    One, unless a bucket for each core is faster, or the nodes have no room in one; then so many
    that those that are played at a time have.

    Parameters
    ----------
    cores : int
        Of all executors.
    memory : int
        Bytes of one machine.

    Examples
    --------
    >>> choose_buckets(10_000, 2, 24 * 2**30, WITH_GROUPS)
    1
    >>> choose_buckets(3_000_000, 2, 24 * 2**30, WITH_GROUPS)
    5
    """
    room = _SHARE * memory
    if nodes * costs.bytes <= room and not costs.is_faster(nodes, cores):
        return 1
    return max(2, cores, int(-(-cores * nodes * costs.bytes // room)))
