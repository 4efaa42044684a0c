"""Lookups of a round: messages from live nodes with keys, and where they end.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.program import AT, Together
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.pastry.closeness import Keys, roots
from scribe_spark.pastry.live_route import LiveRoute
from scribe_spark.pastry.lives import KnowsLives
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.table_repair import close_phase

#: The table of lookups that have ended: as of `LiveRoute`, with the number of each: ``lookup``.
ENDED = "ended lookups"


@dataclass(frozen=True)
class Lookups:
    """Lookups to be made.

    Attributes
    ----------
    source : ndarray of int64, shape (m,)
        Positions of live nodes.
    keys : Keys
    """

    source: np.ndarray
    keys: Keys


@dataclass(frozen=True)
class LookupResults:
    """The outcomes of lookups: arrays of shape (m,).

    Attributes
    ----------
    source, at : ndarray of int64
        Positions of where they began and ended.
    keys : Keys
    delivered : ndarray of bool
        False: undeliverable.
    right : ndarray of bool
        Delivered at the live node that is numerically closest to the key.
    hops, lost : ndarray of int64
        Transmissions that arrived, and that met a dead node.
    """

    source: np.ndarray
    at: np.ndarray
    keys: Keys
    delivered: np.ndarray
    right: np.ndarray
    hops: np.ndarray
    lost: np.ndarray


def drawn_lookups(lives: KnowsLives, count: int, number: int, seed: int) -> Lookups:
    """Lookups between random live nodes and random keys, drawn for a round."""
    live = lives.live()
    drawn = draws.stream(seed, "lookup source", number).random_raw(count)
    halves = draws.stream(seed, "lookup key", number).random_raw(2 * count).reshape(-1, 2)
    source = live[(drawn % np.uint64(len(live))).astype(np.int64)]
    return Lookups(source, Keys(halves[:, 0].copy(), halves[:, 1].copy()))


def look_up(
    given: Given, lookups: Lookups, besides: Sequence[Program] = ()
) -> list[Program | IfRows]:
    """Make the lookups of a round; the dead entries that they found are dropped after all of them.

    What became of them is in the tables :data:`ENDED`, see :func:`lookup_results`.

    Parameters
    ----------
    besides : sequence of Program
        Played in the same supersteps; they write nothing that lookups read.

    Returns
    -------
    list of Program or IfRows
        To be played one after the other.
    """
    if not len(lookups.source):
        return [*besides]
    route = LiveRoute(given, "lookup", ENDED, _messages(lookups))
    return [Together((*besides, route)) if besides else route, close_phase(given)]


def _messages(lookups: Lookups) -> Columns:
    source, keys = lookups.source, lookups.keys
    number = np.arange(len(source))
    return {AT: source, "key_hi": keys.hi, "key_lo": keys.lo, "lookup": number}


def lookup_results(player: Player, lookups: Lookups, taken: Mapping[str, Columns]) -> LookupResults:
    """Return what became of lookups.

    Parameters
    ----------
    taken : mapping of Columns
        The table :data:`ENDED`.  A lookup that is not in it is not delivered: its source is dead.
    """
    m, keys = len(lookups.source), lookups.keys
    at, flags = lookups.source.copy(), np.zeros((2, m), dtype=bool)
    delivered, right, (hops, lost) = *flags, np.zeros((2, m), dtype=np.int64)
    if ENDED in taken:
        ended = taken[ENDED]
        which = ended["lookup"]
        at[which], delivered[which] = ended[AT], ended["delivered"]
        hops[which], lost[which] = ended["hops"], ended["lost"]
        known, live = player.given.facts.ring, player.lives.live()
        right[which] = delivered[which] & (at[which] == roots(known, live, keys.take(which)))
    return LookupResults(lookups.source, at, keys, delivered, right, hops, lost)


def try_routes(player: Player, lookups: Lookups) -> LookupResults:
    """Route lookups as they would go now; nothing changes and nothing is counted.

    One from a dead node goes nowhere: it is not delivered.
    """
    messages, alive = _messages(lookups), player.lives.is_alive(lookups.source)
    begin = {name: column[alive] for name, column in messages.items()}
    player.play(LiveRoute(player.given, "", ENDED, begin))
    return lookup_results(player, lookups, player.take(ENDED))
