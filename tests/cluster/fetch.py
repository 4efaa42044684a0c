"""Fetch the jars that the tests of real storage need: ``python tests/cluster/fetch.py FOLDER``.

Spark's own Ivy does it, as ``spark-submit --packages`` does for a user.  HDFS and the S3 client
each get an Ivy folder of their own below FOLDER, because the tests put all jars of the first on one
class path and name the second in ``spark.jars.ivy``.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent

#: Seconds: the largest jar, that of the AWS SDK, has 640 MB.
PATIENCE = 1800


def hadoop_version() -> str:
    """The version of Hadoop's client that comes with PySpark."""
    (jar,) = SPARK_HOME.glob("jars/hadoop-client-api-*.jar")
    return re.sub(r"^hadoop-client-api-", "", jar.stem)


def hdfs() -> str:
    """HDFS, name node and data nodes, as one library."""
    return f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}"


def s3a() -> str:
    """The file system ``s3a``; its AWS SDK comes with it."""
    return f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"


def fetch(coordinates: str, folder: Path) -> None:
    """Fetch an artifact and what it needs; ``folder/jars`` has these jars alone afterwards."""
    shutil.rmtree(folder / "jars", ignore_errors=True)
    subprocess.run(
        [
            str(SPARK_HOME / "bin" / "spark-submit"),
            *("--packages", coordinates),
            *("--conf", f"spark.jars.ivy={folder}"),
            # something that is on Spark's class path and does nothing
            *("--class", "org.apache.hadoop.util.VersionInfo", "spark-internal"),
        ],
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
        stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE,
    )  # fmt: skip


if __name__ == "__main__":
    root = Path(sys.argv[1]).absolute()
    fetch(hdfs(), root / "hdfs")
    fetch(s3a(), root / "s3a")
