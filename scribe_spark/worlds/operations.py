"""Scribe's operations in a world, called from Python; they happen in the next round.

References
----------
JSAC 2002, Section III: create, join, leave, multicast.  NGC 2001, Section 3, calls groups topics:
create, subscribe, unsubscribe, publish.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.worlds.rows import CREATE, EVENT_NAMES, JOIN, PUBLISH, QUIT


class Operations:
    """The Scribe operations of the next round.

    Each method takes a table ``group, node``: the node performs the operation on one of the world's
    groups.  The access list of a group decides whether a node may do so, and the node that checks
    the list refuses it.  :meth:`World.step` refuses impossible operations, such as a JOIN of a
    member or an operation of a dead node.

    Examples
    --------
    >>> world.scribe.join(spark.createDataFrame([(1, 17), (1, 18)], "group bigint, node bigint"))
    >>> world.scribe.publish(spark.createDataFrame([(1, 17)], "group bigint, node bigint"))
    >>> world.step()["scribe.publications.sent"]
    """

    def __init__(self) -> None:
        self._asked: list[DataFrame] = []

    def create(self, groups: DataFrame) -> None:
        """Create groups; each node becomes the creator of its group."""
        self._ask(CREATE, groups)

    def join(self, members: DataFrame) -> None:
        """Let nodes become members."""
        self._ask(JOIN, members)

    def leave(self, members: DataFrame) -> None:
        """Let members leave."""
        self._ask(QUIT, members)

    def multicast(self, sources: DataFrame) -> None:
        """Let each node multicast a message to its group; it need not be a member."""
        self._ask(PUBLISH, sources)

    subscribe, unsubscribe, publish = join, leave, multicast

    def _ask(self, event: int, pairs: DataFrame) -> None:
        self._asked.append(
            pairs.select(
                F.col("node").cast("bigint").alias("node"),
                F.lit(EVENT_NAMES[event]).alias("event"),
                F.col("group").cast("bigint").alias("group"),
            )
        )

    def added_to(self, events: DataFrame, number: int) -> DataFrame:
        """Return the events of a round and the requested operations, which are cleared."""
        asked, self._asked = self._asked, []
        rows = [frame.withColumn("round", F.lit(number).cast("bigint")) for frame in asked]
        together = (one.select("round", "node", "event", "group") for one in rows)
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), together, events)
