"""Routing table maintenance in buckets: questions, answers, and what is taken of them.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import offsets_of
from scribe_spark.pastry.arrivals.bucket_steps import Step, state_letters
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.letters import Content, Letters, said, write_letters
from scribe_spark.pastry.arrivals.maintenance import maintenance_draws, questions
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.post import bucket_of, index_of, no_leaf_sets
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.underlay.protocol import Kernel

__all__ = ["answer_rows", "ask_rows", "take_rows"]


def ask_rows(
    letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int, wave: int, time: int
) -> Step:
    """Each node asks a drawn entry of each row: one letter for each question."""
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    number = states.known.node[states.own]
    drawn = maintenance_draws(rules.seed, wave, time, states.cells.shape[1], number)
    asked = questions(states, np.arange(len(number)), drawn)
    states.messages[:, Kind.MAINTENANCE] += 2 * (asked >= 0).sum(axis=1)
    node, row = np.nonzero(asked >= 0)
    to = asked[node, row]
    zeros = np.zeros(len(to), dtype=np.int32)
    tables = RoutingTables(np.arange(len(to) + 1), row.astype(np.int32), zeros, to)
    knowledge = said(states.known, states.own[node], no_leaf_sets(len(to)), tables, kernel)
    bucket = bucket_of(states.known.node[to], buckets)
    yield from write_letters(knowledge, bucket, Content.QUESTION)
    yield from state_letters(states, kernel, buckets)


def answer_rows(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Each node answers those that ask it: the row as it is, under the name of who asked."""
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    asking, tables = letters.index(Content.QUESTION), letters.knowledge.routing_tables
    question = tables.offsets[asking]  # the only entry of its table
    row, asker = tables.row[question], letters.knowledge.own[asking]
    answer = states.cells[index_of(states)[tables.entry[question]], row]
    at, column = np.nonzero(answer >= 0)
    lengths = np.bincount(at, minlength=len(asking))
    entries = answer[at, column].astype(np.int64)
    rows = RoutingTables(offsets_of(lengths), row[at], column.astype(np.int32), entries)
    knowledge = said(states.known, asker, no_leaf_sets(len(asker)), rows, kernel)
    bucket = bucket_of(states.known.node[asker], buckets)
    yield from write_letters(knowledge, bucket, Content.ROWS)
    yield from state_letters(states, kernel, buckets)


def take_rows(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Each node takes what is nearer than what it has, or missing, of the rows that it got."""
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    knowledge, tables = letters.knowledge, letters.knowledge.routing_tables
    mine = (letters.content == Content.ROWS)[tables.rows]
    index = index_of(states)[knowledge.own[tables.rows[mine]]]
    take_cells(states, kernel, index, tables.entry[mine])
    yield from state_letters(states, kernel, buckets)
