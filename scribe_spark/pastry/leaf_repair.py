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
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.tally import Tally
from scribe_spark.pastry.traffic import both_ways

__all__ = ["Lost", "detect_failures", "repair_leaf_sets"]


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


def repair_leaf_sets(state: OverlayState, lost: Lost, tally: Tally) -> None:
    """Repair sides until nothing changes; writes `States.leaves`.

    In a round every side that lost leaves asks the live leaf farthest out on it, or if there is
    none the nearest node that can be found on it; all answers are leaf sets from before the round,
    and a side whose question changed nothing asks no more.  Sides without a live leaf have a round
    before all others, which would ask their nodes in vain (rule P21).
    """
    node, side = lost.node, lost.side
    alone = ~state.is_alive(_columns_of(state.states, node, side)).any(axis=1)
    changed = _ask_once(state, node[alone], side[alone], tally)
    node = np.r_[node[~alone], node[alone][changed]]
    side = np.r_[side[~alone], side[alone][changed]]
    while len(node):
        changed = _ask_once(state, node, side, tally)
        node, side = node[changed], side[changed]


def _ask_once(state: OverlayState, node: np.ndarray, side: np.ndarray, tally: Tally) -> np.ndarray:
    """A round of questions; return which sides it has changed: bool, shape (a,)."""
    asked = _ask(state, node, side, tally)
    offers = _offers(state.states, node, side, asked)
    held = _columns_of(state.states, node, side)
    filled = _fill(state, node, side, held, offers, tally)
    changed = (filled != held).any(axis=1)
    for one in SIDES:
        mine = changed & (side == one)
        state.states.leaves[node[mine], side_columns(state.states, one)] = filled[mine]
    return changed


def _columns_of(states: States, node: np.ndarray, side: np.ndarray) -> np.ndarray:
    """The leaves of one side of each node, nearest first: int32, shape (a, l/2)."""
    columns = side[:, None] * states.half + np.arange(states.half)
    return states.leaves[node[:, None], columns]


def _ask(state: OverlayState, node: np.ndarray, side: np.ndarray, tally: Tally) -> np.ndarray:
    """The node that answers each side, :data:`NONE` if there is none.

    Questions to leaves that are dead but not detected are lost; the next farthest is asked.
    """
    in_turn = _columns_of(state.states, node, side)[:, ::-1]
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
    for one in np.flatnonzero(~answered):
        asked[one] = _search(state, int(node[one]), int(side[one]), tally)
    return asked


def _search(state: OverlayState, node: int, side: int, tally: Tally) -> int:
    """The live node nearest on a side without a live leaf, as far as nodes know; or NONE (P31)."""
    states = state.states
    silent = states.leaves[node, side_columns(states, side)]  # asked already
    found, limit, asked = NONE, len(states.known), node
    while asked != NONE:
        named = np.r_[states.leaves[asked], states.cells[asked].ravel()]
        named = np.setdiff1d(named, np.r_[silent, NONE, node])
        out = places_out(states, np.full(len(named), node), named, side)
        in_turn = named[np.argsort(out)][: np.count_nonzero(out < limit)]
        answers = np.flatnonzero(state.alive[in_turn])
        lost = in_turn[: answers[0]] if len(answers) else in_turn
        silent, asked = np.r_[silent, lost], NONE
        if len(answers):
            found = asked = int(in_turn[answers[0]])
            limit = int(places_out(states, np.array([node]), np.array([found]), side)[0])
        _count_questions(tally, node, lost, asked)
    return found


def _count_questions(tally: Tally, node: int, lost: np.ndarray, answered: int) -> None:
    """Count questions that were lost, and one that was answered, unless it is NONE."""
    other = np.r_[lost, [answered] * (answered != NONE)]
    pairs = np.full(len(other), node), other
    tally.add("repair", len(other), len(lost), between=lambda: pairs)
    if answered != NONE:
        answer = np.array([answered]), np.array([node])
        tally.add("repair", 1, between=lambda: answer)


def _offers(states: States, node: np.ndarray, side: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """What nodes take of those they asked: int32, shape (a, l + 1), or NONE.

    The node asked, and of its leaf set what lies beyond it on that side, or between it and the
    asker: the rest lies on the asker's other side, and would look like its farthest leaves (P22).
    """
    leaves = states.leaves[asked].copy()
    beyond = np.arange(2 * states.half) // states.half == side[:, None]
    out = places_out(states, node[:, None], leaves, side[:, None])
    limit = places_out(states, node, asked, side)
    between = (out > 0) & (out < limit[:, None])
    keep = (beyond | between) & (leaves >= 0) & (leaves != node[:, None])
    leaves[~keep] = NONE
    offers = np.concatenate([leaves, asked[:, None].astype(np.int32)], axis=1)
    offers[asked == NONE] = NONE
    return offers


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
