"""The groups of a world with their access lists, and their events: create, join, quit, publish
(W12).

Buckets keep the pairs (group, node) of the members, whatever systems a world plays, so that
impossible events are refused before a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of, order_of
from scribe_spark.core.units import MOST_BYTES, canonical
from scribe_spark.engine import Columns, Inbox, Outbox, Program, Tables
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.engine.program import AT, in_bucket
from scribe_spark.rounds.event_rows import (
    EVENT_NAMES,
    NODE_EVENTS,
    PUBLISH,
    EventRows,
    first_impossible_in_groups,
)
from scribe_spark.rounds.events import BeforeRound, Events, ImpossibleRound
from scribe_spark.rounds.player import RoundPlayer

#: The source's node number takes the lower 32 bits of a publication's id; the round is above.
SOURCE_BITS = 32


def publication_ids(
    number: int | np.ndarray, source: np.ndarray, turn: np.ndarray | int = 0, nodes: int = 0
) -> np.ndarray:
    """Return the ids of publications: round << 32 | turn * `nodes` + source (a node's number)."""
    return (np.asarray(number, dtype=np.int64) << SOURCE_BITS) | (turn * nodes + source)


@dataclass(frozen=True)
class Groups:
    """G groups, ascending by number; other tables name a group by its index here.

    For an operation, `allowed` has two arrays: True for each group with an access list, and the
    nodes on the lists, as sorted keys ``group * K + position`` (K = `size`, the number of nodes).
    Operations without an entry are allowed to all nodes.
    """

    number: np.ndarray
    keys: Keys
    size: int
    allowed: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def of(
        cls,
        number: np.ndarray,
        keys: Keys,
        known: Ring,
        lists: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None,
    ) -> Groups:
        """Return groups, sorted by number; `known` gives the positions of nodes on access lists.

        The `lists` of an operation are three arrays of numbers: the groups with an access list,
        and the group and the node of each entry.
        """
        order = np.argsort(number)
        number, size = number[order], len(known)
        allowed = {}
        for operation, (listed, group, node) in (lists or {}).items():
            has_list = np.isin(number, listed)
            pairs = arrays.index_sorted(number, group) * size + known.positions(node)
            allowed[operation] = has_list, arrays.distinct(pairs)
        return cls(number, keys.take(order), size, allowed)

    def allows(self, operation: str, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True where access lists allow an operation to a node in a group (an index)."""
        if operation not in self.allowed:
            return np.ones(len(group), dtype=bool)
        has_list, pairs = self.allowed[operation]
        return ~has_list[group] | (arrays.find_sorted(pairs, group * self.size + node) >= 0)


#: Different pairs of the index of a group and the position of a node, ascending by both.
Pairs = tuple[np.ndarray, np.ndarray]


def _none() -> Pairs:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


def to_nodes(pairs: Pairs) -> Columns:
    """Return pairs (group, node) as messages to the nodes, which :func:`keys_sent` reads."""
    return {"group": pairs[0], AT: pairs[1]}


def keys_sent(inbox: Inbox, kind: str, size: int) -> np.ndarray:
    """Return the keys (group, node) in messages of a kind, ascending; `size` is K."""
    if kind not in inbox:
        return arrays.whole_numbers()
    return arrays.distinct(key_of([inbox[kind]["group"], inbox[kind][AT]], size))


def keys_in(tables: Mapping[str, Columns], name: str) -> np.ndarray:
    """Return the column ``key`` of a bucket's table; none without the table."""
    return tables[name]["key"] if name in tables else arrays.whole_numbers()


@dataclass(frozen=True)
class Publishing(arrays.Rows):
    """The publications that begin in a round; a publication's name is its index; arrays (p,).

    `group` is an index, `node` the position of the source; `at_us` is the time since the begin of
    the round, and `size` is in bytes, 0 if publications have no size.  Of the publications of a
    group in the round, those with one `turn` have different sources, and turns ascend with time;
    all are 0 without a schedule.
    """

    group: np.ndarray = field(default_factory=arrays.whole_numbers)
    node: np.ndarray = field(default_factory=arrays.whole_numbers)
    at_us: np.ndarray = field(default_factory=arrays.whole_numbers)
    size: np.ndarray = field(default_factory=arrays.whole_numbers)
    turn: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.turn is None:
            object.__setattr__(self, "turn", np.zeros_like(self.group))

    @classmethod
    def at_begin(cls, pairs: Pairs, size: int = 0) -> Publishing:
        """Return publications at the begin of a round, from pairs (group, node), of one size."""
        order = np.lexsort(pairs[::-1])
        group, node = (column[order] for column in pairs)
        return cls(group, node, np.zeros_like(group), np.full_like(group, size))

    @classmethod
    def numbered(
        cls,
        group: np.ndarray,
        node: np.ndarray,
        at_us: np.ndarray,
        size: np.ndarray,
        number: np.ndarray,
    ) -> Publishing:
        """Return publications of a schedule, sorted by time, group, source and size.

        `group` are indices, `node` positions of the sources, `number` their numbers, `at_us` times
        since the begin of the round in microseconds, and `size` bytes.
        """
        order = np.lexsort((size, number, group, at_us))
        made = cls(*(column[order] for column in (group, node, at_us, size)))
        # 1. the publications of a source to a group at one time take several steps
        rows = order_of(made.group, made.at_us, made.node)
        step = np.zeros_like(order)
        step[rows] = arrays.index_in_run(*(x[rows] for x in (made.group, made.at_us, made.node)))
        # 2. the turns of a group are its different times and steps
        rows = order_of(made.group, made.at_us, step)
        group, at_us, of = (x[rows] for x in (made.group, made.at_us, step))
        level = np.zeros_like(order)
        level[arrays.run_starts(group, at_us, of)[1:]] = 1
        level = np.cumsum(level)
        turn = np.zeros_like(order)
        turn[rows] = level - level[np.searchsorted(group, group)]
        return replace(made, turn=turn)

    def in_parts(self, parts: Parts) -> Publishing:
        """Return the parts of each publication as publications; each part takes a turn: W13."""
        nth = np.tile(np.arange(parts.sent), len(self))
        each = parts.split(self)
        return replace(each, turn=each.turn * parts.sent + nth)


@dataclass(frozen=True)
class GroupEvents:
    """The events of groups in a round: for each kind, different pairs of a group and a node.

    The nodes are alive after Pastry's events.  In a world with a schedule, `schedule` has all
    publications, and `publish` has their pairs.
    """

    create: Pairs = field(default_factory=_none)
    join: Pairs = field(default_factory=_none)
    quit: Pairs = field(default_factory=_none)
    publish: Pairs = field(default_factory=_none)
    schedule: Publishing | None = None

    @classmethod
    def of(
        cls,
        known: Ring,
        groups: Groups,
        node: np.ndarray,
        event: np.ndarray,
        group: np.ndarray,
        at_us: np.ndarray | None = None,
        size: np.ndarray | None = None,
    ) -> GroupEvents:
        """Return the group events among events, given by numbers of nodes and groups.

        `event` has their codes; `at_us` and `size` are those of a schedule, a negative time is 0.
        """
        some = event >= NODE_EVENTS
        event, number = event[some], node[some]
        position, index = known.positions(number), arrays.index_sorted(groups.number, group[some])
        order = np.lexsort((position, index))
        pairs: dict[str, Any] = {}
        for code, kind in enumerate(_KINDS, NODE_EVENTS):
            row = order[event[order] == code]
            pairs[kind] = index[row], position[row]
        if at_us is None or size is None:
            return cls(**pairs)
        row = np.flatnonzero(event == PUBLISH)
        times = np.maximum(at_us[some][row], 0)
        schedule = Publishing.numbered(
            index[row], position[row], times, size[some][row], number[row]
        )
        place = arrays.distinct(schedule.group * len(known) + schedule.node)
        pairs["publish"] = place // len(known), place % len(known)
        return cls(**pairs, schedule=schedule)

    def in_parts(self, parts: Parts) -> GroupEvents:
        """Return the same events, in which each part of a publication is a publication."""
        if self.schedule is None or parts.sent == 1:
            return self
        return replace(self, schedule=self.schedule.in_parts(parts))

    def by_kind(self) -> dict[str, Pairs]:
        """Return, for each kind (create, join, quit, publish), its pairs (group, node)."""
        return {kind: getattr(self, kind) for kind in _KINDS}

    def published(self, size: int = 0) -> Publishing:
        """Return the publications; without a schedule, all start at once and have one `size`."""
        if self.schedule is None:
            return Publishing.at_begin(self.publish, size)
        return self.schedule


#: The kinds of events.
_KINDS = EVENT_NAMES[NODE_EVENTS:]


#: Messages with the joins of a run (``group``) to their nodes, besides the events.
JOINING = "joins of the round"

#: The events that members may do or not: a member cannot join, another node cannot quit.
_OF_MEMBERS = ("join", "quit")

#: The table of a bucket with its members: sorted keys ``group * K + node``.
MEMBERS = "members of the world"

#: The table of impossible events: ``kind`` (an index of `_OF_MEMBERS`), ``group``, ``node``.
_REFUSED = "refused events of members"


def check_group_events(
    player: RoundPlayer, number: int, groups: Groups, events: Events, of_groups: GroupEvents
) -> None:
    """Raise `ImpossibleRound` for impossible events of groups, before round `number` is played."""
    ring, wrong = player.environment.facts.ring, dict[str, np.ndarray]()
    if len(of_groups.join[0]) + len(of_groups.quit[0]):
        player.play(_CheckMembers(player.environment.bounds, groups, of_groups))
        if player.has(_REFUSED):
            refused = player.take(_REFUSED)[_REFUSED]
            pair = refused["group"] * len(ring) + refused["node"]
            wrong = {kind: pair[refused["kind"] == at] for at, kind in enumerate(_OF_MEMBERS)}
    alive = player.lives.alive.copy()
    alive[np.r_[events.fail, events.leave]] = False
    alive[events.entering] = True
    # few rows can be impossible; all rows of their pairs are checked like those of a table
    doubtful = [pair for pair in wrong.values() if len(pair)]
    for group, node in of_groups.by_kind().values():
        pair = group * len(ring) + node
        again = np.r_[False, pair[1:] == pair[:-1]][: len(pair)]
        doubtful.append(pair[~alive[node] | again])
    found = arrays.distinct(np.concatenate(doubtful))
    if not len(found):
        return
    rows, is_member = [events.rows(ring, number)], list[np.ndarray]()
    for kind, (group, node) in of_groups.by_kind().items():
        pair = group * len(ring) + node
        there = arrays.find_sorted(found, pair) >= 0
        of = ring.node[node[there]], EVENT_NAMES.index(kind), groups.number[group[there]]
        rows.append(EventRows.of_groups(number, *of))
        is_member.append(np.isin(pair[there], wrong.get(kind, pair[:0])) ^ (kind == "quit"))
    fault = first_impossible_in_groups(
        EventRows.join(*rows),
        BeforeRound.of(player.lives, ring, number),
        lambda group, node: np.ones(len(node), dtype=bool),  # the members are those who may join
        members=np.concatenate(is_member),
    )
    assert fault is not None
    raise ImpossibleRound(number, fault)


def change_memberships(
    player: RoundPlayer, groups: Groups, events: Events, of_groups: GroupEvents
) -> list[Program]:
    """Return the program that changes :data:`MEMBERS` in a round, in a list, if it changes."""
    gone = np.sort(np.r_[events.fail, events.leave])
    if not len(of_groups.join[0]) + len(of_groups.quit[0]) + len(gone):
        return []
    return [ChangeMembers(player.environment.bounds, groups, of_groups, gone)]


@dataclass(frozen=True)
class _OfMembers:
    """A program that reads or writes the table :data:`MEMBERS` of a bucket."""

    bounds: np.ndarray
    groups: Groups
    events: GroupEvents
    silent: ClassVar[bool] = True

    def keys(self, bucket: int, pairs: Pairs) -> np.ndarray:
        """Return the sorted keys (group, node) of those `pairs` whose nodes are in a bucket."""
        group, node = pairs
        mine = in_bucket(self.bounds, bucket, node)
        return np.sort(group[mine] * self.groups.size + node[mine])


@dataclass(frozen=True)
class _CheckMembers(_OfMembers):
    """Record impossible events: joins of members, and quits of nodes that are no members."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the table of refused events; send nothing."""
        members, wrong = keys_in(tables, MEMBERS), []
        for index, kind in enumerate(_OF_MEMBERS):
            keys = self.keys(bucket, getattr(self.events, kind))
            is_member = arrays.find_sorted(members, keys) >= 0
            keys = keys[is_member if kind == "join" else ~is_member]
            wrong.append((np.full(len(keys), index), *np.divmod(keys, self.groups.size)))
        kinds, group, node = (np.concatenate(column) for column in zip(*wrong, strict=True))
        if len(kinds):
            tables[_REFUSED] = {"kind": kinds, "group": group, "node": node}
        return {}


@dataclass(frozen=True)
class ChangeMembers(_OfMembers):
    """Change the table of members in a bucket; the nodes `gone` (ascending) have died or left."""

    gone: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the table :data:`MEMBERS`; send nothing."""
        keys = keys_in(tables, MEMBERS)
        keys = keys[arrays.find_sorted(self.gone, keys % self.groups.size) < 0]
        keys = keys[arrays.find_sorted(self.keys(bucket, self.events.quit), keys) < 0]
        joins = self.keys(bucket, self.events.join)
        joins = joins[self.groups.allows("join", *np.divmod(joins, self.groups.size))]
        tables[MEMBERS] = {"key": arrays.distinct(np.r_[keys, joins])}
        return {}


@dataclass(frozen=True)
class RoundTimes:
    """The limits of the times and sizes of publications in each round of a world with a schedule.

    `usual` is the size of publications without a size of their own; `sized` is True if publications
    have sizes.  The publications of a group in a round have at most `turns` turns; of `parts`, each
    takes a turn.
    """

    round_us: int
    usual: int
    sized: bool
    turns: int
    parts: Parts = field(default_factory=Parts)

    def first_fault(
        self, publishes: np.ndarray, at_us: np.ndarray, size: np.ndarray
    ) -> tuple[int, str] | None:
        """Return the first row with an impossible time or size (NONE: none), and the fault."""
        has_time, has_size = at_us != arrays.NONE, size != arrays.NONE
        after = f"at or after the end of its round, which lasts {canonical('time', self.round_us)}"
        faults = (
            (~publishes & has_time, "has a time, but is no publication; leave the cell empty"),
            (~publishes & has_size, "has a size, but is no publication; leave the cell empty"),
            (has_time & (at_us < 0), "has a negative time; must be at least 0"),
            (at_us >= self.round_us, f"has a time {after}; give an earlier time, or a later round"),
            (
                has_size & (not self.sized),
                "has a size; give message_size, too, the size of publications without one",
            ),
            (has_size & (size < 1), "has no size above 0; leave the cell empty"),
            (size > MOST_BYTES, f"has a size above {canonical('size', MOST_BYTES)}; give less"),
        )
        found = [(int(np.argmax(wrong)), words) for wrong, words in faults if wrong.any()]
        return min(found, default=None)

    def timed(self, at_us: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return times (us) and sizes (bytes) of publications, with defaults in place of NONE."""
        return np.maximum(at_us, 0), np.where(size == arrays.NONE, self.usual, size)

    def too_many(self, publish: Publishing) -> tuple[int, str] | None:
        """Return the first publication whose turn is too great, and the fault in words."""
        turns = self.turns // self.parts.sent
        wrong = np.flatnonzero(publish.turn >= turns)
        if not len(wrong):
            return None
        times = f"more than {turns:,} different times of publications in a round"
        return int(wrong[0]), f"{times}; give fewer"
