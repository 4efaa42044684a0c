"""Arrival of nodes in an overlay with dead ones: a wave of the join protocol.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.announcements import tell_tables, told_nodes
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.first_states import fill_first_states
from scribe_spark.pastry.arrivals.introductions import introduce
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.routes import Routes, route
from scribe_spark.pastry.arrivals.states import NONE
from scribe_spark.pastry.arrivals.waves import wave_size
from scribe_spark.pastry.living.contacts import contacts
from scribe_spark.pastry.living.leaf_exchange import exchange_leaf_sets
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.living.table_maintenance import maintain_tables
from scribe_spark.pastry.living.table_repair import drop_and_repair
from scribe_spark.pastry.living.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["arrival_order", "arrive", "split_in_waves"]


def arrival_order(
    state: OverlayState, nodes: np.ndarray, number: int, rules: WorldRules
) -> np.ndarray:
    """The nodes (positions) that arrive in a round, in the order of a draw."""
    drawn = draws.stream_at(rules.seed, "arrival order", number, state.states.known.node[nodes])
    return nodes[np.lexsort((nodes, drawn))]


def split_in_waves(ordered: np.ndarray, live: int, growth: float) -> list[np.ndarray]:
    """The waves in which nodes arrive where `live` nodes are."""
    waves, done = [], 0
    while done < len(ordered):
        waves.append(ordered[done : done + wave_size(live + done, growth)])
        done += len(waves[-1])
    return waves


def arrive(
    state: OverlayState,
    arriving: np.ndarray,
    number: int,
    wave: int,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> None:
    """A wave of nodes arrives; writes all of `state`.

    Parameters
    ----------
    arriving : ndarray of int64
        Positions of nodes that are not alive, in the order of arrival; what they knew is forgotten.
    number, wave : int
        The round, and how many waves were before this one in it.
    """
    states = state.states
    states.leaves[arriving], states.cells[arriving] = NONE, NONE
    if state.alive.any():
        # 1. join messages are routed, and answered
        contact = contacts(state, arriving, number, rules, kernel, tally)
        tally.add("join", len(arriving), between=lambda: (arriving, contact))
        keys = Keys.of_nodes(states.known, arriving)
        routes = route(states, state.is_alive, contact, keys)
        tally.add_routes("join", routes)
        present = _first_visits(routes)
        sending = fill_first_states(
            states, kernel, routes.path, present, arriving, rules.rows, state.is_alive
        )
        tally.add(
            "rows",
            np.count_nonzero(sending),
            between=lambda: (routes.path[sending], arriving[np.nonzero(sending)[1]]),
        )
        tally.add("leaf set", len(arriving), between=lambda: (routes.at, arriving))
        drop_and_repair(state, routes.found, rules, kernel, tally)
        state.enter(arriving)
        # 2. announcements, and the exchange of leaf sets
        changed = _announce(state, arriving, rules, kernel, tally)
        exchange_leaf_sets(state, np.union1d(changed, arriving), tally)
        # 3. the nodes of the wave are introduced to one another: they know no dead ones
        if rules.introduce:
            order = np.arange(len(arriving))
            sent = introduce(states, kernel, routes.path, present, arriving, order, rules)
            tally.add("introduction", len(sent.to), between=lambda: (sent.sender, sent.to))
    else:
        state.enter(arriving)
    for time in range(rules.maintenance):
        purpose = f"wave maintenance {time} of wave {wave}"
        maintain_tables(state, purpose, number, rules, kernel, tally)


def _first_visits(routes: Routes) -> np.ndarray:
    """Where routes have a node that has not been on them before: bool, as their paths."""
    present = routes.path >= 0
    present[routes.hops[routes.circled], np.flatnonzero(routes.circled)] = False
    return present


def _announce(
    state: OverlayState,
    arrived: np.ndarray,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> np.ndarray:
    """Arrived nodes tell those that they know; who has one of them as a leaf now."""
    states = state.states
    told = told_nodes(states, arrived)  # all alive: nobody takes a dead node
    tally.add("announcement", len(told.to), between=lambda: (told.arrived, told.to))
    tell_tables(states, kernel, told, arrived, rules.announce)
    take_leaves(states, told.to, told.arrived)
    return told.to[holds_leaf(states, told.to, told.arrived)]
