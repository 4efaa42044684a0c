"""Systems that play a kernel of the clock in each round: of a world, or the round 0 of a run.

Each group is a room of the clock, and each member is a place.  A round has two plays, each from
time 0 until nothing is due: first members fail, leave and quit, newcomers arrive in waves, and
members refresh what they know (K8, K9); then sources publish (K10).  The state of the members stays
in the buckets (`clock.STATE`), which count messages and receivers (K11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.bandwidth.windows import play_in_windows
from scribe_spark.clock.bucket import (
    COMMANDS,
    COPIES,
    COUNTS,
    LINKED,
    PLACES,
    RECEIPTS,
    SENT,
    STATE,
    KernelSetting,
    PlayKernel,
    Wires,
)
from scribe_spark.clock.kernel import (
    ARRIVE,
    COMMANDS_OF_GROUPS,
    DOWN,
    FAIL,
    LEAVE,
    PUBLISH,
    REFRESH,
    Kinds,
    Payload,
)
from scribe_spark.core import arrays, draws
from scribe_spark.core.keys import key_of, order_of
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.packing import Columns, count_rows, take
from scribe_spark.engine.program import SilentProgram, Tables, append, in_bucket
from scribe_spark.rounds import pending
from scribe_spark.rounds.group_events import keys_in
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    notes_copies,
)
from scribe_spark.underlay.protocol import Kernel as Network
from scribe_spark.underlay.protocol import node_delays

#: Tables of a round: the keys (group, node) of members that stay; sums over a bucket's members.
_STAY, _SUMS = "members that stay", "sums over members"

#: The time between two waves of newcomers, in microseconds.
WAVE_US = 10_000_000

#: The least time that a message takes while members fail, leave and arrive: a coarser clock has
#: fewer windows.
LEAST_US = 40_000

#: ``draw(round, key)`` returns `clock.LINKED` without ``key``; see `ClockedSystem.links`.
DrawLinks = Callable[["_ClockedRound", np.ndarray], Columns]

#: With more routers than these, the least delay between two of them is not searched.
_FEW_ROUTERS = 1_000


@dataclass(frozen=True, kw_only=True)
class ClockedSystem(SystemOnBuckets):
    """A system whose members play a kernel of the clock that reacts (`clock.BucketClock`); K8 to
    K11.

    ``kernel(rules, seed, room)`` makes the kernel of a bucket for a play; `seed` keys the draws of
    the round, and `room` (P,) are the rooms of the publications.  It has the commands
    `clock.COMMANDS_OF_GROUPS`; ``kernel.sums(state)`` returns sums over the rows of `clock.STATE`
    by the names of world measures, whose values are means.  A name in `state` is also a column of
    `clock.STATE` that has nodes.  A wave of newcomers increases a group by the factor `growth`;
    None: the first newcomer of an empty group is a wave, and all others are one.

    ``links(round, key)`` returns drawn neighbours of members, in the order of their keys: the
    columns of `clock.LINKED` but ``key``.  If it is not None, newcomers do not arrive by commands;
    all members of their groups begin anew with such neighbours, and members fail instead of
    leaving.
    """

    kernel: Any = field(kw_only=False)
    rules: Any = field(kw_only=False)  # the settings of the kernel; picklable
    least_wait_us: int  # a lower bound of the waits of the kernel's timers
    growth: float | None
    refresh_us: int  # the time between two commands `clock.REFRESH` of a member; 0: none
    links: DrawLinks | None
    state: Mapping[str, str] = field(default_factory=dict)  # type: ignore[misc]

    kept_in_buckets: ClassVar[Mapping[str, int]] = {STATE: 0, pending.EXPECTED: 0}
    kept: ClassVar[tuple[str, ...]] = (pending.PUBLISHED,)
    member_table: ClassVar[str] = STATE
    recodes: ClassVar[tuple[str, ...]] = ()

    @property
    def payload(self) -> tuple[str, ...]:
        """The kinds of messages that are copies of publications."""
        kinds = self.kernel.messages.items()
        return tuple(name for name, one in kinds if isinstance(one, Payload))

    @property
    def control(self) -> tuple[str, ...]:
        """The kinds of control messages; `clock.DOWN` is not among them, as it is an event."""
        return tuple(name for name in self.kernel.messages if name not in self.payload)

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        """See `SystemOnBuckets.play_round`."""
        round = _ClockedRound.of(self, player, now)
        if round.has_changes or len(now.publish):
            player.keep(partial(_play, round), "clock")
        due, taken = pending.play_account(
            player, kept, now, partial(_EndClockedRound, round), _SUMS
        )
        sums = {name: int(column.sum()) for name, column in taken.get(_SUMS, {}).items()}
        members = sums.pop("members", 1)
        measures = {name: total / members for name, total in sums.items()}
        measured = round.multicasts if now.measures else None
        return SystemRound(measures, due, multicasts=measured, begun=Begun())


@dataclass(frozen=True)
class _ClockedRound:
    """The data that all programs of a round share: nodes, events and settings; picklable."""

    system: ClockedSystem
    bounds: np.ndarray
    facts: KnowsRing
    now: LivingRound  # `LivingRound.for_buckets`
    fail: np.ndarray  # nodes, ascending
    leave: np.ndarray
    quit: np.ndarray  # keys (group, node), ascending
    join: np.ndarray
    least_us: int  # a lower bound of the delays between nodes
    seed: int
    lost: Lost | None  # the losses of copies of publications
    late: Late | None  # the jitter of copies of publications

    @classmethod
    def of(cls, system: ClockedSystem, player: SystemPlayer, now: LivingRound) -> Self:
        quits, joins = (np.sort(key_of(pair, len(now.ring))) for pair in (now.quit, now.join))
        return cls(
            *(system, player.bounds, player.facts, now.for_buckets()),
            *(np.sort(now.events.fail), np.sort(now.events.leave), quits, joins),
            least_us=_least_delay(now.ring.router, now.kernel, now.lan_us),
            seed=int(draws.bits_np(now.seed, "round of a clock", now.number) >> np.uint64(1)),
            lost=now.lost_copies(player.facts, more=("time_us",)),
            late=now.late_copies(player.facts),
        )

    @property
    def multicasts(self) -> Multicasts:
        """The measured publications."""
        return Multicasts.of_round(self.now)

    @property
    def refreshes(self) -> int:
        """The number of refreshes in the round."""
        every, us, number = self.system.refresh_us, self.now.own.world_us, self.now.number
        return (number + 1) * us // every - number * us // every if every else 0

    @property
    def size(self) -> int:
        """The number of nodes, K."""
        return len(self.facts.ring)

    @property
    def has_changes(self) -> bool:
        """True if members fail, leave, quit, join or refresh: the events of the first play."""
        return bool(self.refreshes or any(map(len, (self.fail, self.leave, self.quit, self.join))))

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of messages, timers and commands of the system's kernel."""
        return Kinds.of(self.system.kernel)

    def delay(self, a: np.ndarray, b: np.ndarray, least_us: int = 1) -> np.ndarray:
        """Return the delays between nodes (positions) in us, at least `least_us`: int64."""
        ends = self.facts.ring.router[a], self.facts.ring.router[b]
        return np.maximum(node_delays(self.now.kernel, self.now.lan_us, *ends), least_us)

    def play_commands(self, player: SystemPlayer, room: np.ndarray, least_us: int) -> None:
        """Play the commands in buckets' tables; `room` (P,) has the group of each publication."""
        links, wires, ring, validation_us = self.now.links, None, self.facts.ring, None
        if links is not None:
            up, down, validation_us = links.rates(ring.node, ring.router, links.validation_us)
            size = self.now.publish.size if len(room) else room
            routes = None if links.routes is None else partial(links.narrowest, ring)
            wires = Wires(up, down, size, links.uplink, links.shared, routes)
        records = bool(self.now.tally.observer.recorded)
        window_us = min(max(least_us, self.least_us), self.system.least_wait_us)
        delay = partial(self.delay, least_us=least_us)
        lost, late = (self.lost, self.late) if len(room) else (None, None)
        setting = KernelSetting(
            *(self.size, delay, window_us, wires, records, lost, late, validation_us)
        )
        make = partial(self.system.kernel, self.system.rules, self.seed, room)
        play_in_windows(player, PlayKernel(self.bounds, setting, make))

    def pick(self, purpose: str, key: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Return a drawn number in [0, below) for each pair (group, node) in `key`: int64."""
        group, node = np.divmod(key, self.size)
        bits = draws.bits_np(self.seed, purpose, self.now.group[group], self.facts.ring.node[node])
        return (bits % np.maximum(below, 1).astype(np.uint64)).astype(np.int64)


def _least_delay(router: np.ndarray, network: Network, lan_us: int) -> int:
    """Return a lower bound of the delays between different nodes, at least 1 us."""
    distinct_routers, least = arrays.distinct(np.sort(router)), 2 * lan_us + network.least_us
    if len(router) == len(distinct_routers) and 1 < len(router) <= _FEW_ROUTERS:
        a, b = (one.ravel() for one in np.meshgrid(distinct_routers, distinct_routers))
        least = int(node_delays(network, lan_us, a[a != b], b[a != b]).min())
    return max(1, least)


def _play(round: _ClockedRound, player: SystemPlayer) -> None:
    """Let members change (the events of a round), and then let sources publish."""
    player.play(_Begin(round))
    stay = player.take(_STAY).get(_STAY, {}).get("key", arrays.whole_numbers())
    stay = np.sort(stay)
    arrivals = _Newcomers.of(round, stay)
    members = np.sort(np.r_[stay, arrivals.key])
    if round.has_changes:
        player.play(_Enter(round, arrivals, members))
        round.play_commands(player, arrays.whole_numbers(), LEAST_US)
        player.play(_CountMessages(round))
    if len(round.now.publish):
        guests, contact = _guests(round, members)
        player.play(_LetPublish(round, guests, contact))
        round.play_commands(player, round.now.publish.group, 1)
        player.play(_CountMessages(round))
        player.play(_CountPublications(round, guests))


@dataclass(frozen=True)
class _Newcomers:
    """The newcomers of a round with their contacts and times, by key (group, node); rule K9."""

    key: np.ndarray
    contact: np.ndarray  # a node, or NONE
    at_us: np.ndarray
    ends_us: np.ndarray  # (G,): the times after the last waves of groups
    groups: np.ndarray  # their groups, ascending

    @classmethod
    def of(cls, round: _ClockedRound, members: np.ndarray) -> Self:
        """Return the newcomers, in waves, each with a contact among `members` (keys) or others."""
        key, size, groups = round.join, round.size, len(round.now.group)
        group = key // size
        waiting, there = (np.bincount(one, minlength=groups) for one in (group, members // size))
        first, new = np.cumsum(there) - there, np.cumsum(waiting) - waiting
        rank, before = arrays.index_in_run(group), there.copy()
        wave, known = np.zeros((2, len(key)), dtype=np.int64)
        last, done, number = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64), 0
        while (done < waiting).any():
            growth = round.system.growth
            more = waiting if growth is None else np.maximum(np.floor(before * (growth - 1)), 1)
            more = more if number else there == 0  # the first one of an empty group is alone
            more = np.minimum(waiting - done, more).astype(np.int64)
            mine = (rank >= done[group]) & (rank < (done + more)[group])
            wave[mine], known[mine] = number, before[group[mine]]
            last[more > 0] = number
            before, done, number = before + more, done + more, number + 1
        at = round.pick("contact", key, known)
        is_old = at < there[group]
        contact = np.full(len(key), arrays.NONE)
        old, young = np.flatnonzero(is_old), np.flatnonzero(~is_old & (known > 0))
        contact[old] = members[first[group[old]] + at[old]] % size
        row = new[group[young]] + at[young] - there[group[young]]
        contact[young] = key[row] % size
        return cls(key, contact, wave * WAVE_US, (last + 1) * WAVE_US, arrays.distinct(group))


def _guests(round: _ClockedRound, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sources that are no members, as keys (group, node), and a drawn member for each (K10).

    A guest sends its publication by this member.  `members` are the keys of all members, ascending.
    """
    publish = round.now.publish
    key = arrays.distinct(key_of([publish.group, publish.node], round.size))
    key = key[arrays.find_sorted(members, key) < 0]
    first, last = (
        np.searchsorted(members, (key // round.size + one) * round.size) for one in (0, 1)
    )
    some = last > first
    key, first, last = key[some], first[some], last[some]
    return key, members[first + round.pick("contact of a source", key, last - first)] % round.size


@dataclass(frozen=True)
class _ClockedProgram(SilentProgram):
    """A program of a round of a clocked system; it sends no messages."""

    round: _ClockedRound

    @property
    def bounds(self) -> np.ndarray:
        """The positions at which the buckets begin, and the number of nodes."""
        return self.round.bounds

    def command(self, tables: Tables, name: str, key: np.ndarray, **columns: np.ndarray) -> None:
        """Append commands for the places in `key`; their time and value are 0 by default."""
        rows = {"time_us": key * 0, "value": key * 0, **columns}
        room, node = np.divmod(key, self.round.size)
        kind = np.full(len(key), COMMANDS_OF_GROUPS.index(name))
        append(tables, COMMANDS, {"node": node, "room": room, "kind": kind, **rows})

    def put(self, tables: Tables, key: np.ndarray) -> None:
        """Write the table of the clock's places: all members, and the keys in `key`."""
        room, node = np.divmod(arrays.distinct(np.r_[keys_in(tables, STATE), key]), self.round.size)
        tables[PLACES] = {"room": room, "node": node}


class _Begin(_ClockedProgram):
    """Let members fail, leave and quit, by commands to the kernel: rule K8."""

    def change(self, bucket: int, tables: Tables) -> None:
        round, key = self.round, keys_in(tables, STATE)
        node = key % round.size
        fails, leaves = (arrays.find_sorted(one, node) >= 0 for one in (round.fail, round.leave))
        quits = (leaves | (arrays.find_sorted(round.quit, key) >= 0)) & ~fails
        self.command(tables, FAIL, key[fails])
        self.command(tables, LEAVE if round.system.links is None else FAIL, key[quits])
        tables[_STAY] = {"key": key[~(fails | quits)]}


@dataclass(frozen=True)
class _Enter(_ClockedProgram):
    """Let newcomers arrive, and members refresh what they know, by commands: rule K9."""

    arrivals: _Newcomers
    members: np.ndarray  # the keys (group, node) of all members after the events, ascending

    def change(self, bucket: int, tables: Tables) -> None:
        round, new = self.round, self.arrivals
        mine = in_bucket(self.bounds, bucket, new.key % round.size)
        key = new.key[mine]
        self.put(tables, key)
        if round.system.links is not None:
            self._link(bucket, tables, round.system.links)
            return
        self.command(tables, ARRIVE, key, time_us=new.at_us[mine], value=new.contact[mine])
        key = np.sort(np.r_[keys_in(tables, STATE), key])
        for number in range(round.refreshes):
            at_us = new.ends_us[key // round.size] + number * round.system.refresh_us
            self.command(tables, REFRESH, key, time_us=at_us)

    def _link(self, bucket: int, tables: Tables, draw: DrawLinks) -> None:
        """Draw neighbours of all members of groups with newcomers; write this bucket's rows."""
        round, size = self.round, self.round.size
        key = self.members[arrays.find_sorted(self.arrivals.groups, self.members // size) >= 0]
        mine = in_bucket(self.bounds, bucket, key % size)
        if mine.any():
            tables[LINKED] = {"key": key[mine], **take(draw(round, key), mine)}


def ring_links(round: _ClockedRound, key: np.ndarray, slots: int) -> Columns:
    """Return about `slots` drawn neighbours for each of the members `key` (group, node), ascending.

    The members of a group form drawn rings, each of which gives a member two neighbours, and drawn
    pairs if the number of links is odd.  A link that is there already is left out.
    """
    group, node = np.divmod(key, round.size)
    links = np.full((len(node), slots), arrays.NONE)
    start = arrays.run_starts(group)
    size = np.diff(start, append=len(group))
    first, size = np.repeat(start, size), np.repeat(size, size)
    at = np.arange(len(group)) - first
    name = round.now.group[group], round.facts.ring.node[node]
    for slot in range(0, slots, 2):
        order = np.lexsort((draws.bits_np(round.seed, "ring", slot, *name), group))
        if slot + 1 < slots:
            links[order, slot] = node[order[first + (at + 1) % size]]
            links[order, slot + 1] = node[order[first + (at - 1) % size]]
        else:
            paired = np.flatnonzero((at ^ 1) < size)
            links[order[paired], slot] = node[order[(first + (at ^ 1))[paired]]]
    links[links == node[:, None]] = arrays.NONE
    links.sort(axis=1)
    links[:, 1:][links[:, 1:] == links[:, :-1]] = arrays.NONE
    return {"neighbours": links}


#: The members whose neighbours are chosen at once.
_CHOOSE = 2**14


def near_and_far_links(round: _ClockedRound, key: np.ndarray) -> Columns:
    """Return neighbours of the members `key` (group, node), who know all members: rule Z8.

    The column ``lazy`` is True for lazy neighbours.
    """
    starts = arrays.run_starts(key // round.size).tolist()
    parts = [np.empty((3, 0), dtype=np.int64)]
    for first, end in zip(starts, [*starts[1:], len(key)], strict=True):
        for some in range(first, end, _CHOOSE):
            parts += _choices(round, key, (first, end), np.arange(some, min(end, some + _CHOOSE)))
    a, b, lazy = np.concatenate(parts, axis=1)
    # a link has two ends, and is eager if one of them chose so
    ends = np.stack([np.r_[a, b], np.r_[b, a], np.r_[lazy, lazy]])[:, np.r_[a, b] != np.r_[b, a]]
    ends = ends[:, order_of(*ends)]
    a, b, lazy = ends[:, arrays.run_starts(*ends[:2])]
    slot = arrays.index_in_run(a)
    shape = len(key), int(slot.max(initial=0)) + 1
    neighbours, is_lazy = np.full(shape, arrays.NONE), np.zeros(shape, dtype=bool)
    neighbours[a, slot], is_lazy[a, slot] = key[b] % round.size, lazy > 0
    return {"neighbours": neighbours, "lazy": is_lazy}


def _choices(
    round: _ClockedRound, key: np.ndarray, group: tuple[int, int], some: np.ndarray
) -> list[np.ndarray]:
    """Return the links that `some` members (rows in `key`) of a group choose (rule Z8).

    Each array has a column for each link: the rows in `key` of both ends, and 1 for a lazy link.
    `group` has the first row of the group in `key`, and the row after its last one.
    """
    first, end = group
    count = end - first
    eager = max(2, _rounded(3 * math.log10(count)))
    chosen = (eager - 1) // 2, (_rounded(1.75 * eager) + 1) // 2
    third = 2 * sum(chosen)
    node = key % round.size
    # 1. eager neighbours on the ring
    after = first + (some - first + 1) % count
    parts = [np.stack([some, after, 0 * some])]
    if count < 3:
        return parts
    # 2. drawn candidates, by their round trips
    name = round.now.group[key[first] // round.size], round.facts.ring.node[node[some]]
    bits = draws.bits_np(round.seed, "candidate", *name)[:, None]
    drawn = draws.more_bits(bits, np.arange(3 * third)[None]) % np.uint64(count - 1)
    other = first + drawn.astype(np.int64)
    other += other >= some[:, None]
    ends = np.broadcast_to(node[some][:, None], other.shape).ravel(), node[other].ravel()
    trip_us = (round.delay(*ends) + round.delay(*ends[::-1])).reshape(other.shape)
    order = np.argsort(trip_us, axis=1, kind="stable").reshape(len(some), 3, third)
    # 3. of each third, the first ones drawn
    order.sort(axis=2)
    begin = [0, 0, 0]
    for lazy, many in enumerate(chosen):
        near, far = (many + 1) // 2, many // 5
        for place, wanted in enumerate((near, many - near - far, far)):
            at = order[:, place, begin[place] : begin[place] + wanted]
            begin[place] += wanted
            mine = np.broadcast_to(some[:, None], at.shape)
            found = np.take_along_axis(other, at, axis=1)
            parts.append(np.stack([mine, found, np.full(at.shape, lazy)]).reshape(3, -1))
    return parts


def _rounded(number: float) -> int:
    """Return the nearest whole number; a half is rounded up."""
    return math.floor(number + 0.5)


@dataclass(frozen=True)
class _LetPublish(_ClockedProgram):
    """Let sources publish; sources that are no members get a member as neighbour: rule K10."""

    guests: np.ndarray  # the keys of sources that are no members, ascending
    contact: np.ndarray

    def change(self, bucket: int, tables: Tables) -> None:
        round, publish = self.round, self.round.now.publish
        mine = in_bucket(self.bounds, bucket, self.guests % round.size)
        if mine.any():
            contact = self.contact[mine, None]
            tables[LINKED] = {"key": self.guests[mine], "neighbours": contact}
        self.put(tables, self.guests[mine])
        value = np.flatnonzero(in_bucket(self.bounds, bucket, publish.node))
        key = key_of([publish.group[value], publish.node[value]], round.size)
        self.command(tables, PUBLISH, key, value=value, time_us=publish.at_us[value])


class _CountMessages(_ClockedProgram):
    """Count the messages of a play by kind, also those that are lost: rule K11."""

    def change(self, bucket: int, tables: Tables) -> None:
        if COUNTS not in tables:  # a bucket without nodes
            return
        counts, sent, now = tables.pop(COUNTS), tables.pop(SENT, {}), self.round.now
        for kind, name in enumerate(
            self.round.kinds.names[: len(self.round.system.kernel.messages) + 1]
        ):
            if name == DOWN:
                continue

            def between(kind: int = kind) -> tuple[np.ndarray, np.ndarray]:
                rows = sent["kind"] == kind
                return sent["sender"][rows], sent["node"][rows]

            observer, many = now.tally.observer, (counts["count"][kind], counts["lost"][kind])
            if now.scheduled and name in self.round.system.payload:
                # copies with sizes are recorded at their receivers
                copies = tables.get(COPIES, {})
                if name in observer.recorded and count_rows(copies):
                    size = now.publish.size[copies["publication"]]
                    observer.record(tables, name, copies["sender"], copies["node"], bytes=size)
                observer = replace(observer, recorded=())
            observer.count(tables, name, *many, between=between)


@dataclass(frozen=True)
class _CountPublications(_ClockedProgram):
    """Count copies and receivers of publications; write the tables of measured ones: K11."""

    guests: np.ndarray  # as in `_LetPublish`

    def change(self, bucket: int, tables: Tables) -> None:
        round, now = self.round, self.round.now
        none = dict.fromkeys(("publication", "node", "hops", "at_us"), arrays.whole_numbers())
        lost = {"lost": np.zeros(0, dtype=bool)}
        copies, came = tables.pop(COPIES, none | lost), tables.pop(RECEIPTS, none)
        if len(self.guests) and STATE in tables:
            stays = arrays.find_sorted(self.guests, keys_in(tables, STATE)) < 0
            tables[STATE] = take(tables[STATE], stays)
        came = {**came, "delay_us": came["at_us"] - now.publish.at_us[came["publication"]]}
        arrived = copies["publication"][~copies["lost"]]
        pending.count_copies(tables, now, round.size, keys_in(tables, STATE), came, arrived)
        if now.measures:
            self._note(tables, came, copies)

    def _note(self, tables: Tables, came: Columns, copies: Columns) -> None:
        """Write the tables of copies and deliveries of the publications that are measured."""
        round, publish = self.round, self.round.now.publish
        rows = pending.measured_rows(round.now, take(came, came["hops"] > 0))
        names = "group", "publication", "node", "hops", "delay_us"
        tables[DELIVERED] = {name: rows[name].astype(np.int64) for name in names}
        if not notes_copies(round.now.measures) or "sender" not in copies:
            return
        rows = pending.measured_rows(round.now, copies)
        key = key_of([rows["publication"], rows["node"]], round.size)
        firsts = np.zeros(len(key), dtype=bool)
        firsts[np.unique(key, return_index=True)[1]] = True
        firsts &= ~rows["lost"] & (rows["node"] != publish.node[rows["publication"]])
        delay_us = round.delay(rows["sender"], rows["node"])
        if round.late is not None:
            links = {"node": rows["sender"], "peer": rows["node"]}
            delay_us = delay_us + round.late(rows["publication"], links, delay_us)
        took_us = rows["took_us"] + delay_us
        sent_us = rows["at_us"] - took_us - publish.at_us[rows["publication"]]
        tables[CARRIED] = {
            **{name: rows[name] for name in ("group", "publication", "sender", "hops")},
            **{"to": rows["node"], "sent_us": sent_us, "first": firsts},
            **({} if round.lost is None else {"lost": rows["lost"]}),
        }


@dataclass(frozen=True)
class _EndClockedRound(_ClockedProgram):
    """Count the publications that are due, and sum values over the members: rule K11."""

    last: int  # the last round whose publications are due

    def change(self, bucket: int, tables: Tables) -> None:
        round, members = self.round, keys_in(tables, STATE)
        pending.count_due(tables, self.last, len(round.now.group), round.size, members)
        if not len(members):
            return
        state = tables[STATE]
        sums = {"members": len(members), **round.system.kernel.sums(state)}
        tables[_SUMS] = {name: np.array([value]) for name, value in sums.items()}
        for name, entries in round.system.state.items() if round.now.is_last else ():
            row, _ = np.nonzero(state[name] >= 0)
            tables[entries] = {"key": members[row]}
