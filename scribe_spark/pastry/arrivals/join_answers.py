"""What the nodes on the route of a join message are asked for, and what they answer.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import offsets_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.bucket_steps import Step
from scribe_spark.pastry.arrivals.first_states import rows_supplied
from scribe_spark.pastry.arrivals.letters import Content, Letters, lists, said, write_letters
from scribe_spark.pastry.arrivals.post import bucket_of, index_of, no_leaf_sets
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.underlay.protocol import Kernel

__all__ = ["answer_joins", "request_letters", "rows_asked_for"]


def request_letters(
    known: Ring, routes: np.ndarray, arriving: np.ndarray, rules: ArrivalRules, buckets: int
) -> Iterator[pa.RecordBatch]:
    """A letter to each node on each route.

    It is from the arriving node; the only entry of its table is the receiver, at the first row and,
    for a column, the last row that it is asked for; ``sends`` asks for the leaf set, too.

    Parameters
    ----------
    known : Ring
        Nodes with router ids, in any order.
    routes : ndarray of int64, shape (longest route, w)
        Positions in `known` of the nodes on each route, -1 after its end.
    arriving : ndarray of int64, shape (w,)
        Positions in `known`.
    """
    present = routes >= 0
    node, key = known.take(routes), known.take(arriving)
    shared = ids.shared_digits_np(node.hi, node.lo, key.hi, key.lo, rules.b)
    first = rows_supplied(shared, present, rows=rules.rows)
    is_last = present.copy()
    is_last[:-1] &= ~present[1:]
    receiver, message = routes[present], np.nonzero(present)[1]
    tables = RoutingTables(
        np.arange(len(receiver) + 1),
        first[present].astype(np.int32),
        shared[present].astype(np.int32),
        receiver,
    )
    knowledge = Knowledge(known, arriving[message], no_leaf_sets(len(receiver)), tables)
    bucket = bucket_of(known.node[receiver], buckets)
    yield from write_letters(knowledge, bucket, Content.QUESTION, is_last[present])


def rows_asked_for(letters: Letters, states: States) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows that nodes on routes are asked for, as they are now.

    Returns
    -------
    question, row : ndarray of int64, shape (m,)
        Which of the questions asks for each row.
    entries : ndarray of int32, shape (m, 2**b)
    """
    asked = letters.knowledge.routing_tables
    question = asked.offsets[letters.index(Content.QUESTION)]  # the only entry of its table
    first, last = asked.row[question], asked.col[question]
    place = np.arange(states.cells.shape[1])
    of, row = np.nonzero((place >= first[:, None]) & (place <= last[:, None]))
    return of, row, states.cells[index_of(states)[asked.entry[question]][of], row]


def answer_joins(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Nodes on routes answer: the rows that they are asked for, and themselves as an entry.

    The last node of a route also sends its leaf set and itself in ``leaf_set``.  ``sends`` says
    whether there were rows to supply.
    """
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    asking, asked = letters.index(Content.QUESTION), letters.knowledge.routing_tables
    question = asked.offsets[asking]
    receiver, n = asked.entry[question], len(asking)
    index = index_of(states)[receiver]
    # 1. rows
    at, row, block = rows_asked_for(letters, states)
    run, column = np.nonzero(block >= 0)
    message = np.r_[at[run], np.arange(n)]
    order = np.argsort(message, kind="stable")
    zeros = np.zeros(n, dtype=np.int32)  # of an arriving node's cells, the node finds its own
    tables = RoutingTables(
        offsets_of(np.bincount(message, minlength=n)),
        np.r_[row[run].astype(np.int32), zeros][order],
        np.r_[column.astype(np.int32), zeros][order],
        np.r_[block[run, column].astype(np.int64), receiver][order],
    )
    # 2. leaf sets
    around = np.concatenate([states.leaves[index], receiver[:, None].astype(np.int32)], axis=1)
    sent = (around >= 0) & letters.sends[asking][:, None]
    leaf_sets = lists(sent.sum(axis=1), around[sent].astype(np.int64))
    own = letters.knowledge.own[asking]
    knowledge = said(states.known, own, leaf_sets, tables, kernel)
    bucket = bucket_of(states.known.node[own], buckets)
    yield from write_letters(
        knowledge, bucket, Content.ROWS, asked.row[question] <= asked.col[question]
    )
