"""The settings and jars that the user gave to Spark before this package started."""

from __future__ import annotations

import os
import re
import shlex
from itertools import pairwise
from pathlib import Path

from pyspark import SparkConf, SparkContext

from scribe_spark.runtime.tricks import enabled

#: A line of spark-defaults.conf: a name, then blanks, ``=`` or ``:``, then the value.
_JARS = re.compile(r"^\s*spark\.jars\s*[\s=:]\s*(\S.*?)\s*$", re.M)


def is_submitted() -> bool:
    """Return True if ``spark-submit`` has started this process, with a running JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_settings() -> dict[str, str]:
    """Return the settings of ``spark-submit`` and ``spark-defaults.conf``, by the trick."""
    if not is_submitted() or not enabled("submitted_settings"):
        return {}
    SparkContext._ensure_initialized()  # without a connection, a SparkConf is empty
    return dict(SparkConf().getAll())


def user_jars() -> list[str]:
    """Return the user's jars (PYSPARK_SUBMIT_ARGS, spark-defaults.conf) before the JVM starts."""
    for flag, value in pairwise(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        if flag == "--jars":
            return value.split(",")
        if flag == "--conf" and value.startswith("spark.jars="):
            return value.partition("=")[2].split(",")
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    try:
        found = _JARS.findall(Path(folder, "spark-defaults.conf").read_text(errors="replace"))
    except OSError:
        return []
    return [jar.strip() for jar in found[-1].split(",")] if found else []
