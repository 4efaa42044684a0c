"""Questions to the JVM of a session: its version, and what is on its class path."""

from __future__ import annotations

from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scribe_spark.runtime.sessions import is_connect, usable

#: What Spark raises for what goes wrong in the JVM; not all of it is a PySparkException.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def java_version(spark: SparkSession) -> str | None:
    """The version of the Java that the driver runs on, such as ``17.0.15``.

    None where a Spark Connect server does not tell it.
    """
    try:
        return _java_property(spark, "java.version")
    except PySparkException:
        if is_connect(spark):
            return None
        raise


def java_letters(spark: SparkSession) -> str:
    """The encoding in which the driver's Java names files, such as ``UTF-8``."""
    return _java_property(spark, "sun.jnu.encoding")


def _java_property(spark: SparkSession, name: str) -> str:
    if usable("jvm_questions", spark):
        return str(cast(Any, spark._jvm).System.getProperty(name))
    words = map(F.lit, ("java.lang.System", "getProperty", name))
    return str(spark.range(1).select(F.reflect(*words)).collect()[0][0])


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver can load a class; True where only the public interface may be used.

    There it cannot be known before the class is used.
    """
    if not usable("jvm_questions", spark):
        return True
    loader = cast(Any, spark._jvm).Thread.currentThread().getContextClassLoader()
    # py4j's own errors are not imported: they differ between a missing class and a broken jar
    try:
        loader.loadClass(name)
    except Exception:
        return False
    return True
