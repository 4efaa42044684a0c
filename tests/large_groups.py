"""A large overlay with perfect leaf sets and full tables, and groups on it, on arrays alone."""

from dataclasses import dataclass

import numpy as np
from group_rounds import RoundInputs, ScribeResult, application_of, play_round
from overlay_state import OverlayState
from split_states import empty_state

from scribe_spark.config import WorldConfig
from scribe_spark.core import draws, u128
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.pastry.states import NONE, States, ring_leaves
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import GroupEvents, Groups
from scribe_spark.underlay import protocol


@dataclass(frozen=True)
class PlaneKernel(protocol.Kernel):
    """Delays are distances on a square (the part of `underlay.protocol.Kernel` that rounds use)."""

    points: np.ndarray

    withheld = None

    def losses(self, a: np.ndarray, b: np.ndarray) -> None:
        """No packet is lost."""

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Of pairs of routers."""
        return np.sqrt(((self.points[a] - self.points[b]) ** 2).sum(axis=1)).astype(np.int64)


def large_ring(count: int, seed: int = 1) -> Ring:
    """Nodes with drawn nodeIds, in their order."""
    bits = draws.stream(seed, "ids").random_raw(2 * count).reshape(2, count)
    hi, lo = np.sort(bits[0]), bits[1].copy()
    return Ring(hi, lo, np.arange(count), np.arange(count))


def full_overlay(known: Ring, leaf_set: int = 16, b: int = 4, seed: int = 1) -> OverlayState:
    """All nodes alive; cells have drawn ones of the nodes that fit, leaf sets are the ring's."""
    live = np.arange(len(known))
    states = States.empty(known, live, leaf_set, b)
    states.leaves[:] = ring_leaves(live, leaf_set // 2, len(live))
    for row in range(states.cells.shape[1]):
        kept = np.uint64(2**64 - (1 << (64 - b * row))) if row else np.uint64(0)
        own = u128.digit_np(known.hi, known.lo, row, b)
        for column in range(2**b):
            start = (known.hi & kept) | np.uint64(column << (64 - b * (row + 1)))
            end = start | np.uint64((1 << (64 - b * (row + 1))) - 1)
            first = np.searchsorted(known.hi, start)
            last = np.searchsorted(known.hi, end, side="right")
            bits = draws.stream(seed, "cell", row * 2**b + column).random_raw(len(known))
            some = first + (bits % np.maximum(last - first, 1).astype(np.uint64)).astype(np.int64)
            fits = (last > first) & (own != column)
            states.cells[:, row, column] = np.where(fits, some, NONE)
    return OverlayState.of(states, live)


def many_groups(known: Ring, count: int, memberships: int, seed: int = 1) -> tuple:
    """Groups whose sizes fall with their rank; (group, node) of the members.

    Returns
    -------
    groups : Groups
    group, node : ndarray of int64
    """
    bits = draws.stream(seed, "keys").random_raw(2 * count).reshape(2, count)
    weight = np.arange(1, count + 1) ** -1.25
    size = np.minimum(weight / weight.sum() * memberships, 0.6 * len(known)).astype(np.int64) + 11
    group = np.repeat(np.arange(count), size)
    node = draws.stream(seed, "members").random_raw(len(group)) % np.uint64(len(known))
    pair = np.unique(group * len(known) + node.astype(np.int64))
    groups = Groups.of(np.arange(count), Keys(bits[0].copy(), bits[1].copy()), known)
    return groups, *np.divmod(pair, len(known))


class LargeWorld:
    """A large overlay with groups; `group` and `node` have the members."""

    def __init__(self, nodes: int, groups: int, memberships: int, config: WorldConfig) -> None:
        self.config, known = config, large_ring(nodes)
        self.overlay, self.state = full_overlay(known), empty_state(nodes, groups)
        self.groups, self.group, self.node = many_groups(known, groups, memberships)
        points = np.random.default_rng(1).uniform(0, 100_000, (nodes, 2))
        self.kernel = PlaneKernel(points)
        self.application = application_of(config.scribe, nodes)

    def play(
        self, number: int, events: Events, source: np.ndarray, joins: np.ndarray | slice
    ) -> ScribeResult:
        """Play a round; `source` creates the groups in round 0, and publishes to them later."""
        of_sources = {"publish" if number else "create": (np.arange(len(self.groups)), source)}
        of_groups = GroupEvents(join=(self.group[joins], self.node[joins]), **of_sources)
        given = number, events, of_groups, self.groups, self.config, self.kernel
        return play_round(self.overlay, self.state, RoundInputs(*given), self.application)[1]
