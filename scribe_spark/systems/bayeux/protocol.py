"""Messages of sessions: JOIN, LEAVE and MULTICAST to the root, TREE to the member, PRUNE, copies.

Nodes on the way of a TREE record the member.  A message has the columns ``session``, ``member``
(the member that it concerns or comes from) and ``number``.

docs/rules.md, B3 to B8, B12 to B16.  JSAC 2002, Section V: "Each request to join a group is routed
by Tapestry all the way to the node acting as the root. Then, the root records the identity of the
new member and uses Tapestry to route another message back to the new member. Every Tapestry node
along this route records the identity of the new member."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import (
    SortedTable,
    distinct,
    flags,
    last_of_runs,
    read_table,
    whole_numbers,
)
from scribe_spark.core.keys import key_of, key_parts, order_of
from scribe_spark.dissemination import EDGES, Dissemination, to_all
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, append, in_bucket, take_tables
from scribe_spark.pastry.next_hop import Met
from scribe_spark.pastry.route import route_to_edge, unrouted
from scribe_spark.rounds.group_events import keys_sent
from scribe_spark.systems.bayeux.sessions import Sessions


def at_root(kind: str) -> str:
    """Return the name of the table with messages of a kind that reached a root."""
    return f"{kind} at the root"


@dataclass
class Transmissions:
    """The sent messages of one kind, by a bucket's nodes in a superstep, until they are counted."""

    kind: str
    sizes: np.ndarray | None = None  # the sizes of publications by number, with a schedule
    rows: list[Columns] = field(default_factory=list)

    def add(
        self,
        session: np.ndarray,
        sender: np.ndarray,
        to: np.ndarray,
        lost: np.ndarray,
        number: np.ndarray | None = None,
    ) -> None:
        """Add transmissions; publications of a schedule have sizes by `number`."""
        row = {"session": session, "sender": sender, "to": to, "lost": lost}
        if self.sizes is not None and number is not None:
            row["size"] = self.sizes[number]
        self.rows.append(row)

    def write(self, sessions: Sessions, tables: Tables) -> None:
        """Count the transmissions in the bucket's tables, as messages of the kind."""
        if self.rows:
            sessions.observe(tables, self.kind, **concatenate(self.rows))


@dataclass(frozen=True)
class SessionProgram:
    """The base class of Bayeux's programs."""

    sessions: Sessions

    @property
    def bounds(self) -> np.ndarray:
        return self.sessions.bounds

    def route(
        self,
        bucket: int,
        moving: Columns,
        sent: Transmissions,
        next_hop: Callable[[int, Columns], tuple[np.ndarray, Met]],
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Route messages as `route_to_edge` does; hops are added to `sent`."""
        first = int(self.bounds[bucket])

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            onward, met = next_hop(first, messages)
            session, at = messages["session"], messages[AT]
            goes = np.flatnonzero((onward >= 0) & (onward != at))
            row = np.r_[goes, met.message]
            lost = np.arange(len(row)) >= len(goes)
            number = messages["number"][row]
            sent.add(session[row], at[row], np.r_[onward[goes], met.dead], lost, number)
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
    sizes: np.ndarray | None = None  # see `Transmissions`

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        """Return the messages that nodes of the bucket send, at ``at``."""
        raise NotImplementedError

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Route messages to the edge of the bucket; store those that reached the root."""
        roots, outbox = self.sessions.root_of, dict[str, Columns]()
        sent = Transmissions(self.kind, self.sizes)
        there, moving = [inbox[_ON]] if _ON in inbox else [], inbox.get(self.kind, {})
        if not superstep:
            moving = self.begin(tables, inbox)
            here = moving[AT] == roots[moving["session"]]
            there.append(take(moving, here))
            moving = take(moving, ~here)
        if self.direct:
            if count_rows(moving):
                outbox[_ON] = self._send_on(moving, sent)
        else:
            moving = moving if superstep else unrouted(moving)
            ended, leaving = self.route(bucket, moving, sent, partial(self._next_hop, tables))
            if leaving:
                outbox[self.kind] = leaving
            if count_rows(ended):
                carried = [name for name in (AT, *_NAMED, *_WAY) if name in ended]
                came = take({name: ended[name] for name in carried}, ended["delivered"])
                is_root = came[AT] == roots[came["session"]]
                there.append(take(came, is_root))
                outbox[_ON] = self._send_on(take(came, ~is_root), sent)
        self._keep(tables, there)
        sent.write(self.sessions, tables)
        return outbox

    def _next_hop(self, tables: Tables, first: int, messages: Columns) -> tuple[np.ndarray, Met]:
        keys = self.sessions.keys.take(messages["session"])
        return self.sessions.to_root(first, tables, messages[AT], keys)

    def _send_on(self, messages: Columns, sent: Transmissions) -> Columns:
        """Send messages directly to the roots of their sessions; return those that arrive."""
        root = self.sessions.root_of[messages["session"]]
        arrives = self.sessions.lives.is_alive(root)
        sent.add(messages["session"], messages[AT], root, ~arrives, messages["number"])
        return take({**self._farther(messages, root), AT: root}, arrives)

    def _keep(self, tables: Tables, there: list[Columns]) -> None:
        """Store messages that are at roots (`there`), but not those of lost sessions."""
        if there:
            came = concatenate(there)
            append(tables, at_root(self.kind), take(came, ~self.sessions.lost[came["session"]]))


# --- member lists

#: Tables of a bucket: memberships, and member lists.
MEMBERS, LISTS = "members", "lists"

#: The prefixes of tables that wait for `Record`: entries that nodes will record (``session, at,
#: member, next, number``), and TREEs that reached their members (``session, member, number``).
LISTED, CAME = "listed", "came"


@dataclass
class SessionMembers(SortedTable):
    """Memberships of a bucket's nodes, by (group, node)."""

    number: np.ndarray = field(default_factory=whole_numbers)  # the round of the last JOIN
    waits: np.ndarray = field(default_factory=flags)  # bool: True if no TREE has arrived yet
    #: The partition whose root got the last JOIN.
    partition: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class MemberLists(SortedTable):
    """Entries of member lists, by (session, node, member): the next hop to the member."""

    next: np.ndarray = field(default_factory=whole_numbers)
    #: The round of the member's JOIN, and the round in which the entry was written.
    number: np.ndarray = field(default_factory=whole_numbers)
    written: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class ForgetDead(SessionProgram):
    """Clear the tables of dead nodes, and restart sessions: rules B12 and B13."""

    dead: np.ndarray  # bool, (K,)
    anew: np.ndarray  # bool, (G k,)
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        size, partitions = self.sessions.size, self.sessions.partitions
        members = read_table(SessionMembers, tables, MEMBERS)
        members.keep(~self.dead[members.key % size])
        group = members.key // size
        session = group * partitions + members.partition
        others = self.sessions.stands.max(axis=1)
        moves = self.sessions.lost[session] & others[group]
        members.waits = members.waits | self.anew[session] | moves
        lists = read_table(MemberLists, tables, LISTS)
        session, node = np.divmod(lists.key // size, size)
        lists.keep(~(self.dead[node] | self.anew[session]))
        tables[MEMBERS], tables[LISTS] = members.to_columns(), lists.to_columns()
        return {}


class Record(SessionProgram):
    """Write the list entries of TREEs that arrived; their members stop waiting."""

    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        record(self.sessions, tables)
        return {}


def record(sessions: Sessions, tables: Tables) -> None:
    """Write new list entries over older ones; members whose last JOIN is answered stop waiting."""
    if listed := take_tables(tables, LISTED):
        tables[LISTS] = _written(sessions, tables, concatenate(listed)).to_columns()
    if came := take_tables(tables, CAME):
        answered = concatenate(came)
        members = read_table(SessionMembers, tables, MEMBERS)
        group = answered["session"] // sessions.partitions
        row = members.find(key_of([group, answered["member"]], sessions.size))
        last = (row >= 0) & (members.number[row] == answered["number"])
        members.waits = members.waits.copy()
        members.waits[row[last]] = False
        tables[MEMBERS] = members.to_columns()


def _written(sessions: Sessions, tables: Tables, listed: Columns) -> MemberLists:
    """Return the member lists with new entries, the columns `listed`."""
    key = key_of([listed["session"], listed[AT], listed["member"]], sessions.size)
    order = order_of(key, listed["number"])
    order = order[last_of_runs(key[order])]
    key, onward, number = key[order], listed["next"][order], listed["number"][order]
    lists = read_table(MemberLists, tables, LISTS)
    row = lists.find(key)
    old = np.flatnonzero(row >= 0)
    newer = np.ones(len(key), dtype=bool)
    newer[old] = lists.number[row[old]] <= number[old]
    lists.drop(row[old[newer[old]]])
    lists.insert(key[newer], next=onward[newer], number=number[newer], written=sessions.number)
    return lists


@dataclass(frozen=True)
class NextHops(SessionProgram):
    """Find the distinct next hops to which each node sends copies: rules B7 and B17."""

    wanted: np.ndarray | None = None  # bool: True for sessions to include; by default all
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the edges of the multicast, as `dissemination.EDGES`; no message is sent."""
        size, lists = self.sessions.size, read_table(MemberLists, tables, LISTS)
        place, onward = lists.key // size, lists.next
        good = self.sessions.is_good(onward, lists.written)
        if self.wanted is not None:
            good &= self.wanted[place // size]
        edges = distinct(key_of([place[good], onward[good]], size))
        if len(edges):
            tables[EDGES] = key_parts(edges, ("group", "node", "peer"), size)
        return {}


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
        members = read_table(SessionMembers, tables, MEMBERS)
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
    """Route TREEs to members; nodes record the member once the TREE has arrived."""

    #: The table of JOINs to answer or of members to find: ``at`` (where the TREE starts),
    #: ``session``, ``member``, ``number``; if TREEs carry publications, also ``hops, delay_us`` of
    #: these.
    begin: str = at_root(JOIN)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Route TREEs to the edge of the bucket; store the entries that nodes should record."""
        moving, sent, came = inbox.get(TREE, {}), Transmissions(TREE), list[Columns]()
        if _ARRIVED in inbox:
            tables[f"{LISTED} {superstep}"] = inbox[_ARRIVED]
        if not superstep and self.begin in tables:
            moving = unrouted(tables.pop(self.begin))
            if self.sessions.partitions > 1 and self.begin == at_root(JOIN):
                tables[BEGUN] = {"session": distinct(moving["session"])}

        def next_hop(first: int, messages: Columns) -> tuple[np.ndarray, Met]:
            arrived = np.flatnonzero(messages[AT] == messages["member"])
            names = [name for name in (*_NAMED, "path", *_WAY) if name in messages]
            came.append({name: messages[name][arrived] for name in names})
            return self._next_hop(first, tables, messages)

        _, leaving = self.route(bucket, moving, sent, next_hop)
        sent.write(self.sessions, tables)
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
        members = read_table(SessionMembers, tables, MEMBERS)
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
        lists = read_table(MemberLists, tables, LISTS)
        row = lists.find(key_of([came["session"], came[AT], came["member"]], self.sessions.size))
        there = row >= 0
        there[there] = lists.number[row[there]] <= came["number"][there]
        row, came = row[there], take(came, there)
        onward = lists.next[row]
        good = self.sessions.is_good(onward, lists.written[row])
        lists.drop(row)
        tables[LISTS] = lists.to_columns()
        sent = Transmissions(PRUNE)
        sent.add(came["session"], came[AT], onward, ~good)
        sent.write(self.sessions, tables)
        return {PRUNE: take({**came, AT: onward}, good)}


def _largest(came: Columns) -> dict[str, np.ndarray]:
    """Return the LEAVE with the largest number for each member, of all that came."""
    order = order_of(came["session"], came["member"], came["number"])
    last = last_of_runs(came["session"][order], came["member"][order])
    return take(came, order[last])


# --- multicast

# kinds of messages
SOURCE, MULTICAST = "source", "MULTICAST"


@dataclass(frozen=True)
class Publish(ToRoot):
    """Sources send their publications (messages :data:`SOURCE`) to the roots."""

    kind = MULTICAST

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        nothing = {name: whole_numbers() for name in (AT, "group", "number")}
        came = inbox.get(SOURCE, nothing)
        source, session = came[AT], self.sessions.lead[came["group"]]
        none = np.zeros(len(source), dtype=np.int64)
        way = {"hops": none, "delay_us": none}
        return {AT: source, "session": session, "member": source, "number": came["number"], **way}


def flood(sessions: Sessions, lost: Lost | None, late: Late | None) -> Dissemination:
    """Return the program in which nodes send copies to all next hops: rules B7 and B17."""
    network = sessions.bounds, sessions.facts, sessions.kernel, sessions.lan_us
    return Dissemination(*network, rule=to_all, lost=lost, late=late)
