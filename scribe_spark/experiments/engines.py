"""The engine of a world's rounds: tasks that keep their buckets, or jobs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.errors import InputError


@dataclass(frozen=True)
class Engine:
    """An engine, and the reason for its choice.

    Attributes
    ----------
    name : str
        ``tasks`` or ``jobs``.
    why : str
        The reason.
    """

    name: str
    why: str

    def in_words(self) -> str:
        """Return a line for the log."""
        return f"rounds: in {self.name} ({self.why})"

    def record(self) -> dict[str, str]:
        """Return the entry of the manifest."""
        return asdict(self)


def engine_of(asked: str, spark: SparkSession, buckets: int) -> Engine:
    """Return the engine of a world's rounds.

    Parameters
    ----------
    asked : str
        The setting: ``auto``, ``tasks`` or ``jobs``.
    spark : SparkSession
        The session.
    buckets : int
        The number of buckets, which is the number of tasks that must stay.

    Raises
    ------
    InputError
        The setting is ``tasks``, and tasks cannot stay.
    """
    if asked == "jobs":
        return Engine("jobs", "as asked for")
    reason = why_no_tasks(spark, buckets)
    if reason is None:
        why = "all nodes are in one bucket" if buckets == 1 else f"{buckets} tasks can stay"
        return Engine("tasks", "as asked for" if asked == "tasks" else why)
    if asked == "tasks":
        raise InputError(
            "engine", asked, f"cannot be used: {reason}; give jobs, or another number of buckets"
        )
    return Engine("jobs", reason)
