"""An application that changes its mind: a counter for each node, raised and lowered by messages.

A message carries a change, +1 or -1.  A node adds up what arrives, and hands the token on to the
next node: a counter that is back at zero is removed from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.progress import Progress
from scribe_spark.superstep import Round, Step, Table

COUNTERS = "counters"


def run_counters(
    spark: SparkSession, nodes: int, rounds: int, progress: Progress | None = None
) -> Table:
    """`rounds` rounds of one token for every third node; the counters that are left.

    A token at node n goes to node 2 n + 1 (modulo `nodes`) and changes its sign every other round.
    """
    counters = Table(["node"], ["value"])
    tokens = spark.range(0, nodes, 3).select(
        F.col("id").alias("node"), F.lit(1).cast("bigint").alias("change"), F.lit(0).alias("hop")
    )

    def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
        arrived = inbox.groupBy("node").agg(F.sum("change").alias("change"))
        return Step(_handed_on(inbox, nodes, rounds), {COUNTERS: _counted(arrived, state)})

    superstep.run(
        "counters",
        tokens.repartition("node"),
        step,
        state={COUNTERS: counters},
        progress=progress,
    )
    return counters


def _counted(arrived: DataFrame, state: Mapping[str, Table]) -> DataFrame:
    before = state[COUNTERS].at(arrived.select("node"), ["node"])
    if before is None:
        values = arrived.withColumn("value", F.col("change"))
    else:
        joined = arrived.hint("shuffle_hash").join(before, "node", "left")
        values = joined.withColumn("value", F.coalesce("value", F.lit(0)) + F.col("change"))
    return values.select("node", "value", (F.col("value") == 0).alias("removed"))


def _handed_on(inbox: DataFrame, nodes: int, rounds: int) -> DataFrame:
    sign = F.when(F.col("hop") % 2 == 0, -1).otherwise(1)
    moved = inbox.where(F.col("hop") < rounds - 1).select(
        ((F.col("node") * 2 + 1) % nodes).alias("node"),
        (F.col("change") * sign).alias("change"),
        (F.col("hop") + 1).alias("hop"),
    )
    return moved.repartition("node")


def counted_in_python(nodes: int, rounds: int) -> dict[int, int]:
    """The same, a token at a time."""
    counters: dict[int, int] = {}
    for start in range(0, nodes, 3):
        node, change = start, 1
        for hop in range(rounds):
            counters[node] = counters.get(node, 0) + change
            node, change = (node * 2 + 1) % nodes, -change if hop % 2 == 0 else change
    return {node: value for node, value in counters.items() if value}


Observed = Callable[[], None]
