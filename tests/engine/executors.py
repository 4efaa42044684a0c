"""A job of two tasks on two executor processes, one of which is killed: run by `test_barrier`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import functions as F

from scribe_spark.config import Execution
from scribe_spark.engine.barrier import play_in_tasks, run_again_where_lost, why_no_tasks
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.session import session

folder = Path(sys.argv[1])


def work(exchange, batches):
    """Swap until the numbers of all rows have come; kill the executor of task 1 once."""
    numbers = [number for batch in batches for number in batch.column("id").to_pylist()]
    for number in range(20):
        if exchange.rank == 1 and number == 10 and not (folder / "killed").exists():
            (folder / "killed").touch()
            daemon = psutil.Process(os.getppid())
            os.kill(daemon.ppid(), signal.SIGKILL)
        parts = {peer: [bytes(300_000)] for peer in range(exchange.size)}
        found, notes = exchange.swap(parts, b"%d" % sum(numbers))
        assert [part.size for part in found.values()] == [300_000] * exchange.size
    (folder / f"{exchange.rank} at {exchange._server.address.host}").touch()
    yield pa.RecordBatch.from_pydict({"sum": [sum(map(int, notes))]})


if __name__ == "__main__":
    spark = session(Execution(out=str(folder / "out"), master="local-cluster[2,1,1024]"), nodes=100)
    print(why_no_tasks(spark, 2), "|", why_no_tasks(spark, 3))
    rows = spark.range(100).withColumn("bucket", (F.col("id") % 2).cast("int"))
    frame = play_in_tasks(rows, 2, work, "sum long")
    table, count = run_again_where_lost(lambda: materialise(frame))
    print([row["sum"] for row in table.collect()], count)
    spark.stop()
