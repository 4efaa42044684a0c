"""Lookups of a round: messages from live nodes to keys, and their results.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.core import draws
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.program import AT
from scribe_spark.pastry.closeness import roots
from scribe_spark.pastry.route import LiveRoute
from scribe_spark.pastry.table_repair import close_phase
from scribe_spark.rounds.events import KnowsLives
from scribe_spark.rounds.player import Environment, RoundPlayer

#: The table of lookups that have ended: the columns of `LiveRoute` and the number ``lookup``.
ENDED = "ended lookups"


@dataclass(frozen=True)
class Lookups:
    """The m lookups of a round: positions of the live nodes that start them, and keys."""

    source: np.ndarray
    keys: Keys


@dataclass(frozen=True)
class LookupResults:
    """The results of m lookups: their ends, hops and delays; arrays of shape (m,)."""

    source: np.ndarray  # positions of the first nodes
    at: np.ndarray  # positions of the last nodes
    keys: Keys
    delivered: np.ndarray  # bool
    right: np.ndarray  # bool: delivered at the live node that is closest to the key
    hops: np.ndarray  # transmissions that arrived
    lost: np.ndarray  # transmissions to dead nodes


def no_lookups() -> LookupResults:
    """Return the empty results of a round without lookups."""
    none, false = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    halves = np.empty(0, dtype=np.uint64)
    return LookupResults(none, none, Keys(halves, halves), false, false, none, none)


def drawn_lookups(lives: KnowsLives, count: int, number: int, seed: int) -> Lookups:
    """Return `count` drawn lookups of round `number`: random live nodes and random keys."""
    live = lives.live()
    drawn = draws.stream(seed, "lookup source", number).random_raw(count)
    halves = draws.stream(seed, "lookup key", number).random_raw(2 * count).reshape(-1, 2)
    source = live[(drawn % np.uint64(len(live))).astype(np.int64)]
    return Lookups(source, Keys(halves[:, 0].copy(), halves[:, 1].copy()))


def look_up(environment: Environment, lookups: Lookups) -> list[Program | IfRows]:
    """Return the programs that make lookups and then drop the dead entries that were found.

    The results are in the tables :data:`ENDED`, see :func:`lookup_results`.
    """
    if not len(lookups.source):
        return []
    return [LiveRoute(environment, "lookup", ENDED, _messages(lookups)), close_phase(environment)]


def _messages(lookups: Lookups) -> Columns:
    source, keys = lookups.source, lookups.keys
    number = np.arange(len(source))
    return {AT: source, "key_hi": keys.hi, "key_lo": keys.lo, "lookup": number}


def lookup_results(
    player: RoundPlayer, lookups: Lookups, taken: Mapping[str, Columns]
) -> LookupResults:
    """Return the results of lookups from the table :data:`ENDED` in `taken`.

    A lookup that is missing in the table was not delivered, because its source is dead.
    """
    m, keys = len(lookups.source), lookups.keys
    at, flags = lookups.source.copy(), np.zeros((2, m), dtype=bool)
    delivered, right, (hops, lost) = *flags, np.zeros((2, m), dtype=np.int64)
    if ENDED in taken:
        ended = taken[ENDED]
        which = ended["lookup"]
        at[which], delivered[which] = ended[AT], ended["delivered"]
        hops[which], lost[which] = ended["hops"], ended["lost"]
        known, live = player.environment.facts.ring, player.lives.live()
        right[which] = delivered[which] & (at[which] == roots(known, live, keys.take(which)))
    return LookupResults(lookups.source, at, keys, delivered, right, hops, lost)


def try_routes(player: RoundPlayer, lookups: Lookups) -> LookupResults:
    """Route lookups through the current tables; tables do not change and no message is counted.

    A lookup from a dead node is not delivered.
    """
    messages, alive = _messages(lookups), player.lives.is_alive(lookups.source)
    begin = {name: column[alive] for name, column in messages.items()}
    player.play(LiveRoute(player.environment, "", ENDED, begin))
    return lookup_results(player, lookups, player.take(ENDED))
