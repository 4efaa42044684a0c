"""The engine: plays the steps of protocols over the buckets of the ring, in process or on Spark.

A protocol is a :class:`~scribe_spark.engine.program.Program`: ``step(tables of a bucket, inbox) ->
outbox``.  It knows neither Spark nor how many buckets there are.
"""

from scribe_spark.engine.program import Columns, Inbox, Outbox, Program, Tables

__all__ = ["Columns", "Inbox", "Outbox", "Program", "Tables"]
