"""GossipSub in rounds: each own round of a world, or of a run, is a heartbeat (G16).

A heartbeat plays programs on buckets:

1. nodes die, leave, quit and join, and detected deaths end connections (:class:`Go`; G17, G18);
2. subscribers with few connections dial others (`mesh.Dial`; G19);
3. subscribers JOIN and maintain their meshes (`mesh.Maintain`; G6 to G8);
4. nodes announce what they hold (`gossip.Gossip`; G13, G20), and sources publish
   (`publication.SpreadMessages`, `publication.SendCopies`; G10, G21);
5. buckets count messages (:class:`CountCopies`) and publications (:class:`CountRound`; G22).

The orchestrator keeps the list of publications that are still announced or not yet due; all other
state is in the buckets.  Only the first heartbeat of a world's round has events; later ones skip
steps 1 and 2, unless dials are spread over heartbeats, limit step 3 to places that may not be
settled, and skip step 4 if no node announces anything.

A run is a round without end: all subscribers join in its first heartbeat, and meshes are built as
rule G4 says.  The publications follow in the next heartbeat, whose number in draws is 0, and then
heartbeats with gossip until no node lacks a publication, or none announces one (G13).

Rules: docs/rules.md, G1 to G22.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.engine.losses import jitter_keys
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import Inbox, Outbox, SilentProgram, Tables, append
from scribe_spark.multicast import PAYLOAD, TIME
from scribe_spark.rounds.group_events import keys_sent, to_nodes
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    Publications,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    count_messages,
    notes_copies,
)
from scribe_spark.systems.gossipsub import mesh, publication
from scribe_spark.systems.gossipsub.gossip import DEAD_ENDS, HELD, Gossip, Held, Lacking, Recall
from scribe_spark.systems.gossipsub.publication import publish_with_bandwidth
from scribe_spark.systems.gossipsub.router import BackOff, Links, Router, with_classes

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.gossipsub.config import GossipSubConfig

#: Tables of a bucket: in a run, the sizes of meshes; counts of a heartbeat, by message and for the
#: bucket.
MESH_SIZES, BY_MESSAGE, COUNTED = "mesh sizes", "counted by message", "counted"


@dataclass(frozen=True)
class CountCopies(SilentProgram, publication.PublicationProgram):
    """Record the messages that nodes hold; count payloads and duplicates (rule G22).

    Measured multicasts are recorded in the tables `rounds.system.DELIVERED` and
    `rounds.system.CARRIED`; in a run also other messages than copies.
    """

    measured: np.ndarray  # the measured messages, ascending
    notes_copies: bool = False  # True if copies are recorded, too

    def change(self, bucket: int, tables: Tables) -> None:
        """Write the counts."""
        got = arrays.read_table(publication.Arrivals, tables, publication.ARRIVALS)
        first, again, by_iwant = self._count_copies(tables)
        told = self._by_message(self.announced(got, self.heartbeat + 1) // self._size)
        tables[BY_MESSAGE] = {"first_copies": first, "duplicates": again, "told": told}
        tables[COUNTED] = {"by_iwant": np.array([by_iwant])}
        self._note_arrivals(tables, got)
        if self.topics.now.in_run:
            return
        for name in (publication.ARRIVALS, publication.FANOUT):
            del tables[name]
        held = arrays.read_table(Held, tables, HELD)
        held.insert(got.key, round=got.heartbeat, hops=got.hops)
        tables[HELD] = held.to_columns()

    def _by_message(self, message: np.ndarray) -> np.ndarray:
        return np.bincount(message, minlength=len(self.messages.topic))

    def _count_copies(self, tables: Tables) -> tuple[np.ndarray, np.ndarray, int]:
        """Return first copies and duplicates by message, and the first copies by IWANT."""
        firsts, again = (self._by_message(arrays.whole_numbers()) for _ in range(2))
        by_iwant, noted = 0, list[Columns]()
        for name in (publication.COPIES, publication.ANSWERS):
            sent = tables.pop(f"{name} {self.heartbeat}", {})
            if sent:
                lost, first = sent["lost"], sent["first"]
                firsts += self._by_message(sent["message"][first])
                again += self._by_message(sent["message"][~(lost | first)])
                by_iwant += int(np.count_nonzero(first)) if name == publication.ANSWERS else 0
                noted += self._rows(PAYLOAD, sent)
                if not self.topics.now.in_run:
                    size = self.messages.size
                    size = None if size is None else size[sent["message"]]
                    ends = sent["sender"], sent["node"]
                    self.topics.observe(tables, PAYLOAD, *ends, ~lost, size=size)
        for kind in publication.TOLD:
            noted += self._rows(kind, tables.pop(f"{kind} {self.heartbeat}", {}))
        if noted:
            append(tables, CARRIED, *noted)
        return firsts, again, by_iwant

    def _rows(self, kind: str, sent: Columns) -> Iterator[Columns]:
        """Yield rows of `rounds.system.CARRIED`: messages of a kind sent in the heartbeat."""
        if not sent or not self.notes_copies:
            return
        message = sent["message"]
        rows = {"group": self.messages.topic[message], "publication": message}
        rows |= {"sender": sent["sender"], "to": sent["node"]}
        if not self.topics.now.in_run:
            rows = take({**rows, "lost": sent["lost"]}, self._is_measured(message))
        else:
            code = self.topics.now.tally.observer.kinds.index(kind)
            none = np.zeros(len(message), np.int64)
            rows["kind"] = np.full(len(message), code, dtype=np.int8)
            rows |= {
                "hops": sent.get("hops", none),
                "sent_us": sent.get("sent", none + arrays.NONE),
            }
            rows |= {name: sent.get(name, none > 0) for name in ("first", "lost")}
        if len(rows["to"]):
            yield rows

    def _note_arrivals(self, tables: Tables, got: publication.Arrivals) -> None:
        """Record the first copies of the heartbeat."""
        message, node = arrays.divided(got.key, self._size)
        new = (got.heartbeat == self.heartbeat) & (got.hops > 0) & self._is_measured(message)
        if new.any():
            delay_us = got.at if self.messages.clock == TIME else got.way
            group = self.messages.topic[message]
            rows = {"group": group, "publication": message, "node": node, "hops": got.hops}
            append(tables, DELIVERED, take({**rows, "delay_us": delay_us}, new))

    def _is_measured(self, message: np.ndarray) -> np.ndarray:
        if self.topics.now.in_run:
            return np.ones(len(message), dtype=bool)
        return arrays.find_sorted(self.measured, message) >= 0


# --- round

# the orchestrator's table, which is kept between rounds
_PUBLISHED = "published"

# kinds of messages; the last two tell a bucket's nodes of the round's events
_PRUNE, _GOODBYE, _UNSUBSCRIBE = "PRUNE", "goodbye", "unsubscribe"
_QUITS, _JOINS = "quits", "joins"

# tables with the counts of a round
_OUTCOMES, _LINKS = "outcomes", "counted links"


@dataclass
class _PublishedMessages(arrays.SortedTable):
    """The publications that are still announced, or whose deadline is to come, by index."""

    #: `round` is the heartbeat of the publication.
    round: np.ndarray = field(default_factory=arrays.whole_numbers)
    topic: np.ndarray = field(default_factory=arrays.whole_numbers)
    source: np.ndarray = field(default_factory=arrays.whole_numbers)
    first_copies: np.ndarray = field(default_factory=arrays.whole_numbers)
    duplicates: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: The number of nodes that announce it in the next heartbeat.
    told: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: The index in `LivingRound.publish` of its heartbeat, the turn, and the size in bytes.
    number: np.ndarray = field(default_factory=arrays.whole_numbers)
    turn: np.ndarray = field(default_factory=arrays.whole_numbers)
    size: np.ndarray = field(default_factory=arrays.whole_numbers)


@dataclass(frozen=True)
class LiveGossipSub(SystemOnBuckets):
    """GossipSub as a system of rounds."""

    rules: GossipSubConfig  # the section of the config with defaults filled in
    clock: str = TIME
    payload: tuple[str, ...] = (PAYLOAD,)
    control: tuple[str, ...] = (
        *("dial", "GRAFT", _PRUNE, _GOODBYE, _UNSUBSCRIBE),
        *(publication.IHAVE, publication.IWANT, publication.IDONTWANT),
    )
    kept_in_buckets: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys((mesh.CONNECTIONS, mesh.MESH, mesh.BACK_OFF, mesh.TO_DIAL, mesh.GRAPH), 1),
        **dict.fromkeys((mesh.SUBSCRIBERS, HELD, mesh.UNSETTLED), 0),
    }
    kept: ClassVar[tuple[str, ...]] = (_PUBLISHED,)
    member_table: ClassVar[str] = mesh.SUBSCRIBERS
    recodes: ClassVar[tuple[str, ...]] = ("run", "world")
    state: ClassVar[Mapping[str, str]] = {
        "connections": mesh.CONNECTIONS,
        "mesh": MESH_SIZES,
        "back-off": mesh.BACK_OFF,
    }
    sources_join: ClassVar[bool] = True

    @property
    def rounds_before(self) -> int:
        """See `SystemOnBuckets.rounds_before`; rule G4."""
        return self.rules.heartbeats_before

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        published = arrays.read_table(_PublishedMessages, kept, _PUBLISHED)
        nobody = mesh.Directory.of(arrays.whole_numbers(), len(now.group), len(now.ring))
        of_player = player.bounds, player.facts
        topics = mesh.Topics(*of_player, nobody, self.rules, now.for_buckets())
        done = _Heartbeat(self, player, topics, published, now).play_heartbeat()
        kept[_PUBLISHED] = published.to_columns()
        if not now.in_run:
            count_messages(player, now)
        return done


def live_gossipsub(config: GossipSubConfig, classes: NodeClasses | None = None) -> LiveGossipSub:
    """Return the system with the rules of a config and the classes of nodes."""
    return LiveGossipSub(with_classes(config, classes), config.clock)


def system_of(config: Any) -> LiveGossipSub:
    """Return the system of a run's or world's config."""
    return live_gossipsub(config.gossipsub, NodeClasses.of(config))


@dataclass
class _Heartbeat:
    """One heartbeat, whose number is that of the own round; playing it changes `published`."""

    system: LiveGossipSub
    player: SystemPlayer
    topics: mesh.Topics
    published: _PublishedMessages
    now: LivingRound

    def play_heartbeat(self) -> SystemRound:
        """Play the heartbeat."""
        now, published = self.now, self.published
        if now.begins_round:
            events = now.events
            gone = Go(self.topics, events.fail, events.leave, events.entering)
            self.player.play(gone, {_QUITS: to_nodes(now.quit), _JOINS: to_nodes(now.join)})
        if not now.in_run or now.number < self.system.rounds_before:
            self._connect()
            self._maintain()
        counts = {"by_iwant": 0.0}
        if published.told.any() or len(now.publish):
            counts = self._publish()
        measured = self._multicasts() if now.measures else None
        if now.ends_round:
            return SystemRound(*self._end_round(), counts, measured, Begun())
        return SystemRound({}, Publications(), counts, measured, Begun(), self._goes_on())

    def _know_subscribers(self) -> None:
        """Share the directory of subscribers after the events of the world's round."""
        size, now = self.topics.space.size, self.now

        def gather() -> dict[str, np.ndarray]:
            if now.number == 0:
                place = key_of(now.join, size)
            else:
                found = self.player.gather(mesh.SUBSCRIBERS).get(mesh.SUBSCRIBERS, {})
                place = found.get("key", arrays.whole_numbers())
            return dict(mesh.Directory.of(place, len(now.group), size).shared)

        shared = self.player.share("subscribers", gather)
        self.topics = replace(self.topics, directory=mesh.Directory(shared, size))

    def _connect(self) -> None:
        """Let subscribers dial and JOIN."""
        now, player, rules = self.now, self.player, self.topics.rules
        if now.begins_round or player.has(mesh.TO_DIAL):
            self._know_subscribers()
            if rules.discovery == "graph":
                entering = now.events.entering if now.number else None
                player.play(mesh.DialGraph(self.topics, entering))
                player.play(mesh.Meet(self.topics))
            else:
                player.play(mesh.Dial(self.topics))
        if (now.begins_round or now.number < rules.waves) and rules.joins != "unconnected":
            player.play(mesh.Maintain(self.topics, joins=True))

    def _maintain(self) -> None:
        """Play the phases of a heartbeat, unless all meshes are settled."""
        now, player, topics = self.now, self.player, self.topics
        if now.in_run and now.number >= topics.rules.waves - 1 + topics.rules.heartbeats:
            return
        if now.begins_round or player.has(mesh.UNSETTLED) or player.has(mesh.TOUCHED):
            for phase in range(topics.rules.heartbeat_phases):
                all_places = now.begins_round and not phase
                player.play(mesh.Maintain(topics, phase=phase, all_places=all_places))

    @property
    def _number(self) -> int:
        """The heartbeat's number; in a run, the first heartbeat with publications has number 0."""
        return self.now.number - (self.system.rounds_before if self.now.in_run else 0)

    @property
    def _named_parts(self) -> Parts:
        """The parts of a publication that an IHAVE or IWANT names: one, or all (rule W16)."""
        links = self.now.links
        if links is None or self.topics.rules.announce == "part":
            return Parts()
        return links.parts

    def _messages(self) -> publication.Messages:
        """Return the stored publications as `Messages`, for the programs."""
        published = self.published
        of, now = (published.topic, published.source, published.round), self.now
        source = now.ring.node[published.source] + published.turn * len(now.ring)
        stamp: tuple[np.ndarray, ...] = published.round, source
        if now.in_run:  # with sizes, a topic may have several publications
            stamp = () if now.links is None else (np.arange(len(published)),)
        size, jitter = published.size if now.scheduled else None, None
        if now.kernel.jitter:
            name = (arrays.rank_in_group(published.topic),) if now.in_run else stamp
            jitter = jitter_keys(now.seed, now.group[published.topic], *name)
        return publication.Messages(*of, self.system.clock, stamp, size, jitter)

    def _multicasts(self) -> Multicasts:
        """Return the measured publications: the first of each topic in the world's round."""
        published, now = self.published, self.now
        is_new = published.round == now.own.first(now.world_round)
        message = np.flatnonzero(is_new | now.in_run)
        of_round = published.topic[message], message, published.source[message]
        found = Multicasts.from_start(*of_round)
        if now.scheduled:
            found = replace(found, number=published.number[message], size=published.size[message])
        return found.measured(now.measures_all)

    def _publish(self) -> dict[str, float]:
        """Announce publications and publish those of this heartbeat; return counts."""
        player, published, now, number = self.player, self.published, self.now, self._number
        self._know_subscribers()
        told = np.flatnonzero(published.told > 0)
        new = np.arange(len(now.publish)) + len(published)
        of = {"topic": now.publish.group, "source": now.publish.node}
        none = dict.fromkeys(("first_copies", "duplicates", "told"), 0)
        of_schedule = {"turn": now.publish.turn, "size": now.publish.size}
        numbers = np.arange(len(new))
        published.insert(new, round=number, **of, **none, number=numbers, **of_schedule)
        program = self.topics, self._messages(), number
        if now.in_run and len(new):
            player.play(NoteState(self.topics))
        if not now.in_run:
            player.play(Recall(*program, new, told))
        if player.has(publication.ARRIVALS):
            player.play(Gossip(*program, self._named_parts))
        untimed = new if now.links is None else new[:0]
        if len(untimed) or player.has(f"{publication.ANSWERS} {number}"):
            player.play(publication.SpreadMessages(*program, untimed))
            player.play(publication.SendCopies(*program))
        if now.links is not None and len(new):
            publish_with_bandwidth(player, publication.SendCopies(*program), new, now)
        measured = np.sort(self._multicasts().publication) if now.measures else new[:0]
        player.play(CountCopies(*program, measured, notes_copies(now.measures)))
        taken = player.take(BY_MESSAGE, COUNTED)
        sums = _by_message(taken[BY_MESSAGE], published)
        published.first_copies = published.first_copies + sums["first_copies"]
        published.duplicates = published.duplicates + sums["duplicates"]
        published.told = sums["told"]
        return {name: float(column.sum()) for name, column in taken[COUNTED].items()}

    def _goes_on(self) -> bool:
        """Return True if a node of a run announces a publication, and a subscriber lacks one."""
        if not self.now.in_run or not self.published.told.any():
            return False
        return self.player.play(Lacking(self.topics, self._messages(), self._number)) > 0

    def _end_round(self) -> tuple[dict[str, float], Publications]:
        """Return measures of meshes, and the outcomes of publications; forget old publications."""
        player, topics, published, now = self.player, self.topics, self.published, self.now
        age = now.world_round - now.own.world_round(published.round)
        counted = np.flatnonzero(age <= now.deadline if now.is_last else age == now.deadline)
        program = topics, self._messages(), now.number
        player.play(CountRound(*program, published.round, counted))
        taken = player.take(_OUTCOMES, _LINKS)
        sums = _by_message(taken[_OUTCOMES], published)
        expected, in_time, late = (sums[name][counted] for name in ("expected", "in_time", "late"))
        publications = Publications(
            *(now.own.world_round(published.round[counted]), published.topic[counted]),
            *(expected, in_time, late),
            *(published.first_copies[counted], published.duplicates[counted]),
        )
        kept = (age < now.deadline) | (published.told > 0)
        if not kept.all():
            player.play(Renumber(topics, np.where(kept, np.cumsum(kept) - 1, arrays.NONE)))
            published.keep(kept)
            published.key = np.arange(len(published))
        links = {name: int(column.sum()) for name, column in taken[_LINKS].items()}
        members = max(links.pop("members"), 1)
        return {name: count / members for name, count in links.items()}, publications


def _by_message(
    taken: Mapping[str, np.ndarray], published: _PublishedMessages
) -> dict[str, np.ndarray]:
    """Sum the counts that buckets have made, by message."""
    buckets = (-1, len(published))
    return {
        name: column.reshape(buckets).sum(axis=0) if len(published) else column
        for name, column in taken.items()
    }


# --- 1. departures and deaths


@dataclass(frozen=True)
class Go(mesh.TopicsProgram):
    """A program: nodes die, leave, or quit and join topics, when a heartbeat begins (G17, G18)."""

    #: The nodes that die without a message, leave, and arrive or recover in this round.
    fail: np.ndarray
    leave: np.ndarray
    enter: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Send goodbye, PRUNE and unsubscribe; receive them."""
        router = self.router(tables)
        out: Outbox = {}
        if superstep:
            self._receive(router, inbox)
        elif mesh.SUBSCRIBERS not in tables:  # in the first heartbeat, no node knows another one
            joins = keys_sent(inbox, _JOINS, self.topics.space.size)
            joined = np.full_like(joins, self.number)
            tables[mesh.SUBSCRIBERS] = mesh.Subscribers(joins, joined).to_columns()
        else:
            quits = keys_sent(inbox, _QUITS, self.topics.space.size)
            out = self._send(tables, router, quits)
            self._forget(tables, router, quits)
            self._note_members(tables, quits, keys_sent(inbox, _JOINS, self.topics.space.size))
        for name, table in (
            (mesh.CONNECTIONS, router.connections),
            (mesh.MESH, router.mesh),
            (mesh.BACK_OFF, router.back_off),
        ):
            tables[name] = table.to_columns()
        return out

    def _marked(self, *positions: np.ndarray) -> np.ndarray:
        """Return an array with an element for each place, True at the positions: bool."""
        marked = np.zeros(self.topics.space.size, dtype=bool)
        marked[np.concatenate(positions)] = True
        return marked

    def _places_of(self, tables: Tables, marked: np.ndarray) -> np.ndarray:
        """Return the places (topic, node) of marked subscribers before the events, ascending."""
        place = arrays.read_table(mesh.Subscribers, tables, mesh.SUBSCRIBERS).key
        return place[marked[place % self.topics.space.size]]

    @property
    def _until(self) -> int:
        return self.number + self.topics.rules.unsubscribe_backoff

    def _send(self, tables: Tables, router: Router, quits: np.ndarray) -> Outbox:
        """Return the messages of nodes that leave, or quit topics."""
        space, connections = self.topics.space, router.connections
        leaves = self._places_of(tables, self._marked(self.leave))
        goodbyes, ended = (space.at(connections, place) for place in (leaves, quits))
        pruned = space.at(router.mesh, quits)
        router.take_back_off(pruned, self._until)
        sent = {_GOODBYE: goodbyes, _PRUNE: pruned, _UNSUBSCRIBE: ended}
        return {kind: self.send(tables, kind, keys) for kind, keys in sent.items()}

    def _forget(self, tables: Tables, router: Router, quits: np.ndarray) -> None:
        """Remove connections and mesh links that end; note connections to dead nodes."""
        space, lives = self.topics.space, self.topics.now.overlay
        gone = self._marked(self.fail, self.leave)
        known = lives.known_dead(self.topics.now.world_round) | self._marked(self.enter)
        left = np.concatenate([self._places_of(tables, gone), quits])
        for links in (router.connections, router.mesh):
            ended = space.peers_among(links.key, known)
            ended[arrays.expand(*space.rows(links, left))[1]] = True
            links.keep(~ended)
        router.back_off.keep(~gone[router.back_off.key // space.size % space.size])
        key = router.connections.key
        tables[DEAD_ENDS] = {"key": key[space.peers_among(key, ~lives.alive)]}

    def _note_members(self, tables: Tables, quits: np.ndarray, joins: np.ndarray) -> None:
        size, gone = self.topics.space.size, self._marked(self.fail, self.leave)
        members = arrays.read_table(mesh.Subscribers, tables, mesh.SUBSCRIBERS)
        held = arrays.read_table(Held, tables, HELD)
        members.keep(~gone[members.key % size] & (arrays.find_sorted(quits, members.key) < 0))
        if mesh.TO_DIAL in tables:
            to_dial = arrays.read_table(arrays.SortedTable, tables, mesh.TO_DIAL)
            to_dial.keep(arrays.find_sorted(members.key, to_dial.key // size) >= 0)
            tables[mesh.TO_DIAL] = to_dial.to_columns()
        members.insert(joins, joined=self.number)
        held.keep(~gone[held.key % size])
        tables[mesh.SUBSCRIBERS], tables[HELD] = members.to_columns(), held.to_columns()

    def _receive(self, router: Router, inbox: Inbox) -> None:
        """End connections on goodbye and unsubscribe; forbid GRAFT for some time on PRUNE."""
        ended = [self.keys(inbox[kind]) for kind in (_GOODBYE, _UNSUBSCRIBE) if kind in inbox]
        router.disconnect(arrays.distinct(np.concatenate([arrays.whole_numbers(), *ended])))
        if _PRUNE in inbox:
            router.take_back_off(self.keys(inbox[_PRUNE]), self._until)


# --- 5. measures


@dataclass(frozen=True)
class NoteState(SilentProgram, mesh.TopicsProgram):
    """Record the sizes of meshes in a run, and remove entries of back-off that have ended."""

    def change(self, bucket: int, tables: Tables) -> None:
        """Write :data:`MESH_SIZES`, also for subscribers without a link."""
        place = arrays.read_table(mesh.Subscribers, tables, mesh.SUBSCRIBERS).key
        links = arrays.read_table(Links, tables, mesh.MESH)
        tables[MESH_SIZES] = {"key": place, "entries": self.topics.space.count(links, place)}
        _drop_back_off(tables, self.number)


def _drop_back_off(tables: Tables, heartbeat: int) -> None:
    """Remove entries of back-off that end by a heartbeat."""
    back_off = arrays.read_table(BackOff, tables, mesh.BACK_OFF)
    back_off.keep(back_off.until > heartbeat)
    tables[mesh.BACK_OFF] = back_off.to_columns()


@dataclass(frozen=True)
class CountRound(SilentProgram, publication.PublicationProgram):
    """Count links of meshes, and the receivers of publications, after a round: rule G22."""

    published: np.ndarray  # (M,): the heartbeat of each message
    counted: np.ndarray  # the messages whose receivers are counted

    def change(self, bucket: int, tables: Tables) -> None:
        """Write the counts and drop expired back-off."""
        held, members = (
            arrays.read_table(Held, tables, HELD),
            arrays.read_table(mesh.Subscribers, tables, mesh.SUBSCRIBERS),
        )
        tables[_OUTCOMES] = self._outcomes(members, held)
        _drop_back_off(tables, self.heartbeat + 1)
        links = {one: tables[one]["key"] for one in (mesh.MESH, mesh.CONNECTIONS)}
        counted = {"members": members.key, **links}
        tables[_LINKS] = {name: np.array([len(key)]) for name, key in counted.items()}
        for name in (mesh.UNSETTLED, mesh.TOUCHED):
            tables.pop(name, None)

    def _outcomes(self, members: mesh.Subscribers, held: Held) -> dict[str, np.ndarray]:
        """Count expected receivers of each publication, and those that got it in time or late."""
        now = self.topics.now
        topic, world_round = self.messages.topic[self.counted], now.own.world_round
        of, row = arrays.expand(*np.searchsorted(members.key // self._size, [topic, topic + 1]))
        message = self.counted[of]
        expected = members.joined[row] <= self.published[message]
        of, message, row = of[expected], message[expected], row[expected]
        got = held.find(message * self._size + members.key[row] % self._size)
        never = world_round(self.heartbeat) + 1
        came = np.full(len(of), never)
        came[got >= 0] = world_round(held.round[got[got >= 0]])
        # the parts of a publication follow each other, and are counted in one round
        rows = {"publication": of, "node": row, "delay_us": came}
        had = now.parts.complete(rows, len(members))
        message, came = self.counted[had["publication"]], had["delay_us"]
        in_time = came == world_round(self.published[message])
        late = ~in_time & (came < never)
        counts = {"expected": message, "in_time": message[in_time], "late": message[late]}
        count = len(self.published)
        return {name: np.bincount(of, minlength=count) for name, of in counts.items()}


@dataclass(frozen=True)
class Renumber(SilentProgram, mesh.TopicsProgram):
    """Give publications new indices, and delete those that no node announces any more."""

    index: np.ndarray  # (M,): the new index of each message; :data:`NONE` for deleted ones

    def change(self, bucket: int, tables: Tables) -> None:
        """Write what nodes hold."""
        held = arrays.read_table(Held, tables, HELD)
        message, node = arrays.divided(held.key, self.topics.space.size)
        held.key = self.index[message] * self.topics.space.size + node
        held.keep(self.index[message] != arrays.NONE)
        tables[HELD] = held.to_columns()
