"""Addressing letters: which buckets a letter goes to, and who in a bucket it is for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import offsets_of
from scribe_spark.pastry.arrivals.announcements import told_nodes
from scribe_spark.pastry.arrivals.letters import Content, Letters, lists, said, write_letters
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.leaf_set import LeafSets
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.underlay.protocol import Kernel

__all__ = [
    "addressed",
    "announcement_letters",
    "answer_letters",
    "bucket_of",
    "index_of",
    "leaf_set_letters",
    "no_leaf_sets",
    "no_tables",
    "unfolded",
    "values_at",
]


def bucket_of(node: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each node, by its number."""
    return node % buckets


def index_of(states: States) -> np.ndarray:
    """For each position in `known` the node's index in ``own``; -1 where it is none of them."""
    index = np.full(len(states.known), -1, dtype=np.int64)
    index[states.own] = np.arange(len(states.own))
    return index


def values_at(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of some rows of a ragged array: the row (as a place in `rows`), and where."""
    lengths = np.diff(offsets)[rows]
    row = np.repeat(np.arange(len(rows)), lengths)
    first = offsets_of(lengths)
    return row, offsets[rows][row] + np.arange(first[-1]) - first[row]


def unfolded(letters: Letters, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of some letters each with each node in its ``leaf_set``: the letter, and the position."""
    sets = letters.knowledge.leaf_sets
    row, at = values_at(sets.offsets, some)
    return some[row], sets.leaves[at]


def announcement_letters(
    states: States, kernel: Kernel, buckets: int, with_rows: bool
) -> Iterator[pa.RecordBatch]:
    """What arrived nodes announce: who is told in a bucket, and the rows that these are in."""
    told = told_nodes(states, np.arange(len(states.own)))
    letter, key = addressed(told.arrived, states.known.node[told.to], buckets)
    order = np.argsort(letter, kind="stable")
    leaf_sets = lists(np.bincount(letter, minlength=len(key)), told.to[order])
    tables = no_tables(len(key))
    if with_rows:
        tables = _rows_told(states, key, buckets)
    own, bucket = np.divmod(key, buckets)
    knowledge = said(states.known, states.own[own], leaf_sets, tables, kernel)
    yield from write_letters(knowledge, bucket, Content.ANNOUNCEMENT)


def leaf_set_letters(
    states: States, senders: np.ndarray, kernel: Kernel, buckets: int
) -> Iterator[pa.RecordBatch]:
    """Leaf sets of some nodes, to the buckets that their leaves are in; counts the messages."""
    leaves = states.distinct_leaves(senders)
    sender, _ = np.nonzero(leaves >= 0)
    to = leaves[leaves >= 0].astype(np.int64)
    states.messages[senders, Kind.EXCHANGE] += (leaves >= 0).sum(axis=1)
    _, key = addressed(sender, states.known.node[to], buckets)
    own, bucket = np.divmod(key, buckets)
    full = lists((leaves >= 0).sum(axis=1), to)
    row, at = values_at(full.offsets, own)
    leaf_sets = lists(np.bincount(row, minlength=len(own)), full.leaves[at])
    position = states.own[senders[own]]
    knowledge = said(states.known, position, leaf_sets, no_tables(len(own)), kernel)
    yield from write_letters(knowledge, bucket, Content.LEAF_SET)


def answer_letters(
    states: States, index: np.ndarray, to: np.ndarray, kernel: Kernel, buckets: int
) -> Iterator[pa.RecordBatch]:
    """Leaf sets of nodes, each to one node that sent its own; counts the messages.

    Parameters
    ----------
    index : ndarray of int64, shape (m,)
        Who answers, as an index into ``own``.
    to : ndarray of int64, shape (m,)
        Who is answered, as a position in ``known``.
    """
    states.messages[:, Kind.EXCHANGE] += np.bincount(index, minlength=len(states.own))
    leaves = states.distinct_leaves(index)
    leaf_sets = lists((leaves >= 0).sum(axis=1), leaves[leaves >= 0].astype(np.int64))
    zeros = np.zeros(len(to), dtype=np.int32)
    tables = RoutingTables(np.arange(len(to) + 1), zeros, zeros, to)
    knowledge = said(states.known, states.own[index], leaf_sets, tables, kernel)
    bucket = bucket_of(states.known.node[to], buckets)
    yield from write_letters(knowledge, bucket, Content.ANSWER)


def addressed(
    sender: np.ndarray, receiver: np.ndarray, buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """One letter for each sender and each bucket that it has receivers in.

    Returns
    -------
    letter : ndarray of int64, shape (m,)
        Of each pair of sender and receiver (a node's number), its letter.
    key : ndarray of int64, shape (letters,)
        ``sender * buckets + bucket`` of each letter, ascending.
    """
    keys = sender * buckets + bucket_of(receiver, buckets)
    key, letter = np.unique(keys, return_inverse=True)
    return letter, key


def _rows_told(states: States, key: np.ndarray, buckets: int) -> RoutingTables:
    """Of each letter (``own * buckets + bucket``) the rows that have a node in the bucket."""
    tables, rows = RoutingTables.of_dense(states.cells), states.cells.shape[1]
    # entries by (node, row) are runs; a run goes to every bucket that one of its nodes is in
    run_key, run = np.unique(tables.rows * rows + tables.row, return_inverse=True)
    first = offsets_of(np.bincount(run, minlength=len(run_key)))
    bucket = bucket_of(states.known.node[tables.entry], buckets)
    pairs = np.unique(run * buckets + bucket)
    run, bucket = np.divmod(pairs, buckets)
    letter = np.searchsorted(key, run_key[run] // rows * buckets + bucket)
    order = np.argsort(letter, kind="stable")
    letter, run = letter[order], run[order]
    row, at = values_at(first, run)
    offsets = offsets_of(np.bincount(letter[row], minlength=len(key)))
    return RoutingTables(offsets, tables.row[at], tables.col[at], tables.entry[at])


def no_leaf_sets(n: int) -> LeafSets:
    """Nothing where leaf sets go, in n letters."""
    return lists(np.zeros(n, dtype=np.int64), np.empty(0, dtype=np.int64))


def no_tables(n: int) -> RoutingTables:
    """Nothing where routing tables go, in n letters."""
    nothing = np.empty(0, dtype=np.int32)
    return RoutingTables(
        np.zeros(n + 1, dtype=np.int64), nothing, nothing, nothing.astype(np.int64)
    )
