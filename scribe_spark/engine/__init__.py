"""The engine plays protocols superstep by superstep on buckets, in one process or on Spark.

A *bucket* is an interval of the Pastry ring with the tables of its nodes.  A protocol is a
:class:`~scribe_spark.engine.program.Program`: ``step(tables of a bucket, inbox) -> outbox``.  The
protocol does not depend on Spark or on the number of buckets.
"""

from scribe_spark.engine.program import Columns, Inbox, Outbox, Program, Tables

__all__ = ["Columns", "Inbox", "Outbox", "Program", "Tables"]
