"""Bulk-synchronous supersteps over DataFrames: messages, vertex state, and the one loop."""

from scribe_spark.superstep.loop import Arrival, Finished, Round, Step, run
from scribe_spark.superstep.table import Table

__all__ = ["Arrival", "Finished", "Round", "Step", "Table", "run"]
