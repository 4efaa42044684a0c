"""Routes as tables: which nodes a message passes on its way to a root."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.overlay import Application, Overlay
from scribe_spark.progress import Progress
from scribe_spark.superstep import Finished, Round, Step, Table

__all__ = ["trace"]


class _Tracing(Application):
    """Every node that a message passes is an outcome; a message counts its hops."""

    def forward(self, state: Mapping[str, Table], messages: DataFrame, round: Round) -> Step:
        """Count the hop."""
        return Step(messages.withColumn("hop", F.col("hop") + 1), outcomes=messages)


def trace(
    overlay: Overlay, messages: DataFrame, name: str, progress: Progress | None = None
) -> Finished:
    """Route messages to their roots and keep every step.

    Parameters
    ----------
    messages : DataFrame
        ``node, key_hi, key_lo`` and payload.

    Returns
    -------
    Finished
        As outcomes a row for each node that a message has been at: its payload, ``node, router``
        and ``hop`` (0 where it starts).
    """
    started = messages.withColumn("hop", F.lit(0))
    return overlay.route(_Tracing(), started, name=name, progress=progress)
