"""A round of the leaf set exchange in a bucket, as two kernels with letters between them.

The rounds are those of :mod:`scribe_spark.pastry.arrivals.exchange`.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.bucket_steps import Step, state_letters
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.letters import Content, Letters
from scribe_spark.pastry.arrivals.post import (
    answer_letters,
    index_of,
    leaf_set_letters,
    unfolded,
    values_at,
)
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.underlay.protocol import Kernel

__all__ = ["send_leaf_sets", "take_leaf_sets"]

_SETS = 2**15  # leaf sets that are unfolded at once


def send_leaf_sets(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """Begin a round of the exchange: take announcements or answers, send leaf sets.

    Who has taken a node that announced itself sends its leaf set, and who takes anything of an
    answer.
    """
    own = letters.index(Content.STATE)
    states = letters.states(own, rules.leaf_set, rules.b)
    index, sends = index_of(states), letters.sends[own].copy()
    knowledge = letters.knowledge
    # 1. announcements
    letter, told = unfolded(letters, letters.index(Content.ANNOUNCEMENT))
    sends |= _takers(states, index[told], knowledge.own[letter])
    # 2. answers: a leaf set, to the only entry of the table
    answers = letters.index(Content.ANSWER)
    tables = knowledge.routing_tables
    asker = index[tables.entry[tables.offsets[answers]]] if len(answers) else answers
    sends |= _offer_sets(states, letters, answers, asker)
    # 3. leaf sets
    yield from leaf_set_letters(states, np.flatnonzero(sends), kernel, buckets)
    yield from state_letters(states, kernel, buckets, sends)


def take_leaf_sets(letters: Letters, rules: ArrivalRules, kernel: Kernel, buckets: int) -> Step:
    """End a round of the exchange: take leaf sets; answer those for whom there is no place."""
    own = letters.index(Content.STATE)
    states = letters.states(own, rules.leaf_set, rules.b)
    index = index_of(states)
    letter, receiver = unfolded(letters, letters.index(Content.LEAF_SET))
    here = index[receiver] >= 0
    letter, receiver = letter[here], index[receiver[here]]
    changed = _offer_sets(states, letters, letter, receiver)
    sender = letters.knowledge.own[letter]
    refused = ~holds_leaf(states, receiver, sender)
    yield from answer_letters(states, receiver[refused], sender[refused], kernel, buckets)
    yield from state_letters(states, kernel, buckets, changed)


def _takers(states: States, index: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Offer nodes to leaf sets; which nodes then have one of them: bool, shape (n,)."""
    take_leaves(states, index, position)
    takers = np.zeros(len(states.own), dtype=bool)
    takers[index[holds_leaf(states, index, position)]] = True
    return takers


def _offer_sets(
    states: States, letters: Letters, letter: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Offer nodes the leaf sets in letters, and their senders; whose leaf set has changed.

    Parameters
    ----------
    letter, index : ndarray of int64, shape (m,)
        Pairs of a letter and a node.
    """
    changed = np.zeros(len(states.own), dtype=bool)
    sets = letters.knowledge.leaf_sets
    for start in range(0, len(letter), _SETS):
        some = slice(start, start + _SETS)
        row, at = values_at(sets.offsets, letter[some])
        changed[take_leaves(states, index[some][row], sets.leaves[at], only_new=True)] = True
    changed[take_leaves(states, index, letters.knowledge.own[letter], only_new=True)] = True
    return changed
