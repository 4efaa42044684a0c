"""Systems whose members grow and mend an overlay of each group, and flood it.

An own round of such a system is a *period*.  One bucket for each group, the *builder*, has the
state of all members of the group (`GrownOverlays.tables`).  A period is a sequence of programs on
buckets:

1. buckets note their nodes that are members, and tell the builders who has joined or quit
   (:class:`_TellBuilders`; O1, O10);
2. builders play the system's rules for one period (:class:`_PlayPeriod`; O11);
3. publications spread over the overlay as it is then (`group_overlays.Build`; O2 to O5).

A builder records by group the own round of the last event of a member, and the one in which the
overlay has last changed: the own rounds that overlays need to come to rest (O13).

Rules: docs/rules.md, O1 to O5, O10 to O13.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from scribe_spark.core import arrays, draws
from scribe_spark.core.errors import refuse_large_group
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables, exchange, facts, packing, program
from scribe_spark.rounds.applications import note_failures
from scribe_spark.rounds.group_events import Pairs, keys_in, keys_sent, to_nodes
from scribe_spark.rounds.group_overlays import (
    JOINS,
    MEMBERS,
    QUITS,
    Built,
    GroupOverlays,
    Network,
    OverlayProgram,
    Overlays,
    Remember,
)
from scribe_spark.rounds.player import TRAFFIC, Counted, Counts
from scribe_spark.rounds.system import (
    LivingRound,
    OwnRounds,
    Publications,
    SystemPlayer,
    SystemRound,
    count_messages,
)

#: Tables of a builder: the keys (group, node) that have joined or quit; counts of a period; sums
#: over the state.
_JOINED, _QUIT, _COUNTS, _SUMS = "joined", "quit", "counts of a period", "sums over the state"


#: The table of the state with the sums of a system over each ``group``: `GrownOverlays.sums`.
MEASURED = "measured"

#: The beginning of the names of the tables of the state in a bucket.
_STATE = "state: "

#: The table `_Rest` of a builder, which stays; its counts at the end of a round of the world; and
#: the histograms there.
_REST, _REST_COUNTS = "state: rest", "counts of rest"
_ROUNDS, _MOVING = "rounds", "moving"


@dataclass(frozen=True)
class Period:
    """The read-only description of a period; nodes are positions, groups are indices.

    Attributes
    ----------
    number : int
        The number of the period, from 0.
    world_round : int
        The number of the world's round in which the period begins; 0 in a run.
    begins_round, ends_round : bool
        True in the first and in the last period of a round of the world.
    group_number : ndarray of int64, shape (G,)
        The numbers of all groups, which key draws.
    key_hi, key_lo : ndarray of uint64, shape (G,), or None
        The halves of the groupIds.
    join, quit : tuple of ndarray
        The groups and nodes of these events, ascending.  A node that leaves quits its groups.
    died : ndarray of int64
        The nodes that failed silently in the period, ascending.
    alive : ndarray of bool, shape (K,)
        The nodes that live after the events.
    network : Network
        The nodes and the network.
    handed : mapping of str to Columns
        The tables that the system's programs have handed to the builder (`GrownOverlays.handed`).
    counts : Counter of str
        The system adds to the numbers of `GrownOverlays.counted`.
    failures : list of tuple of ndarray
        The neighbours that members have given up (:meth:`give_up`).
    """

    number: int
    world_round: int
    begins_round: bool
    ends_round: bool
    group_number: np.ndarray
    key_hi: np.ndarray | None
    key_lo: np.ndarray | None
    join: Pairs
    quit: Pairs
    died: np.ndarray
    alive: np.ndarray
    network: Network
    handed: Mapping[str, Columns] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def refuse_large_groups(self, system: str, group: np.ndarray, most: int, why: str) -> None:
        """Refuse groups of a system with more than `most` members; `group` has that of each."""
        size = np.bincount(group, minlength=1)
        largest = int(size.argmax())
        if size[largest]:
            given = int(self.group_number[largest]), int(size[largest])
            refuse_large_group(system, *given, most, why)

    def keys(self, group: np.ndarray) -> facts.Keys:
        """Return the groupIds of groups."""
        assert self.key_hi is not None
        assert self.key_lo is not None
        return facts.Keys(self.key_hi[group], self.key_lo[group])

    def give_up(self, group: np.ndarray, node: np.ndarray, neighbour: np.ndarray) -> None:
        """Note that nodes count neighbours as dead; users' applications are told."""
        self.failures.append((group, node, neighbour))

    def draw(
        self, purpose: str, group: np.ndarray, node: np.ndarray, *more: np.ndarray | int
    ) -> np.ndarray:
        """Return random bits for a purpose, keyed by group, node and `more` numbers: uint64."""
        keys = self.group_number[group], self.network.ring.node[node], *more
        return draws.bits_np(self.network.seed, purpose, *keys)


@dataclass
class GroupNodes(arrays.SortedTable):
    """Rows of nodes of groups in a builder's state, by key (group, node)."""

    @classmethod
    def from_state(cls, state: Mapping[str, Columns], name: str, size: int) -> Self:
        """Return the table `name` of a state, which has columns ``group, node``; `size` is K."""
        rows = state.get(name)
        if not rows:
            return cls()
        return cls.from_columns({**rows, "key": key_of([rows["group"], rows["node"]], size)})

    def to_state(self, size: int) -> dict[str, np.ndarray]:
        """Return the table of the state."""
        group, node = arrays.divided(self.key, size)
        columns = {name: getattr(self, name) for name in self.columns()}
        return {"group": group, "node": node, **columns}


@dataclass
class NumberedNodes(GroupNodes):
    """Nodes of groups, and a number of each node, such as a period."""

    number: np.ndarray = field(default_factory=arrays.whole_numbers)


class Sent:
    """The control messages of a period, by kind, for the result of `GrownOverlays.play_period`."""

    def __init__(self) -> None:
        self._rows = defaultdict[str, list[Columns]](list)

    def note(self, kind: str, group: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
        """Note messages of a kind between positions; a message of a node to itself is left out."""
        away, ends = sender != to, {"group": group, "sender": sender, "to": to}
        self._rows[kind].append({name: one[away].astype(np.int32) for name, one in ends.items()})

    def by_kind(self) -> dict[str, Columns]:
        """Return a table of messages (``group, sender, to``) for each kind."""
        return {kind: packing.concatenate(rows) for kind, rows in self._rows.items()}


def convergence(
    before: Columns, group: np.ndarray, lacks: np.ndarray, number: int
) -> dict[str, np.ndarray]:
    """Return columns of :data:`MEASURED` for groups that `lacks` marks until they are whole.

    ``since`` is the period from which a group lacks something, NONE if it is whole; ``converging``
    and ``converged`` are 1 for groups that lack something, and for those that did so until the
    period before; ``took`` is the number of periods of the latter.

    Parameters
    ----------
    before : Columns
        The table of the period before, with these columns; {}: none.
    group : ndarray of int64
        The groups, ascending.
    lacks : ndarray of bool
        True for groups that lack something.
    number : int
        The number of the period.
    """
    row = arrays.find_sorted(before.get("group", arrays.whole_numbers()), group)
    since = np.append(before.get("since", arrays.whole_numbers()), arrays.NONE)[row]
    whole, begin = (since >= 0) & ~lacks, np.where(since < 0, number, since)
    return {
        "group": group,
        "since": np.where(lacks, begin, arrays.NONE),
        "converging": lacks.astype(np.int64),
        "converged": whole.astype(np.int64),
        "took": np.where(whole, number - since, 0),
    }


def entry_tables(*kinds: str) -> dict[str, str]:
    """Return `GrownOverlays.state` of a system whose members keep entries of these kinds."""
    return {kind: f"entries: {kind}" for kind in kinds}


class GrownOverlays(GroupOverlays):
    """A system that keeps an overlay of each group's members between periods; rules O10 to O12.

    Subclasses are picklable, and define :meth:`play_period` and :meth:`edges`, which finds the
    state in `Overlays.state`.

    Attributes
    ----------
    tables : tuple of str
        The tables of the state.  Each has a column ``group`` (indices, ascending).
    handed : tuple of str
        Tables that the system's programs (:meth:`before_period`) leave in the builders for the next
        period.
    counted : tuple of str
        The names of numbers that are added over the periods of a round of the world.
    structure : tuple of str
        The table of the state whose rows are the overlay's, and columns of it: ``group``, ``node``
        and others.  Then rounds have the measures `declaration.GROWN_MEASURES`, and :meth:`sums`
        needs the number of ``members``.
    quotients : mapping of str to (str, str or None)
        Measure of a round -> the sums of which the measure is the quotient, or a single sum.
    """

    tables: ClassVar[tuple[str, ...]] = ()
    handed: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[tuple[str, ...]] = ()
    structure: ClassVar[tuple[str, ...]] = ()
    quotients: ClassVar[Mapping[str, tuple[str, str | None]]] = {}
    state: ClassVar[Mapping[str, str]] = {}

    def build(self, overlays: Overlays, network: Network) -> Built:
        """Return the overlays with, in a run, the entries that members keep."""
        kept = self.entries(overlays.state, network) if network.in_run and overlays.state else {}
        kept = {name: packing.take(rows, rows["entries"] > 0) for name, rows in kept.items()}
        return Built(self.edges(overlays, network), kept)

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return the entries that members keep in a state, as in `Built.kept`; by default none."""
        return {}

    def by_kind(self, ends: Columns, *counts: np.ndarray) -> dict[str, Columns]:
        """Return the numbers of entries of the members `ends`, in the order of :attr:`state`."""
        kinds = zip(self.state, counts, strict=True)
        return {kind: {**ends, "entries": count} for kind, count in kinds}

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """Play one period of the groups of a builder.

        The results of a group must depend on its rows only, and not on their order.

        Parameters
        ----------
        state : dict of str to Columns
            The tables of the state, without those that have no rows; the method replaces them.
        period : Period
            The period.

        Returns
        -------
        mapping of str to Columns
            The control messages by kind: ``group, sender, to``; perhaps ``messages``, the numbers
            of equal ones.  A message to a dead node counts as lost.
        """
        raise NotImplementedError

    def before_period(self, player: SystemPlayer, of_period: tuple[Any, ...]) -> None:
        """Play programs of the system before the builders play the period; by default none.

        `of_period` has the first arguments of a :class:`BuilderProgram`.
        """

    def sums(self, state: Mapping[str, Columns]) -> Mapping[str, float | np.ndarray]:
        """Return numbers by name, from a builder's state; the world adds up those of all builders.

        The world asks for these numbers at the end of a round.  Fractions are an array with one
        number for each group, so that the sum does not depend on the builders of the groups.  By
        default, the numbers are the columns of the table :data:`MEASURED`.
        """
        rows = state.get(MEASURED, {})
        return {name: column for name, column in rows.items() if name != "group"}

    def measures_of(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the measures of a round from sums over builders.

        These are the :attr:`quotients`, of which a quotient by 0 is 0; by default means per member.
        """
        means = {name: (name, "members") for name in sums if name != "members"}
        return {
            name: sums.get(above, 0.0) / (max(1.0, sums.get(below, 0.0)) if below else 1.0)
            for name, (above, below) in (self.quotients or means).items()
        }

    def stays(self, name: str) -> bool:
        """See `SystemOnBuckets.stays`."""
        return name.startswith(_STATE) or super().stays(name)

    def state_of(self, tables: Tables, groups: np.ndarray) -> dict[str, Columns]:
        """See `GroupOverlays.state_of`."""
        found: dict[str, Columns] = {}
        for name, rows in _state(self, tables).items():
            index = arrays.find_sorted(groups, rows["group"])
            if (index >= 0).any():  # as in `play_period`, a table has rows
                found[name] = {**packing.take(rows, index >= 0), "group": index[index >= 0]}
        return found

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        """Play a period; see `SystemOnBuckets.play_round`."""
        # publications are counted by rounds of the world
        of_world = replace(now, number=now.world_round, own=OwnRounds())
        round = self.begin_round(player, of_world)
        fail, leave = now.events.fail, now.events.leave
        if any(len(one) for one in (fail, leave, now.join[0], now.quit[0])):
            changes = {QUITS: to_nodes(now.quit), JOINS: to_nodes(now.join)}
            player.play(_TellBuilders(round, np.sort(leave)), changes)
        of_period = round, now.for_buckets(), np.sort(fail)
        self.before_period(player, of_period)
        player.play(_PlayPeriod(*of_period, self))
        if now.in_run:
            return self.publish(player, kept, round, of_world)
        if now.begins_round:
            done = self.publish(player, kept, round, of_world)
        else:
            count_messages(player, now)
            done = SystemRound({}, Publications())
        taken = player.take(_COUNTS, _SUMS, _REST_COUNTS)
        counts, sums = (add_up(taken.get(table, {})) for table in (_COUNTS, _SUMS))
        measures = self.measures_of(sums) if now.ends_round else {}
        if self.structure and now.ends_round:
            told = now.tally.by_kind()
            sent = sum(told.get(kind, 0) for kind in self.control)
            member_seconds = max(1.0, sums.get("members", 0.0)) * now.own.world_us / 1_000_000
            measures = {**measures, "control.member": sent / member_seconds}
            measures |= _rest_measures(taken.get(_REST_COUNTS, {}))
        return replace(done, measures=measures, counts=dict.fromkeys(self.counted, 0.0) | counts)


def add_up(numbers: Mapping[str, float | np.ndarray]) -> dict[str, float]:
    """Return the sum of each array, which does not depend on the order of its numbers."""
    return {name: math.fsum(np.atleast_1d(column).tolist()) for name, column in numbers.items()}


def _state(system: GrownOverlays, tables: Tables) -> dict[str, Columns]:
    there = (name for name in system.tables if tables.has_rows(_STATE + name))
    return {name: tables[_STATE + name] for name in there}


@dataclass(frozen=True)
class _TellBuilders(OverlayProgram):
    """Record the members of groups, and tell builders the joins and quits: rules O1, O10."""

    leave: np.ndarray  # the nodes that leave, ascending

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write `group_overlays.MEMBERS`; send the changes to the builders, which store them."""
        round, size = self.round, self.round.size
        if superstep:
            for kind in (_JOINED, _QUIT):
                if kind in inbox:
                    tables[kind] = {"key": np.sort(inbox[kind]["key"])}
            return {}
        members = keys_in(tables, MEMBERS)
        quits, joins = (keys_sent(inbox, kind, size) for kind in (QUITS, JOINS))
        leaves = arrays.find_sorted(self.leave, members % size) >= 0
        quits = members[leaves | (arrays.find_sorted(quits, members) >= 0)]
        Remember(round).step(bucket, tables, inbox, superstep)
        told = {_JOINED: joins, _QUIT: quits}
        return {
            kind: {program.AT: round.builders(key // size), "key": key}
            for kind, key in told.items()
            if len(key)
        }


@dataclass(frozen=True)
class BuilderProgram(OverlayProgram):
    """A program of a period in which builders read its description; see `Period`."""

    own: LivingRound  # the period, an own round
    died: np.ndarray

    def period(self, tables: Tables, handed: Mapping[str, Columns]) -> Period:
        """Return the description of the period for a builder; `handed` is a part of it."""
        own = self.own
        keys = (keys_in(tables, name) for name in (_JOINED, _QUIT))
        join, quit = (arrays.divided(key, self.round.size) for key in keys)
        when = own.number, own.world_round, own.begins_round, self.ends_round
        groups = own.group, own.key_hi, own.key_lo
        return Period(*when, *groups, join, quit, self.died, own.alive, self.network, handed)

    @property
    def ends_round(self) -> bool:
        """True in the last period of a round of a world."""
        return self.own.ends_round and not self.own.in_run


@dataclass(frozen=True)
class _PlayPeriod(program.SilentProgram, BuilderProgram):
    """Let builders play the rules of the system for one period: rule O11."""

    system: GrownOverlays

    def change(self, bucket: int, tables: Tables) -> None:
        """Change the tables of the state, and count messages."""
        system, changes = self.system, [name for name in (_JOINED, _QUIT) if name in tables]
        follows = bool(system.structure) and not self.network.in_run
        handed = {name: tables.pop(name) for name in system.handed if name in tables}
        state = _state(system, tables)
        if state or handed or changes:
            period = self.period(tables, handed)
            before = _structure_rows(state, system.structure) if follows else {}
            self._count(tables, system.play_period(state, period))
            if follows:
                now = _structure_rows(state, system.structure)
                events = np.r_[period.join[0], period.quit[0]]
                _note_rest(tables, period.number, events, self.died, before, now)
            for ends in period.failures:
                note_failures(tables, *ends)
            if period.counts:
                tables[_COUNTS] = {name: np.array([n]) for name, n in period.counts.items()}
            _put(system, tables, state)
        for name in changes:
            del tables[name]
        if self.ends_round and state:
            tables[_SUMS] = {name: np.atleast_1d(n) for name, n in system.sums(state).items()}
            if follows:
                _count_rest(tables, self.own.number)

    def _count(self, tables: Tables, sent: Mapping[str, Columns]) -> None:
        observer, alive = self.own.tally.observer, self.own.alive
        for kind, rows in sent.items():
            times = rows.get("messages")
            if times is not None and not observer.groups:  # a world records each message
                rows = packing.take(rows, np.repeat(np.arange(len(times)), times))
                times = None
            ends = rows["sender"], rows["to"], rows["group"]
            arrives = alive[rows["to"]] if times is None else np.ones(len(times), dtype=bool)
            observer.send(tables, kind, arrives, *ends, times)
        if observer.groups:
            _add_up_traffic(tables)


def _put(system: GrownOverlays, tables: Tables, state: Mapping[str, Columns]) -> None:
    """Write the tables of the state into a builder's tables; remove those without rows."""
    for name in system.tables:
        if name in state and packing.count_rows(state[name]):
            tables[_STATE + name] = state[name]
        else:
            tables.pop(_STATE + name, None)


def _add_up_traffic(tables: Tables) -> None:
    """Add up equal recorded messages of a run, when new rows are as many as added ones."""
    names = [name for name in tables if name.startswith(f"{TRAFFIC} ")]
    rows = [packing.count_rows(tables[name]) for name in names]
    if len(names) < 2 or sum(rows) < 2 * rows[0]:
        return
    parts = [tables.pop(name) for name in names]
    ends = "kind", "group", "sender", "to"
    tables[f"{TRAFFIC} 0"] = exchange.add_rows("messages", packing.concatenate(parts), *ends)


# --- the own rounds that overlays need to come to rest after joins, quits and failures: O13


@dataclass
class _Rest(arrays.SortedTable):
    """The own rounds of the last event and of the last change, by group (an index)."""

    event: np.ndarray = field(default_factory=arrays.whole_numbers)
    change: np.ndarray = field(default_factory=arrays.whole_numbers)


def _structure_rows(
    state: Mapping[str, Columns], structure: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Return the rows of an overlay; `structure` has the name of its table and the columns."""
    name, *columns = structure
    rows = state.get(name, {})
    return {one: rows.get(one, arrays.whole_numbers()) for one in columns}


def _note_rest(
    tables: Tables, number: int, events: np.ndarray, died: np.ndarray, before: Columns, now: Columns
) -> None:
    """Note the events and the changes of the own round `number`.

    `events` are the groups with joins or quits, `died` the nodes that died, ascending; `before` and
    `now` are the rows of the overlay: ``group``, ``node`` and others.
    """
    rest = arrays.read_table(_Rest, tables, _REST)
    hit = before["group"][arrays.find_sorted(died, before["node"]) >= 0]
    begun, changed = arrays.distinct(np.r_[events, hit]), arrays.whole_numbers()
    if not all(np.array_equal(before[name], now[name]) for name in now):
        _, keys, times = exchange.distinct_rows(*packing.concatenate([before, now]).values())
        changed = arrays.distinct(keys[0][times == 1])
    for groups, column in ((begun, "event"), (changed, "change")):
        row = rest.find(groups)
        rest.put(groups[row < 0], event=number, change=number - 1)
        kept = {name: getattr(rest, name)[rest.find(groups)] for name in rest.columns()}
        rest.put(groups, **kept | {column: number})
    if not len(begun) and not len(changed):
        return
    rest.keep(arrays.find_sorted(arrays.distinct(np.r_[now["group"], events]), rest.key) >= 0)
    tables.pop(_REST, None)
    if len(rest):
        tables[_REST] = rest.to_columns()


def _count_rest(tables: Tables, number: int) -> None:
    """Count the groups of a builder by the own rounds that they needed, after round `number`."""
    rest, counts = arrays.read_table(_Rest, tables, _REST), Counts()
    counts.add(_ROUNDS, np.maximum(rest.change - rest.event + 1, 0))
    counts.add(_MOVING, (rest.change == number).astype(np.int64))
    tables[_REST_COUNTS] = counts.columns()


def _rest_measures(taken: Columns) -> dict[str, float]:
    """Return the measures from the counts of all builders; see `declaration.GROWN_MEASURES`."""
    counted = Counted(taken)
    rounds = counted.histogram(_ROUNDS)
    return {
        "rest.mean": rounds.mean() or 0.0,
        "rest.max": rounds.max or 0.0,
        "rest.moving": counted.histogram(_MOVING).mean() or 0.0,
    }
