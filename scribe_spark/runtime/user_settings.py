"""The settings and jars that the user gave Spark before any code of ours ran."""

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
    """Return whether this process was started by ``spark-submit``, whose JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_settings() -> dict[str, str]:
    """The settings that ``spark-submit`` was given, or found in ``spark-defaults.conf``.

    Empty where the process was not started by ``spark-submit``, or the trick of that name is off.
    """
    if not is_submitted() or not enabled("submitted_settings"):
        return {}
    SparkContext._ensure_initialized()  # a SparkConf is empty until there is a connection
    return dict(SparkConf().getAll())


def user_jars() -> list[str]:
    """The jars that the user wants in a session whose JVM is still to be started.

    They come from ``PYSPARK_SUBMIT_ARGS``, else from ``spark-defaults.conf``.
    """
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
