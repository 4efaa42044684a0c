"""Waves: which nodes arrive together, in which order, and which node each of them asks first.

All nodes of a wave see the overlay as it was before the wave.  With one node per wave, this is the
sequential protocol of the papers; larger waves need fewer supersteps.

JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.player import Shared
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, BucketNodes, MessageProgram
from scribe_spark.rounds.player import Environment
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig

#: The rank of arrival of nodes that are not in the wave.
LATER = np.int64(2**63 - 1)


@dataclass(frozen=True)
class Wave:
    """The nodes that arrive together: places `first` to `last` - 1 of arrays (int64).

    ``arriving`` are positions, ascending in each wave; ``order`` increases in the order of arrival;
    ``contact`` is the position of the contact, or of the start of its search, or -1 if no node is
    alive.
    """

    arrays: Shared
    first: int
    last: int

    @property
    def arriving(self) -> np.ndarray:
        """The nodes of the wave: positions, ascending, shape (w,)."""
        return self.arrays["arriving"][self.first : self.last]

    @property
    def order(self) -> np.ndarray:
        """Numbers that increase in the order of arrival: shape (w,)."""
        return self.arrays["order"][self.first : self.last]

    @property
    def contact(self) -> np.ndarray:
        """The contact of each node, or the start of its search: positions, shape (w,)."""
        return self.arrays["contact"][self.first : self.last]

    def arrived(self, nodes: int) -> np.ndarray:
        """Return the positions of the nodes of this and earlier waves, ascending; `nodes` is K."""
        there = np.zeros(nodes, dtype=bool)
        there[self.arrays["arriving"][: self.last]] = True
        return np.flatnonzero(there)

    @classmethod
    def of_nobody(cls) -> Wave:
        """Return a wave without nodes, for an environment in which nodes have lives."""
        return cls(dict.fromkeys(("arriving", "order", "contact"), whole_numbers()), 0, 0)

    @classmethod
    def of_round(cls, environment: Environment, ordered: np.ndarray, number: int) -> Wave:
        """Return the wave of the nodes `ordered` that arrive in round `number`."""
        place = np.argsort(ordered)
        arriving = ordered[place]
        contact = contacts_in_round(environment, arriving, number)
        return cls({"arriving": arriving, "order": place, "contact": contact}, 0, len(ordered))


@dataclass(frozen=True)
class WaveProgram(MessageProgram):
    """A program that plays a step of the arrival of a wave."""

    wave: Wave

    @functools.cached_property
    def everybody(self) -> np.ndarray:
        """The positions of all live nodes, ascending."""
        if self.environment.lives is not None:
            return self.environment.lives.live()
        return self.wave.arrived(len(self.environment.facts.ring))

    def live(self, bucket: int) -> np.ndarray:
        first, last = np.searchsorted(self.everybody, self.bounds[bucket : bucket + 2])
        return self.everybody[first:last]

    @functools.cached_property
    def place(self) -> np.ndarray:
        """The rank of arrival of the wave's nodes; `LATER` for other nodes: int64, shape (K,)."""
        place = np.full(len(self.environment.facts.ring), LATER)
        place[self.wave.arriving] = self.wave.order
        return place

    def arriving(self, nodes: BucketNodes) -> np.ndarray:
        """Return the wave's nodes in the bucket."""
        return self.wave.arriving[nodes.own(self.wave.arriving)]


def forget(nodes: BucketNodes, arriving: np.ndarray) -> None:
    """Clear the tables of arriving nodes, which may have been alive before."""
    states, index = nodes.states(), arriving - nodes.first
    if (states.leaves[index] >= 0).any() or (states.cells[index] >= 0).any():
        states = nodes.states(LEAVES, CELLS)
        states.leaves[index], states.cells[index] = NONE, NONE


# --- sizes and orders


def wave_size(before: int, growth: float) -> int:
    """Return the size of the wave after n = `before` nodes: max(1, floor(n (growth - 1)))."""
    return max(1, int(before * (Fraction(str(growth)) - 1)))


def wave_ends(nodes: int, growth: float) -> np.ndarray:
    """Return the number of nodes after each wave: int64, ascending, from 1 to `nodes`."""
    ends = [min(1, nodes)]
    while ends[-1] < nodes:
        ends.append(min(nodes, ends[-1] + wave_size(ends[-1], growth)))
    return np.array(ends, dtype=np.int64)


def waves_of_round(
    known: Ring, nodes: np.ndarray, number: int, seed: int, live: int, growth: float
) -> list[np.ndarray]:
    """Return the waves in which nodes arrive in a round: positions, in order of arrival."""
    drawn = draws.stream_at(seed, "arrival order", number, known.node[nodes])
    ordered, waves, done = nodes[np.lexsort((nodes, drawn))], list[np.ndarray](), 0
    while done < len(ordered):
        waves.append(ordered[done : done + wave_size(live + done, growth)])
        done += len(waves[-1])
    return waves


def arrival_ranks(known: Ring, seed: int) -> np.ndarray:
    """Return the rank (from 0) of each node in the order of arrival: int64."""
    drawn = draws.bits_np(seed, "arrival order", known.node).view(np.int64)
    order = np.argsort(drawn, kind="stable")
    rank = np.empty(len(known), dtype=np.int64)
    rank[order] = np.arange(len(known))
    return rank


@dataclass(frozen=True)
class WavePlan:
    """The number of the wave and the contact of each node; arrays of shape (K,), by nodeId."""

    wave: np.ndarray  # int64
    rank: np.ndarray  # int64, from 0, in the order of arrival, which is drawn
    contact: np.ndarray  # int64, a position; -1 in wave 0

    @classmethod
    def of(
        cls, known: Ring, rules: OverlayConfig, seed: int, kernel: Kernel, initial: int
    ) -> WavePlan:
        """Return the plan for the nodes with numbers below `initial`; others have wave -1."""
        first = np.flatnonzero(known.node < initial)
        some = known if len(first) == len(known) else known.take(first)
        rank = arrival_ranks(some, seed)
        wave = np.searchsorted(wave_ends(len(some), rules.growth), rank, side="right")
        bits = draws.bits_np(seed, "contact", some.node)
        contact = planned_contacts(rules.contact, some, wave, rank, bits, kernel)
        plan = np.full((3, len(known)), -1)
        plan[:, first] = wave, rank, np.append(first, -1)[contact]  # index -1 yields -1
        return cls(*plan)

    def waves(self, share: Callable[..., Shared]) -> list[Wave]:
        """Return all waves; ``share(**arrays)`` makes their arrays readable for all buckets."""
        arriving = np.flatnonzero(self.wave >= 0)
        arriving = arriving[np.argsort(self.wave[arriving], kind="stable")]
        order, contact = self.rank[arriving], self.contact[arriving]
        arrays = share(arriving=arriving, order=order, contact=contact)
        ends = np.cumsum(np.bincount(self.wave[arriving])).tolist()
        return [Wave(arrays, first, last) for first, last in itertools.pairwise([0, *ends])]


# --- contacts


def planned_contacts(
    contact: str, known: Ring, wave: np.ndarray, rank: np.ndarray, drawn: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Return each node's contact, or the start of its search: positions; -1 in wave 0."""
    found, live = np.empty(len(known), dtype=np.int64), np.zeros(len(known), dtype=bool)
    order = np.argsort(wave, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(wave[order])) + 1):
        before = np.flatnonzero(live)
        found[members] = _contacts(contact, known, before, rank, members, drawn[members], kernel)
        live[members] = True
    return found


def contacts_in_round(environment: Environment, arriving: np.ndarray, number: int) -> np.ndarray:
    """Return the contact (a position) of each node that arrives in a round; -1: none is alive."""
    known, lives, rule = environment.facts.ring, environment.in_round, environment.rules.contact
    bits = draws.stream_at(environment.seed, "contact", number, known.node[arriving])
    of_live = lives.live(), lives.entered
    return _contacts(rule, known, *of_live, arriving, bits, environment.kernel)


def _contacts(
    contact: str,
    known: Ring,
    live: np.ndarray,
    entered: np.ndarray,
    arriving: np.ndarray,
    drawn: np.ndarray,
    kernel: Kernel,
) -> np.ndarray:
    """Return the `live` node that each arriving node asks; -1 if there is none."""
    if not len(live):
        return np.full(len(arriving), -1)
    if contact in ("random", "discovered"):
        return live[(drawn % np.uint64(len(live))).astype(np.int64)]
    # the first of equally near nodes counts: the smallest nodeId, or the last arrival
    if contact == "latest":
        live = live[np.argsort(-entered[live], kind="stable")]
    asking, of = np.unique(known.router[arriving], return_inverse=True)
    _, first = np.unique(known.router[live], return_index=True)
    first = live[np.sort(first)]
    return first[kernel.nearest(asking, known.router[first], np.array([0]))[:, 0]][of]
