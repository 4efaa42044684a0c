"""A wave as supersteps on Spark: letters travel between buckets, kernels read and write them.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.pastry.arrivals.bucket_exchange import send_leaf_sets, take_leaf_sets
from scribe_spark.pastry.arrivals.bucket_introductions import (
    learn_of_wave,
    send_wave,
    take_introduced,
)
from scribe_spark.pastry.arrivals.bucket_maintenance import answer_rows, ask_rows, take_rows
from scribe_spark.pastry.arrivals.bucket_steps import announce, first_states, take_announcements
from scribe_spark.pastry.arrivals.join_answers import answer_joins
from scribe_spark.pastry.arrivals.join_messages import requests, route_joins
from scribe_spark.pastry.arrivals.letters import LETTER, Content, read_letters
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import describe_jobs, materialise, release, union_tables
from scribe_spark.superstep import Finished, Round, Step, Table
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Buckets"]


class Buckets:
    """The steps of a wave, each a DataFrame of letters to a DataFrame of letters.

    Parameters
    ----------
    rules : ArrivalRules
    kernel : Kernel
        Of the underlay.
    count : int
        How many buckets; results do not depend on it.
    progress : Progress, optional
    """

    def __init__(
        self, rules: ArrivalRules, kernel: Kernel, count: int, progress: Progress | None = None
    ) -> None:
        self.rules, self.kernel, self.count, self.progress = rules, kernel, count, progress

    def step(self, kernel: Callable, letters: DataFrame, *more: int | np.ndarray) -> DataFrame:
        """What a kernel makes of the letters of each bucket."""
        rules, underlay, buckets = self.rules, self.kernel, self.count

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            arrived = read_letters(batches, underlay)
            if arrived is not None:
                yield from kernel(arrived, rules, underlay, buckets, *more)

        return letters.repartitionById(buckets, F.col("bucket")).mapInArrow(run, LETTER)

    def arrive(self, overlay: PastryOverlay, states: DataFrame, arriving: DataFrame) -> DataFrame:
        """The states after a wave, materialised.

        Parameters
        ----------
        overlay : PastryOverlay
            The nodes before the wave, laid out for routing.
        states : DataFrame
            :data:`LETTER`: their states.
        arriving : DataFrame
            ``node, id_hi, id_lo, router, rank, contact``.
        """
        # 1. join messages are routed and answered
        routed = route_joins(overlay, arriving, self.progress)
        asked = requests(_rows(routed), self.kernel, self.rules, self.count)
        answered = self.step(answer_joins, union_tables([states, asked]))
        arrived, _ = materialise(self.step(first_states, answered))
        # 2. announcements reach leaf sets, which are exchanged until nothing changes
        announced = self.step(announce, arrived)
        exchanged = self.exchange(union_tables([states, arrived, announced]))
        # 3. and routing tables
        final = _rows(exchanged).withColumn("content", _content(Content.LEAF_SET))
        tables = _without(union_tables([states, arrived]), "leaf_set")
        after, _ = materialise(
            self.step(take_announcements, union_tables([tables, final, announced]))
        )
        exchanged.release()
        release(arrived)
        # 4. the nodes of the wave are introduced to one another
        if self.rules.introduce:
            after = self.introduce(after, routed, arriving)
        routed.release()
        return after

    def introduce(self, states: DataFrame, routed: Finished, arriving: DataFrame) -> DataFrame:
        """The states after the introductions of a wave, materialised; `states` is released.

        Parameters
        ----------
        routed : Finished
            The join messages of the wave.
        """
        order = arriving.select("node", "rank").toArrow().sort_by("rank")
        wave = order.column("node").to_numpy()
        asked = requests(_rows(routed), self.kernel, self.rules, self.count)
        sent = self.step(send_wave, union_tables([states, asked]), wave)
        told = self.step(learn_of_wave, union_tables([states, sent]), wave)
        after, _ = materialise(self.step(take_introduced, told))
        release(states)
        return after

    def exchange(self, letters: DataFrame) -> Finished:
        """Leaf set exchange, a round a superstep; the outcomes are states without tables."""

        def one_round(letters: DataFrame) -> DataFrame:
            return self.step(take_leaf_sets, self.step(send_leaf_sets, letters))

        def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
            if round.counts["sends"] or round.counts["answers"]:
                return Step(outbox=one_round(inbox))
            return Step(outcomes=inbox)

        answering = F.col("content") == _content(Content.ANSWER)
        return superstep.run(
            "leaf set exchange",
            one_round(_without(letters, "routing_table")),
            step,
            counts={"sends": F.col("sends"), "answers": answering},
            progress=self.progress,
        )

    def maintain(self, states: DataFrame, wave: int) -> DataFrame:
        """The states after the routing table maintenance of a wave, materialised.

        `states` is released where another table takes its place.
        """
        for time in range(self.rules.maintenance):
            asked = self.step(answer_rows, self.step(ask_rows, states, wave, time))
            with describe_jobs(states.sparkSession.sparkContext, f"wave {wave} maintenance"):
                after, _ = materialise(self.step(take_rows, asked))
            release(states)
            states = after
        return states


def _rows(finished: Finished) -> DataFrame:
    """The outcomes of a loop that always has some."""
    outcomes = finished.outcomes()
    assert outcomes is not None
    return outcomes


def _content(content: Content) -> Column:
    return F.lit(int(content)).cast("int")


def _without(letters: DataFrame, lists: str) -> DataFrame:
    """Letters with nothing in their column `lists`."""
    return letters.withColumn(lists, F.lit(bytearray()))
