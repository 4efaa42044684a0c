"""An application whose state changes back and forth, over 1,000 rounds, at flat memory."""

from __future__ import annotations

import pytest
from superstep_counters import counted_in_python, run_counters


class Memory:
    """After each round the number of RDDs that Spark keeps, and at times the JVM's used heap."""

    def __init__(self, spark) -> None:
        self.spark, self.kept, self.heap = spark, [], {}

    def round(self, loop: str, number: int, messages: int, seconds: float) -> None:
        self.kept.append(self.spark.sparkContext._jsc.getPersistentRDDs().size())
        if number in (200, 999):
            runtime = self.spark._jvm.java.lang.Runtime.getRuntime()
            self.spark._jvm.System.gc()
            self.heap[number] = runtime.totalMemory() - runtime.freeMemory()


@pytest.mark.slow
def test_a_thousand_rounds_at_flat_memory(spark):
    memory = Memory(spark)
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    try:
        counters = run_counters(spark, 60, 1000, memory)
        found = {row["node"]: row["value"] for row in counters.rows().collect()}
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    assert found == counted_in_python(60, 1000)
    assert max(memory.kept[200:]) <= max(memory.kept[:200])
    assert memory.heap[999] < memory.heap[200] + 40 * 2**20
    counters.release()


def test_counters_equal_those_counted_in_python(spark):
    counters = run_counters(spark, 20, 9)
    found = {row["node"]: row["value"] for row in counters.rows().collect()}
    assert found == counted_in_python(20, 9)
    counters.release()
