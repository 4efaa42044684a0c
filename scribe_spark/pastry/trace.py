"""Routes as tables: which nodes a message comes by on its way to a root."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.overlay import Application, Overlay
from scribe_spark.progress import Progress
from scribe_spark.superstep import Rounds

__all__ = ["trace"]


class _Tracing(Application):
    """Lets every message pass, which notes how far it has come."""

    remembers = True

    def forward(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        """Count the hop."""
        return messages.withColumn("hop", F.col("hop") + 1)


def trace(
    overlay: Overlay, messages: DataFrame, name: str, progress: Progress | None = None
) -> Rounds:
    """Route messages to their roots and keep every step.

    Parameters
    ----------
    messages : DataFrame
        ``node, key_hi, key_lo`` and payload.

    Returns
    -------
    Rounds
        A row for each node that a message has been at: its payload, ``node, router`` and ``hop``
        (0 where it starts).
    """
    started = messages.withColumn("hop", F.lit(0))
    return overlay.route(_Tracing(), started, name=name, progress=progress)
