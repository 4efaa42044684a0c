"""Bulk-synchronous supersteps over DataFrames: messages, vertex state, and the one loop."""

from scribe_spark.superstep.loop import Finished, run
from scribe_spark.superstep.step import Arrival, Round, Step
from scribe_spark.superstep.table import Table

__all__ = ["Arrival", "Finished", "Round", "Step", "Table", "run"]
