"""The waves in which nodes arrive in a round, and the contacts of these nodes.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import distinct, whole_numbers
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.contacts import nearest_nodes
from scribe_spark.pastry.arrivals.waves import wave_size
from scribe_spark.rounds.environment import Environment


def arrival_order(known: Ring, nodes: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Return the nodes (positions) that arrive in a round, in random order."""
    drawn = draws.stream_at(seed, "arrival order", number, known.node[nodes])
    return nodes[np.lexsort((nodes, drawn))]


def split_in_waves(ordered: np.ndarray, live: int, growth: float) -> list[np.ndarray]:
    """Split arriving nodes into waves, in an overlay of `live` nodes."""
    waves, done = [], 0
    while done < len(ordered):
        waves.append(ordered[done : done + wave_size(live + done, growth)])
        done += len(waves[-1])
    return waves


@dataclass(frozen=True)
class WaveOfRound:
    """A `Wave` of a round, computed from facts that all buckets know.

    The lives in the environment are those before or after the wave.
    """

    given: Environment
    arriving: np.ndarray
    order: np.ndarray
    number: int = 0

    @classmethod
    def of(cls, given: Environment, ordered: np.ndarray, number: int) -> WaveOfRound:
        """Return the wave of nodes that are given in their order of arrival."""
        place = np.argsort(ordered)
        return cls(given, ordered[place], place, number)

    @classmethod
    def of_nobody(cls, given: Environment) -> WaveOfRound:
        """Return an empty wave."""
        return cls(given, whole_numbers(), whole_numbers())

    @functools.cached_property
    def live(self) -> np.ndarray:
        """See `Wave`."""
        live = self.given.in_round.live()
        return distinct(np.concatenate([live, self.arriving])) if len(self.arriving) else live

    @functools.cached_property
    def contact(self) -> np.ndarray:
        """The contact of each node (or the start of its search); see `Wave`.

        Read this before the nodes of the wave are marked alive.
        """
        given, known = self.given, self.given.facts.ring
        contact, live = given.rules.contact, given.in_round.live()
        if contact == "nearest":
            # (positions ascend with nodeIds, so ties go to the smallest nodeId)
            return nearest_nodes(known, live, known.router[self.arriving], given.kernel)
        if contact == "latest":
            last = live[np.argsort(-given.in_round.entered[live], kind="stable")]
            return nearest_nodes(known, last, known.router[self.arriving], given.kernel)
        bits = draws.stream_at(given.seed, "contact", self.number, known.node[self.arriving])
        return live[(bits % np.uint64(len(live))).astype(np.int64)]
