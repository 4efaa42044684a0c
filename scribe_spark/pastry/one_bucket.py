"""Steps of a round on the arrays of an overlay, for Scribe's half while it is not programs yet."""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry import events as events_of_round
from scribe_spark.pastry import lookups as lookups_of_round
from scribe_spark.pastry import round as round_of_programs
from scribe_spark.pastry.arrivals.observer import FOUND, MESSAGES, TRAFFIC
from scribe_spark.pastry.arrivals.routes import Found
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.leaf_set_order import same_leaves
from scribe_spark.pastry.lookups import ENDED, LookupResults, Lookups, lookup_results
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player import InProcess
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.table_repair import close_phase
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["changed_leaf_sets", "drop_and_repair", "look_up", "play_events", "repair"]


def _player(state: OverlayState, rules: WorldRules, kernel: Kernel, tally: Tally) -> InProcess:
    player = InProcess.of(state, rules, kernel, kinds=tally.kinds)
    player.observe(traffic=tally.traffic is not None)
    return player


def play_events(
    state: OverlayState,
    number: int,
    events: Events,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> None:
    """Play the events of a round; see `events.play_events`."""
    player = _player(state, rules, kernel, tally)
    events_of_round.play_events(player, number, events)
    tally.take(player.take(MESSAGES, TRAFFIC))


def repair(
    state: OverlayState, number: int, rules: WorldRules, kernel: Kernel, tally: Tally
) -> None:
    """Keep-alives, detection and repair; see `round.repair`."""
    player = _player(state, rules, kernel, tally)
    round_of_programs.repair(player, number)
    tally.take(player.take(MESSAGES, TRAFFIC))


def drop_and_repair(
    state: OverlayState, found: Found, rules: WorldRules, kernel: Kernel, tally: Tally
) -> None:
    """Drop entries that were found dead, and repair their cells; see `table_repair`."""
    if not len(found.node):
        return
    player = _player(state, rules, kernel, tally)
    player.tables[0][FOUND] = {"node": found.node, "dead": found.dead}
    close_phase(player)
    tally.take(player.take(MESSAGES, TRAFFIC))


def look_up(
    state: OverlayState, lookups: Lookups, rules: WorldRules, kernel: Kernel, tally: Tally
) -> LookupResults:
    """Make the lookups of a round; see `lookups.look_up`."""
    player = _player(state, rules, kernel, tally)
    lookups_of_round.look_up(player, lookups)
    taken = player.take(MESSAGES, TRAFFIC, ENDED)
    tally.take(taken)
    return lookup_results(player, lookups, taken)


def changed_leaf_sets(state: OverlayState, leaves: np.ndarray, was_alive: np.ndarray) -> np.ndarray:
    """Live nodes whose leaf set is another set of nodes than before, or that were not alive."""
    now = state.states.leaves
    others = np.flatnonzero((now != leaves).any(axis=1) & was_alive)
    changed = ~was_alive
    changed[others] = ~same_leaves(now[others], leaves[others])
    return np.flatnonzero(changed & state.alive)
