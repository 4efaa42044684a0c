"""A session that refuses what Databricks documents that its serverless compute refuses.

Of a Connect server that would do all of it: the client's calls are answered as those are.
"""

from typing import Any, NoReturn

from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

from scribe_spark.runtime.sessions import Connected

#: The SQL settings that clients may set there.
SETTINGS = {
    "spark.sql.ansi.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.session.timeZone",
    "spark.sql.files.maxPartitionBytes",
}


def refuse() -> None:
    """From now on nothing is cached or checkpointed, few settings are set, no file is brought.

    And tasks see no folder of this machine but the one that is named.
    """
    for name in ("persist", "cache", "checkpoint", "localCheckpoint"):
        setattr(DataFrame, name, _refused(name))
    set_any, unset_any = RuntimeConf.set, RuntimeConf.unset

    def set_some(self: RuntimeConf, key: str, value: Any) -> None:
        _check(key)
        set_any(self, key, value)

    def unset_some(self: RuntimeConf, key: str) -> None:
        _check(key)
        unset_any(self, key)

    RuntimeConf.set, RuntimeConf.unset = set_some, unset_some  # type: ignore[method-assign]
    SparkSession.addArtifacts = _refused("addArtifacts")  # type: ignore[method-assign]
    Connected.shares_disk = property(lambda self: False)  # type: ignore[assignment]


def _refused(name: str) -> Any:
    def call(*given: Any, **named: Any) -> NoReturn:
        raise UnsupportedOperationException(f"{name} is not supported on serverless compute")

    return call


def _check(key: str) -> None:
    if key not in SETTINGS:
        raise PySparkException(f"Configuration {key} is not available")
