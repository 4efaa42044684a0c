"""Group churn: members quit after random times and are replaced, so that groups keep their size.

A member that quits or dies is replaced in the same round by a live non-member, drawn uniformly
among the nodes that the access list allows.  If there is no such node, it is replaced as soon as
there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import NONE, Rows, distinct, find_sorted, whole_numbers
from scribe_spark.worlds.access import MAY_JOIN
from scribe_spark.worlds.churn import Weibull, refuse_many_events
from scribe_spark.worlds.lengths import mean_rounds
from scribe_spark.worlds.rows import JOIN, QUIT, EventRows, Extent
from scribe_spark.worlds.setting import Setting

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

#: The number of random tries to fill a vacancy before all candidates are listed.
_TRIES = 8


def group_churn(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Return the quits and joins of all rounds, for the members given by earlier events.

    Members stay for times with an exponential distribution.  A member quits in the round that
    contains the end, or in the next round if it joined in that round.

    Raises
    ------
    InputError
        There are too many events.
    """
    times = Weibull(mean_rounds(config, "membership"))
    expected = 2 * len(setting.memberships) * extent.rounds / times.mean
    refuse_many_events("membership", times.mean, expected)
    churn = _Churn(setting, times, config.seed)
    for at, alive in enumerate(setting.lifetimes.by_round()):
        churn.play(at, alive)
    return EventRows.join(EventRows.none(), *churn.events)


@dataclass(frozen=True)
class _Pairs(Rows):
    """Groups (by index) and nodes, with the times at which the members quit."""

    places: np.ndarray
    nodes: np.ndarray
    ends: np.ndarray

    @property
    def keys(self) -> np.ndarray:
        return self.places * 2**31 + self.nodes


class _Churn:
    """The members after the rounds played so far, and the events of these rounds."""

    def __init__(self, setting: Setting, times: Weibull, seed: int) -> None:
        self._groups, self._given = setting.known_groups, setting.memberships
        self._times, self._seed = times, seed
        self._given_places = np.searchsorted(self._groups.numbers, self._given.groups)
        self._members = _Pairs(whole_numbers(), whole_numbers(), np.empty(0))
        self._wanted = np.zeros(len(self._groups.numbers), dtype=np.int64)
        listed = self._groups.access.listed(MAY_JOIN)
        self._is_listed = np.isin(self._groups.numbers, listed)
        self.events: list[EventRows] = []

    def play(self, at: int, alive: np.ndarray) -> None:
        """Play one round; `alive` marks the live nodes after the round's node events."""
        members = self._members.take(alive[self._members.nodes])
        going = members.ends < at + 1
        quits, members = members.take(going), members.take(~going)
        joined = self._given.begins == at
        new = self._pairs(self._given_places[joined], self._given.nodes[joined], at)
        self._wanted += np.bincount(new.places, minlength=len(self._wanted))
        members = _Pairs.join(members, new)
        missing = self._wanted - np.bincount(members.places, minlength=len(self._wanted))
        later = self._given.begins > at
        reserved = self._given_places[later] * 2**31 + self._given.nodes[later]
        taken = np.concatenate([members.keys, quits.keys, reserved])
        places, nodes = self._drawn(missing, np.flatnonzero(alive), distinct(taken), at)
        replacing = self._pairs(places, nodes, at)
        self._members = _Pairs.join(members, replacing)
        for event, pairs in ((QUIT, quits), (JOIN, replacing)):
            numbers = self._groups.numbers[pairs.places]
            self.events.append(EventRows.of_groups(at, pairs.nodes, event, numbers))

    def _pairs(self, places: np.ndarray, nodes: np.ndarray, at: int) -> _Pairs:
        """Return new members of a round; each stays for at least one round."""
        raw = draws.bits_np(self._seed, "membership times", at, self._groups.numbers[places], nodes)
        uniform = (raw >> np.uint64(11)) * 2.0**-53
        return _Pairs(places, nodes, at + np.maximum(1.0, self._times.lifetimes(uniform)))

    def _drawn(
        self, missing: np.ndarray, live: np.ndarray, taken: np.ndarray, at: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the nodes that fill the vacancies `missing` (G,); return indices of groups, and
        nodes.  `taken` has the sorted keys of pairs that are not allowed.
        """
        found = [np.empty(0, dtype=np.int64)]
        numbers = self._groups.numbers
        sizes = np.bincount(taken // 2**31, minlength=len(missing))
        listed = np.where(self._is_listed | (2 * sizes > len(live)), missing, 0)
        places = np.repeat(np.arange(len(missing)), missing - listed)
        slots = np.arange(len(places))
        for again in range(_TRIES):
            if not len(places):
                break
            raw = draws.bits_np(self._seed, "group churn", at, numbers[places], slots, again)
            keys = places * 2**31 + live[(raw % np.uint64(len(live))).astype(np.int64)]
            takes = np.zeros(len(keys), dtype=bool)
            takes[np.unique(keys, return_index=True)[1]] = True
            takes &= (find_sorted(taken, keys) == NONE) & ~np.isin(keys, np.concatenate(found))
            found.append(keys[takes])
            places, slots = places[~takes], slots[~takes]
        listed += np.bincount(places, minlength=len(missing))
        taken = np.sort(np.concatenate([taken, *found]))
        for place in np.flatnonzero(listed):
            found.append(self._listed(int(place), int(listed[place]), live, taken, at))
        keys = np.sort(np.concatenate(found))
        return keys // 2**31, keys % 2**31

    def _listed(
        self, place: int, count: int, live: np.ndarray, taken: np.ndarray, at: int
    ) -> np.ndarray:
        """Return the keys of nodes that join a group with few candidates."""
        number = int(self._groups.numbers[place])
        if self._is_listed[place]:
            live = np.intersect1d(live, self._groups.access.permitted(MAY_JOIN, number))
        keys = place * 2**31 + live
        keys = keys[find_sorted(taken, keys) == NONE]
        raw = draws.bits_np(self._seed, "group churn of few", at, number, keys % 2**31)
        return keys[np.argsort(raw, kind="stable")[:count]]
