"""Arrivals by letters between buckets, carried by hand instead of Spark: equal to one task's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pytest
from arriving import Arrivals, arrivals, as_snapshot, contacts
from oracle.living.compare import differences

from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals import (
    bucket_exchange,
    bucket_introductions,
    bucket_maintenance,
    bucket_steps,
)
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.join_answers import answer_joins, request_letters
from scribe_spark.pastry.arrivals.letters import LETTER, Content, Letters, read_letters
from scribe_spark.pastry.arrivals.one_task import waves
from scribe_spark.pastry.arrivals.routes import route
from scribe_spark.pastry.arrivals.states import States

PARTS = ("live", "leaf_sets", "sides", "cells", "counts")
Rows = list[dict]

_ARROW = {"int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "binary": pa.binary()}
_ARROW["array<bigint>"] = pa.list_(pa.int64())
_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in map(str.split, LETTER.split(", "))])


class ByHand:
    """Letters of a case, carried from step to step."""

    def __init__(self, case: Arrivals, buckets: int) -> None:
        self.case, self.buckets = case, buckets

    def step(self, kernel: Callable, rows: Rows, *more) -> Rows:
        """What a step makes of letters, bucket by bucket."""
        made: Rows = []
        for bucket in range(self.buckets):
            letters = self.read([row for row in rows if row["bucket"] == bucket])
            if letters is not None:
                arguments = (self.case.rules, self.case.kernel, self.buckets, *more)
                made += _rows(kernel(letters, *arguments))
        return made

    def read(self, rows: Rows) -> Letters | None:
        """Letters of one bucket, in any order."""
        order = np.random.default_rng(len(rows)).permutation(len(rows))
        batches = pa.Table.from_pylist([rows[i] for i in order], _SCHEMA).to_batches()
        return read_letters(batches, self.case.kernel)

    def arrive(self, rows: Rows, arriving: list[int], contact: dict[int, int], wave: int) -> Rows:
        """The states after a wave."""
        if wave:
            arrived = self.step(bucket_steps.first_states, self.answers(rows, arriving, contact))
            announced = self.step(bucket_steps.announce, arrived)
            final = self.exchange(rows, arrived, announced)
            leaf_sets = [row | {"content": Content.LEAF_SET} for row in final]
            letters = [*rows, *arrived, *leaf_sets, *announced]
            asked = self.requests(rows, arriving, contact)
            rows = self.step(bucket_steps.take_announcements, letters)
            if self.case.rules.introduce:
                rows = self.introduce(rows, asked, np.array(arriving))
        for time in range(self.case.rules.maintenance):
            rows = self.step(bucket_maintenance.ask_rows, rows, wave, time)
            rows = self.step(bucket_maintenance.answer_rows, rows)
            rows = self.step(bucket_maintenance.take_rows, rows)
        return rows

    def introduce(self, rows: Rows, asked: Rows, arriving: np.ndarray) -> Rows:
        """The introductions."""
        sent = self.step(bucket_introductions.send_wave, [*rows, *asked], arriving)
        told = self.step(bucket_introductions.learn_of_wave, [*rows, *sent], arriving)
        return self.step(bucket_introductions.take_introduced, told)

    def exchange(self, old: Rows, arrived: Rows, announced: Rows) -> Rows:
        """The rounds of the exchange."""
        nothing = {"routing_table": b""}
        letters = [row | nothing for row in [*old, *arrived, *announced]]
        while True:
            sent = self.step(bucket_exchange.send_leaf_sets, letters)
            letters = self.step(bucket_exchange.take_leaf_sets, sent)
            if not any(row["sends"] or row["content"] == Content.ANSWER for row in letters):
                return letters

    def answers(self, rows: Rows, arriving: list[int], contact: dict[int, int]) -> Rows:
        """The answers to join messages."""
        asked = self.requests(rows, arriving, contact)
        return self.step(answer_joins, [*rows, *asked])

    def requests(self, rows: Rows, arriving: list[int], contact: dict[int, int]) -> Rows:
        """Join messages, routed in the states that the letters are."""
        known, number = self.case.known, self.case.known.node
        place = np.argsort(number)
        states = States.empty(
            known, np.arange(len(known)), self.case.rules.leaf_set, self.case.rules.b
        )
        letters = self.read(rows)
        assert letters is not None
        own = letters.states(np.arange(len(rows)), self.case.rules.leaf_set, self.case.rules.b)
        at = place[own.known.node]
        here = at[own.own]
        states.leaves[here] = np.where(own.leaves >= 0, at[own.leaves], -1)
        depth = own.cells.shape[1]
        states.cells[here, :depth] = np.where(own.cells >= 0, at[own.cells], -1)
        keys = place[np.array(arriving)]
        start, ids = place[[contact[n] for n in arriving]], Keys.of_nodes(known, keys)
        routes = route(states, lambda position: position >= 0, start, ids).path
        with_ids = Ring(known.hi, known.lo, number, self.case.kernel.ids(known.router))
        return _rows(request_letters(with_ids, routes, keys, self.case.rules, self.buckets))


def _rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("seed", "introduce"),
    [
        *((seed, introduce) for seed in range(18) for introduce in (False, True)),
        *(pytest.param(seed, False, marks=pytest.mark.slow) for seed in range(18, 48)),
        *(pytest.param(seed, True, marks=pytest.mark.slow) for seed in range(18, 24)),
    ],
)
def test_buckets_know_after_every_wave_what_one_task_knows(seed: int, introduce: bool) -> None:
    given = {"introduce": True, "growth": [1.5, 2, 4][seed % 3]} if introduce else {}
    case = arrivals(seed, most=20, contact=["nearest", "random"][seed % 2], **given)
    by_hand = ByHand(case, buckets=1 + seed % 4)
    known = case.known
    wave, rank = case.wave[known.node], case.rank[known.node]
    at = contacts(case)
    contact = {int(n): int(known.node[at[place]]) for place, n in enumerate(known.node)}
    rows: Rows = []
    for done in waves(known, wave, rank, at, case.rules, case.kernel):
        arriving = case.arriving(done.number)
        if done.number == 0:
            first = np.flatnonzero(wave == 0)
            states = States.empty(known, first, case.rules.leaf_set, case.rules.b)
            rows = _rows(bucket_steps.state_letters(states, case.kernel, by_hand.buckets))
        rows = by_hand.arrive(rows, arriving, contact, done.number)
        letters = by_hand.read(rows)
        assert letters is not None
        states = letters.states(np.arange(len(rows)), case.rules.leaf_set, case.rules.b)
        ours = as_snapshot(states, np.arange(len(rows)))
        theirs = as_snapshot(done.states, done.live)
        assert differences(ours, theirs, PARTS) == []
