"""Waves in an overlay that is small enough for one task: the protocol's steps one by one.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.announcements import tell_tables, told_nodes
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.exchange import exchange_leaf_sets
from scribe_spark.pastry.arrivals.first_states import fill_first_states
from scribe_spark.pastry.arrivals.introductions import introduce
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.maintenance import maintain_tables, maintenance_draws
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.nearby_search import discover
from scribe_spark.pastry.arrivals.routes import route
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States, is_node
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Wave", "waves"]


@dataclass(frozen=True)
class Wave:
    """The overlay after a wave.

    Attributes
    ----------
    number : int
    states : States
        Of all known nodes, those of later waves without knowledge; the next wave writes into it.
    live : ndarray of int64
        Positions of the nodes that have arrived.
    rounds : int
        Of the leaf set exchange.
    """

    number: int
    states: States
    live: np.ndarray
    rounds: int


def waves(
    known: Ring,
    wave: np.ndarray,
    rank: np.ndarray,
    contact: np.ndarray,
    rules: ArrivalRules,
    kernel: Kernel,
) -> Iterator[Wave]:
    """The overlay after each wave, from the first node on.

    Parameters
    ----------
    known : Ring
        The nodes that arrive, in the order of their nodeIds; routers are indices.
    wave, rank, contact : ndarray of int64, shape (K,)
        Of each node: the wave that it arrives in, its place in the order of arrival, and whom it
        asks (a position in `known`), or begins to search with (contact ``discovered``).
    """
    states = States.empty(known, np.arange(len(known)), rules.leaf_set, rules.b)
    for number in range(int(wave.max(initial=-1)) + 1):
        arriving, live = np.flatnonzero(wave == number), np.flatnonzero(wave <= number)
        rounds = 0
        if number:
            order = rank[arriving]
            rounds = _arrive(states, arriving, order, contact[arriving], rules, kernel)
        for time in range(rules.maintenance):
            rows = states.cells.shape[1]
            drawn = maintenance_draws(rules.seed, number, time, rows, known.node[live])
            maintain_tables(states, kernel, live, drawn)
        yield Wave(number, states, live, rounds)


def _arrive(
    states: States,
    arriving: np.ndarray,
    order: np.ndarray,
    contact: np.ndarray,
    rules: ArrivalRules,
    kernel: Kernel,
) -> int:
    """One wave; the rounds of its exchange."""
    # 1. join messages are routed, and answered
    if rules.contact == "discovered":
        contact, probing, _ = discover(states, is_node, arriving, contact, kernel)
        states.messages[arriving, Kind.PROBE] = np.bincount(probing, minlength=len(arriving))
    routes = route(states, is_node, contact, Keys.of_nodes(states.known, arriving)).path
    present = routes >= 0
    sending = fill_first_states(states, kernel, routes, present, arriving, rules.rows, is_node)
    states.messages[arriving, Kind.JOIN] = present.sum(axis=0)
    states.messages[arriving, Kind.ROWS] = sending.sum(axis=0)
    states.messages[arriving, Kind.LEAF_SET] = 1
    # 2. announcements; nobody takes anything that an arrived node still has to tell
    told = told_nodes(states, arriving)
    by_node = np.bincount(told.arrived, minlength=len(states.own))
    states.messages[:, Kind.ANNOUNCEMENT] += by_node
    arrived = states.own[told.arrived]

    def count_sent(sender: np.ndarray, to: np.ndarray, arrives: np.ndarray) -> None:
        states.messages[:, Kind.EXCHANGE] += np.bincount(sender, minlength=len(states.own))

    with ThreadPoolExecutor(1) as pool:  # no leaf set depends on a table, nor a table on a leaf set
        tables = pool.submit(tell_tables, states, kernel, told, arriving, rules.announce)
        take_leaves(states, told.to, arrived)
        # 3. leaf sets are exchanged by those that got a new leaf
        changed = told.to[holds_leaf(states, told.to, arrived)]
        rounds = exchange_leaf_sets(states, np.union1d(changed, arriving), is_node, count_sent)
        tables.result()
    # 4. the nodes of the wave are introduced to one another
    if rules.introduce:
        sent = introduce(states, kernel, routes, present, arriving, order, rules)
        caused = np.bincount(sent.cause, minlength=len(arriving))
        states.messages[arriving, Kind.INTRODUCTION] = caused
    return rounds
