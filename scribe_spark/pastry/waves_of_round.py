"""The waves in which nodes arrive in a round, and whom these ask.

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
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.pastry.arrivals.waves import wave_size


def arrival_order(known: Ring, nodes: np.ndarray, number: int, seed: int) -> np.ndarray:
    """The nodes (positions) that arrive in a round, in the order of a draw."""
    drawn = draws.stream_at(seed, "arrival order", number, known.node[nodes])
    return nodes[np.lexsort((nodes, drawn))]


def split_in_waves(ordered: np.ndarray, live: int, growth: float) -> list[np.ndarray]:
    """The waves in which nodes arrive where `live` nodes are."""
    waves, done = [], 0
    while done < len(ordered):
        waves.append(ordered[done : done + wave_size(live + done, growth)])
        done += len(waves[-1])
    return waves


@dataclass(frozen=True)
class WaveOfRound:
    """A `Wave` of a round, by facts that all buckets know.

    Attributes
    ----------
    given : Given
        Who is alive before the wave, or already with it.
    arriving : ndarray of int64, shape (w,)
        Positions, ascending.
    order : ndarray of int64, shape (w,)
    number : int
        The round.
    """

    given: Given
    arriving: np.ndarray
    order: np.ndarray
    number: int = 0

    @classmethod
    def of(cls, given: Given, ordered: np.ndarray, number: int) -> WaveOfRound:
        """Return the wave of some nodes, which are in the order of their arrival."""
        place = np.argsort(ordered)
        return cls(given, ordered[place], place, number)

    @classmethod
    def of_nobody(cls, given: Given) -> WaveOfRound:
        """Return a wave in which nobody arrives."""
        return cls(given, whole_numbers(), whole_numbers())

    @functools.cached_property
    def live(self) -> np.ndarray:
        """See `Wave`."""
        live = self.given.in_round.live()
        return distinct(np.concatenate([live, self.arriving])) if len(self.arriving) else live

    @functools.cached_property
    def contact(self) -> np.ndarray:
        """The node that each asks first, or begins to search with; see `Wave`.

        To be read before anybody of the wave is alive.
        """
        given, known = self.given, self.given.facts.ring
        contact, live = given.rules.contact, given.in_round.live()
        if contact == "nearest":
            # (positions ascend with nodeIds: of equally near ones the smallest)
            return nearest_nodes(known, live, known.router[self.arriving], given.kernel)
        if contact == "latest":
            last = live[np.argsort(-given.in_round.entered[live], kind="stable")]
            return nearest_nodes(known, last, known.router[self.arriving], given.kernel)
        bits = draws.stream_at(given.seed, "contact", self.number, known.node[self.arriving])
        return live[(bits % np.uint64(len(live))).astype(np.int64)]
