"""Sustained churn: nodes fail after drawn lifetimes, and each is replaced in the same round.

The network has a fixed number of places.  The node in a place fails when its lifetime is over, and
another takes the place in the same round, so the same number of nodes is alive after every round.
This is how churn is set up in studies of DHTs under churn: a node is started for each that is
killed, or arrivals have the rate of departures.  Simulators that let each node alternate between
life and death, independently of the others, keep the population in the mean only.

Who takes a place is not alive at the start, or failed before: of these, the one that has waited
longest.  A node that comes back has its old nodeId.  NodeIds say nothing of when or where a node
is, so this is as good as a new one, and the number of nodes, and with it memory, has a bound.  By
default it *arrives*, with an empty state, as a new session does in those studies; or it *recovers*,
with its last known leaf set.

References
----------
Rhea, Geels, Roscoe and Kubiatowicz, "Handling churn in a DHT", USENIX 2004; Castro, Costa and
Rowstron, "Performance and dependability of structured peer-to-peer overlays", DSN 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from scribe_spark import draws
from scribe_spark.errors import InputError
from scribe_spark.worlds.lifetime_distributions import Lifetimes
from scribe_spark.worlds.rows import ARRIVE, FAIL, EventRows, Extent

#: Events are arrays on the driver, of about 100 bytes an event while they are made.
MOST_EVENTS = 50_000_000


def churn(extent: Extent, lifetimes: Lifetimes, replacement: int, seed: int) -> EventRows:
    """Failures and the replacements of the failed nodes, in all rounds.

    Lifetimes are real numbers; a node fails in the round that its end falls into, or in the next
    one if it has only just come.  The nodes that are alive at the start have lived before: theirs
    is what remains of a lifetime, so that as many fail in the first round as in any other.

    Parameters
    ----------
    extent : Extent
        ``initial`` nodes are alive after every round; the others wait.
    replacement : int
        How a node comes that failed before: `ARRIVE` or `RECOVER`.
    seed : int
        Key of the draws.

    Raises
    ------
    InputError
        More events than memory takes; a round in which more nodes fail than wait.
    """
    expected = 2 * extent.initial * extent.rounds / lifetimes.mean
    if expected > MOST_EVENTS:
        remedy = f"makes about {expected:,.0f} events; must be at most {MOST_EVENTS:,}"
        raise InputError("lifetime", lifetimes.mean, remedy)
    ends = _ends(extent.initial, extent.rounds, lifetimes, seed)
    waiting = extent.nodes - extent.initial
    _refuse_few_waiting(ends, extent)
    failed = _occupants(ends, extent.initial, waiting)
    place = np.arange(len(failed))
    back = extent.initial + place
    back[waiting:] = failed[: max(len(failed) - waiting, 0)]
    return EventRows(
        np.concatenate([ends.rounds, ends.rounds]),
        np.concatenate([failed, back]),
        np.concatenate(
            [
                np.full(len(failed), FAIL, dtype=np.int8),
                np.where(place < waiting, ARRIVE, replacement).astype(np.int8),
            ]
        ),
    )


@dataclass(frozen=True)
class _Ends:
    """Ends of lifetimes, E of them, by round and place.

    Attributes
    ----------
    rounds, places : ndarray of int64, shape (E,)
    previous : ndarray of int64, shape (E,)
        The row of the end before in the same place; -1 if it is the first there.
    """

    rounds: np.ndarray
    places: np.ndarray
    previous: np.ndarray


def _ends(places: int, rounds: int, lifetimes: Lifetimes, seed: int) -> _Ends:
    """All ends of lifetimes within the rounds.

    The n-th lifetimes of all places are a stream of their own; a place's is found at its number.
    """
    place = np.arange(places)
    raw = draws.stream(seed, "remaining lifetimes")
    time = lifetimes.remaining(draws.uniform(raw, places))
    at = np.minimum(time, rounds).astype(np.int64)
    previous = np.full(places, -1)
    made: list[np.ndarray] = []
    ends = 0
    for generation in count(1):
        going_on = at < rounds
        place, time, at = place[going_on], time[going_on], at[going_on]
        if not len(place):
            break
        made.append(np.stack([at, place, previous[going_on]]))
        previous = np.arange(ends, ends + len(place))
        ends += len(place)
        drawn = draws.uniform(draws.stream(seed, "lifetimes", generation), places)[place]
        time = time + lifetimes.lifetimes(drawn)
        at = np.maximum(at + 1, np.minimum(time, rounds).astype(np.int64))
    at, place, previous = np.concatenate([np.empty((3, 0), dtype=np.int64), *made], axis=1)
    order = np.lexsort((place, at))
    row = np.empty(ends, dtype=np.int64)
    row[order] = np.arange(ends)
    previous = np.where(previous < 0, -1, row[previous]) if ends else previous
    return _Ends(at[order], place[order], previous[order])


def _refuse_few_waiting(ends: _Ends, extent: Extent) -> None:
    """Refuse a round in which a failed node would have to come back at once."""
    waiting = extent.nodes - extent.initial
    failing = np.bincount(ends.rounds, minlength=1)
    if failing.max() > waiting:
        remedy = (
            f"leaves {waiting} of {extent.nodes} nodes as replacements, but "
            f"{failing.max()} fail in round {failing.argmax()}; give less, or more nodes"
        )
        raise InputError("initial", extent.initial, remedy)


def _occupants(ends: _Ends, initial: int, waiting: int) -> np.ndarray:
    """Return the node that fails at each end of a life: int64, shape (E,).

    The first in a place is the node of its number.  Any other came at the end before it there, the
    q-th of all: that is the q-th of those that wait from the start, or the one that failed at end
    q - `waiting`.  These links lead back to a known node; each pass doubles how far they reach.
    """
    link = np.arange(len(ends.places))
    known = np.where(ends.previous < 0, ends.places, initial + ends.previous)
    came_back = ends.previous >= waiting
    link[came_back] = ends.previous[came_back] - waiting
    while True:
        further = link[link]
        if (further == link).all():
            return known[link]
        link = further
