"""Bayeux: its messages, the programs that handle them, and rounds of joins, copies and churn.

JOIN, LEAVE and MULTICAST go to the root, TREE goes to the member, PRUNE and copies follow the lists
that nodes on the way of a TREE record.  A message has the columns ``session``, ``member`` (the
member that it concerns or comes from) and ``number``.  A run plays round 0, in which nobody fails
or quits.  The orchestrator keeps the roots of the sessions and the publications that are not due;
all other state is in the buckets.

Rules: docs/rules.md, B1 to B20.  JSAC 2002, Section V: "Each request to join a group is routed by
Tapestry all the way to the node acting as the root. Then, the root records the identity of the new
member and uses Tapestry to route another message back to the new member. Every Tapestry node along
this route records the identity of the new member."  NGC 2001, Section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.core import arrays
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.core.keys import key_of, key_parts, order_of
from scribe_spark.dissemination import (
    ARRIVALS,
    ARRIVED_COPIES,
    EDGES,
    START,
    Dissemination,
    first_of_each,
    to_all,
)
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.losses import Lost, loses
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, SilentProgram, append, in_bucket, take_tables
from scribe_spark.multicast import PAYLOAD
from scribe_spark.pastry.next_hop import Met, route_to_edge, unrouted
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds import pending, system
from scribe_spark.rounds.group_events import keys_sent, to_nodes
from scribe_spark.systems.bayeux.sessions import (
    PASTRY,
    TABLE,
    Hop,
    Sessions,
    find_roots,
    have_root_of_another,
    partition_keys,
)


def at_root(kind: str) -> str:
    """Return the name of the table with messages of a kind that reached a root."""
    return f"{kind} at the root"


@dataclass(frozen=True)
class SessionProgram:
    """The base class of Bayeux's programs."""

    sessions: Sessions

    @property
    def bounds(self) -> np.ndarray:
        return self.sessions.bounds

    def key(self, rows: Columns, *parts: str) -> np.ndarray:
        """Return keys made of the columns `parts`; none without rows."""
        if not rows:
            return arrays.whole_numbers()
        return key_of([rows[name] for name in parts], self.sessions.size)

    def route(
        self,
        bucket: int,
        tables: Tables,
        kind: str,
        moving: Columns,
        next_hop: Callable[[int, Columns], tuple[np.ndarray, Met]],
        sizes: np.ndarray | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Route messages of a kind as `route_to_edge` does, and count their hops.

        With a schedule, `sizes` has the sizes of publications by number.
        """
        first = int(self.bounds[bucket])

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            onward, met = next_hop(first, messages)
            at = messages[AT]
            goes = np.flatnonzero((onward >= 0) & (onward != at))
            row, to = np.r_[goes, met.message], np.r_[onward[goes], met.dead]
            lost = np.arange(len(row)) >= len(goes)
            size = None if sizes is None else sizes[messages["number"][row]]
            self.sessions.observe(tables, kind, messages["session"][row], at[row], to, lost, size)
            return onward, self._farther(messages, np.where(onward >= 0, onward, at))

        return route_to_edge(moving, hop_of, partial(in_bucket, self.bounds, bucket))

    def _farther(self, messages: Columns, to: np.ndarray) -> Columns:
        """Return messages after a hop to the nodes `to`."""
        if _WAY[0] not in messages:
            return messages
        hop = (to != messages[AT]).astype(np.int64), self.sessions.delays(messages[AT], to)
        way = {name: messages[name] + more for name, more in zip(_WAY, hop, strict=True)}
        return {**messages, **way}


_ON = "on to the root"
_NAMED = ("session", "member", "number")
#: The columns of messages whose hops and delay are measured.
_WAY = "hops", "delay_us"


@dataclass(frozen=True)
class ToRoot(SessionProgram):
    """Messages are routed to the roots of their sessions, and stored in a table there.

    A root sends no message to itself.  If a message ends at another node, that node knows the root
    and forwards it.  Lost sessions accept no messages.
    """

    kind: ClassVar[str]
    direct: bool = False  # True if senders know the root, and send to it in one hop
    sizes: np.ndarray | None = None  # with a schedule, the sizes of publications by number

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        """Return the messages that nodes of the bucket send, at ``at``."""
        raise NotImplementedError

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Route messages to the edge of the bucket; store those that reached the root."""
        roots, outbox = self.sessions.root_of, dict[str, Columns]()
        there, moving = [inbox[_ON]] if _ON in inbox else [], inbox.get(self.kind, {})
        if not superstep:
            moving = self.begin(tables, inbox)
            here = moving[AT] == roots[moving["session"]]
            there.append(take(moving, here))
            moving = take(moving, ~here)
        if self.direct:
            if count_rows(moving):
                outbox[_ON] = self._send_on(tables, moving)
        else:
            moving = moving if superstep else unrouted(moving)
            next_hop = partial(self._next_hop, tables)
            ended, leaving = self.route(bucket, tables, self.kind, moving, next_hop, self.sizes)
            if leaving:
                outbox[self.kind] = leaving
            if count_rows(ended):
                carried = [name for name in (AT, *_NAMED, *_WAY) if name in ended]
                came = take({name: ended[name] for name in carried}, ended["delivered"])
                is_root = came[AT] == roots[came["session"]]
                there.append(take(came, is_root))
                outbox[_ON] = self._send_on(tables, take(came, ~is_root))
        if there:  # lost sessions accept no messages
            came = concatenate(there)
            append(tables, at_root(self.kind), take(came, ~self.sessions.lost[came["session"]]))
        return outbox

    def _next_hop(self, tables: Tables, first: int, messages: Columns) -> tuple[np.ndarray, Met]:
        keys = self.sessions.keys.take(messages["session"])
        return self.sessions.to_root(first, tables, messages[AT], keys)

    def _send_on(self, tables: Tables, messages: Columns) -> Columns:
        """Send messages directly to the roots of their sessions; return those that arrive."""
        root = self.sessions.root_of[messages["session"]]
        arrives = self.sessions.lives.is_alive(root)
        size = None if self.sizes is None else self.sizes[messages["number"]]
        ends = messages["session"], messages[AT], root
        self.sessions.observe(tables, self.kind, *ends, ~arrives, size)
        return take({**self._farther(messages, root), AT: root}, arrives)


# --- member lists

#: Tables of a bucket: memberships, and member lists.
MEMBERS, LISTS = "members", "lists"

#: The prefixes of tables that wait for `Record`: entries that nodes will record (``session, at,
#: member, next, number``), and TREEs that reached their members (``session, member, number``).
LISTED, CAME = "listed", "came"


@dataclass
class SessionMembers(arrays.SortedTable):
    """Memberships of a bucket's nodes, by (group, node)."""

    number: np.ndarray = field(default_factory=arrays.whole_numbers)  # the round of the last JOIN
    waits: np.ndarray = field(default_factory=arrays.flags)  # bool: True if no TREE has arrived yet
    #: The partition whose root got the last JOIN.
    partition: np.ndarray = field(default_factory=arrays.whole_numbers)


@dataclass
class MemberLists(arrays.SortedTable):
    """Entries of member lists, by (session, node, member): the next hop to the member."""

    next: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: The round of the member's JOIN, and the round in which the entry was written.
    number: np.ndarray = field(default_factory=arrays.whole_numbers)
    written: np.ndarray = field(default_factory=arrays.whole_numbers)


@dataclass(frozen=True)
class ForgetDead(SilentProgram, SessionProgram):
    """Clear the tables of dead nodes, and restart sessions: rules B12 and B13."""

    dead: np.ndarray  # bool, (K,)
    anew: np.ndarray  # bool, (G k,)

    def change(self, bucket: int, tables: Tables) -> None:
        size, partitions = self.sessions.size, self.sessions.partitions
        members = arrays.read_table(SessionMembers, tables, MEMBERS)
        members.keep(~self.dead[members.key % size])
        group = members.key // size
        session = group * partitions + members.partition
        others = self.sessions.stands.max(axis=1)
        moves = self.sessions.lost[session] & others[group]
        members.waits = members.waits | self.anew[session] | moves
        lists = arrays.read_table(MemberLists, tables, LISTS)
        session, node = np.divmod(lists.key // size, size)
        lists.keep(~(self.dead[node] | self.anew[session]))
        tables[MEMBERS], tables[LISTS] = members.to_columns(), lists.to_columns()


@dataclass(frozen=True)
class Record(SilentProgram, SessionProgram):
    """Record what TREEs have found, and drop members that no TREE has reached.

    New list entries replace older ones; members whose last JOIN is answered stop waiting.  LEAVEs
    will be sent for members that a node's TREE has not reached.
    """

    def change(self, bucket: int, tables: Tables) -> None:
        sessions, failed = self.sessions, tables.pop(_BROKEN, {})
        listed, came = (take_tables(tables, name) for name in (LISTED, CAME))
        entry = "session", AT, "member"
        if listed:
            tables[LISTS] = _written(sessions, tables, concatenate(listed)).to_columns()
        if came:
            answered = concatenate(came)
            members = arrays.read_table(SessionMembers, tables, MEMBERS)
            answered = {**answered, "group": answered["session"] // sessions.partitions}
            row = members.find(self.key(answered, "group", "member"))
            last = (row >= 0) & (members.number[row] == answered["number"])
            members.waits = members.waits.copy()
            members.waits[row[last]] = False
            tables[MEMBERS] = members.to_columns()
        if failed:
            own = [self.key(take(one, one["first"]), *entry) for one in listed]
            reached = np.sort(np.concatenate([arrays.whole_numbers(), *own]))
            failed = take(failed, arrays.find_sorted(reached, self.key(failed, *entry)) < 0)
            lists = arrays.read_table(MemberLists, tables, LISTS)
            row = lists.find(self.key(failed, *entry))
            lists.drop(row[lists.written[row] < sessions.number])
            tables[LISTS] = lists.to_columns()
            away = failed[AT] != sessions.root_of[failed["session"]]
            tables[UNREACHED] = take(failed, away)


def _written(sessions: Sessions, tables: Tables, listed: Columns) -> MemberLists:
    """Return the member lists with new entries, the columns `listed`."""
    # of several entries for a member, that with the largest number is kept
    key = key_of([listed["session"], listed[AT], listed["member"]], sessions.size)
    order = order_of(key, listed["number"])
    order = order[arrays.last_of_runs(key[order])]
    key, onward, number = key[order], listed["next"][order], listed["number"][order]
    lists = arrays.read_table(MemberLists, tables, LISTS)
    row = lists.find(key)
    old = np.flatnonzero(row >= 0)
    newer = np.ones(len(key), dtype=bool)
    newer[old] = lists.number[row[old]] <= number[old]
    lists.drop(row[old[newer[old]]])
    lists.insert(key[newer], next=onward[newer], number=number[newer], written=sessions.number)
    return lists


@dataclass(frozen=True)
class NextHops(SilentProgram, SessionProgram):
    """Find the distinct next hops to which each node sends copies: rules B7 and B17."""

    wanted: np.ndarray | None = None  # bool: True for sessions to include; by default all

    def change(self, bucket: int, tables: Tables) -> None:
        """Write the edges of the multicast, as `dissemination.EDGES`."""
        size, lists = self.sessions.size, arrays.read_table(MemberLists, tables, LISTS)
        place, onward = lists.key // size, lists.next
        good = self.sessions.is_good(onward, lists.written)
        if self.wanted is not None:
            good &= self.wanted[place // size]
        edges = arrays.distinct(key_of([place[good], onward[good]], size))
        if len(edges):
            tables[EDGES] = key_parts(edges, ("group", "node", "peer"), size)


# --- joining

# kinds of messages
MEMBER, JOIN, TREE = "member", "JOIN", "TREE"
_ARRIVED = "TREE has arrived"

#: The table of sessions whose roots in the bucket got JOINs, if groups have several partitions.
BEGUN = "begun"


@dataclass(frozen=True)
class Join(ToRoot):
    """All waiting members send JOINs, also those that join now by messages :data:`MEMBER`."""

    kind = JOIN

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        size, number = self.sessions.size, self.sessions.number
        members = arrays.read_table(SessionMembers, tables, MEMBERS)
        if MEMBER in inbox:
            keys = keys_sent(inbox, MEMBER, size)
            members.put(keys, number=number, waits=True, partition=0)
        members.number = np.where(members.waits, number, members.number)
        group, member = np.divmod(members.key[members.waits], size)
        session = self.sessions.nearest(group, member)
        members.partition = members.partition.copy()
        members.partition[members.waits] = session % self.sessions.partitions
        tables[MEMBERS] = members.to_columns()
        return {AT: member, "session": session, "member": member, "number": 0 * group + number}


@dataclass(frozen=True)
class SendTree(SessionProgram):
    """Route TREEs to members; nodes record the member once the TREE has arrived.

    They learn this by an acknowledgement that is not counted.
    """

    #: The table of JOINs to answer or of members to find: ``at`` (where the TREE starts),
    #: ``session``, ``member``, ``number``; if TREEs carry publications, also ``hops, delay_us`` of
    #: these.
    begin: str = at_root(JOIN)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Route TREEs to the edge of the bucket; store the entries that nodes should record."""
        moving, came = inbox.get(TREE, {}), list[Columns]()
        if _ARRIVED in inbox:
            tables[f"{LISTED} {superstep}"] = inbox[_ARRIVED]
        if not superstep and self.begin in tables:
            moving = unrouted(tables.pop(self.begin))
            if self.sessions.partitions > 1 and self.begin == at_root(JOIN):
                tables[BEGUN] = {"session": arrays.distinct(moving["session"])}

        def next_hop(first: int, messages: Columns) -> tuple[np.ndarray, Met]:
            arrived = np.flatnonzero(messages[AT] == messages["member"])
            names = [name for name in (*_NAMED, "path", *_WAY) if name in messages]
            came.append({name: messages[name][arrived] for name in names})
            return self._next_hop(first, tables, messages)

        _, leaving = self.route(bucket, tables, TREE, moving, next_hop)
        outbox: dict[str, Columns] = {TREE: leaving} if leaving else {}
        if came:
            arrived = concatenate(came)
            kept = [name for name in (*_NAMED, *_WAY) if name in arrived]
            tables[f"{CAME} {superstep}"] = {name: arrived[name] for name in kept}
            outbox[_ARRIVED] = _acknowledged(arrived)
        return outbox

    def _next_hop(self, first: int, tables: Tables, messages: Columns) -> tuple[np.ndarray, Met]:
        """Return the next hops of TREEs towards their members, where they end."""
        onward, ring = messages[AT].copy(), self.sessions.facts.ring
        row = np.flatnonzero(onward != messages["member"])
        keys = Keys.of_nodes(ring, messages["member"][row])
        onward[row], met = self.sessions.to_member(first, tables, messages[AT][row], keys)
        return onward, Met(row[met.message], met.dead)


def _acknowledged(arrived: Columns) -> dict[str, np.ndarray]:
    """Return messages to the nodes on the ways of TREEs that arrived."""
    path = arrived["path"]
    row, column = np.nonzero(path >= 0)
    node = path[row, column]
    is_first, is_last = (np.ones(len(row), dtype=bool) for _ in range(2))
    is_first[1:] = row[1:] != row[:-1]
    is_last[:-1] = is_first[1:]
    onward = np.where(is_last, arrived["member"][row], np.roll(node, -1))
    named = {name: arrived[name][row] for name in _NAMED}
    return {AT: node, **named, "next": onward, "first": is_first}


# --- leaving

# kinds of messages
QUIT, LEAVE, PRUNE = "quit", "LEAVE", "PRUNE"
#: The table of members that nodes cannot reach any more: ``at``, ``session``, ``member``,
#: ``number``.
UNREACHED = "unreached"


@dataclass(frozen=True)
class Leave(ToRoot):
    """Members that quit (messages :data:`QUIT`) send LEAVE; nodes send it for unreached members."""

    kind = LEAVE

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        if UNREACHED in tables:
            return tables.pop(UNREACHED)
        members = arrays.read_table(SessionMembers, tables, MEMBERS)
        quits = inbox.get(QUIT, {AT: members.key[:0], "group": members.key[:0]})
        row = members.find(key_of([quits["group"], quits[AT]], self.sessions.size))
        session = quits["group"] * self.sessions.partitions + members.partition[row]
        leaves = {"session": session, "member": quits[AT], "number": members.number[row]}
        tells = ~members.waits[row]
        members.drop(row)
        tables[MEMBERS] = members.to_columns()
        return take({AT: quits[AT], **leaves}, tells)


@dataclass(frozen=True)
class Prune(SessionProgram):
    """Roots, and then next hops, drop the entry of a member that left, and send a PRUNE on."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Drop entries, and tell their next hops."""
        begins = not superstep and at_root(LEAVE) in tables
        if not begins and PRUNE not in inbox:
            return {}
        came = _largest(tables.pop(at_root(LEAVE))) if begins else inbox[PRUNE]
        came = take(came, came[AT] != came["member"])
        lists = arrays.read_table(MemberLists, tables, LISTS)
        row = lists.find(self.key(came, "session", AT, "member"))
        there = row >= 0
        there[there] = lists.number[row[there]] <= came["number"][there]
        row, came = row[there], take(came, there)
        onward = lists.next[row]
        good = self.sessions.is_good(onward, lists.written[row])
        lists.drop(row)
        tables[LISTS] = lists.to_columns()
        self.sessions.observe(tables, PRUNE, came["session"], came[AT], onward, ~good)
        return {PRUNE: take({**came, AT: onward}, good)}


def _largest(came: Columns) -> dict[str, np.ndarray]:
    """Return the LEAVE with the largest number for each member, of all that came."""
    order = order_of(came["session"], came["member"], came["number"])
    last = arrays.last_of_runs(came["session"][order], came["member"][order])
    return take(came, order[last])


# --- multicast

# kinds of messages
SOURCE, MULTICAST = "source", "MULTICAST"


@dataclass(frozen=True)
class Publish(ToRoot):
    """Sources send their publications (messages :data:`SOURCE`) to the roots."""

    kind = MULTICAST

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        nothing = {name: arrays.whole_numbers() for name in (AT, "group", "number")}
        came = inbox.get(SOURCE, nothing)
        source, session = came[AT], self.sessions.lead[came["group"]]
        none = np.zeros(len(source), dtype=np.int64)
        way = {"hops": none, "delay_us": none}
        return {AT: source, "session": session, "member": source, "number": came["number"], **way}


# --- rounds: repair, counts, and the order of programs (B11)


@dataclass(frozen=True)
class CopiesProgram(SessionProgram):
    """The base class of programs that count copies of publications."""

    #: (G,): the number of publications that each root accepted, which all go the same way.
    accepted: np.ndarray
    first: system.Multicasts  # the first publication of each group; all with a schedule
    scheduled: bool  # True if publications have sizes of their own

    def note(self, tables: Tables, group: np.ndarray, **columns: np.ndarray) -> None:
        """Record copies of each group's measured publications in `rounds.system.CARRIED`."""
        if len(group):
            row, of = self.first.of_groups(group)
            rows = take({"group": group, **columns}, row)
            append(tables, system.CARRIED, {**rows, "publication": self.first.publication[of]})

    def count(self, tables: Tables, session: np.ndarray, *copies: np.ndarray) -> None:
        """Count the copies of all accepted publications: ``sender, to, lost``, by session."""
        group, size = session // self.sessions.partitions, None
        row = np.repeat(np.arange(len(group)), self.accepted[group])
        if self.scheduled:
            row, of = self.first.of_groups(group)
            size = self.first.size[of]
        session, sender, to, lost = (one[row] for one in (session, *copies))
        self.sessions.observe(tables, PAYLOAD, session, sender, to, lost, size)


def note_first_copies(
    tables: Tables, first: system.Multicasts, copies: Columns, trees: Sequence[Columns], size: int
) -> None:
    """Record the first copy at each node in `rounds.system.DELIVERED`; TREEs come last."""

    def named(came: Columns, *columns: str) -> Columns:
        names = ("group", "node", "hops", "delay_us")
        return {name: came[column] for name, column in zip(names, columns, strict=True)}

    parts = [named(copies, "group", "node", "hops", "at_us")] if copies else []
    parts += [named(tree, "group", "member", "hops", "delay_us") for tree in trees]
    if not parts:
        return
    got = concatenate(parts)
    by_tree = np.arange(count_rows(got)) >= count_rows(copies)
    place = key_of([got["group"], got["node"]], size)
    got = take(got, first_of_each(place, (by_tree, got["delay_us"], got["hops"])))
    row, of = first.of_groups(got["group"])
    append(tables, system.DELIVERED, {**take(got, row), "publication": first.publication[of]})


# --- repair

#: Tables of a bucket: entries on which copies were lost, and those of them for whose members a TREE
#: is sent; both have ``at``, ``session``, ``member``, ``number``, the latter also ``hops,
#: delay_us`` of the node's own first copy.
_BROKEN, TRIED = "broken", "tried"


@dataclass(frozen=True)
class Repair(SilentProgram, CopiesProgram):
    """Find lost copies, and the members below them, for whom TREEs are sent (rule B18)."""

    noted: bool = False  # True if lost copies of multicasts are recorded: `rounds.system.CARRIED`
    lost: Lost | None = None  # the losses of copies in sessions

    def change(self, bucket: int, tables: Tables) -> None:
        """Read the arrivals."""
        if ARRIVALS not in tables:
            return
        size, heard = self.sessions.size, self.sessions.from_source_root(tables[ARRIVALS])
        lists = arrays.read_table(MemberLists, tables, LISTS)
        place = self.key(heard, "session", "node")
        of, row = arrays.expand(*(np.searchsorted(lists.key, (place + i) * size) for i in (0, 1)))
        bad = ~self.sessions.is_good(lists.next[row], lists.written[row])
        if self.lost is not None:
            links = {"node": heard["node"][of], "peer": lists.next[row]}
            bad &= ~self.lost.withheld(heard["session"][of], links)
        of, row = of[bad], row[bad]
        place, member = np.divmod(lists.key[row], size)
        session, node = np.divmod(place, size)
        tables[_BROKEN] = broken = {
            **{AT: node, "session": session},
            **{"member": member, "number": lists.number[row]},
        }
        way = {"hops": heard["hops"][of], "delay_us": heard["at_us"][of]}
        tables[TRIED] = take({**broken, **way}, lists.next[row] != member)
        lost, to = np.divmod(arrays.distinct(key_of([place, lists.next[row]], size)), size)
        session, node = np.divmod(lost, size)
        if self.noted:
            more = {"lost": np.zeros(len(to), dtype=bool)} if loses(self.sessions.kernel) else {}
            if self.sessions.partitions > 1:
                more |= dict.fromkeys(("tree", "from_tree"), self.sessions.tree_of(session))
            self.note(tables, session // self.sessions.partitions, sender=node, to=to, **more)
        self.count(tables, session, node, to, np.ones(len(to), dtype=bool))


# --- pending

#: The message to a source that the root has accepted its publication.
ACCEPTED = "accepted"

#: The tables of counts for the orchestrator: the copies of this round (a row per group), and the
#: entries of nodes.
HEARD, KEPT = "heard", "kept"

#: The table of a run with the number of entries of each node in a group.
ENTRIES = "entries"


#: The columns of copies in groups with several partitions; also ``lost``, if copies may be lost.
_OF_SESSIONS = ("group", "session", "from_tree", "tree", "node", "sender", "hops", "at_us")


@dataclass(frozen=True)
class CountHeard(CopiesProgram):
    """Count copies at nodes and the expected receivers (B9, B19); sources get `ACCEPTED`."""

    published: np.ndarray  # (p,): the group of each publication that members sent
    #: The measures of multicasts, for which copies and deliveries are recorded.
    measures: tuple[str, ...] = ()
    in_run: bool = False  # True if copies also have ``hops, sent_us, first``
    parts: int = 1  # the parts of each publication, which all go the same way
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`HEARD` and :data:`EXPECTED`; no message is sent."""
        size, copies = self.sessions.size, self._copies_from_roots(tables)
        arrivals = tables.pop(ARRIVALS, {})
        if arrivals:
            arrivals = self._first_of_group(self.sessions.from_source_root(arrivals))
        copied = self.key(arrivals, "group", "node")
        if copies:
            self._count_copies(tables, copies, arrivals)
        came = take(copies, ~copies["lost"]) if "lost" in copies else copies
        got = self._by_group(came["group"] if copies else copied[:0])
        tables.pop(EDGES, None)
        sent_trees = [
            {**tree, "group": tree["session"] // self.sessions.partitions}
            for tree in take_tables(tables, CAME)
        ]
        if self.measures:
            note_first_copies(tables, self.first, arrivals, sent_trees, size)
        trees = [self.key(one, "group", "member") for one in sent_trees]
        by_tree = np.concatenate([copied[:0], *trees])
        heard = arrays.distinct(np.concatenate([copied, by_tree]))
        own = np.sort(self.key(inbox.get(ACCEPTED, {}), "group", AT))
        # a source has its own publication before a TREE brings it
        again = (arrays.find_sorted(heard, own) >= 0) & (
            arrays.find_sorted(np.sort(copied), own) < 0
        )
        tables[HEARD] = {
            "got": got + self._by_group(by_tree // size),
            "nodes": self._by_group(heard // size),
            "again": self._by_group(own[again] // size),
        }
        alone = own[arrays.find_sorted(heard, own) < 0][:: self.parts]
        times = self.accepted[heard // size] // self.parts
        heard = np.concatenate([np.repeat(heard, times), alone])
        once = self.published[:: self.parts]
        members, groups = arrays.read_table(SessionMembers, tables, MEMBERS).key, len(self.accepted)
        pending.note_received(tables, self.sessions.number, groups, size, members, once, heard)
        return {}

    def _by_group(self, group: np.ndarray) -> np.ndarray:
        return np.bincount(group, minlength=len(self.accepted))

    def _copies_from_roots(self, tables: Tables) -> Columns:
        """Remove and return all copies, also those that the first root sends to other roots."""
        sessions, copies = self.sessions, tables.pop(ARRIVED_COPIES, {})
        copies = sessions.from_source_root(copies) if copies else {}
        if sessions.partitions == 1:
            return copies
        copies = {**copies, "from_tree": copies["tree"]} if copies else {}
        if ARRIVALS not in tables:
            return copies
        starts = sessions.from_source_root(tables[ARRIVALS])
        starts = take(starts, (starts["sender"] < 0) & (starts["tree"] > 0))
        root = sessions.root_of[sessions.lead[starts["group"]]]
        starts |= {"sender": root, "from_tree": 0 * starts["tree"]}
        names: tuple[str, ...] = _OF_SESSIONS
        if loses(sessions.kernel):
            names, starts["lost"] = (*names, "lost"), starts["tree"] < 0
        parts = [copies, starts] if copies else [starts]
        return concatenate([{name: one[name] for name in names} for one in parts])

    def _first_of_group(self, arrivals: Columns) -> Columns:
        """Return each node's first copy of a group's publication, by group and node."""
        if self.sessions.partitions == 1:
            return arrivals
        sender, root = (
            arrivals["sender"],
            self.sessions.root_of[self.sessions.lead[arrivals["group"]]],
        )
        away = (sender < 0) & (arrivals["tree"] > 0)
        arrivals = {**arrivals, "sender": np.where(away, root, sender)}
        ranks = (arrivals[name] for name in ("at_us", "hops", "sender", "session"))
        return take(arrivals, first_of_each(self.key(arrivals, "group", "node"), ranks))

    def _count_copies(self, tables: Tables, copies: Columns, arrivals: Columns) -> None:
        """Count copies and duplicates in :data:`HEARD`; `arrivals` are the first copies."""
        group, sender, to = (copies[name] for name in ("group", "sender", "node"))
        is_lost = {"lost": copies["lost"]} if "lost" in copies else {}
        trees = {name: copies[name] for name in ("tree", "from_tree") if "from_tree" in copies}
        if self.in_run:
            of, place = (
                arrays.find_sorted(self.first.group, group),
                self.key(copies, "group", "node"),
            )
            first = ~copies["lost"] if is_lost else np.ones(len(to), dtype=bool)
            which = arrays.find_sorted(self.key(arrivals, "group", "node"), place[first])
            ends = ("session", "sender")
            same = [arrivals[name][which] == copies[name][first] for name in ends]
            first[first] = same[0] & same[1]
            sent_us = copies["at_us"] - self.sessions.delays(sender, to)
            more = {
                "hops": copies["hops"] + self.first.hops[of],
                "sent_us": sent_us + self.first.delay_us[of],
                "first": first & (to != self.first.start[of]),
                **is_lost,
                **trees,
            }
            self.note(tables, group, sender=sender, to=to, **more)
            return
        if system.notes_copies(self.measures):
            self.note(tables, group, sender=sender, to=to, **is_lost, **trees)
        lost = copies["lost"] if is_lost else np.zeros(len(to), dtype=bool)
        self.count(tables, copies["session"], sender, to, lost)


@dataclass(frozen=True)
class CountSessions(SilentProgram, SessionProgram):
    """Count the outcomes of due publications, and the list entries of nodes: rules B19 and B20."""

    last: int  # the last round whose publications are due
    in_run: bool = False  # True if :data:`ENTRIES` is written

    def change(self, bucket: int, tables: Tables) -> None:
        """Write :data:`DUE` and :data:`KEPT`."""
        size, members = self.sessions.size, arrays.read_table(SessionMembers, tables, MEMBERS)
        pending.count_due(tables, self.last, len(self.sessions.roots), size, members.key)
        lists = arrays.read_table(MemberLists, tables, LISTS)
        _, entries = np.unique(lists.key // size % size, return_counts=True)
        tables[KEPT] = {
            "entries": np.array([len(lists)]),
            "most": np.array([entries.max(initial=0)]),
            "waiting": np.array([np.count_nonzero(members.waits)]),
        }
        if self.in_run:
            session, node = np.divmod(lists.key // size, size)
            place = key_of([session // self.sessions.partitions, node], size)
            place, entries = np.unique(place, return_counts=True)
            tables[ENTRIES] = {"key": place, "entries": entries}


# --- live

# a table that the orchestrator keeps
_SESSIONS = "sessions"


@dataclass(frozen=True)
class LiveBayeux(system.SystemOnBuckets):
    """Bayeux as a system of worlds and runs."""

    hops: str = TABLE  # `sessions.TABLE` or `sessions.LEAF_SET`
    #: The number of rounds after which a lost session is created again; 0 for never.
    recreate: int = 0
    b: int = 4  # the number of bits of a digit
    partitions: int = 1
    root_rule: str = PASTRY  # `sessions.PASTRY` or `sessions.SURROGATE`
    payload: tuple[str, ...] = (MULTICAST, PAYLOAD)
    control: tuple[str, ...] = (JOIN, TREE, LEAVE, PRUNE)
    kept_in_buckets: ClassVar[Mapping[str, int]] = {MEMBERS: 0, LISTS: 1, pending.EXPECTED: 0}
    kept: ClassVar[tuple[str, ...]] = (_SESSIONS, pending.PUBLISHED)
    member_table: ClassVar[str] = MEMBERS
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)
    state: ClassVar[Mapping[str, str]] = {"member list": ENTRIES}

    @property
    def has_trees(self) -> bool:
        """True if each node gets one copy as long as nobody fails."""
        return self.hops == TABLE and self.partitions == 1

    def play_round(
        self, player: system.SystemPlayer, kept: Tables, now: system.LivingRound
    ) -> system.SystemRound:
        played = _BayeuxRound(self, player, kept, now)
        if not now.in_run:
            played.leave()
        played.join()
        if len(now.publish):
            played.publish()
        done = played.count()
        played.write(kept)
        system.count_messages(player, now)
        return done


class _BayeuxRound:
    """A round of Bayeux: its programs, and the root, loss and first JOIN of each session."""

    def __init__(
        self, rules: LiveBayeux, player: system.SystemPlayer, kept: Tables, now: system.LivingRound
    ) -> None:
        self.player, self.now, self.partitions = player, now, rules.partitions
        groups, because = len(now.key_hi), f"bayeux_partitions = {rules.partitions}"
        refuse_groups(groups, len(now.ring), times=rules.partitions, because=because)
        sessions = groups * rules.partitions
        self.root, self.lost = (np.full(sessions, arrays.NONE, dtype=np.int64) for _ in range(2))
        self.joined = np.zeros(sessions, dtype=bool)  # True if the root has got a JOIN
        if _SESSIONS in kept:
            names = "root", "lost", "joined"
            self.root, self.lost, self.joined = (kept[_SESSIONS][name].copy() for name in names)
        self.published = arrays.read_table(pending.Published, kept, pending.PUBLISHED)
        self.begun = Begun()
        self._play_events(rules, begins=_SESSIONS not in kept)

    def write(self, kept: Tables) -> None:
        """Store in `kept` what the orchestrator keeps for the next round."""
        kept[_SESSIONS] = {"root": self.root, "lost": self.lost, "joined": self.joined}
        kept[pending.PUBLISHED] = self.published.to_columns()

    # --- steps 1 and 2

    def _play_events(self, rules: LiveBayeux, *, begins: bool) -> None:
        """Let nodes die; sessions are lost, and all are created in round 0: rules B12, B13."""
        now, events, number = self.now, self.now.events, self.now.number
        dead = np.zeros(len(now.ring), dtype=bool)
        dead[np.r_[events.fail, events.leave]] = True
        self.lost[(self.root >= 0) & (self.lost < 0) & dead[self.root]] = number
        anew = (self.lost >= 0) & (self.lost + rules.recreate == number) & (rules.recreate > 0)
        anew |= begins
        keys = partition_keys(Keys(now.key_hi, now.key_lo), rules.partitions)
        if anew.any():
            root, of = self.root.copy(), (keys.take(anew), rules.root_rule, rules.b)
            root[anew] = find_roots(now.ring, now.overlay.live(), *of)
            stands = (root >= 0) & (self.lost < 0) & ~anew
            of_groups = (one.reshape(-1, rules.partitions) for one in (root, anew, stands))
            anew &= ~have_root_of_another(*of_groups).ravel()
            self.root[anew], self.lost[anew], self.joined[anew] = root[anew], arrays.NONE, False
        facts, is_alive = self.player.facts, now.overlay.is_alive
        self.sessions = Sessions(
            *(self.player.bounds, facts, now.kernel, now.lan_us, keys),
            self.root.reshape(-1, rules.partitions),
            *(Hop(facts, is_alive, rules.root_rule), Hop(facts, is_alive, rules.hops)),
            *(number, now.overlay),
            self.player.share("born", lambda: {"born": now.incarnation}),
            *(self.lost >= 0, now.tally.observer),
        )
        if number:
            self.player.play(ForgetDead(self.sessions, dead, anew))

    # --- steps 3 and 4

    def leave(self) -> None:
        """Let members that quit send LEAVEs: rule B15."""
        self.player.play(Leave(self.sessions), {QUIT: to_nodes(self.now.quit)})
        self.player.play(Prune(self.sessions))

    def join(self) -> None:
        """Let all waiting members send JOINs, and roots answer with TREEs: rule B16."""
        self.player.play(Join(self.sessions), {MEMBER: to_nodes(self.now.join)})
        self.player.play(SendTree(self.sessions))
        self.player.play(Record(self.sessions))
        if self.partitions > 1:
            begun = self.player.take(BEGUN).get(BEGUN, {})
            self.joined[begun.get("session", arrays.whole_numbers())] = True

    # --- steps 5 and 6

    def publish(self) -> None:
        """Send publications to the roots, down the trees, and around dead nodes: B17 and B18."""
        player, sessions, now = self.player, self.sessions, self.now
        groups, publish = len(now.key_hi), now.publish
        source = {AT: publish.node, "group": publish.group, "number": np.arange(len(publish))}
        sizes = publish.size if now.scheduled else None
        player.play(Publish(sessions, self._sends_directly(), sizes), {SOURCE: source})
        came = player.take(at_root(MULTICAST)).get(at_root(MULTICAST), {})
        self.begun = self._begun(came)
        # the first publication of each group that its root has accepted, by its source
        first = self._multicasts().measured(now.scheduled)
        # all publications of a group go the same way
        accepted = np.bincount(self.begun.group, minlength=groups)
        player.play(NextHops(sessions, np.repeat(accepted > 0, self.partitions)))
        begun = self._started(accepted)
        of_groups = self._multicasts().measured(every=False)
        lost = late = None
        if len(of_groups):  # the losses and the jitter of a session are those of its group
            of_session = np.arange(len(self.root)) // self.partitions
            of = of_groups.publication, arrays.find_sorted(of_groups.group, of_session)
            lost = now.lost_copies(sessions.facts, *of)
            late = now.late_copies(sessions.facts, *of)
        network = sessions.bounds, sessions.facts, sessions.kernel, sessions.lan_us
        spread = Dissemination(*network, to_all, lost=lost, late=late)
        player.play(spread, {START: {AT: self.root[begun], "group": begun}})
        copies = sessions, accepted, first, now.scheduled
        if not now.in_run:
            player.play(Repair(*copies, system.notes_copies(now.measures), lost))
            player.play(SendTree(sessions, TRIED))
        heard = CountHeard(*copies, publish.group, now.measures, now.in_run, now.parts.sent)
        own = {AT: came["member"], "group": came["session"] // self.partitions} if came else {}
        player.play(heard, {ACCEPTED: own} if own else None)
        if now.in_run:  # which reads no counts
            return
        player.play(Record(sessions))
        player.play(Leave(sessions))
        player.play(Prune(sessions))
        heard_by = player.take(HEARD)[HEARD].items()
        counts = {name: column.reshape(-1, groups).sum(axis=0) for name, column in heard_by}
        # `nodes` has the root, where copies start
        copies = accepted * counts["got"]
        once = accepted * (counts["nodes"] - (accepted > 0)) - counts["again"]
        published = np.bincount(publish.group, minlength=groups)
        self.published.add(now.number, published, once, copies - once)

    def _sends_directly(self) -> bool:
        """Return True if sources know their roots and send to them: rules B8 and W9."""
        return self.now.source == "direct" or (self.now.in_run and self.now.source == "root")

    def _started(self, accepted: np.ndarray) -> np.ndarray:
        """Return the sessions in which copies start: sources send there, or a node has joined."""
        starts = self.sessions.stands.ravel() & self.joined
        starts[self.sessions.lead] = True
        return np.flatnonzero(starts & np.repeat(accepted > 0, self.partitions))

    def count(self) -> system.SystemRound:
        """Count the outcomes of due publications, and the list entries of nodes: B19, B20."""
        now, last = self.now, pending.last_counted(self.now)
        self.player.play(CountSessions(self.sessions, last, now.in_run))
        multicasts = self._multicasts().measured(now.measures_all) if now.measures else None
        if now.in_run:  # which reads no counts
            return system.SystemRound(
                {}, system.Publications(), multicasts=multicasts, begun=self.begun
            )
        taken = self.player.take(pending.DUE, KEPT)
        kept, alive = taken[KEPT], int(np.count_nonzero(now.alive))
        measures = {
            "entries.mean": float(kept["entries"].sum() / alive),
            "entries.max": float(kept["most"].max()),
            "waiting": float(kept["waiting"].sum()),
            "sessions.lost": float((self.lost >= 0).sum()),
        }
        due = self.published.take_counted(last, len(now.key_hi), taken)
        return system.SystemRound(measures, due, multicasts=multicasts, begun=self.begun)

    def _multicasts(self) -> system.Multicasts:
        """Return the measured publications among those that roots accepted."""
        begun = self.begun
        way = begun.source, begun.hops, begun.delay_us
        found = system.Multicasts(begun.group, begun.publication, *way, root=begun.root)
        return found.with_sizes(self.now.publish) if self.now.scheduled else found

    def _begun(self, came: Columns) -> Begun:
        """Return all accepted publications; their copies go as those of the group's first do."""
        if not came:
            return Begun()
        came = take(came, np.argsort(came["number"]))
        group, publication = came["session"] // self.partitions, came["number"]
        _, first, of = np.unique(group, return_index=True, return_inverse=True)
        root = self.root[came["session"]]
        along = publication if self.now.scheduled else publication[first[of]]
        if self.now.source == "root" and not self.now.in_run:
            none = np.zeros(len(group), dtype=np.int64)
            return Begun(group, publication, root, root, none, none, along)
        way = came["hops"], came["delay_us"]
        return Begun(group, publication, came["member"], root, *way, along)
