"""Failure detection and repair of leaf sets.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section III.A.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry.arrivals.leaf_offers import SIDES, places_out, side_columns
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.one_sided_leaf_sets import OneSidedLeafSets
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.tally import Tally
from scribe_spark.pastry.traffic import both_ways

__all__ = ["Lost", "detect_failures", "repair_leaf_sets"]

_FEW = 8  # sides that are repaired without arrays


@dataclass(frozen=True)
class Lost:
    """Sides of leaf sets that lost leaves.

    Attributes
    ----------
    node, side : ndarray of int64, shape (a,)
    """

    node: np.ndarray
    side: np.ndarray


def detect_failures(state: OverlayState, number: int) -> Lost:
    """Live nodes drop the leaves whose death they now know; writes `States.leaves`."""
    states, known_dead = state.states, state.known_dead(number)
    live = state.live() if known_dead.any() else np.empty(0, dtype=np.int64)
    leaves = states.leaves[live]
    gone = (leaves >= 0) & known_dead[leaves]
    hit = np.flatnonzero(gone.any(axis=1))
    live, leaves, gone = live[hit], leaves[hit], gone[hit]
    leaves[gone] = NONE
    nodes, sides = [], []
    for side in SIDES:
        columns = side_columns(states, side)
        lost = np.flatnonzero(gone[:, columns].any(axis=1))
        kept = leaves[lost, columns]
        order = np.argsort(kept < 0, axis=1, kind="stable")  # close the gaps
        states.leaves[live[lost], columns] = np.take_along_axis(kept, order, axis=1)
        nodes.append(live[lost])
        sides.append(np.full(len(lost), side))
    return Lost(np.concatenate(nodes), np.concatenate(sides))


def repair_leaf_sets(state: OverlayState, lost: Lost, tally: Tally) -> int:
    """Repair sides until nothing changes; writes `States.leaves`.

    In a round every side that lost leaves asks the live leaf farthest out on it, or if there is
    none on the other side; all answers are leaf sets from before the round, and a side whose
    question changed nothing asks no more.

    Returns
    -------
    int
        Rounds of questions.
    """
    node, side, rounds = lost.node, lost.side, 0
    while len(node) > _FEW:
        rounds += 1
        asked, on_side = _ask(state, node, side, tally)
        offers = _offers(state.states, node, side, asked, on_side)
        held = _columns_of(state.states, node, side)
        filled = _fill(state, node, side, held, offers, tally)
        changed = (filled != held).any(axis=1)
        node, side = node[changed], side[changed]
        for one in SIDES:
            mine = side == one
            columns = side_columns(state.states, one)
            state.states.leaves[node[mine], columns] = filled[changed][mine]
    return rounds + OneSidedLeafSets(state).repair_all(node, side, tally)


def _columns_of(states: States, node: np.ndarray, side: np.ndarray) -> np.ndarray:
    """The leaves of one side of each node, nearest first: int32, shape (a, l/2)."""
    columns = side[:, None] * states.half + np.arange(states.half)
    return states.leaves[node[:, None], columns]


def _ask(
    state: OverlayState, node: np.ndarray, side: np.ndarray, tally: Tally
) -> tuple[np.ndarray, np.ndarray]:
    """The leaf that answers each side, :data:`NONE` if none; and whether it is of the same side.

    Questions to leaves that are dead but not detected are lost; the next farthest is asked.
    """
    states = state.states
    same, other = (_columns_of(states, node, which)[:, ::-1] for which in (side, 1 - side))
    in_turn = np.concatenate([same, other], axis=1)
    answers = state.is_alive(in_turn)
    before = (np.cumsum(answers, axis=1) == 0) & (in_turn >= 0)
    answered = answers.any(axis=1)
    first = answers.argmax(axis=1)
    lost = np.count_nonzero(before)
    asked = np.where(answered, in_turn[np.arange(len(node)), first], NONE).astype(np.int64)

    def between() -> tuple[np.ndarray, np.ndarray]:
        asker, other = both_ways(node[answered], asked[answered])
        return np.r_[asker, node[np.nonzero(before)[0]]], np.r_[other, in_turn[before]]

    tally.add("repair", lost + 2 * np.count_nonzero(answered), lost, between=between)
    return asked, first < states.half


def _offers(
    states: States, node: np.ndarray, side: np.ndarray, asked: np.ndarray, on_side: np.ndarray
) -> np.ndarray:
    """What nodes take of the leaf sets of those they asked: int32, shape (a, l), or NONE.

    Of a leaf on the same side what lies beyond it on that side, or between it and the asker: the
    rest lies on the asker's other side, and would look like its farthest leaves.
    """
    leaves = states.leaves[asked].copy()
    beyond = np.arange(2 * states.half) // states.half == side[:, None]
    out = places_out(states, node[:, None], leaves, side[:, None])
    limit = places_out(states, node, asked, side)
    between = (out > 0) & (out < limit[:, None])
    keep = beyond | between | ~on_side[:, None]
    keep &= (leaves >= 0) & (leaves != node[:, None]) & (asked >= 0)[:, None]
    leaves[~keep] = NONE
    return leaves


def _fill(
    state: OverlayState,
    node: np.ndarray,
    side: np.ndarray,
    held: np.ndarray,
    offers: np.ndarray,
    tally: Tally,
) -> np.ndarray:
    """Sides with what they take of the offers: nearest first, checked until the side is full."""
    states, half = state.states, state.states.half
    both = np.concatenate([held, offers], axis=1)
    far = len(states.known)
    out = np.where(both >= 0, places_out(states, node[:, None], both, side[:, None]), far)
    order = np.argsort(out, axis=1, kind="stable")  # what is held comes before the same offer
    both, out = (np.take_along_axis(part, order, axis=1) for part in (both, out))
    new = order >= half
    repeated = np.zeros_like(new)
    repeated[:, 1:] = out[:, 1:] == out[:, :-1]
    there = (out < far) & ~repeated
    counts = there & (~new | state.is_alive(both))
    place = np.cumsum(counts, axis=1)
    visited = there & (place - counts < half)
    checked = visited & new
    tally.add(
        "check",
        np.count_nonzero(checked),
        between=lambda: (node[np.nonzero(checked)[0]], both[checked]),
    )
    row, column = np.nonzero(visited & counts)
    filled = np.full_like(held, NONE)
    filled[row, place[row, column] - 1] = both[row, column]
    return filled
