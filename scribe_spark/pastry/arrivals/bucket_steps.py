"""What a bucket does with the letters that it gets: the steps of a wave as kernels.

Each step takes all letters of a bucket and yields letters; between two steps letters travel.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from scribe_spark.pastry.arrivals.announcements import announced_rows, told_nodes
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.leaf_offers import take_leaves
from scribe_spark.pastry.arrivals.letters import Content, Letters, write_letters
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.post import (
    announcement_letters,
    bucket_of,
    index_of,
    unfolded,
)
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Step", "announce", "first_states", "state_letters", "take_announcements"]

Step = Iterator[pa.RecordBatch]

_AT_ONCE = 2**13  # nodes whose announcements are unfolded at once


def state_letters(
    states: States, kernel: Kernel, buckets: int, sends: np.ndarray | None = None
) -> Step:
    """Each node's state, to its own bucket."""
    everybody = np.arange(len(states.own))
    bucket = bucket_of(states.known.node[states.own], buckets)
    knowledge = states.to_knowledge(everybody, kernel)
    yield from write_letters(knowledge, bucket, Content.STATE, sends, states.messages)


def first_states(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Arriving nodes make their first states of the answers to their join messages.

    An answer has in ``leaf_set`` who is offered to the leaf set; in ``routing_table`` who is
    offered to the table, in any cell; ``sends`` says whether its sender supplied rows.
    """
    knowledge = letters.knowledge
    own, which = np.unique(knowledge.own, return_inverse=True)
    states = States.empty(knowledge.known, own, rules.leaf_set, rules.b)
    sets, tables = knowledge.leaf_sets, knowledge.routing_tables
    take_leaves(states, which[sets.rows], sets.leaves)
    take_cells(states, kernel, which[sets.rows], sets.leaves)
    take_cells(states, kernel, which[tables.rows], tables.entry)
    n = len(own)
    states.messages[:, Kind.JOIN] = np.bincount(which, minlength=n)
    states.messages[:, Kind.ROWS] = np.bincount(which[letters.sends], minlength=n)
    states.messages[:, Kind.LEAF_SET] = 1
    told = told_nodes(states, np.arange(n))
    states.messages[:, Kind.ANNOUNCEMENT] = np.bincount(told.arrived, minlength=n)
    yield from state_letters(states, kernel, buckets, np.ones(n, dtype=bool))


def announce(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Arrived nodes announce themselves; their states are the letters."""
    states = letters.states(np.arange(len(letters.content)), rules.leaf_set, rules.b)
    yield from announcement_letters(states, kernel, buckets, with_rows=rules.announce == "row")


def take_announcements(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Routing tables take what was announced; leaf sets are those after the exchange.

    Of each node there are two letters: its state with its table, and its final leaf set.
    """
    states = letters.states(letters.index(Content.STATE), rules.leaf_set, rules.b)
    final = letters.states(letters.index(Content.LEAF_SET), rules.leaf_set, rules.b)
    same = index_of(states)[final.own]
    states.leaves[same], states.messages[same] = final.leaves, final.messages
    # 1. who is told takes the node that tells of itself
    announced, index = letters.index(Content.ANNOUNCEMENT), index_of(states)
    letter, told = unfolded(letters, announced)
    take_cells(states, kernel, index[told], letters.knowledge.own[letter])
    # 2. and the rows, where it is in them
    for start in range(0, len(announced), _AT_ONCE):
        some = announced[start : start + _AT_ONCE]
        senders = letters.states(some, rules.leaf_set, rules.b, with_leaves=False)
        for to, position, cell in announced_rows(senders, np.arange(len(senders.own))):
            here = index[to] >= 0
            take_cells(states, kernel, index[to[here]], position[here], cell[here])
    yield from state_letters(states, kernel, buckets)
