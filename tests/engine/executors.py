"""A job of two tasks on two executor processes, one of which is killed: run by `test_barrier`."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import psutil
from pyspark.sql import functions as F

from scribe_spark.config import Execution
from scribe_spark.engine.barrier import run_in_tasks, why_no_tasks
from scribe_spark.engine.packing import pack_rows, read_rows
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
    found = {"sum": np.array([sum(map(int, notes))])}
    yield from pack_rows(exchange.rank, exchange.rank, True, "found", found)


if __name__ == "__main__":
    spark = session(Execution(out=str(folder / "out"), master="local-cluster[2,1,1024]"), nodes=100)
    print(why_no_tasks(spark, 2), "|", why_no_tasks(spark, 3))
    rows = spark.range(100).withColumn("bucket", (F.col("id") % 2).cast("int"))
    table, listed = run_in_tasks(rows, 2, work, ["name"])
    found = read_rows(table.toArrow().to_batches())
    print([int(row.read()["sum"][0]) for row in found], len(listed))
    spark.stop()
