"""Scribe's operations in a world, from Python: they happen in the round that is played next.

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
    """The operations of the next round.

    Each takes a table ``group, node``: who does it, to which of the world's groups.  Credentials
    are the nodes: the group's access list says whether they may, and refuses them where it is
    checked.  What cannot be (a JOIN of a member, a node that is not alive) is refused by
    :meth:`World.step`.

    Examples
    --------
    >>> world.scribe.join(spark.createDataFrame([(1, 17), (1, 18)], "group bigint, node bigint"))
    >>> world.scribe.publish(spark.createDataFrame([(1, 17)], "group bigint, node bigint"))
    >>> world.step()["scribe.publications.sent"]
    """

    def __init__(self) -> None:
        self._asked: list[DataFrame] = []

    def create(self, groups: DataFrame) -> None:
        """Create groups, by nodes that become their creators."""
        self._ask(CREATE, groups)

    def join(self, members: DataFrame) -> None:
        """Nodes become members."""
        self._ask(JOIN, members)

    def leave(self, members: DataFrame) -> None:
        """Members leave."""
        self._ask(QUIT, members)

    def multicast(self, sources: DataFrame) -> None:
        """Each node multicasts a message to the group; it need not be a member."""
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
        """The events of a round and what has been asked for, which is forgotten."""
        asked, self._asked = self._asked, []
        rows = [frame.withColumn("round", F.lit(number).cast("bigint")) for frame in asked]
        together = (one.select("round", "node", "event", "group") for one in rows)
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), together, events)
