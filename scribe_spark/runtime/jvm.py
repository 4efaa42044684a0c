"""Queries of a session's JVM: its version and its class path."""

from __future__ import annotations

from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scribe_spark.runtime.sessions import is_connect, usable

#: The exceptions of Spark for errors in the JVM; not all are PySparkExceptions.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def java_version(spark: SparkSession) -> str | None:
    """Return the version of the driver's Java (``17.0.15``), None if a server has no answer."""
    try:
        return _java_property(spark, "java.version")
    except PySparkException:
        if is_connect(spark):
            return None
        raise


def java_letters(spark: SparkSession) -> str:
    """Return the encoding in which the driver's Java names files, such as ``UTF-8``."""
    return _java_property(spark, "sun.jnu.encoding")


def _java_property(spark: SparkSession, name: str) -> str:
    if usable("jvm_questions", spark):
        return str(cast(Any, spark._jvm).System.getProperty(name))
    words = map(F.lit, ("java.lang.System", "getProperty", name))
    return str(spark.range(1).select(F.reflect(*words)).collect()[0][0])


def has_class(spark: SparkSession, name: str) -> bool:
    """Return True if the driver can load a class, or if the public interface cannot tell."""
    if not usable("jvm_questions", spark):
        return True
    loader = cast(Any, spark._jvm).Thread.currentThread().getContextClassLoader()
    # py4j's own errors are not imported: they differ between a missing class and a broken jar
    try:
        loader.loadClass(name)
    except Exception:
        return False
    return True
