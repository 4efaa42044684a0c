"""A round of a world: events, detection and repair, lookups; and what is seen of it.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2; Pastry 2001, Section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry.events import Events, ImpossibleRound, play_events
from scribe_spark.pastry.leaf_repair import detect_failures, repair_leaf_sets
from scribe_spark.pastry.leaf_set_order import same_leaves
from scribe_spark.pastry.lookups import LookupResults, Lookups, drawn_lookups, look_up
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.table_maintenance import maintain_tables
from scribe_spark.pastry.table_repair import find_all_dead
from scribe_spark.pastry.tally import Tally
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.underlay.protocol import Kernel

__all__ = ["RoundResult", "changed_leaf_sets", "repair", "play_round"]


@dataclass(frozen=True)
class RoundResult:
    """What happened in a round.

    Attributes
    ----------
    number : int
    messages : dict of str to int
        Messages by kind, see :class:`~scribe_spark.pastry.tally.Tally`.
    new_leafs : ndarray of int64
        Positions of the live nodes whose leaf set is another one than before the round, ascending.
    lookups : LookupResults
    """

    number: int
    messages: dict[str, int]
    new_leafs: np.ndarray
    lookups: LookupResults


def play_round(
    state: OverlayState,
    number: int,
    events: Events,
    lookups: Lookups | int,
    rules: WorldRules,
    kernel: Kernel,
    traffic: Traffic | None = None,
) -> RoundResult:
    """Play one round; writes into `state`.

    Parameters
    ----------
    number : int
        Rounds count from 0.
    lookups : Lookups or int
        From nodes that are alive after the events; or how many are to be drawn.
    kernel : Kernel
        Of the underlay.
    traffic : Traffic, optional
        Where senders and receivers of all messages are remembered.

    Raises
    ------
    ImpossibleRound
        For an event that cannot be, or if no node is left.
    """
    tally = Tally(traffic=traffic)
    leaves, was_alive = state.states.leaves.copy(), state.alive.copy()
    # 1. events
    play_events(state, number, events, rules, kernel, tally)
    if not state.alive.any():
        raise ImpossibleRound(number, "no node is left")
    # 2. keep-alives, detection and repair
    repair(state, number, rules, kernel, tally)
    # 3. lookups
    if isinstance(lookups, int):
        lookups = drawn_lookups(state, lookups, number, rules.seed)
    results = look_up(state, lookups, rules, kernel, tally)
    changed = changed_leaf_sets(state, leaves, was_alive)
    return RoundResult(number, tally.by_kind(), changed, results)


def repair(
    state: OverlayState, number: int, rules: WorldRules, kernel: Kernel, tally: Tally
) -> None:
    """Keep-alives, detection, and repair of leaf sets and tables; writes into `state`."""
    live = state.live()
    leaves = state.states.distinct_leaves(live)
    tally.add("keep-alive", np.count_nonzero(leaves >= 0), between=lambda: _to_leaves(live, leaves))
    repair_leaf_sets(state, detect_failures(state, number), tally)
    if rules.repair == "eager":
        find_all_dead(state, number, rules, kernel, tally)
    period = rules.maintenance_period
    if period and number and number % period == 0:
        maintain_tables(state, "round maintenance", number, rules, kernel, tally)


def _to_leaves(nodes: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and their leaves, a pair for each leaf that there is."""
    at, column = np.nonzero(leaves >= 0)
    return nodes[at], leaves[at, column]


def changed_leaf_sets(state: OverlayState, leaves: np.ndarray, was_alive: np.ndarray) -> np.ndarray:
    """Live nodes whose leaf set is another set of nodes than before, or that were not alive."""
    now = state.states.leaves
    others = np.flatnonzero((now != leaves).any(axis=1) & was_alive)
    changed = ~was_alive
    changed[others] = ~same_leaves(now[others], leaves[others])
    return np.flatnonzero(changed & state.alive)
