"""Events of a round: failures, departures, recoveries, arrivals, in this order.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrival_in_round import arrival_order, arrive, split_in_waves
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.states import NONE, live_only
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Events", "ImpossibleRound", "play_events"]


class ImpossibleRound(ValueError):
    """A round that cannot be played: an impossible event, or no node is left.

    Attributes
    ----------
    number : int
        The round.
    what : str
        What is wrong, in one line.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"round {number}: {what}")
        self.number, self.what = number, what


def _nobody() -> np.ndarray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Events:
    """The events of one round: positions in `known`, one event a node.

    Attributes
    ----------
    fail, leave, recover, arrive : ndarray of int64
        ``recover`` is with the nodeId, the routing table and the last known leaf set of before;
        ``arrive`` with nothing.
    """

    fail: np.ndarray = field(default_factory=_nobody)
    leave: np.ndarray = field(default_factory=_nobody)
    recover: np.ndarray = field(default_factory=_nobody)
    arrive: np.ndarray = field(default_factory=_nobody)

    @classmethod
    def of(cls, known: Ring, node: np.ndarray, event: np.ndarray) -> Events:
        """Events of nodes given by their numbers; `event` has the names of the attributes."""
        position = known.positions(node)
        return cls(**{kind.name: np.sort(position[event == kind.name]) for kind in fields(cls)})


def play_events(
    state: OverlayState,
    number: int,
    events: Events,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> None:
    """Play the events of a round; writes all of `state`.

    Raises
    ------
    ImpossibleRound
        If a dead node shall leave or fail, a live one arrive or recover, one recover that has never
        been there, or a node has two events.
    """
    _check(state, number, events)
    # 1. failures are silent, departures are not
    state.exit(events.fail, number, rules.detection)
    state.exit(events.leave, number, 0)
    goodbyes = state.states.distinct_leaves(events.leave)
    at, column = np.nonzero(goodbyes >= 0)
    to = goodbyes[at, column]
    tally.send("goodbye", state.alive[to], events.leave[at], to)
    # 2. recoveries; who knows no live node any more arrives
    waves = [alone[None] for alone in recover(state, events.recover, rules, kernel, tally)]
    # 3. arrivals
    ordered = arrival_order(state, events.arrive, number, rules)
    live = len(state.live()) + len(waves)
    waves += split_in_waves(ordered, live, rules.growth)
    for wave, arriving in enumerate(waves):
        arrive(state, arriving, number, wave, rules, kernel, tally)


def _check(state: OverlayState, number: int, events: Events) -> None:
    node, alive = state.states.known.node, state.alive
    refused = {
        "fail": events.fail[~alive[events.fail]],
        "leave": events.leave[~alive[events.leave]],
        "recover": events.recover[state.died[events.recover] < 0],
        "arrive": events.arrive[alive[events.arrive]],
    }
    for event, nodes in refused.items():
        if len(nodes):
            raise ImpossibleRound(number, f"node {node[nodes[0]]} cannot {event}")
    everybody = np.concatenate([events.fail, events.leave, events.recover, events.arrive])
    if len(np.unique(everybody)) < len(everybody):
        raise ImpossibleRound(number, "a node has two events")


def recover(
    state: OverlayState, nodes: np.ndarray, rules: WorldRules, kernel: Kernel, tally: Tally
) -> np.ndarray:
    """Nodes come back together, with their old routing tables; who could not, by nodeId.

    All see the state before.  Each takes what its live last known leaves and their leaf sets offer,
    tells its new leaf set, and leaf sets are exchanged.
    """
    states = state.states
    # 1. the last known leaves are asked for their leaf sets
    old = states.distinct_leaves(nodes)
    states.leaves[nodes] = NONE
    at, column = np.nonzero(old >= 0)
    asked = old[at, column].astype(np.int64)
    answers = state.alive[asked]
    tally.send("recovery", answers, nodes[at], asked)
    at, asked = at[answers], asked[answers]
    tally.add("recovery", len(asked), between=lambda: (asked, nodes[at]))
    offers = live_only(state.is_alive, np.c_[states.leaves[asked], asked])
    take_leaves(states, nodes[at], offers)
    is_back = (states.leaves[nodes] >= 0).any(axis=1)
    back = nodes[is_back]
    state.enter(back)
    # 2. the new leaf set is told, and takes them as leaves and entries
    leaves = states.distinct_leaves(back)
    at, column = np.nonzero(leaves >= 0)
    to, new = leaves[at, column].astype(np.int64), back[at]
    tally.add("announcement", len(to), between=lambda: (new, to))
    take_cells(states, kernel, to, new)
    take_leaves(states, to, new)
    told = to[holds_leaf(states, to, new)]
    player = Player(state, rules, kernel, tally)
    player.exchange_leaf_sets(np.union1d(told, back), state.live())
    return nodes[~is_back]
