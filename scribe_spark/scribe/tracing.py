"""Routes as tables: which nodes a message comes by on its way to a root."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.pastry.routing import Application, Overlay
from scribe_spark.progress import Progress
from scribe_spark.superstep import Rounds

__all__ = ["trace"]


class _Tracing(Application):
    """Lets every message pass, which notes how far it has come and from where."""

    remembers = True

    def forward(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        """Count the hop."""
        return messages.withColumns(
            {
                "hop": F.col("hop") + 1,
                "previous": F.col("node"),
                "previous_router": F.col("router"),
            }
        )


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
        A row for each node that a message has been at: its payload, ``node, router, hop`` (0 where
        it starts), and ``previous, previous_router``, the node before (NULL at hop 0).
    """
    nowhere = F.lit(None).cast("bigint")
    started = messages.withColumns(
        {"hop": F.lit(0), "previous": nowhere, "previous_router": nowhere}
    )
    return overlay.route(_Tracing(), started, name=name, progress=progress)
