"""The engine and the number of buckets with which the rounds of a world are played.

One bucket needs no supersteps, but has only one core and the memory of one process.  Several
buckets are played at the same time.  In tasks, a superstep of several buckets costs an exchange
between the tasks; as jobs, it costs a small Spark job.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import SparkSession

from scribe_spark.config import WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.runtime.memory import memory_limit
from scribe_spark.runtime.sessions import parallelism


class Engine(NamedTuple):
    """An engine, ``tasks`` or ``jobs``, and the reason for its choice."""

    name: str
    why: str

    def in_words(self) -> str:
        """Return a line for the log: the engine and the reason."""
        return f"rounds: in {self.name} ({self.why})"


def engine_of(asked: str, spark: SparkSession, buckets: int) -> Engine:
    """Return the engine of a world's rounds for the setting ``auto``, ``tasks`` or ``jobs``."""
    if asked == "jobs":
        return Engine("jobs", "as asked for")
    reason = why_no_tasks(spark, buckets)
    if reason is None:
        why = "all nodes are in one bucket" if buckets == 1 else f"{buckets} tasks can stay"
        return Engine("tasks", "as asked for" if asked == "tasks" else why)
    if asked == "tasks":
        raise InputError(
            "engine", asked, f"cannot be used: {reason}; give jobs, or another number of buckets"
        )
    return Engine("jobs", reason)


class RoundCosts(NamedTuple):
    """The measured costs of a round of a world, by which buckets are chosen.

    `one` and `each` are seconds per node in one bucket, and per node and core in several buckets;
    `floor` is the seconds of the supersteps of several buckets, for any number of nodes; `bytes` is
    the memory per node while it is played.
    """

    one: float
    floor: float
    each: float
    bytes: int


#: The costs by engine: with groups, and of Pastry alone (a fiftieth of the kernels' time, a quarter
#: of the supersteps).  They are fitted to a table of docs/performance.md, which the command `python
#: -m benchmarks.world_buckets --engine tasks,jobs --write` measures; only how they compare matters.
#: The bytes are those of a million nodes.
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
    """Return the number of buckets of a config's world; ``auto`` means tasks if tasks can stay."""
    nodes, cores, memory = config.overlay.nodes, parallelism(spark), memory_limit()
    kind = 0 if config.groups.has_groups else 1
    if engine != "jobs":
        buckets = choose_buckets(nodes, cores, memory, COSTS["tasks"][kind])
        if engine == "tasks":  # all buckets are in memory
            return min(buckets, cores)
        if why_no_tasks(spark, buckets) is None:
            return buckets
    return choose_buckets(nodes, cores, memory, COSTS["jobs"][kind])


def choose_buckets(nodes: int, cores: int, memory: int, costs: RoundCosts) -> int:
    """Return the number of buckets for some nodes, all cores, and a machine's memory (bytes).

    It is one, unless a bucket for each core is faster, or the nodes do not fit into one bucket.
    Then the nodes of as many buckets as are played at a time fit into memory.
    """
    room = _SHARE * memory
    is_faster = cores > 1 and costs.floor + costs.each * nodes / cores < costs.one * nodes
    if nodes * costs.bytes <= room and not is_faster:
        return 1
    return max(2, cores, int(-(-cores * nodes * costs.bytes // room)))
