"""Group churn: members quit after drawn times, and others join, so that groups keep their size.

As in churn of nodes, there is one that comes for each that goes: a member that quits or dies is
replaced in the same round by a live node that is no member, drawn uniformly of those that the
access list permits; where there is none, as soon as there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import NONE, Rows, distinct, find_sorted
from scribe_spark.errors import InputError
from scribe_spark.worlds.access import MAY_JOIN
from scribe_spark.worlds.churn import MOST_EVENTS
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.lifetime_distributions import Lifetimes
from scribe_spark.worlds.rows import JOIN, QUIT, EventRows
from scribe_spark.worlds.setting import Setting

#: How often a node is drawn for a place before the nodes that may take it are listed.
_TRIES = 8


def group_churn(setting: Setting, times: Lifetimes, seed: int) -> EventRows:
    """Quits and joins of all rounds, for the members that the events so far have.

    Parameters
    ----------
    times : Lifetimes
        How long a member stays.  It quits in the round that the end falls into, or in the next one
        if it has only just joined.

    Raises
    ------
    InputError
        More events than memory takes.
    """
    given = setting.memberships
    expected = 2 * len(given.nodes) * setting.extent.rounds / times.mean
    if expected > MOST_EVENTS:
        remedy = f"makes about {expected:,.0f} events; must be at most {MOST_EVENTS:,}"
        raise InputError("membership", times.mean, remedy)
    churn = _Churn(setting, times, seed)
    for at, alive in enumerate(setting.lifetimes.by_round()):
        churn.play(at, alive)
    return EventRows.join(EventRows.none(), *churn.events)


@dataclass(frozen=True)
class _Pairs(Rows):
    """Groups (places among the numbers) and nodes; with the times at which members quit."""

    places: np.ndarray
    nodes: np.ndarray
    ends: np.ndarray

    @property
    def keys(self) -> np.ndarray:
        return self.places * 2**31 + self.nodes


class _Churn:
    """The members after the rounds that have been played, and the events of these."""

    def __init__(self, setting: Setting, times: Lifetimes, seed: int) -> None:
        self._groups: WorldGroups = setting.known_groups
        self._times, self._seed = times, seed
        given = setting.memberships
        self._given = given
        self._given_places = np.searchsorted(self._groups.numbers, given.groups)
        none = np.empty(0, dtype=np.int64)
        self._members = _Pairs(none, none, np.empty(0))
        self._wanted = np.zeros(len(self._groups.numbers), dtype=np.int64)
        listed = self._groups.access.listed(MAY_JOIN)
        self._is_listed = np.isin(self._groups.numbers, listed)
        self.events: list[EventRows] = []

    def play(self, at: int, alive: np.ndarray) -> None:
        """Play one round; `alive` marks the live nodes after its events of nodes."""
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
        self._add(at, QUIT, quits)
        self._add(at, JOIN, replacing)

    def _pairs(self, places: np.ndarray, nodes: np.ndarray, at: int) -> _Pairs:
        """Members that join in a round; each stays a round at least."""
        raw = draws.bits_np(self._seed, "membership times", at, self._groups.numbers[places], nodes)
        uniform = (raw >> np.uint64(11)) * 2.0**-53
        return _Pairs(places, nodes, at + np.maximum(1.0, self._times.lifetimes(uniform)))

    def _add(self, at: int, event: int, pairs: _Pairs) -> None:
        numbers = self._groups.numbers[pairs.places]
        self.events.append(EventRows.of_groups(at, pairs.nodes, event, numbers))

    def _drawn(
        self, missing: np.ndarray, live: np.ndarray, taken: np.ndarray, at: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places of groups and the nodes that join them.

        Parameters
        ----------
        missing : ndarray of int64, shape (G,)
            How many members each group lacks.
        live : ndarray of int64
        taken : ndarray of int64
            Keys of pairs that cannot be, ascending.
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
        """Keys of nodes that join a group in which few places are free, or few nodes may join."""
        number = int(self._groups.numbers[place])
        if self._is_listed[place]:
            live = np.intersect1d(live, self._groups.access.permitted(MAY_JOIN, number))
        keys = place * 2**31 + live
        keys = keys[find_sorted(taken, keys) == NONE]
        raw = draws.bits_np(self._seed, "group churn of few", at, number, keys % 2**31)
        return keys[np.argsort(raw, kind="stable")[:count]]
