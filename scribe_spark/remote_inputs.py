"""Reading a user's table that only Spark can reach."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark.errors import InputError
from scribe_spark.inputs import Kind, check_columns, last_cause
from scribe_spark.runtime.jvm import SPARK_ERRORS

__all__ = ["read_remote", "refuse_unreadable"]


def read_remote(
    spark: SparkSession,
    path: str,
    field: str,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
) -> DataFrame:
    """The named columns of a CSV (with a header) or Parquet table that only Spark can reach.

    Parameters
    ----------
    field, columns, optional
        As in :func:`read_table`.

    Returns
    -------
    DataFrame
        The columns present, in the order of `columns`: BIGINT, DOUBLE and STRING; NULL where a
        value is missing or is no such number.

    Raises
    ------
    InputError
        Missing or unreadable table, missing column.
    """
    name = path.rstrip("/").lower()
    with refuse_unreadable(field, path):
        if name.endswith(_CSV):
            frame = spark.read.csv(path, header=True, ignoreLeadingWhiteSpace=True)
        else:
            frame = spark.read.parquet(path)
        check_columns(frame.columns, field, path, columns, optional)
        present = [name for name in columns if name in frame.columns]
        return frame.select([_remote_column(frame, name, columns[name]) for name in present])


_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".csv.lz4", ".csv.deflate")


def _remote_column(frame: DataFrame, name: str, kind: Kind) -> Column:
    column, fractional = F.col(f"`{name}`"), ("float", "double", "decimal")
    if kind == "str":
        return column.cast("string").alias(name)
    if kind != "float" and dict(frame.dtypes)[name].startswith(fractional):
        column = F.when(column == F.floor(column), column)
    return column.try_cast("double" if kind == "float" else "bigint").alias(name)


@contextmanager
def refuse_unreadable(field: str, path: str) -> Iterator[None]:
    """Within it, what Spark says of a table that it cannot read becomes one line.

    Raises
    ------
    InputError
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if "cancelled" in str(error):  # by Ctrl-C: nothing is known of the table
            raise
        raise InputError(field, path, f"cannot be read by Spark: {last_cause(error)}") from None
