"""A tree of hosts that come and go: every host's neighbours as state, reconfigured by rounds.

A round is a superstep: the hosts with a notice find their neighbours by the hash table, and send
notices to those that are neighbours now and were not before, or the other way round.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import (
    ASK,
    CHILD,
    PLACE,
    keysets_and_places,
)
from scribe_spark.reference_tree.bucket_steps import (
    cut_ring,
    each_bucket,
    keysets_of,
    search,
)
from scribe_spark.reference_tree.buckets import Buckets
from scribe_spark.reference_tree.places import put_together
from scribe_spark.reference_tree.rings import CHORD
from scribe_spark.reference_tree.rows import SEARCH_ROWS
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import materialise, release, union_tables
from scribe_spark.superstep import Round, Step, Table
from scribe_spark.superstep.table import REMOVED

__all__ = ["HostTree", "ReconfigurationRound"]


@dataclass(frozen=True)
class ReconfigurationRound:
    """A round of a reconfiguration.

    Attributes
    ----------
    hosts : int
        Hosts that computed their neighbours anew.
    notices : int
        Notices that they sent.
    parent_lookups, child_lookups : int
        Keys that they asked for.
    """

    hosts: int
    notices: int
    parent_lookups: int
    child_lookups: int


@dataclass(frozen=True)
class _Ring:
    """The hash table: `hosts` has ``node, id_hi, id_lo``, `places` the topmost keys."""

    hosts: DataFrame
    buckets: Buckets
    found: DataFrame

    @property
    def places(self) -> DataFrame:
        """``node, bucket, topmost_hi, topmost_lo`` of all hosts."""
        rows = self.found.where(F.col("what") == PLACE)
        return rows.select("node", "bucket", "topmost_hi", "topmost_lo")

    def release(self) -> None:
        release(self.hosts)
        release(self.found)


class HostTree:
    """The tree of one network, and what its hosts know of one another.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``: the hosts at the start; their tree is computed from nothing.
    bits, children, assignment, buckets
        As of :func:`.places.places`.
    progress : Progress, optional

    Raises
    ------
    InputError
        As :func:`.places.places`.
    """

    def __init__(
        self,
        nodes: DataFrame,
        *,
        bits: int = 128,
        children: int = 2,
        assignment: str = CHORD,
        buckets: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._tree, self._assignment = ReferenceTree(bits, children), assignment
        self._buckets, self._progress = buckets, progress
        self._neighbours = Table(["node"], ["neighbours"])
        self._ring = self._ring_of(nodes)
        everyone = self._ring.places.select("node")
        self._play(everyone, None).release()

    @property
    def neighbours(self) -> DataFrame:
        """``node, neighbours``: the neighbours of every host, ascending."""
        rows = self._neighbours.rows()
        assert rows is not None
        return rows

    def release(self) -> None:
        """Free the memory of the state."""
        self._neighbours.release()
        self._ring.release()

    def change(
        self, joined: DataFrame | None = None, gone: DataFrame | None = None
    ) -> list[ReconfigurationRound]:
        """Hosts come and go, all at once; then rounds until no notice is sent.

        Parameters
        ----------
        joined : DataFrame, optional
            ``node, id_hi, id_lo`` of hosts that join.
        gone : DataFrame, optional
            ``node`` of hosts that leave or have failed.

        Returns
        -------
        list of ReconfigurationRound
        """
        before, hosts = self._ring, self._ring.hosts
        if gone is not None:
            hosts = hosts.join(gone.select("node"), "node", "left_anti")
        if joined is not None:
            hosts = hosts.unionByName(joined.select(hosts.columns))
        after = self._ring_of(hosts)
        first, _ = materialise(self._first(before, after, joined, gone))
        self._ring = after
        found = self._play(first, gone)
        release(first)
        before.release()
        rounds = _rounds(found.outcomes())
        found.release()
        return rounds

    def _ring_of(self, nodes: DataFrame) -> _Ring:
        hosts, _ = materialise(nodes.select("node", "id_hi", "id_lo"))
        cut, by_bucket = cut_ring(hosts, self._tree, self._assignment, self._buckets)
        found, _ = materialise(each_bucket(by_bucket, cut, keysets_and_places))
        return _Ring(hosts, replace(cut, name_children=True), found)

    def _first(
        self, before: _Ring, after: _Ring, joined: DataFrame | None, gone: DataFrame | None
    ) -> DataFrame:
        """``node``: who computes in round 0.

        Hosts that joined, neighbours of those that are gone, hosts with another topmost key.
        """
        old = before.places.select(
            "node", F.col("topmost_hi").alias("old_hi"), F.col("topmost_lo").alias("old_lo")
        )
        other = (F.col("topmost_hi") != F.col("old_hi")) | (F.col("topmost_lo") != F.col("old_lo"))
        first = [after.places.join(old, "node", "inner").where(other).select("node")]
        if joined is not None:
            first.append(joined.select("node"))
        if gone is not None:
            left = self.neighbours.join(gone.select("node"), "node", "left_semi")
            first.append(left.select(F.explode("neighbours").alias("node")))
        return union_tables(first).distinct()

    def _play(self, first: DataFrame, gone: DataFrame | None) -> superstep.Finished:
        """The rounds; outcomes are ``round, hosts, notices, parent_lookups, child_lookups``."""
        ring = self._ring
        keysets, places = keysets_of(ring.found), ring.places.select("node", "bucket")
        none = F.array().cast("array<bigint>")

        def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
            # 1. who computes anew: hosts that are there, once for any number of notices
            computing = inbox.distinct().join(places, "node", "inner")
            finished = search(ring.buckets, keysets, _asks(computing), self._progress)
            # 2. what they find, and what they knew
            rows = finished.outcomes()
            assert rows is not None
            known = state["neighbours"].at(computing.select("node").repartition("node"), ["node"])
            found = _found(rows)
            if known is None:
                known = found.select("node", none.alias("neighbours")).limit(0)
            known = known.withColumnRenamed("neighbours", "old")
            both, _ = materialise(
                found.repartition("node")
                .join(known, "node", "left")
                .withColumn("old", F.coalesce("old", none))
            )
            finished.release()
            # 3. notices to those in one of both
            new, old = F.col("neighbours"), F.col("old")
            different = F.concat(F.array_except(new, old), F.array_except(old, new))
            told = both.select(F.explode(different).alias("node"))
            told = told.join(places.select("node"), "node", "left_semi")
            changes = both.select("node", "neighbours", F.lit(False).alias(REMOVED))
            if gone is not None and round.number == 0:
                removed = gone.select("node", none.alias("neighbours"), F.lit(True).alias(REMOVED))
                changes = changes.unionByName(removed).repartition("node")
            sums = [F.sum(name).alias(name) for name in ("parent_lookups", "child_lookups")]
            outcome = both.agg(F.count("*").alias("hosts"), *sums)
            # (a round's messages are the notices of the round before)
            numbers = {"round": round.number, "messages": round.messages}
            sent = outcome.select(
                *[F.lit(value).cast("bigint").alias(name) for name, value in numbers.items()], "*"
            )
            return Step(
                None if first_build else told.repartition("node"),
                {"neighbours": changes},
                sent,
                temporary=[both],
            )

        first_build = self._neighbours.rows() is None
        return superstep.run(
            "reconfiguration",
            first.select("node").repartition("node"),
            step,
            state={"neighbours": self._neighbours},
            progress=self._progress,
        )


def _asks(computing: DataFrame) -> DataFrame:
    """Rows of `rows.SEARCH_ROWS` that make hosts search; `computing` has ``node, bucket``."""
    cells = {"what": F.lit(ASK).cast("int"), "bucket": F.col("bucket"), "node": F.col("node")}
    columns = [
        cells.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name)
        for field in SEARCH_ROWS.fields
    ]
    return computing.select(*columns)


def _found(rows: DataFrame) -> DataFrame:
    """``node, neighbours, parent_lookups, child_lookups`` of hosts whose searches have ended."""
    places = put_together(rows)
    of_each = rows.where(F.col("what") == CHILD).groupBy("node")
    children = of_each.agg(F.collect_list("child").alias("children"))
    both = places.join(children, "node", "left")
    everyone = F.concat(F.coalesce("children", F.array().cast("array<bigint>")), F.array("parent"))
    neighbours = F.array_sort(F.filter(everyone, lambda one: one.isNotNull()))
    return both.select("node", neighbours.alias("neighbours"), "parent_lookups", "child_lookups")


def _rounds(outcomes: DataFrame | None) -> list[ReconfigurationRound]:
    rows = [] if outcomes is None else sorted(outcomes.collect(), key=lambda row: row["round"])
    notices = [row["messages"] for row in rows[1:]] + [0]
    return [
        ReconfigurationRound(
            row["hosts"], sent, row["parent_lookups"] or 0, row["child_lookups"] or 0
        )
        for row, sent in zip(rows, notices, strict=True)
    ]
