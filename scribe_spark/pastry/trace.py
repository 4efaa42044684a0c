"""Routes as tables: which nodes a message passes on its way to a root."""

from __future__ import annotations

from scribe_spark.engine import Columns, Tables
from scribe_spark.overlay import Application, Step

__all__ = ["Tracing"]


class Tracing(Application):
    """Every node that a message passes is an outcome, with the message's way so far."""

    independent = True

    def forward(self, tables: Tables, messages: Columns) -> Step:
        """Note the node."""
        return Step(onward=messages, outcomes=messages)
