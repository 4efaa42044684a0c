"""Bulk-synchronous supersteps over DataFrames: messages, vertex state, and the one loop."""

from scribe_spark.superstep.loop import Finished, Round, Sent, Step, run
from scribe_spark.superstep.table import Table

__all__ = ["Finished", "Round", "Sent", "Step", "Table", "run"]
