"""Bayeux in a world: the programs of runs and those of churn, in the order of rule B11.

The orchestrator keeps the roots of the sessions and the publications that are not due; all other
state is in the buckets.

Rules: docs/rules.md, B11 to B20.  JSAC 2002, Section V; NGC 2001, Section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.bayeux.protocol import (
    CAME,
    JOIN,
    LEAVE,
    LISTED,
    LISTS,
    MEMBER,
    MEMBERS,
    MULTICAST,
    PRUNE,
    QUIT,
    SOURCE,
    TREE,
    UNREACHED,
    ForgetDead,
    Join,
    Leave,
    Lists,
    Members,
    NextHops,
    Prune,
    Publish,
    Record,
    SessionProgram,
    Transmissions,
    Tree,
    at_root,
    flood,
    record,
    take_tables,
)
from scribe_spark.bayeux.sessions import LEAF_SET, TABLE, Round, Sessions, by_knowledge
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    read_table,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, EDGES, START, first_of_each
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, append
from scribe_spark.engine.ring import Keys
from scribe_spark.multicast import HOPS, PAYLOAD
from scribe_spark.pastry import closeness
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds.pending import (
    DUE,
    EXPECTED,
    PUBLISHED,
    Published,
    count_due,
    last_counted,
    note_expected,
)
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    Pairs,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    count_messages,
    notes_copies,
)


def note_copies(tables: Tables, group: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
    """Record copies once, however many publications went the same way: `rounds.system.CARRIED`."""
    if len(group):
        rows = {"group": group, "publication": np.zeros(len(group), dtype=np.int64)}
        append(tables, CARRIED, {**rows, "sender": sender, "to": to})


def note_first_copies(tables: Tables, copies: Columns, trees: Sequence[Columns], size: int) -> None:
    """Record the first copy at each node: `rounds.system.DELIVERED`.

    `copies` is the table `dissemination.ARRIVALS`; `trees` have ``session, member, hops,
    delay_us``.  For nodes without a copy, the first TREE with the publications counts, because
    TREEs are sent after all copies.
    """

    def named(came: Columns, *columns: str) -> Columns:
        names = ("group", "node", "hops", "delay_us")
        return {name: came[column] for name, column in zip(names, columns, strict=True)}

    parts = [named(copies, "group", "node", "hops", "at_us")] if copies else []
    parts += [named(tree, "session", "member", "hops", "delay_us") for tree in trees]
    if not parts:
        return
    got = concatenate(parts)
    by_tree = np.arange(count_rows(got)) >= count_rows(copies)
    place = key_of([got["group"], got["node"]], size)
    first = first_of_each(place, (by_tree, got["delay_us"], got["hops"]))
    publication = np.zeros(len(first), dtype=np.int64)
    append(tables, DELIVERED, {**take(got, first), "publication": publication})


# --- repair

#: Tables of a bucket: entries on which copies were lost, and those of them for whose members a TREE
#: is sent; both have ``at``, ``session``, ``member``, ``number``, the latter also ``hops,
#: delay_us`` of the node's own first copy.
_BROKEN, TRIED = "broken", "tried"


@dataclass(frozen=True)
class Repair(SessionProgram):
    """Find lost copies of nodes that received publications, and the members to look for."""

    #: (G,): the number of publications that each root accepted, which is also the number of lost
    #: copies.
    accepted: np.ndarray
    noted: bool = False  # True if lost copies of multicasts are recorded: `rounds.system.CARRIED`

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Read the arrivals; no message is sent."""
        if ARRIVALS not in tables:
            return {}
        size, heard = self.sessions.size, tables[ARRIVALS]
        lists = read_table(Lists, tables, LISTS)
        place = key_of([heard["group"], heard["node"]], size)
        of, row = expand(*(np.searchsorted(lists.key, (place + i) * size) for i in (0, 1)))
        bad = ~self.sessions.is_good(lists.next[row], lists.written[row])
        of, row = of[bad], row[bad]
        place, member = np.divmod(lists.key[row], size)
        session, node = np.divmod(place, size)
        tables[_BROKEN] = broken = {
            **{AT: node, "session": session},
            **{"member": member, "number": lists.number[row]},
        }
        way = {"hops": heard["hops"][of], "delay_us": heard["at_us"][of]}
        tables[TRIED] = take({**broken, **way}, lists.next[row] != member)
        lost, to = np.divmod(distinct(key_of([place, lists.next[row]], size)), size)
        sent = Transmissions(PAYLOAD)
        session, node = np.divmod(lost, size)
        if self.noted:
            note_copies(tables, session, node, to)
        often = self.accepted[session]
        session, node, to = (np.repeat(one, often) for one in (session, node, to))
        sent.add(session, node, to, np.ones(len(to), dtype=bool))
        sent.write(self.sessions, tables, superstep)
        return {}


@dataclass(frozen=True)
class GiveUp(SessionProgram):
    """Apply TREEs; drop members that the node's TREE did not reach."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write member lists, and the members for which LEAVE will be sent; no message is sent."""
        failed = tables.pop(_BROKEN, {})
        if not failed:
            record(self.sessions, tables)
            return {}
        failed = take(failed, ~self._reached(tables, failed))
        record(self.sessions, tables)
        lists = read_table(Lists, tables, LISTS)
        row = lists.find(self._entry(failed))
        lists.drop(row[lists.written[row] < self.sessions.number])
        tables[LISTS] = lists.to_columns()
        away = failed[AT] != self.sessions.root_of[failed["session"]]
        tables[UNREACHED] = take(failed, away)
        return {}

    def _entry(self, rows: Columns) -> np.ndarray:
        return key_of([rows["session"], rows[AT], rows["member"]], self.sessions.size)

    def _reached(self, tables: Tables, broken: Columns) -> np.ndarray:
        """Return True for members that the node's own TREE reached."""
        names = [name for name in tables if name.startswith(f"{LISTED} ")]
        own = [self._entry(take(tables[name], tables[name]["first"])) for name in names]
        reached = np.sort(np.concatenate([*own, broken[AT][:0]]))
        return find_sorted(reached, self._entry(broken)) >= 0


# --- pending

#: The message to a source that the root has accepted its publication.
ACCEPTED = "accepted"

#: The tables of counts for the orchestrator: the copies of this round (a row per group), and the
#: entries of nodes.
HEARD, KEPT = "heard", "kept"


@dataclass(frozen=True)
class CountHeard(SessionProgram):
    """Count the copies that nodes received, and record the expected receivers: B19.

    Messages :data:`ACCEPTED` go to the sources, which have their own publications.
    """

    #: (G,): the number of publications that the root of each group accepted, and that its members
    #: sent.
    accepted: np.ndarray
    published: np.ndarray
    #: The measures of multicasts, for which copies and deliveries are recorded.
    measures: tuple[str, ...] = ()

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`HEARD` and :data:`EXPECTED`; no message is sent."""
        size = self.sessions.size
        arrivals = tables.pop(ARRIVALS, {})
        copied = self._keys(arrivals, "group", "node")
        got = self._count_copies(tables) if ARRIVED_COPIES in tables else self._by_group(copied[:0])
        tables.pop(EDGES, None)
        came = take_tables(tables, CAME)
        if self.measures:
            note_first_copies(tables, arrivals, came, size)
        trees = [self._keys(one, "session", "member") for one in came]
        by_tree = np.concatenate([copied[:0], *trees])
        heard = distinct(np.concatenate([copied, by_tree]))
        own = np.sort(self._keys(inbox.get(ACCEPTED, {}), "group", AT))
        # a source has its own publication before a TREE brings it
        again = (find_sorted(heard, own) >= 0) & (find_sorted(np.sort(copied), own) < 0)
        tables[HEARD] = {
            "got": got + self._by_group(by_tree // size),
            "nodes": self._by_group(heard // size),
            "again": self._by_group(own[again] // size),
        }
        self._note_expected(tables, heard, own)
        return {}

    def _keys(self, rows: Columns, *parts: str) -> np.ndarray:
        if not rows:
            return whole_numbers()
        return key_of([rows[name] for name in parts], self.sessions.size)

    def _by_group(self, group: np.ndarray) -> np.ndarray:
        return np.bincount(group, minlength=len(self.accepted))

    def _count_copies(self, tables: Tables) -> np.ndarray:
        """Count payloads; return the number of copies of each group."""
        copies = tables.pop(ARRIVED_COPIES)
        group, sender, to = (copies[name] for name in ("group", "sender", "node"))
        if notes_copies(self.measures):
            note_copies(tables, group, sender, to)
        often = self.accepted[group]
        self.sessions.observe(
            tables, PAYLOAD, np.repeat(sender, often), np.repeat(to, often), lost=False
        )
        return self._by_group(group)

    def _note_expected(self, tables: Tables, heard: np.ndarray, own: np.ndarray) -> None:
        """Record the expected receivers; `heard` received everything, `own` are the sources."""
        size, members = self.sessions.size, read_table(Members, tables, MEMBERS).key
        members = members[self.published[members // size] > 0]
        group = members // size
        sent = np.searchsorted(own, members, side="right") - np.searchsorted(own, members)
        has = find_sorted(heard, members) >= 0
        note_expected(
            *(tables, self.sessions.number, len(self.accepted), size, members),
            count=self.published[group],
            got=np.where(has, self.accepted[group], sent),
        )


@dataclass(frozen=True)
class CountRound(SessionProgram):
    """Count the outcomes of due publications, and the entries of nodes: rules B19 and B20."""

    last: int  # the last round whose publications are due

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`DUE` and :data:`KEPT`; no message is sent."""
        size, members = self.sessions.size, read_table(Members, tables, MEMBERS)
        count_due(tables, self.last, len(self.sessions.keys), size, members.key)
        lists = read_table(Lists, tables, LISTS)
        _, entries = np.unique(lists.key // size % size, return_counts=True)
        tables[KEPT] = {
            "entries": np.array([len(lists)]),
            "most": np.array([entries.max(initial=0)]),
            "waiting": np.array([np.count_nonzero(members.waits)]),
        }
        return {}


# --- live

# a table that the orchestrator keeps
_SESSIONS = "sessions"


@dataclass(frozen=True)
class LiveBayeux(SystemOnBuckets):
    """Bayeux as a system of a world."""

    hops: str = TABLE  # `sessions.TABLE` or `sessions.LEAF_SET`
    #: The number of rounds after which a lost session is created again; 0 for never.
    recreate: int = 0
    payload: tuple[str, ...] = (MULTICAST, PAYLOAD)
    control: tuple[str, ...] = (JOIN, TREE, LEAVE, PRUNE)
    kept_in_buckets: ClassVar[Mapping[str, int]] = {MEMBERS: 0, LISTS: 1, EXPECTED: 0}
    kept: ClassVar[tuple[str, ...]] = (_SESSIONS, PUBLISHED)
    member_table: ClassVar[str] = MEMBERS
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        played = _Round(self, player, kept, now)
        played.leave()
        played.join()
        played.publish()
        done = played.count()
        played.write(kept)
        count_messages(player, now)
        return done


class _Round:
    """A round: the state of the orchestrator, and the steps."""

    def __init__(
        self, rules: LiveBayeux, player: SystemPlayer, kept: Tables, now: LivingRound
    ) -> None:
        self.player, self.now = player, now
        groups = len(now.key_hi)
        self.root, self.lost = (np.full(groups, NONE, dtype=np.int64) for _ in range(2))
        if _SESSIONS in kept:
            self.root, self.lost = (kept[_SESSIONS][name].copy() for name in ("root", "lost"))
        self.published = read_table(Published, kept, PUBLISHED)
        self.multicasts: Multicasts | None = None
        self.begun: Begun | None = None
        self._play_events(rules)

    def write(self, kept: Tables) -> None:
        """Store the orchestrator's state."""
        kept[_SESSIONS] = {"root": self.root, "lost": self.lost}
        kept[PUBLISHED] = self.published.to_columns()

    # --- steps 1 and 2

    def _play_events(self, rules: LiveBayeux) -> None:
        """Nodes die; sessions are lost and created (all in round 0): rules B12 and B13."""
        now, events, number = self.now, self.now.events, self.now.number
        dead = np.zeros(len(now.ring), dtype=bool)
        dead[np.r_[events.fail, events.leave]] = True
        self.lost[(self.root >= 0) & (self.lost < 0) & dead[self.root]] = number
        anew = (self.lost >= 0) & (self.lost + rules.recreate == number) & (rules.recreate > 0)
        anew |= self.root < 0
        keys = Keys(now.key_hi, now.key_lo)
        if anew.any():
            self.root[anew] = closeness.roots(now.ring, now.overlay.live(), keys.take(anew))
            self.lost[anew] = NONE
        facts = self.player.facts
        born = self.player.share("born", lambda: {"born": now.incarnation})
        this, is_alive = Round(number, now.overlay, born, self.lost >= 0), now.overlay.is_alive
        self.sessions = Sessions(
            *(self.player.bounds, facts, now.kernel, now.lan_us, keys, self.root[:, None]),
            *(by_knowledge(facts, is_alive, LEAF_SET), by_knowledge(facts, is_alive, rules.hops)),
            *(this, now.tally.observer),
        )
        self.player.play(ForgetDead(self.sessions, dead, anew))

    # --- steps 3 and 4

    def leave(self) -> None:
        """Members quit: rule B15."""
        self.player.play(Leave(self.sessions), {QUIT: _pairs(self.now.quit)})
        self.player.play(Prune(self.sessions))

    def join(self) -> None:
        """All waiting members send JOINs, and roots answer: rule B16."""
        self.player.play(Join(self.sessions), {MEMBER: _pairs(self.now.join)})
        self.player.play(Tree(self.sessions))
        self.player.play(Record(self.sessions))

    # --- steps 5 and 6

    def publish(self) -> None:
        """Publications go to the roots, down the trees, and around dead nodes: B17 and B18."""
        player, sessions, groups = self.player, self.sessions, len(self.root)
        player.play(
            Publish(sessions), {SOURCE: _pairs((self.now.publish.group, self.now.publish.node))}
        )
        came = player.take(at_root(MULTICAST)).get(at_root(MULTICAST), {})
        group, source = (came.get(name, whole_numbers()) for name in ("session", "member"))
        if self.now.measures:
            self.begun = self._begun(came)
            # the first publication of each group that its root has accepted, by its source
            which, first = np.unique(self.begun.group, return_index=True)
            of = self.begun.take(first)
            self.multicasts = Multicasts(which, of.publication, of.source, of.hops, of.delay_us)
        # the number of publications per group; all publications of a group go the same way
        accepted = np.bincount(group, minlength=groups)
        published = np.bincount(self.now.publish.group, minlength=groups)
        begun = np.flatnonzero(accepted)
        player.play(NextHops(sessions, accepted > 0))
        player.play(flood(sessions, HOPS), {START: {AT: self.root[begun], "group": begun}})
        player.play(Repair(sessions, accepted, notes_copies(self.now.measures)))
        player.play(Tree(sessions, TRIED))
        heard = CountHeard(sessions, accepted, published, self.now.measures)
        player.play(heard, {ACCEPTED: {AT: source, "group": group}})
        player.play(GiveUp(sessions))
        player.play(Leave(sessions))
        player.play(Prune(sessions))
        heard_by = player.take(HEARD)[HEARD].items()
        counts = {name: column.reshape(-1, groups).sum(axis=0) for name, column in heard_by}
        # `nodes` has the root, where copies start
        came, first = accepted * counts["got"], accepted * (counts["nodes"] - (accepted > 0))
        first -= counts["again"]
        self.published.add(self.now.number, published, first, came - first)

    def count(self) -> SystemRound:
        """Count the outcomes of due publications, and the entries of nodes: B19 and B20."""
        last = last_counted(self.now)
        self.player.play(CountRound(self.sessions, last))
        taken = self.player.take(DUE, KEPT)
        kept, alive = taken[KEPT], int(np.count_nonzero(self.now.alive))
        measures = {
            "entries.mean": float(kept["entries"].sum() / alive),
            "entries.max": float(kept["most"].max()),
            "waiting": float(kept["waiting"].sum()),
            "sessions.lost": float((self.lost >= 0).sum()),
        }
        due = self.published.take_counted(last, len(self.root), taken)
        return SystemRound(measures, due, multicasts=self.multicasts, begun=self.begun)

    def _begun(self, came: Columns) -> Begun:
        """Return the accepted publications by group and source; their name is 0."""
        if not came:
            return Begun()
        came = take(came, np.lexsort((came["member"], came["session"])))
        group, none = came["session"], np.zeros(len(came["session"]), dtype=np.int64)
        root = self.root[group]
        if self.now.source == "root":
            return Begun(group, none, root, root, none, none)
        return Begun(group, none, came["member"], root, came["hops"], came["delay_us"])


def _pairs(pairs: Pairs) -> Columns:
    return {"group": pairs[0], AT: pairs[1]}
