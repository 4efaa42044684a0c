"""What executors see: ``spark-submit probe.py PATH...`` prints a line of JSON for two of them."""

import json
import os
import sys

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

PATHS = sys.argv[1:]


def look(_):
    """What the executor of this task sees."""
    BarrierTaskContext.get().barrier()  # every executor has a task now
    import scribe_spark

    seen = [path for path in PATHS if os.path.exists(path)]
    yield {"folder": os.stat(".").st_ino, "seen": seen, "package": scribe_spark.__file__}


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    executors = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(look).collect()
    print("EXECUTORS " + json.dumps(executors))
    spark.stop()
