"""Routes as tables: which nodes a message passes on its way to a root."""

from __future__ import annotations

from pyspark.sql import DataFrame

from scribe_spark.engine import Columns, Tables
from scribe_spark.overlay import Application, Overlay, Routed, Step
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.progress import Progress

__all__ = ["Tracing", "trace"]


class Tracing(Application):
    """Every node that a message passes is an outcome."""

    independent = True

    def forward(self, tables: Tables, messages: Columns) -> Step:
        """Note the node."""
        return Step(onward=messages, outcomes=messages)


def trace(
    overlay: Overlay,
    messages: DataFrame,
    name: str = "trace",
    progress: Progress | None = None,
    rule: NextHop | None = None,
) -> Routed:
    """Route messages to their roots and keep every step.

    Parameters
    ----------
    messages : DataFrame
        ``node, key_hi, key_lo`` and payload.
    rule : NextHop, optional
        Another rule of routing than the overlay's.

    Returns
    -------
    Routed
        As outcomes a row for each node that a message has been at, with its way so far (``hops`` is
        0 where it starts).
    """
    return overlay.route(Tracing(), messages, name=name, progress=progress, rule=rule)
