"""The generators of events of nodes, members and publications, and their registry.

A new generator is a function and an entry below; outside of the package, call
:func:`register_generator`.  :mod:`.events` combines the events of several generators.

*Churn*: the network has a fixed number of seats.  The node in a seat fails when its lifetime is
over, and another node takes the seat in the same round, so that the number of live nodes stays the
same; studies of DHTs do so, too (Rhea et al., "Handling churn in a DHT", USENIX 2004).  The new
node was not alive at the start, or has failed before; the one that has waited longest is taken.  It
*arrives* with empty tables or, if the user wants, *recovers* with its last known leaf set.
Lifetimes: Stutzbach and Rejaie, "Understanding churn in peer-to-peer networks", IMC 2006.

*One-time failures* take nodes that are alive before the round of the event and have no event in it.

*Group churn*: members quit after random times and are replaced, so that groups keep their size.  A
member that quits or dies is replaced in the same round by a live non-member, drawn uniformly among
the nodes that the access list allows.  If there is no such node, it is replaced as soon as there is
one.

*Publications*: a source publishes at most once per round and group.  Access lists are ignored here;
the group refuses sources that are not on its list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import gammaincinv

from scribe_spark.core import arrays, draws
from scribe_spark.core.errors import InputError
from scribe_spark.core.registry import Registry
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.pastry.next_hop import distances, roots
from scribe_spark.rounds.event_rows import (
    ALIVE_AFTER,
    ARRIVE,
    FAIL,
    JOIN,
    PUBLISH,
    QUIT,
    RECOVER,
    EventRows,
    Extent,
    groups_are,
)
from scribe_spark.worlds.groups import MAY_JOIN
from scribe_spark.worlds.setting import Setting, event_round, mean_rounds, publish_rate

if TYPE_CHECKING:
    from scribe_spark.config import WorldConfig


#: ``check(config, extent)`` refuses invalid parameters of a generator.
Check = Callable[["WorldConfig", Extent], None]

# --- churn of nodes


#: The maximal number of events; making an event takes about 100 bytes on the driver.
MOST_EVENTS = 50_000_000


@dataclass(frozen=True)
class Weibull:
    """Weibull-distributed lifetimes in rounds; with shape 1 they are exponential."""

    mean: float
    shape: float = 1.0

    @property
    def scale(self) -> float:
        """The scale of the distribution, in rounds."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def lifetimes(self, uniform: np.ndarray) -> np.ndarray:
        """Return lifetimes of new nodes in rounds from uniform numbers in [0, 1): float64."""
        return self.scale * (-np.log1p(-uniform)) ** (1 / self.shape)

    def remaining(self, uniform: np.ndarray) -> np.ndarray:
        """Return the remaining lifetimes of live nodes in rounds (not whole): float64.

        `uniform` has numbers in [0, 1). In a network with churn in equilibrium, the density of the
        remaining lifetime is P(lifetime > t) / mean (a renewal process). For exponential lifetimes
        it equals that of new nodes.
        """
        return self.scale * gammaincinv(1 / self.shape, uniform) ** (1 / self.shape)


def refuse_many_events(field: str, value: float, expected: float, what: str = "events") -> None:
    """Refuse the value of a field with which a generator is `expected` to make too many events."""
    if expected > MOST_EVENTS:
        remedy = f"makes about {expected:,.0f} {what}; must be at most {MOST_EVENTS:,}"
        raise InputError(field, value, remedy)


def churn(extent: Extent, lifetimes: Weibull, replacement: int, seed: int) -> EventRows:
    """Return the failures of nodes and the events of their replacements, in all rounds.

    Lifetimes are real numbers.  A node fails in the round that contains the end of its lifetime, or
    in the next round if it entered in that round.  Nodes that are alive at the start have a
    remaining lifetime, so that in the first round as many fail as in any other.  A failed node
    returns by the event `replacement`: `ARRIVE` or `RECOVER`.
    """
    expected = 2 * extent.initial * extent.rounds / lifetimes.mean
    refuse_many_events("lifetime", lifetimes.mean, expected)
    rounds, seats, previous = _ends(extent.initial, extent.rounds, lifetimes, seed)
    waiting = extent.nodes - extent.initial
    failing = np.bincount(rounds, minlength=1)
    if failing.max() > waiting:  # a failed node would have to return at once
        remedy = (
            f"leaves {waiting} of {extent.nodes} nodes as replacements, but "
            f"{failing.max()} fail in round {failing.argmax()}; give less, or more nodes"
        )
        raise InputError("initial", extent.initial, remedy)
    failed = _occupants(seats, previous, extent.initial, waiting)
    place = np.arange(len(failed))
    back = extent.initial + place
    back[waiting:] = failed[: max(len(failed) - waiting, 0)]
    fails = np.full(len(failed), FAIL, dtype=np.int8)
    returns = np.where(place < waiting, ARRIVE, replacement).astype(np.int8)
    return EventRows(np.r_[rounds, rounds], np.r_[failed, back], np.r_[fails, returns])


def _ends(places: int, rounds: int, lifetimes: Weibull, seed: int) -> np.ndarray:
    """Return all ends of lifetimes: round, seat, and the row of the previous end in the seat.

    The result is int64, shape (3, E), sorted by round and seat; the row is -1 for the first end. A
    *seat* has one live node at a time: a failed node and its replacement have the same seat. The
    n-th lifetimes of all seats form one random stream; the value of a seat is at the seat's index.
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
    return np.stack([at[order], place[order], previous[order]])


def _occupants(places: np.ndarray, previous: np.ndarray, initial: int, waiting: int) -> np.ndarray:
    """Return the node that fails at each end of a lifetime: int64, shape (E,).

    The first node of a seat has the seat's number.  Any other node took the seat at the previous
    end there; if that is end number q of all, the node is the q-th waiting node, or the node that
    failed at end q - `waiting`.  Following these links leads to a known node; each pass doubles
    their length.
    """
    link = np.arange(len(places))
    known = np.where(previous < 0, places, initial + previous)
    came_back = previous >= waiting
    link[came_back] = previous[came_back] - waiting
    while True:
        further = link[link]
        if (further == link).all():
            return known[link]
        link = further


# --- one-time events of nodes


def share_of(nodes: int, share: float) -> int:
    """Return a share of a number of nodes, rounded down, computed in exact decimals."""
    count = int(nodes * Fraction(str(share)))
    if count < 1:
        raise InputError("share", share, f"is less than one node of {nodes}; give more")
    return count


def flash_crowd(config: WorldConfig, extent: Extent) -> EventRows:
    """Let all nodes that are not alive at the start arrive in the round of the event."""
    late = np.arange(extent.initial, extent.nodes)
    return EventRows.at_once(event_round(config), late, ARRIVE)


def mass_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let a share of the live nodes, drawn uniformly, fail in the round of the event."""
    at = event_round(config)
    live = setting.lifetimes.untouched(at)
    size = share_of(len(live), config.world.share)
    failing = draws.distinct_below(len(live), size, config.seed, "mass failure", at)
    return EventRows.at_once(at, live[failing], FAIL)


def adjacent_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let a random live node and its successors on the ring fail.

    If l/2 nodes fail together, one side of their neighbours' leaf sets is dead, and the ring may
    stay broken there.  If l/2 - 1 fail, it can be repaired.
    """
    at, count = event_round(config), _adjacent(config)
    live = setting.lifetimes.untouched(at)
    _refuse_none_left("adjacent", count, len(live))
    raw = draws.stream(config.seed, "adjacent failure", at)
    first = live[int(draws.whole_numbers(raw, len(live), 1)[0])]
    on_ring = setting.ring.node[np.isin(setting.ring.node, live)]
    begin = int(np.flatnonzero(on_ring == first)[0])
    return EventRows.at_once(at, np.roll(on_ring, -begin)[:count], FAIL)


def _adjacent(config: WorldConfig) -> int:
    return config.world.adjacent or config.overlay.leaf_set // 2


def root_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let the live nodes nearest to the groupIds of the largest groups fail.

    `holders` is the number of failing nodes for each groupId: 1 is the root; with the number of
    replicas, all copies of the group's state are lost.
    """
    at, holders = event_round(config), config.world.holders
    largest = setting.known_groups.largest(extent.initial)[: config.world.roots]
    keys, ring = setting.keys(config).take(largest), setting.ring
    live = np.flatnonzero(np.isin(ring.node, setting.lifetimes.untouched(at)))
    _refuse_none_left("holders", holders, len(live))
    return EventRows.at_once(
        at, arrays.distinct(ring.node[_nearest(ring, live, keys, holders)]), FAIL
    )


def _check_failures(field: str, count: Callable[[WorldConfig], int]) -> Check:
    """Return the check of one-time failures: the round exists, and not all nodes fail."""

    def check(config: WorldConfig, extent: Extent) -> None:
        event_round(config)
        _refuse_none_left(field, count(config), extent.initial)

    return check


def _nearest(ring: Ring, live: np.ndarray, keys: Keys, count: int) -> np.ndarray:
    """Return the positions of the `count` live nodes nearest to each key: shape (m, count)."""
    after = np.empty(len(keys), dtype=np.int64)
    for place in range(len(keys)):  # there are few keys: one per group whose root fails
        below = (ring.hi[live] < keys.hi[place]) | (
            (ring.hi[live] == keys.hi[place]) & (ring.lo[live] < keys.lo[place])
        )
        after[place] = np.count_nonzero(below)
    width = min(2 * count, len(live))
    columns = (after[:, None] - count + np.arange(width)) % len(live)
    far = distances(ring, keys, live[columns])
    order = np.lexsort((far.position, far.lo, far.hi), axis=1)[:, :count]
    return np.take_along_axis(far.position, order, axis=1)


def _refuse_none_left(field: str, failing: int, live: int) -> None:
    if failing >= live:
        raise InputError(field, failing, f"leaves none of {live} nodes alive; give less")


# --- members


#: The number of random tries to fill a vacancy before all candidates are listed.
_TRIES = 8


def group_crowd(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Return joins of drawn non-members to one group, in the round of the event.

    The draw ignores the access list; the group refuses nodes that are not on it. By default the
    group is the smallest one at the start (of equal ones, that with the largest number), and all
    live nodes that are not members join.
    """
    groups, rows, at = setting.known_groups, setting.rows, event_round(config)
    group, count = config.world.crowd_group, config.world.crowd
    if group is None:
        group = int(groups.numbers[groups.largest(extent.initial)[-1]])
    if group not in groups.numbers:
        raise InputError("crowd_group", group, f"is not a group; {groups_are(groups.numbers)}")
    tried = rows.take((rows.events == JOIN) & (rows.groups == group) & (rows.rounds <= at))
    _, life = setting.lifetimes.at(tried.nodes, tried.rounds)
    still = life == setting.lifetimes.at(tried.nodes, at)[1]
    others = arrays.without(setting.lifetimes.live(at), tried.nodes[still])
    count = len(others) if count is None else count
    if not 0 < count <= len(others):
        remedy = (
            f"is more than the {len(others)} live nodes outside group {group} in round "
            f"{at}; give less, or another crowd_group"
        )
        raise InputError("crowd", count, remedy)
    drawn = others[draws.distinct_below(len(others), count, config.seed, "group crowd", group)]
    return EventRows.of_groups(at, drawn, JOIN, group)


def joined_again(setting: Setting) -> EventRows:
    """Return joins of nodes that arrive or recover, for the groups that they had joined before.

    They join in that round. Members at the start that are not alive at the start join when they
    arrive. A node that has quit a group does not join it again automatically.
    """
    rows, groups, extent = setting.rows, setting.known_groups, setting.extent
    of_start, nodes = groups.members
    at_start = EventRows.of_groups(0, nodes, JOIN, of_start)
    later = rows.take((rows.events == JOIN) & (rows.rounds > 0))
    joins = EventRows.join(at_start, later)
    joins = joins.take(~_have_quit(joins, rows))
    enters = rows.take(rows.of_node)
    enters = enters.take(ALIVE_AFTER[enters.events])
    key = np.sort(enters.nodes * np.int64(extent.rounds) + enters.rounds)
    first = np.searchsorted(key, joins.nodes * np.int64(extent.rounds) + joins.rounds, "right")
    last = np.searchsorted(key, (joins.nodes + 1) * np.int64(extent.rounds))
    count = int((last - first).sum())
    if count > MOST_EVENTS:
        remedy = (
            f"makes {count:,} joins of nodes that come back, more than {MOST_EVENTS:,}; "
            "give fewer members, or no rejoin"
        )
        raise InputError("rejoin", True, remedy)
    of, row = arrays.expand(first, last)
    return EventRows.of_groups(key[row] % extent.rounds, joins.nodes[of], JOIN, joins.groups[of])


def _have_quit(joins: EventRows, rows: EventRows) -> np.ndarray:
    """Return True for joins whose node quits the group in some round, by the events `rows`."""
    quits = rows.take(rows.events == QUIT)
    numbers = arrays.distinct(quits.groups)
    place = arrays.find_sorted(numbers, joins.groups)
    gone = np.isin(
        place * 2**31 + joins.nodes, arrays.find_sorted(numbers, quits.groups) * 2**31 + quits.nodes
    )
    return gone & (place != arrays.NONE)


# --- group churn


def group_churn(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Return the quits and joins of all rounds, for the members given by earlier events.

    Members stay for times with an exponential distribution.  A member quits in the round that
    contains the end, or in the next round if it joined in that round.
    """
    times = Weibull(mean_rounds(config, "membership"))
    expected = 2 * len(setting.memberships) * extent.rounds / times.mean
    refuse_many_events("membership", times.mean, expected)
    churn = _Churn(setting, times, config.seed)
    for at, alive in enumerate(setting.lifetimes.by_round()):
        churn.play_round(at, alive)
    return EventRows.join(EventRows.none(), *churn.events)


@dataclass(frozen=True)
class _Pairs(arrays.Rows):
    """Members: groups (by index) and nodes, with the times (rounds) at which the members quit."""

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
        self._given_places = arrays.index_sorted(self._groups.numbers, self._given.groups)
        self._members = _Pairs(arrays.whole_numbers(), arrays.whole_numbers(), np.empty(0))
        self._wanted = np.zeros(len(self._groups.numbers), dtype=np.int64)
        listed = self._groups.access.listed(MAY_JOIN)
        self._is_listed = np.isin(self._groups.numbers, listed)
        self.events: list[EventRows] = []

    def play_round(self, at: int, alive: np.ndarray) -> None:
        """Play round `at`, after whose node events `alive` nodes live: quits and replacements."""
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
        places, nodes = self._drawn(missing, np.flatnonzero(alive), arrays.distinct(taken), at)
        replacing = self._pairs(places, nodes, at)
        self._members = _Pairs.join(members, replacing)
        for event, pairs in ((QUIT, quits), (JOIN, replacing)):
            numbers = self._groups.numbers[pairs.places]
            self.events.append(EventRows.of_groups(at, pairs.nodes, event, numbers))

    def _pairs(self, places: np.ndarray, nodes: np.ndarray, at: int) -> _Pairs:
        """Return new members, who stay for at least one round, with their ends."""
        raw = draws.bits_np(self._seed, "membership times", at, self._groups.numbers[places], nodes)
        stays = self._times.lifetimes(_uniform(raw))
        return _Pairs(places, nodes, at + np.maximum(1.0, stays))

    def _drawn(
        self, missing: np.ndarray, live: np.ndarray, taken: np.ndarray, at: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw live nodes that fill vacancies (G,), but no `taken` key; return groups and nodes."""
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
            takes &= (arrays.find_sorted(taken, keys) == arrays.NONE) & ~np.isin(
                keys, np.concatenate(found)
            )
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
        """Draw `count` live nodes that join the group at `place`, but no `taken` key: keys."""
        number = int(self._groups.numbers[place])
        if self._is_listed[place]:
            live = np.intersect1d(live, self._groups.access.permitted(MAY_JOIN, number))
        keys = place * 2**31 + live
        keys = keys[arrays.find_sorted(taken, keys) == arrays.NONE]
        raw = draws.bits_np(self._seed, "group churn of few", at, number, keys % 2**31)
        return keys[np.argsort(raw, kind="stable")[:count]]


# --- publications


#: The possible sources in a round: the nodes; the number of each group's sources; and the index of
#: its first source; int64 arrays, the last two of shape (G,).
Sources = tuple[np.ndarray, np.ndarray, np.ndarray]

#: ``pool(round, alive)`` returns the possible sources, of which the array `alive` marks live nodes.
Pool = Callable[[int, np.ndarray], Sources]


def publications(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Return the publications of all rounds.

    After r rounds a group has had floor(r * rate + u) publications, where u is drawn in [0, 1) for
    each group.  So with a rate below 1, groups publish in different rounds.  The sources of a group
    take turns if their number is limited; otherwise the first source of a round is drawn.
    """
    numbers, seed = setting.known_groups.numbers, config.seed
    rate, publishers = publish_rate(config), config.world.publishers
    pool = _pool(config, setting)
    refuse_many_events("publish_rate", rate, rate * len(numbers) * extent.rounds, "publications")
    offset = _uniform(draws.bits_np(seed, "publication offset", numbers))
    made = [EventRows.none()]
    for at, alive in enumerate(setting.lifetimes.by_round()):
        before, after = (np.floor(r * rate + offset).astype(np.int64) for r in (at, at + 1))
        sources, counts, begins = pool(at, alive)
        due = np.minimum(after - before, counts)
        first = before
        if not publishers:
            raw = draws.bits_np(seed, "publication source", at, numbers)
            first = (raw >> np.uint64(1)).astype(np.int64)
        place, nth = arrays.expand(np.zeros_like(due), due)
        column = (first[place] % counts[place] + nth) % counts[place]
        chosen = sources[begins[place] + column]
        made.append(EventRows.of_groups(at, chosen, PUBLISH, numbers[place]))
    return EventRows.join(*made)


def from_roots(config: WorldConfig) -> bool:
    """Return True if roots publish in a config's world, so that events depend on nodeIds."""
    return config.world.publish_source == "root"


def _pool(config: WorldConfig, setting: Setting) -> Pool:
    """Return the sources of :func:`publications`: members, roots or any nodes.

    With `publishers`, a group has the first ones of these in an order that is drawn for the group.
    """
    publishers, source = config.world.publishers, config.world.publish_source
    if source == "root":
        return root_sources(setting, config)
    if source == "member":
        return member_sources(setting, config.seed, "publisher" if publishers else "", publishers)
    return _any_sources(setting, config.seed, publishers)


def root_sources(setting: Setting, config: WorldConfig) -> Pool:
    """Return the root of each group: the live node closest to the groupId."""
    ring, keys = setting.ring, setting.keys(config)
    place = np.arange(len(keys))

    def pool(at: int, alive: np.ndarray) -> Sources:
        live = np.flatnonzero(alive[ring.node])
        return ring.node[roots(ring, live, keys)], np.ones_like(place), place

    return pool


def member_sources(setting: Setting, seed: int, purpose: str, most: int) -> Pool:
    """Return the first `most` members of each group (0: all), by number or in a drawn order.

    `purpose` keys the draws; without it, members are in the order of numbers.  A source that leaves
    is replaced.
    """
    numbers, members = setting.known_groups.numbers, setting.memberships
    place = arrays.index_sorted(numbers, members.groups)
    drawn = members.nodes
    if purpose:
        drawn = draws.bits_np(seed, purpose, members.groups, members.nodes)
        drawn = drawn.view(np.int64) if purpose == "source" else drawn  # as in a run
    order = np.lexsort((members.nodes, drawn, place))
    members, place = members.take(order), place[order]

    def pool(at: int, alive: np.ndarray) -> Sources:
        there = (members.begins <= at) & (at < members.ends)  # members are alive
        return _first_of_each(place[there], members.nodes[there], len(numbers), most)

    return pool


def _any_sources(setting: Setting, seed: int, publishers: int) -> Pool:
    """Return the live nodes for each group, or the first ones of a list drawn for the group."""
    numbers, nodes = setting.known_groups.numbers, setting.extent.nodes

    def pool(at: int, alive: np.ndarray) -> Sources:
        live = np.flatnonzero(alive)
        if not publishers:
            return live, np.full(len(numbers), len(live)), np.zeros_like(numbers)
        wanted = min(publishers, len(live))
        length = 2 * wanted + 8
        while True:
            raw = draws.bits_np(seed, "publisher", numbers[:, None], np.arange(length))
            drawn = (raw % np.uint64(nodes)).astype(np.int64).ravel()
            place = np.repeat(np.arange(len(numbers)), length)
            first = np.sort(np.unique(place * 2**31 + drawn, return_index=True)[1])
            first = first[alive[drawn[first]]]
            found = _first_of_each(place[first], drawn[first], len(numbers), wanted)
            if (found[1] == wanted).all():
                return found
            length *= 2

    return pool


def _first_of_each(place: np.ndarray, nodes: np.ndarray, groups: int, most: int) -> Sources:
    """Return the first `most` nodes of each group (0: all), from rows sorted by group (`place`)."""
    counts = np.bincount(place, minlength=groups)
    return nodes, np.minimum(counts, most) if most else counts, np.cumsum(counts) - counts


def _uniform(bits: np.ndarray) -> np.ndarray:
    """Return drawn bits as uniform numbers in [0, 1): float64."""
    return (bits >> np.uint64(11)) * 2.0**-53


# --- the registry


#: The order in which generators run, whatever the order of their names in a config.
STEPS = ("nodes", "failures", "members", "publications")


@dataclass(frozen=True)
class Generator:
    """A generator of events, selected by ``--generator NAME``.

    Attributes
    ----------
    name : str
    generate : callable
        ``generate(config, extent)`` returns EventRows in any order; if `needs_ids`,
        ``generate(config, extent, nodes)`` with `schemas.NODES`; if `needs_setting`,
        ``generate(config, extent, setting)``.  The key of every random draw is ``config.seed``, a
        purpose and a row.
    initial : callable, optional
        ``initial(config)`` returns the number of nodes alive at the start, unless the config sets
        it; by default all.  At most one of the chosen generators may have it.
    needs_ids : bool or callable
        True if the events depend on nodeIds, which only Spark knows; or a function of the config.
    sets_initial : bool
        True if `initial` follows from the generator's parameters; then the config must not set it.
    needs_setting : bool
        True if the events depend on those of earlier generators, or on groups.
    needs_groups : bool
        True for group events, which need a world with groups.
    step : str
        The step in which the generator runs: one of :data:`STEPS`.
    check : callable, optional
        ``check(config, extent)`` refuses invalid parameters before nodeIds are known.
    """

    name: str
    generate: Callable[..., EventRows]
    initial: Callable[[WorldConfig], int] | None = None
    needs_ids: bool | Callable[[WorldConfig], bool] = False
    sets_initial: bool = False
    needs_setting: bool = False
    needs_groups: bool = False
    step: Literal["nodes", "failures", "members", "publications"] = "nodes"
    check: Check | None = None

    def needs_spark(self, config: WorldConfig) -> bool:
        """Return True if the events depend on data that only Spark knows."""
        return self.needs_ids(config) if callable(self.needs_ids) else self.needs_ids

    def events(self, config: WorldConfig, setting: Setting) -> EventRows:
        """Return the generator's events for a config, given the earlier events in `setting`."""
        if self.needs_setting:
            return self.generate(config, setting.extent, setting)
        if self.needs_spark(config):
            return self.generate(config, setting.extent, setting.nodes)
        return self.generate(config, setting.extent)


def _churn(config: WorldConfig, extent: Extent) -> EventRows:
    world = config.world
    shape = world.weibull_shape if world.lifetime_distribution == "weibull" else 1.0
    replacement = RECOVER if world.replacement == "recover" else ARRIVE
    return churn(extent, Weibull(mean_rounds(config, "lifetime"), shape), replacement, config.seed)


def _nine_tenths(config: WorldConfig) -> int:
    return max(1, config.overlay.nodes - max(1, config.overlay.nodes // 10))


def _all_but_the_crowd(config: WorldConfig) -> int:
    return config.overlay.nodes - share_of(config.overlay.nodes, config.world.share)


_GENERATORS: Registry[Generator] = Registry(
    "generator of events",
    Generator("mass-failure", mass_failure, needs_setting=True, step="failures"),
    Generator(
        "adjacent-failure", adjacent_failure, needs_ids=True, needs_setting=True,
        step="failures", check=_check_failures("adjacent", _adjacent),
    ),
    Generator("churn", _churn, initial=_nine_tenths),
    Generator("flash-crowd", flash_crowd, initial=_all_but_the_crowd, sets_initial=True),
    Generator(
        "root-failure", root_failure, needs_ids=True, needs_setting=True, needs_groups=True,
        step="failures", check=_check_failures("holders", lambda config: config.world.holders),
    ),
    Generator("group-crowd", group_crowd, needs_setting=True, needs_groups=True, step="members"),
    Generator("group-churn", group_churn, needs_setting=True, needs_groups=True, step="members"),
    Generator(
        "publications", publications, needs_ids=from_roots, needs_setting=True,
        needs_groups=True, step="publications",
    ),
)  # fmt: skip


def generators() -> Mapping[str, Generator]:
    """Return all generators by name."""
    return _GENERATORS


#: Register a generator in this process, and remove a user's generator: see `Registry`.
register_generator, unregister_generator = _GENERATORS.register, _GENERATORS.unregister
