"""Introductions in buckets: nodes on routes send, nodes of the wave learn and tell.

The steps are those of :mod:`scribe_spark.pastry.arrivals.introductions`.  Each is given the wave:
the numbers of its nodes in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import offsets_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.bucket_steps import Step, state_letters
from scribe_spark.pastry.arrivals.cell_offers import cells_of, take_cells
from scribe_spark.pastry.arrivals.introductions import (
    LATER,
    Introduced,
    is_earlier,
    learn,
    rows_told,
)
from scribe_spark.pastry.arrivals.join_answers import rows_asked_for
from scribe_spark.pastry.arrivals.letters import Content, Letters, lists, said, write_letters
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.post import (
    addressed,
    bucket_of,
    index_of,
    no_leaf_sets,
    no_tables,
    unfolded,
)
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.underlay.protocol import Kernel

__all__ = ["learn_of_wave", "send_wave", "take_introduced"]

_AT_ONCE = 2**13  # letters that are unfolded at once


def send_wave(
    letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int, wave: np.ndarray
) -> Step:
    """Nodes on routes are asked for rows again; they send who is of the wave and came earlier.

    Questions are those of join messages.  Who has nobody to send sends no letter.
    """
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    own = letters.knowledge.own[letters.index(Content.QUESTION)]
    question, row, entries = rows_asked_for(letters, states)
    earlier = is_earlier(_places(states.known, wave), entries, own[question])
    one, column = np.nonzero(earlier)
    answers, length = np.unique(question[one], return_counts=True)
    tables = RoutingTables(
        offsets_of(length),
        row[one].astype(np.int32),
        column.astype(np.int32),
        entries[one, column].astype(np.int64),
    )
    knowledge = said(states.known, own[answers], no_leaf_sets(len(answers)), tables, kernel)
    bucket = bucket_of(states.known.node[own[answers]], buckets)
    yield from write_letters(knowledge, bucket, Content.ROWS)


def learn_of_wave(
    letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int, wave: np.ndarray
) -> Step:
    """The nodes of the wave take whom they are sent, and tell who is new to them."""
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    knowledge, tables = letters.knowledge, letters.knowledge.routing_tables
    place, index = _places(states.known, wave), index_of(states)
    arrived = np.flatnonzero(place[states.own] < LATER)
    answers = letters.index(Content.ROWS)
    sent = np.bincount(index[knowledge.own[answers]], minlength=len(states.own))
    mine = (letters.content == Content.ROWS)[tables.rows]
    receiver = index[knowledge.own[tables.rows[mine]]]
    introduced = learn(states, kernel, arrived, place, receiver, tables.entry[mine])
    told = np.bincount(arrived[introduced.arrived], minlength=len(states.own))
    states.messages[:, Kind.INTRODUCTION] += sent + told
    yield from _introduction_letters(states, arrived, introduced, kernel, buckets, rules.announce)
    yield from state_letters(states, kernel, buckets)


def take_introduced(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Who is told takes the nodes that tell of themselves, and of the rows that it is in."""
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    known, index = letters.knowledge.own, index_of(states)
    introductions = letters.index(Content.ANNOUNCEMENT)
    for start in range(0, len(introductions), _AT_ONCE):
        some = introductions[start : start + _AT_ONCE]
        letter, to = unfolded(letters, some)
        take_cells(states, kernel, index[to], known[letter])
        senders = letters.states(some, rules.leaf_set, rules.b, with_leaves=False)
        sender = np.searchsorted(some, letter)
        row, column = np.divmod(cells_of(senders, sender, to), 2**rules.b)
        new = senders.cells[sender, row, column] == to
        for receiver, position, cell in rows_told(senders.cells, sender[new], to[new], row[new]):
            take_cells(states, kernel, index[receiver], position, cell)
    yield from state_letters(states, kernel, buckets)


def _places(known: Ring, wave: np.ndarray) -> np.ndarray:
    """The place of each known node in a wave (numbers of nodes); `LATER` for all others."""
    order = np.argsort(wave)
    at = order[np.minimum(np.searchsorted(wave, known.node, sorter=order), len(wave) - 1)]
    return np.where(wave[at] == known.node, at, LATER)


def _introduction_letters(
    states: States,
    arrived: np.ndarray,
    introduced: Introduced,
    kernel: Kernel,
    buckets: int,
    announce: str,
) -> Iterator[pa.RecordBatch]:
    """Letters to those that are told: with rows to whom is new, without to other leaves.

    ``leaf_set`` is who is told in a bucket, ``routing_table`` the rows that they are in.
    """
    is_new = introduced.row >= 0
    for some, with_rows in ((is_new, announce == "row"), (~is_new, False)):
        to, row = introduced.to[some], introduced.row[some]
        letter, key = addressed(introduced.arrived[some], states.known.node[to], buckets)
        own, bucket = np.divmod(key, buckets)
        order = np.argsort(letter, kind="stable")
        leaf_sets = lists(np.bincount(letter, minlength=len(key)), to[order])
        tables = no_tables(len(key))
        if with_rows:
            tables = _rows_of(states, arrived[own], letter, row)
        knowledge = said(states.known, states.own[arrived[own]], leaf_sets, tables, kernel)
        yield from write_letters(knowledge, bucket, Content.ANNOUNCEMENT)


def _rows_of(
    states: States, sender: np.ndarray, letter: np.ndarray, row: np.ndarray
) -> RoutingTables:
    """Some rows of senders' tables, one list for each letter; a row may be named more than once.

    Parameters
    ----------
    sender : ndarray of int64, shape (letters,)
        Indices into `States.own`.
    letter, row : ndarray of int64, shape (m,)
    """
    depth = states.cells.shape[1]
    of, place = np.divmod(np.unique(letter * depth + row), depth)
    entries = states.cells[sender[of], place]
    run, column = np.nonzero(entries >= 0)
    return RoutingTables(
        offsets_of(np.bincount(of[run], minlength=len(sender))),
        place[run].astype(np.int32),
        column.astype(np.int32),
        entries[run, column].astype(np.int64),
    )
