"""GossipSub in a world: each of its own rounds is a heartbeat.

A heartbeat plays programs on buckets, in the order of rule G16:

1. nodes die, leave, quit and join, and detected deaths end connections (:class:`Go`; G17, G18);
2. subscribers with few connections dial others (`mesh.Dial`; G19);
3. subscribers JOIN and maintain their meshes (`mesh.Maintain`; G6 to G8);
4. nodes announce what they hold (`publication.Gossip`; G20), and sources publish
   (`publication.Spread`, `publication.Copies`; G21);
5. buckets count messages (:class:`CountCopies`) and publications (:class:`CountRound`; G22).

The orchestrator keeps the list of publications that are still announced or not yet due; all other
state is in the buckets.  Only the first heartbeat of a world's round has events.  In later ones,
steps 1 and 2 change nothing and are skipped, because after step 2 every subscriber has as many
connections as it wants.  (If dials are spread over heartbeats, subscribers continue to dial.)  Step
3 is limited to places that are not settled (`mesh.MaintainUnsettled`), and step 4 is skipped if no
node announces anything.

Most IHAVEs reach a live node that lacks nothing and change nothing; they are counted at the sender
and not sent.  The draws of rule G13 are needed only for connections to dead nodes and to nodes that
lack a publication, unless senders and receivers of all messages are recorded.

Rules: docs/rules.md, G13, G16 to G22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark import draws
from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    distinct,
    divided,
    expand,
    find_sorted,
    offsets_of,
    read_table,
    whole_numbers,
)
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables, append
from scribe_spark.gossipsub.mesh import (
    BACK_OFF,
    CONNECTED,
    CONNECTIONS,
    MESH,
    SUBSCRIBERS,
    TO_DIAL,
    UNSETTLED,
    Dial,
    Directory,
    Maintain,
    MaintainUnsettled,
    RecordUnsettled,
    Subscribers,
    Topics,
    TopicsProgram,
)
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    FANOUT,
    PLACES_AT_ONCE,
    Arrivals,
    Copies,
    Gossip,
    Lacking,
    Messages,
    PublicationProgram,
    Spread,
)
from scribe_spark.gossipsub.router import BackOff, Links, Router, Runs, least, with_classes
from scribe_spark.gossipsub.with_bandwidth import publish_in_round
from scribe_spark.multicast import TIME
from scribe_spark.node_classes import NodeClasses
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    OwnRounds,
    Pairs,
    Publications,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    count_messages,
    notes_copies,
)

if TYPE_CHECKING:  # not on executors
    from scribe_spark.gossipsub.config import GossipSubConfig

#: Tables of a bucket: publications that nodes hold (`Held`); a round's connections to dead nodes;
#: counts of a heartbeat, by message and for the bucket.
HELD, DEAD_ENDS = "held", "dead ends"
BY_MESSAGE, COUNTED = "counted by message", "counted"

#: The table of connections to nodes that lack a publication, and the message that fills it.
_LACKING, _LACKS = "lacking", "lacks"


@dataclass
class Held(SortedTable):
    """Publications that nodes hold, by (index, node): heartbeat of the first copy, and its hops."""

    round: np.ndarray = field(default_factory=whole_numbers)
    hops: np.ndarray = field(default_factory=whole_numbers)

    def rows_of(self, message: np.ndarray, size: int) -> np.ndarray:
        """Return True for rows of some publications."""
        return np.isin(self.key // size, message)


@dataclass(frozen=True)
class Recall(Lacking):
    """Load the publications that nodes announce; sources that do not subscribe dial (rule G21).

    The peers of a node that lacks one of these publications record their connection to it; the
    simulator tells them, not the node.
    """

    new: np.ndarray  # the messages that are published now
    told: np.ndarray  # the messages that some node announces

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write `publication.ARRIVALS` and `publication.FANOUT`; record lacking nodes."""
        if superstep:
            tables[_LACKING] = {"key": np.sort(self.keys(inbox[_LACKS]))}
            return {}
        held = read_table(Held, tables, HELD)
        rows = held.rows_of(self.told, self._size)
        held, rest = held.take(rows), held.take(~rows)
        tables[HELD] = rest.to_columns()
        nothing = np.zeros(len(held), dtype=np.int64)
        timed = self.messages.clock == TIME
        way = nothing if timed else known_ways(tables, held.key, self._size)
        arrivals = Arrivals(held.key, nothing, held.hops, nothing + NONE, held.round, way)
        tables[ARRIVALS] = arrivals.to_columns()
        message, source = divided(self.sources(bucket, self.new), self._size)
        guest = ~self.subscribes(message, source)
        tables[FANOUT] = self._dial(tables, message[guest])
        tables.pop(_LACKING, None)
        return {_LACKS: self._lacks(bucket, tables, arrivals)}

    def _lacks(self, bucket: int, tables: Tables, arrivals: Arrivals) -> Columns:
        """Return messages to the live peers of subscribers that lack a publication."""
        message, node = divided(self.lacking(bucket, tables, arrivals, self.told), self._size)
        space = self.topics.space
        place = distinct(self.messages.topic[message] * self._size + node)
        connections = read_table(Links, tables, CONNECTIONS)
        _, row = expand(*space.rows(connections, place))
        topic, node, peer = space.split(connections.key[row])
        alive = self.topics.is_alive(peer)
        return {AT: peer[alive], "topic": topic[alive], "sender": node[alive]}

    def _dial(self, tables: Tables, message: np.ndarray) -> Columns:
        """Dial for the sources of some messages; return the peers to which they send."""
        names, rules = self.topics.names, self.topics.rules
        directory = self.topics.directory
        topic, source = self.messages.topic[message], self.messages.source[message]
        shared = names.bits("gossipsub fanout", self.heartbeat, topic, source)
        first, last = directory.offsets[topic], directory.offsets[topic + 1]
        of, chosen = draws.sample_others(shared, last - first, rules.dials)
        peer = directory.place[first[of] + chosen] % self._size
        self.topics.observe(tables, "dial", source[of], peer)
        if not rules.flood_publish:
            order = np.lexsort((peer, of))
            of, peer = of[order], peer[order]
            named = "gossipsub fanout peers", self.heartbeat
            bits = names.bits_of_peers(*named, topic, source, of, peer)
            some = least(of, bits, np.full(len(message), rules.d))
            of, peer = of[some], peer[some]
        return {"message": message[of], "peer": peer}


@dataclass(frozen=True)
class LiveGossip(Gossip):
    """A heartbeat's gossip: all IHAVEs are counted; those to nodes that lack something are sent."""

    def _note(self, tables: Tables, kind: str, came: Columns) -> None:
        """Count IWANTs; one IWANT asks for all publications of a topic."""
        if kind == "IWANT":
            space = self.topics.space
            place = self.messages.topic[came["message"]] * self._size + came[AT]
            _, node, sender = space.split(distinct(space.key(place, came["sender"])))
            self.topics.observe(tables, kind, sender, node)

    def _told(self, tables: Tables, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        space, all_told = self.topics.space, super()._told
        connections, mesh = (read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        first, last = self._connected(tables, connections).rows(places)
        others = last - first - space.count(mesh, places)
        told = np.minimum(others, self.most_told(others)).sum()

        def between() -> tuple[np.ndarray, np.ndarray]:
            of, peer = all_told(tables, places)
            return places[of] % self._size, peer

        key = self._told_that_matter(tables, connections, mesh, places)
        place, peer = divided(key, self._size)
        alive = self.topics.is_alive(peer)
        assert self.topics.observer is not None
        lost = np.count_nonzero(~alive)
        self.topics.observer.count(tables, "IHAVE", told, lost, between=between)
        return find_sorted(places, place[alive]), peer[alive]

    def _connected(self, tables: Tables, connections: Links) -> Runs:
        """Return the row ranges of places in the connections; only `mesh.Dial` changes these."""
        if CONNECTED not in tables:
            tables[CONNECTED] = self.topics.space.runs(connections).to_columns()
        return read_table(Runs, tables, CONNECTED)

    def _told_that_matter(
        self, tables: Tables, connections: Links, mesh: Links, places: np.ndarray
    ) -> np.ndarray:
        """Return the links of IHAVEs to dead nodes, and to nodes that lack something."""
        ends = [tables[name]["key"] for name in (DEAD_ENDS, _LACKING) if name in tables]
        key = distinct(np.concatenate([whole_numbers(), *ends]))
        key = key[(find_sorted(places, key // self._size) >= 0) & ~mesh.has(key)]
        place = distinct(key // self._size)
        told, runs = [whole_numbers()], self._connected(tables, connections)
        for start in range(0, len(place), PLACES_AT_ONCE):
            some = place[start : start + PLACES_AT_ONCE]
            first, last = np.searchsorted(key, (some[[0, -1]] + [0, 1]) * self._size)
            drawn = self.draws(connections, runs.rows(some), mesh, some)
            told.append(_of_least(key[first:last], *drawn))
        return np.concatenate(told)


def _of_least(
    key: np.ndarray, of: np.ndarray, outside: np.ndarray, bits: np.ndarray, most: np.ndarray
) -> np.ndarray:
    """Return the links among those with the smallest draws; see `Gossip.draws`."""
    own = find_sorted(outside, key)
    offsets = offsets_of(np.bincount(of, minlength=len(most)))
    pair, other = expand(offsets[of[own]], offsets[of[own] + 1])
    drawn, wanted = bits[other], bits[own][pair]
    # ties go to the smaller nodeId
    before = (drawn < wanted) | ((drawn == wanted) & (other < own[pair]))
    rank = np.bincount(pair[before], minlength=len(key))
    return key[rank < most[of[own]]]


@dataclass(frozen=True)
class CountCopies(PublicationProgram):
    """Record the messages that nodes hold; count payloads and duplicates (rule G22).

    Measured multicasts are recorded in the tables `rounds.system.DELIVERED` and
    `rounds.system.CARRIED`.
    """

    measured: Multicasts | None = None  # publications are indices of messages
    elapsed_us: int = 0  # from the publications to the start of the heartbeat
    notes_copies: bool = False  # True if copies are recorded, too

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the counts; no message is sent."""
        got = Arrivals.from_columns(tables.pop(ARRIVALS))
        tables.pop(FANOUT)
        first, again, by_iwant = self._count_copies(tables)
        told = got.key[self.heartbeat + 1 - got.heartbeat <= self.topics.rules.mcache_gossip]
        told = self._by_message(told // self._size)
        tables[BY_MESSAGE] = {"first_copies": first, "duplicates": again, "told": told}
        tables[COUNTED] = {"by_iwant": np.array([by_iwant])}
        self._note_arrivals(tables, got)
        held = read_table(Held, tables, HELD)
        held.insert(got.key, round=got.heartbeat, hops=got.hops)
        tables[HELD] = held.to_columns()
        return {}

    def _by_message(self, message: np.ndarray) -> np.ndarray:
        return np.bincount(message, minlength=len(self.messages.topic))

    def _count_copies(self, tables: Tables) -> tuple[np.ndarray, np.ndarray, int]:
        """Count payloads.

        Return first copies and duplicates by message, and the number of first copies by IWANT.
        """
        firsts, again = (self._by_message(whole_numbers()) for _ in range(2))
        by_iwant = 0
        for name in (COPIES, ANSWERS):
            one = tables.pop(f"{name} {self.heartbeat}", {})
            if one:
                self._note_copies(tables, one)
                lost, first = one["lost"], one["first"]
                self.topics.observe(tables, "payload", one["sender"], one["node"], ~lost)
                firsts += self._by_message(one["message"][first])
                again += self._by_message(one["message"][~(lost | first)])
                by_iwant += int(np.count_nonzero(first)) if name == ANSWERS else 0
        return firsts, again, by_iwant

    def _note_arrivals(self, tables: Tables, got: Arrivals) -> None:
        """Record the first copies of the heartbeat."""
        message, node = np.divmod(got.key, self._size)
        new = (got.heartbeat == self.heartbeat) & (got.hops > 0) & self._is_measured(message)
        if new.any():
            delay_us = got.at + self.elapsed_us if self.messages.clock == TIME else got.way
            group = self.messages.topic[message]
            rows = {"group": group, "publication": message, "node": node, "hops": got.hops}
            append(tables, DELIVERED, take({**rows, "delay_us": delay_us}, new))

    def _note_copies(self, tables: Tables, sent: Columns) -> None:
        """Record copies that were sent in the heartbeat."""
        own = self._is_measured(sent["message"])
        if self.notes_copies and own.any():
            message = sent["message"]
            rows = {"group": self.messages.topic[message], "publication": message}
            rows |= {"sender": sent["sender"], "to": sent["node"], "lost": sent["lost"]}
            append(tables, CARRIED, take(rows, own))

    def _is_measured(self, message: np.ndarray) -> np.ndarray:
        measured = whole_numbers() if self.measured is None else self.measured.publication
        return find_sorted(measured, message) >= 0


def known_ways(tables: Mapping[str, Columns], key: np.ndarray, size: int) -> np.ndarray:
    """Return `Arrivals.way` of first copies of earlier heartbeats, by the clock of hops, or 0."""
    way = np.zeros(len(key), dtype=np.int64)
    if DELIVERED in tables:
        noted = tables[DELIVERED]
        known = noted["publication"] * size + noted["node"]
        order = np.argsort(known)
        row = find_sorted(known[order], key)
        way[row >= 0] = noted["delay_us"][order[row[row >= 0]]]
    return way


# --- round

# the orchestrator's table, which is kept between rounds
_PUBLISHED = "published"

# kinds of messages; the last two tell a bucket's nodes of the round's events
_PRUNE, _GOODBYE, _UNSUBSCRIBE = "PRUNE", "goodbye", "unsubscribe"
_QUITS, _JOINS = "quits", "joins"

# tables with the counts of a round
_OUTCOMES, _LINKS = "outcomes", "counted links"


@dataclass
class _Published(SortedTable):
    """Publications that are still announced or not yet due, by index."""

    #: `round` is the heartbeat of the publication.
    round: np.ndarray = field(default_factory=whole_numbers)
    topic: np.ndarray = field(default_factory=whole_numbers)
    source: np.ndarray = field(default_factory=whole_numbers)
    first_copies: np.ndarray = field(default_factory=whole_numbers)
    duplicates: np.ndarray = field(default_factory=whole_numbers)
    #: The number of nodes that announce it in the next heartbeat.
    told: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class LiveGossipSub(SystemOnBuckets):
    """GossipSub as a system of a world."""

    rules: GossipSubConfig  # the section of the config with defaults filled in
    clock: str = TIME
    payload: tuple[str, ...] = ("payload",)
    control: tuple[str, ...] = (
        *("dial", "GRAFT", _PRUNE, _GOODBYE, _UNSUBSCRIBE),
        *("IHAVE", "IWANT", "IDONTWANT"),
    )
    kept_in_buckets: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys((CONNECTIONS, MESH, BACK_OFF, TO_DIAL), 1),
        **dict.fromkeys((SUBSCRIBERS, HELD, UNSETTLED), 0),
    }
    kept: ClassVar[tuple[str, ...]] = (_PUBLISHED,)
    member_table: ClassVar[str] = SUBSCRIBERS

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        published = read_table(_Published, kept, _PUBLISHED)
        topics = Topics(
            *(player.bounds, player.facts, now.group),
            Directory.of(whole_numbers(), len(now.group), len(now.ring)),
            self.rules,
            *(now.kernel, now.lan_us, now.seed),
            lives=now.overlay,
            observer=now.tally.observer,
        )
        done = _play_heartbeat(player, topics, published, now, self.clock)
        kept[_PUBLISHED] = published.to_columns()
        count_messages(player, now)
        return done


def live_gossipsub(config: GossipSubConfig, classes: NodeClasses | None = None) -> LiveGossipSub:
    """Return the system for a world with this config (discovery `dial`)."""
    return LiveGossipSub(with_classes(config, classes), config.clock)


def _play_heartbeat(
    player: SystemPlayer, topics: Topics, published: _Published, now: LivingRound, clock: str
) -> SystemRound:
    """Play one heartbeat, with the number of the own round; changes `published`."""
    events, number = now.events, now.number
    if now.begins_round:
        gone = Go(topics, number, now.world_round, events.fail, events.leave, events.entering)
        player.play(gone, {_QUITS: _pairs(now.quit), _JOINS: _pairs(now.join)})
        topics = _with_directory(player, topics)
        player.play(Dial(topics, number))
        player.play(Maintain(topics, number, joins=True))
    elif player.has(TO_DIAL):
        topics = _with_directory(player, topics)
        player.play(Dial(topics, number, draws_anew=False))
    if now.begins_round or player.has(UNSETTLED):
        _maintain(player, topics, now)
    counts = {"by_iwant": 0.0}
    if published.told.any() or len(now.publish[0]):
        counts = _publish(player, topics, published, now, clock)
    if not now.ends_round:
        return SystemRound({}, Publications(), counts)
    measured = _multicasts(published, now) if now.measures else None
    measures, due = _end_round(player, topics, published, now, clock)
    return SystemRound(measures, due, counts, measured, Begun())


def _multicasts(published: _Published, now: LivingRound) -> Multicasts:
    """Return the first publication of each topic in the world's round."""
    of_round = np.flatnonzero(published.round == now.own.first(now.world_round))
    topic, first = np.unique(published.topic[of_round], return_index=True)
    message = of_round[first]
    return Multicasts.from_start(topic, message, published.source[message])


def _pairs(pairs: Pairs) -> Columns:
    return {AT: pairs[1], "topic": pairs[0]}


def _with_directory(player: SystemPlayer, topics: Topics) -> Topics:
    """Add the subscribers after the events of the world's round, shared by all buckets."""
    size = topics.space.size

    def gather() -> dict[str, np.ndarray]:
        place = player.gather(SUBSCRIBERS).get(SUBSCRIBERS, {}).get("key", whole_numbers())
        return dict(Directory.of(place, len(topics.number), size).shared)

    return replace(topics, directory=Directory(player.share("subscribers", gather), size))


def _maintain(player: SystemPlayer, topics: Topics, now: LivingRound) -> None:
    """Play the phases of a heartbeat: for all places in the first one, then for unsettled ones."""
    first = now.begins_round
    for phase in range(topics.rules.heartbeat_phases):
        player.play(MaintainUnsettled(topics, now.number, phase=phase, all_places=first))
    if not now.ends_round:
        player.play(RecordUnsettled(topics, first))


def _publish(
    player: SystemPlayer, topics: Topics, published: _Published, now: LivingRound, clock: str
) -> dict[str, float]:
    """Announce publications and publish those of this heartbeat; return counts."""
    if not now.begins_round:
        topics = _with_directory(player, topics)
    told = published.told > 0
    topic, source = now.publish
    order = np.lexsort((source, topic))
    new = np.arange(len(topic)) + len(published)
    none = dict.fromkeys(("first_copies", "duplicates", "told"), 0)
    published.insert(new, round=now.number, topic=topic[order], source=source[order], **none)
    program = topics, _messages(published, now, clock), now.number
    player.play(Recall(*program, new, np.flatnonzero(told)))
    if player.has(ARRIVALS):
        player.play(LiveGossip(*program))
    player.play(Spread(*program, new if now.links is None else new[:0]))
    player.play(Copies(*program))
    if now.links is not None and len(new):
        publish_in_round(player, *program[:2], new, now)
    measured = _multicasts(published, now) if now.measures else None
    elapsed_us = (now.number - now.own.first(now.world_round)) * now.own.own_us
    player.play(CountCopies(*program, measured, elapsed_us, notes_copies(now.measures)))
    taken = player.take(BY_MESSAGE, COUNTED)
    sums = _by_message(taken[BY_MESSAGE], published)
    published.first_copies = published.first_copies + sums["first_copies"]
    published.duplicates = published.duplicates + sums["duplicates"]
    published.told = sums["told"]
    return {name: float(column.sum()) for name, column in taken[COUNTED].items()}


def _messages(published: _Published, now: LivingRound, clock: str) -> Messages:
    """Return the publications as messages."""
    stamp = published.round, now.ring.node[published.source]
    return Messages(published.topic, published.source, clock, stamp, living=True)


def _by_message(taken: Mapping[str, np.ndarray], published: _Published) -> dict[str, np.ndarray]:
    """Sum the counts of buckets by message."""
    buckets = (-1, len(published))
    return {
        name: column.reshape(buckets).sum(axis=0) if len(published) else column
        for name, column in taken.items()
    }


def _end_round(
    player: SystemPlayer, topics: Topics, published: _Published, now: LivingRound, clock: str
) -> tuple[dict[str, float], Publications]:
    """Return measures of the meshes and the counted publications; drop old publications."""
    age = now.world_round - now.own.world_round(published.round)
    counted = np.flatnonzero(age <= now.deadline if now.is_last else age == now.deadline)
    messages = _messages(published, now, clock)
    player.play(CountRound(topics, messages, now.number, published.round, counted, now.own))
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
        player.play(Renumber(topics, np.where(kept, np.cumsum(kept) - 1, NONE)))
        published.keep(kept)
        published.key = np.arange(len(published))
    links = {name: int(column.sum()) for name, column in taken[_LINKS].items()}
    members = max(links.pop("members"), 1)
    return {name: count / members for name, count in links.items()}, publications


# --- 1. departures and deaths


@dataclass(frozen=True)
class Go(TopicsProgram):
    """Nodes die, leave, quit topics and join others, all based on the state before; G17 and G18."""

    #: The number of the heartbeat, and the round of the world.
    number: int
    world_round: int
    #: The nodes that die without a message, leave, and arrive or recover in this round.
    fail: np.ndarray
    leave: np.ndarray
    enter: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Send goodbye, PRUNE and unsubscribe; receive them."""
        router = self.router(tables)
        if superstep:
            out: Outbox = {}
            self._receive(router, inbox)
        else:
            quits = self._places(inbox, _QUITS)
            out = self._send(tables, router, quits)
            self._forget(tables, router, quits)
            self._note_members(tables, quits, self._places(inbox, _JOINS))
        for name, table in (
            (CONNECTIONS, router.connections),
            (MESH, router.mesh),
            (BACK_OFF, router.back_off),
        ):
            tables[name] = table.to_columns()
        return out

    def _places(self, inbox: Inbox, kind: str) -> np.ndarray:
        """Return the places that quit or join, ascending."""
        if kind not in inbox:
            return whole_numbers()
        return np.sort(inbox[kind]["topic"] * self.topics.space.size + inbox[kind][AT])

    def _marked(self, *positions: np.ndarray) -> np.ndarray:
        """Return flags of all nodes, True for some positions: bool, shape (K,)."""
        marked = np.zeros(self.topics.space.size, dtype=bool)
        marked[np.concatenate(positions)] = True
        return marked

    def _places_of(self, tables: Tables, marked: np.ndarray) -> np.ndarray:
        """Return the places of marked subscribers before the events, ascending."""
        place = read_table(Subscribers, tables, SUBSCRIBERS).key
        return place[marked[place % self.topics.space.size]]

    @property
    def _until(self) -> int:
        return self.number + self.topics.rules.unsubscribe_backoff

    def _send(self, tables: Tables, router: Router, quits: np.ndarray) -> Outbox:
        """Return the messages of nodes that leave or quit."""
        space, connections = self.topics.space, router.connections
        leaves = self._places_of(tables, self._marked(self.leave))
        goodbyes, ended = (space.at(connections, place) for place in (leaves, quits))
        pruned = space.at(router.mesh, quits)
        router.take_back_off(pruned, self._until)
        return {
            _GOODBYE: self.send(tables, _GOODBYE, goodbyes),
            _PRUNE: self.send(tables, _PRUNE, pruned),
            _UNSUBSCRIBE: self.send(tables, _UNSUBSCRIBE, ended),
        }

    def _forget(self, tables: Tables, router: Router, quits: np.ndarray) -> None:
        """Remove links of dead nodes and of places that quit, and links to nodes known as dead."""
        space, lives = self.topics.space, self.topics.lives
        assert lives is not None
        gone = self._marked(self.fail, self.leave)
        known = lives.known_dead(self.world_round) | self._marked(self.enter)
        left = np.concatenate([self._places_of(tables, gone), quits])
        for links in (router.connections, router.mesh):
            ended = space.peers_among(links.key, known)
            ended[expand(*space.rows(links, left))[1]] = True
            links.keep(~ended)
        router.back_off.keep(~gone[router.back_off.key // space.size % space.size])
        key = router.connections.key
        tables[DEAD_ENDS] = {"key": key[space.peers_among(key, ~lives.alive)]}

    def _note_members(self, tables: Tables, quits: np.ndarray, joins: np.ndarray) -> None:
        size, gone = self.topics.space.size, self._marked(self.fail, self.leave)
        members, held = (
            read_table(Subscribers, tables, SUBSCRIBERS),
            read_table(Held, tables, HELD),
        )
        members.keep(~gone[members.key % size] & (find_sorted(quits, members.key) < 0))
        if TO_DIAL in tables:
            to_dial = read_table(SortedTable, tables, TO_DIAL)
            to_dial.keep(find_sorted(members.key, to_dial.key // size) >= 0)
            tables[TO_DIAL] = to_dial.to_columns()
        members.insert(joins, joined=self.number)
        held.keep(~gone[held.key % size])
        tables[SUBSCRIBERS], tables[HELD] = members.to_columns(), held.to_columns()

    def _receive(self, router: Router, inbox: Inbox) -> None:
        """End connections on goodbye and unsubscribe; start back-off on PRUNE."""
        ended = [self.keys(inbox[kind]) for kind in (_GOODBYE, _UNSUBSCRIBE) if kind in inbox]
        router.disconnect(distinct(np.concatenate([whole_numbers(), *ended])))
        if _PRUNE in inbox:
            router.take_back_off(self.keys(inbox[_PRUNE]), self._until)


# --- 5. measures


@dataclass(frozen=True)
class CountRound(PublicationProgram):
    """Count links, and the receivers of publications, after a round: rule G22."""

    published: np.ndarray  # (M,): the heartbeat of each message
    counted: np.ndarray  # the messages whose receivers are counted
    own: OwnRounds  # the mapping between heartbeats and rounds of the world

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the counts and drop expired back-off; no message is sent."""
        held, members = read_table(Held, tables, HELD), self.topics.subscribers_of(bucket, tables)
        tables[_OUTCOMES] = self._outcomes(members, held)
        back_off = read_table(BackOff, tables, BACK_OFF)
        back_off.keep(back_off.until > self.heartbeat + 1)
        tables[BACK_OFF] = back_off.to_columns()
        counted = {
            "members": members.key,
            **{one: tables[one]["key"] for one in (MESH, CONNECTIONS)},
        }
        tables[_LINKS] = {name: np.array([len(key)]) for name, key in counted.items()}
        tables.pop(UNSETTLED, None)
        return {}

    def _outcomes(self, members: Subscribers, held: Held) -> dict[str, np.ndarray]:
        """Count expected receivers of each message, and those that got it in time or late."""
        topic = self.messages.topic[self.counted]
        of, row = expand(*np.searchsorted(members.key // self._size, [topic, topic + 1]))
        message = self.counted[of]
        expected = members.joined[row] <= self.published[message]
        message, row = message[expected], row[expected]
        got = held.find(message * self._size + members.key[row] % self._size)
        has = got >= 0
        in_time, late = has.copy(), has.copy()
        world_round = self.own.world_round
        in_time[has] = world_round(held.round[got[has]]) == world_round(
            self.published[message[has]]
        )
        late &= ~in_time
        rows = {"expected": message, "in_time": message[in_time], "late": message[late]}
        count = len(self.published)
        return {name: np.bincount(of, minlength=count) for name, of in rows.items()}


@dataclass(frozen=True)
class Renumber(TopicsProgram):
    """Renumber publications, and delete those that no node announces any more."""

    index: np.ndarray  # (M,): the new index of each message; :data:`NONE` for deleted ones

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write what nodes hold; no message is sent."""
        held = read_table(Held, tables, HELD)
        message, node = divided(held.key, self.topics.space.size)
        held.key = self.index[message] * self.topics.space.size + node
        held.keep(self.index[message] != NONE)
        tables[HELD] = held.to_columns()
        return {}
