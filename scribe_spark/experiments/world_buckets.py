"""The default number of buckets of a world.

One bucket needs no supersteps, but has only one core and the memory of one process.  Several
buckets are played at the same time.  In tasks, a superstep of several buckets costs an exchange
between the tasks; as jobs, it costs a small Spark job.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from scribe_spark.config import WorldConfig
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.runtime.memory import memory_limit
from scribe_spark.runtime.sessions import parallelism


@dataclass(frozen=True)
class RoundCosts:
    """The costs of a round.

    Attributes
    ----------
    one : float
        Seconds per node in one bucket.
    floor : float
        Seconds of the supersteps of several buckets, for any number of nodes.
    each : float
        Seconds per node and core in several buckets.
    bytes : int
        Memory per node while it is played.
    """

    one: float
    floor: float
    each: float
    bytes: int

    def is_faster(self, nodes: int, cores: int) -> bool:
        """Return True if a bucket for each core is faster than one bucket."""
        return cores > 1 and self.floor + self.each * nodes / cores < self.one * nodes


#: The costs by engine: with groups, and of Pastry alone (a fiftieth of the kernels' time, a quarter
#: of the supersteps).  They are fitted to a table of docs/performance.md, which the command `python
#: -m tools.world_buckets --engine tasks,jobs --write` measures; only how they compare matters.  The
#: bytes are those of a million nodes.
COSTS: dict[str, tuple[RoundCosts, RoundCosts]] = {
    "tasks": (
        RoundCosts(one=8e-6, floor=0.1, each=10e-6, bytes=13_000),
        RoundCosts(one=0.2e-6, floor=0.03, each=0.3e-6, bytes=1_000),
    ),
    "jobs": (
        RoundCosts(one=10e-6, floor=5.7, each=29e-6, bytes=13_000),
        RoundCosts(one=0.2e-6, floor=1.4, each=0.6e-6, bytes=1_000),
    ),
}

#: The share of the memory for the nodes that are played at a time; the JVM needs the rest.
_SHARE = 0.75


def buckets_of(config: WorldConfig, spark: SparkSession, engine: str = "auto") -> int:
    """Return the number of buckets of a config's world.

    Parameters
    ----------
    engine : str
        ``auto``, ``tasks`` or ``jobs``; ``auto`` means tasks if a task for each bucket can stay.
    """
    nodes, cores, memory = config.overlay.nodes, parallelism(spark), memory_limit()
    kind = 0 if config.scribe.has_groups else 1
    if engine != "jobs":
        buckets = choose_buckets(nodes, cores, memory, COSTS["tasks"][kind])
        if engine == "tasks":  # all buckets are in memory
            return min(buckets, cores)
        if why_no_tasks(spark, buckets) is None:
            return buckets
    return choose_buckets(nodes, cores, memory, COSTS["jobs"][kind])


def choose_buckets(nodes: int, cores: int, memory: int, costs: RoundCosts) -> int:
    """Return the number of buckets for some nodes.

    It is one, unless a bucket for each core is faster, or the nodes do not fit into one bucket.
    Then it is so large that the nodes that are played at a time fit into memory.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    cores : int
        The number of cores of all executors.
    memory : int
        The memory of one machine in bytes.
    costs : RoundCosts
        The costs of a round.

    Examples
    --------
    >>> with_groups, _ = COSTS["tasks"]
    >>> choose_buckets(10_000, 2, 24 * 2**30, with_groups)
    1
    >>> choose_buckets(100_000, 2, 24 * 2**30, with_groups)
    2
    >>> choose_buckets(3_000_000, 2, 24 * 2**30, with_groups)
    5
    """
    room = _SHARE * memory
    if nodes * costs.bytes <= room and not costs.is_faster(nodes, cores):
        return 1
    return max(2, cores, int(-(-cores * nodes * costs.bytes // room)))
