"""GossipSub in a world: a round is a heartbeat.

References
----------
docs/rules.md, G16 to G22.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scribe_spark import draws
from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    distinct,
    expand,
    find_sorted,
    read_table,
    whole_numbers,
)
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import Tables
from scribe_spark.gossipsub.choosing import Names, least, sample_others
from scribe_spark.gossipsub.links import DIALLED, WAS_DIALLED, BackOff, Links, Space, turned_way
from scribe_spark.gossipsub.mesh import BACK_OFF, CONNECTIONS, MESH, Topics
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    TOLD_OF,
    UNWANTED,
    Arrivals,
    Copies,
    Gossip,
    Messages,
    Spread,
)
from scribe_spark.gossipsub.router import Router
from scribe_spark.gossipsub.rules import GossipRules
from scribe_spark.gossipsub.subscribers import Directory, dialled
from scribe_spark.living import LivingRound, Publications, SystemRound
from scribe_spark.multicast import TIME

__all__ = ["LiveGossipSub", "live_gossipsub"]

# tables between two rounds, besides those of the router
_MEMBERS, _PUBLISHED, _HELD = "members", "published", "held"


@dataclass
class _Members(SortedTable):
    """Live subscribers, by topic and node, and the round in which each has joined."""

    joined: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class _Published(SortedTable):
    """Publications that are told of or due, by an index that grows.

    Attributes
    ----------
    round, topic, source, duplicates : ndarray of int64
    """

    round: np.ndarray = field(default_factory=whole_numbers)
    topic: np.ndarray = field(default_factory=whole_numbers)
    source: np.ndarray = field(default_factory=whole_numbers)
    duplicates: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class _Held(SortedTable):
    """Publications that nodes have: since which round, after how many hops."""

    round: np.ndarray = field(default_factory=whole_numbers)
    hops: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class LiveGossipSub:
    """The system in worlds; see `living.LiveSystem`.

    Attributes
    ----------
    rules : GossipRules
        The seed is the world's.
    clock : str
    """

    rules: GossipRules
    clock: str = TIME
    payload: tuple[str, ...] = ("payload",)
    control: tuple[str, ...] = (
        *("dial", "GRAFT", "PRUNE", "goodbye", "unsubscribe"),
        *("IHAVE", "IWANT", "IDONTWANT"),
    )

    def play(self, tables: Tables, now: LivingRound) -> SystemRound:
        """Play a round; writes into `tables`."""
        one = _Round.read(self, tables, now)
        # 1. who is gone, who quits
        one.go()
        # 2. what is known of the dead
        one.forget_the_dead()
        # 3. joins, discovery
        one.discover()
        # 4. and 5. JOINs, the heartbeat
        one.maintain()
        # 6. and 7. gossip, publications
        one.publish()
        due = one.due()
        one.write(tables)
        degree = one.space.count(one.router.mesh, one.members.key)
        connected = one.space.count(one.router.connections, one.members.key)
        members = max(len(degree), 1)
        return SystemRound(
            {
                "mesh": degree.sum() / members,
                "connections": connected.sum() / members,
                "by_iwant": float(one.by_iwant),
            },
            due,
        )


def live_gossipsub(config: GossipSubConfig) -> LiveGossipSub:
    """Return the system that lives in a world of this config, by discovery `dial`."""
    return LiveGossipSub(GossipRules.of(config, seed=0), config.clock)


@dataclass
class _Round:
    """What the steps of a round share.

    Attributes
    ----------
    now : LivingRound
    clock : str
    router : Router
    members : _Members
    published : _Published
    held : _Held
    joining : ndarray of int64
        Places that join in this round.
    by_iwant : int
        First copies that came by IWANT in this round.
    """

    now: LivingRound
    clock: str
    router: Router
    members: _Members
    published: _Published
    held: _Held
    joining: np.ndarray = field(default_factory=whole_numbers)
    by_iwant: int = 0

    @classmethod
    def read(cls, system: LiveGossipSub, tables: Tables, now: LivingRound) -> _Round:
        """Return the state between two rounds."""
        links = {}
        for name in (CONNECTIONS, MESH):
            links[name] = read_table(Links, tables, name)
            links[name].way = links[name].way.astype(np.int8)
        rules = replace(system.rules, seed=now.seed)
        router = Router(
            rules,
            Names(now.group, now.ring.node, now.seed),
            Space(len(now.ring)),
            links[CONNECTIONS],
            links[MESH],
            read_table(BackOff, tables, BACK_OFF),
        )
        members = read_table(_Members, tables, _MEMBERS)
        published = read_table(_Published, tables, _PUBLISHED)
        held = read_table(_Held, tables, _HELD)
        return cls(now, system.clock, router, members, published, held)

    def write(self, tables: Tables) -> None:
        """Keep the state for the next round."""
        for name, links in ((CONNECTIONS, self.router.connections), (MESH, self.router.mesh)):
            tables[name] = {"key": links.key, "way": links.way.astype(np.int64)}
        back_off = self.router.back_off
        back_off.keep(back_off.until > self.now.number + 1)
        for name, table in (
            (BACK_OFF, back_off),
            (_MEMBERS, self.members),
            (_PUBLISHED, self.published),
            (_HELD, self.held),
        ):
            tables[name] = table.to_columns()

    @property
    def space(self) -> Space:
        """How keys are made."""
        return self.router.space

    @property
    def size(self) -> int:
        """Return how many nodes there are."""
        return self.router.space.size

    @property
    def rules(self) -> GossipRules:
        """The rules."""
        return self.router.rules

    def send(self, kind: str, sender: np.ndarray, to: np.ndarray) -> np.ndarray:
        """Count messages; which arrive."""
        arrives = self.now.alive[to]
        self.now.tally.send(kind, arrives, sender, to)
        return arrives

    def along(self, kind: str, key: np.ndarray) -> np.ndarray:
        """Send messages along links; the keys at the other ends of those that arrive."""
        _, node, peer = self.space.split(key)
        return self.space.turned(key[self.send(kind, node, peer)])

    def _rows_of(self, table: SortedTable, node: np.ndarray) -> np.ndarray:
        """Mark the rows that nodes keep, bool; `node` is bool by position."""
        return node[table.key // self.size % self.size]

    def _rows_with(self, table: SortedTable, peer: np.ndarray) -> np.ndarray:
        """Mark the rows with peers, bool; `peer` is bool by position."""
        return peer[table.key % self.size]

    def _disconnect(self, key: np.ndarray) -> None:
        """Connections are gone, and mesh links with them."""
        for table in (self.router.connections, self.router.mesh):
            row = table.find(key)
            table.drop(row[row >= 0])

    def _marked(self, *positions: np.ndarray) -> np.ndarray:
        marked = np.zeros(self.size, dtype=bool)
        marked[np.concatenate(positions)] = True
        return marked

    # ---- 1. to 3. who is there

    def go(self) -> None:
        """Nodes die, leave, quit topics; rule G17."""
        now, router = self.now, self.router
        leaves = self._marked(now.events.leave)
        gone = self._marked(now.events.fail, now.events.leave)
        quits = np.sort(now.quit[0] * self.size + now.quit[1])
        connections, mesh = router.connections, router.mesh
        # all of it on the state before
        from_leavers = connections.key[self._rows_of(connections, leaves)]
        by_quitters = [
            table.key[find_sorted(quits, table.key // self.size) >= 0]
            for table in (connections, mesh)
        ]
        pruned = self.along("PRUNE", by_quitters[1])
        ended = [self.along("goodbye", from_leavers), by_quitters[0]]
        ended.append(self.along("unsubscribe", by_quitters[0]))
        self._disconnect(distinct(np.concatenate(ended)))
        until = now.number + self.rules.unsubscribe_backoff
        router.take_back_off(np.concatenate([by_quitters[1], pruned]), until)
        # death ends everything
        for table in (router.connections, router.mesh, router.back_off):
            table.keep(~self._rows_of(table, gone))
        kept = ~gone[self.members.key % self.size]
        self.members.keep(kept & (find_sorted(quits, self.members.key) < 0))
        self.held.keep(~gone[self.held.key % self.size])

    def forget_the_dead(self) -> None:
        """Connections to the dead end when that is known; rule G18."""
        known = self.now.overlay.known_dead(self.now.number)
        known |= self._marked(self.now.events.entering)
        for table in (self.router.connections, self.router.mesh):
            table.keep(~self._rows_with(table, known))

    def discover(self) -> None:
        """Subscribers with few connections dial; rule G19."""
        now, router = self.now, self.router
        self.joining = np.sort(now.join[0] * self.size + now.join[1])
        self.members.insert(self.joining, joined=now.number)
        place = self.members.key
        others = np.diff(self.directory.offsets)[place // self.size] - 1
        wanted = np.minimum(self.rules.dials, others)
        place = place[self.space.count(router.connections, place) < wanted]
        of, peer = dialled(
            router.names, self.directory, place, self.rules.dials, heartbeat=now.number
        )
        key = self.space.key(place[of], peer)
        key = key[~router.connections.has(key)]
        self.along("dial", key)
        both = np.concatenate([key, self.space.turned(key)])
        way = np.repeat([DIALLED, WAS_DIALLED], len(key))
        new, of_key = np.unique(both, return_inverse=True)
        ways = np.bincount(of_key, way, len(new)).astype(np.int8)
        router.connections.insert(new, way=ways)

    @property
    def directory(self) -> Directory:
        """Return the subscribers of now."""
        return Directory.of(self.members.key, len(self.now.group), self.size)

    # ---- 4. and 5. meshes

    def maintain(self) -> None:
        """JOINs, then the heartbeat, phase by phase."""
        number, rules = self.now.number, self.rules
        self._exchange(self.router.join(self.joining, number), whole_numbers())
        place = self.members.key
        drawn = draws.bits_np(
            rules.seed, "gossipsub phase", self.now.ring.node[place % self.size]
        ) % np.uint64(rules.heartbeat_phases)
        for phase in range(rules.heartbeat_phases):
            self._exchange(*self.router.heartbeat(place[drawn == phase], number))

    def _exchange(self, grafted: np.ndarray, pruned: np.ndarray) -> None:
        """GRAFTs and PRUNEs arrive, and those of who is refused; rule G8."""
        router, number = self.router, self.now.number
        until = number + self.rules.prune_backoff
        router.take_prunes(self.along("PRUNE", pruned), until)
        taken = self.along("GRAFT", grafted)
        way = router.mesh.way[router.mesh.find(self.space.turned(taken))]
        refused = router.take_grafts(taken, turned_way(way), number)
        router.take_prunes(self.along("PRUNE", refused), until)

    # ---- 6. and 7. publications

    def publish(self) -> None:
        """Gossip about what is held, then this round's publications; rules G20 and G21."""
        now, router = self.now, self.router
        new = self._note_published()
        place = self.published.topic[new] * self.size + self.published.source[new]
        fanout = self._fan_out(new[~self.members.has(place)])
        node = now.ring.node
        messages = Messages(
            self.published.topic,
            self.published.source,
            self.clock,
            now.alive,
            (self.published.round, node[self.published.source]),
            fanout,
            living=True,
        )
        topics = Topics(
            np.array([0, self.size]),
            RingInMemory(now.ring),
            now.group,
            self.directory,
            self.rules,
            now.kernel,
            now.lan_us,
        )
        nothing = np.zeros(len(self.held), dtype=np.int64)
        before = Arrivals(
            self.held.key, nothing, self.held.hops, nothing + NONE, self.held.round, nothing
        )
        links = {CONNECTIONS: router.connections, MESH: router.mesh, ARRIVALS: before}
        tables = Tables.of({name: table.to_columns() for name, table in links.items()})
        if len(before):
            play(Gossip(topics, messages, now.number), [tables])
        play(Spread(topics, messages, now.number, new), [tables])
        play(Copies(topics, messages, now.number), [tables])
        self._count(tables)

    def _note_published(self) -> np.ndarray:
        """This round's publications get their rows; these."""
        topic, source = self.now.publish
        order = np.lexsort((source, topic))
        new = np.arange(len(topic)) + len(self.published)
        self.published.insert(
            new, round=self.now.number, topic=topic[order], source=source[order], duplicates=0
        )
        return new

    def _fan_out(self, message: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sources that do not subscribe dial some who do; rule G21."""
        names, directory, number = self.router.names, self.directory, self.now.number
        topic, source = self.published.topic[message], self.published.source[message]
        shared = names.bits("gossipsub fanout", number, topic, source)
        first, last = directory.offsets[topic], directory.offsets[topic + 1]
        of, chosen = sample_others(shared, last - first, self.rules.dials)
        peer = directory.place[first[of] + chosen] % self.size
        self.send("dial", source[of], peer)
        if not self.rules.flood_publish:
            order = np.lexsort((peer, of))
            of, peer = of[order], peer[order]
            bits = names.bits_of_peers("gossipsub fanout peers", number, topic, source, of, peer)
            some = least(of, bits, np.full(len(message), self.rules.d))
            of, peer = of[some], peer[some]
        return message[of], peer

    def _count(self, tables: Tables) -> None:
        """Count the messages of publications; note who has got what."""
        number, size = self.now.number, self.size
        named = [
            tables[f"{name} {number}"] for name in (COPIES, ANSWERS) if f"{name} {number}" in tables
        ]
        if named:
            columns = ("message", "node", "sender", "lost", "first")
            sent = concatenate([{name: one[name] for name in columns} for one in named])
            self.now.tally.send("payload", ~sent["lost"], sent["sender"], sent["node"])
            again = sent["message"][~sent["lost"] & ~sent["first"]]
            self.published.duplicates = self.published.duplicates + np.bincount(
                again, minlength=len(self.published)
            )
        if f"{ANSWERS} {number}" in tables:
            self.by_iwant = int(np.count_nonzero(tables[f"{ANSWERS} {number}"]["first"]))
        for kind, name in (("IHAVE", f"{TOLD_OF} IHAVE"), ("IWANT", f"{TOLD_OF} IWANT")):
            if f"{name} {number}" in tables:
                told = tables[f"{name} {number}"]
                # one message tells of all publications of a topic
                link = self.published.topic[told["message"]] * size + told["node"]
                _, node, sender = self.space.split(distinct(self.space.key(link, told["sender"])))
                self.send(kind, sender, node)
        if f"{UNWANTED} {number}" in tables:
            told = tables[f"{UNWANTED} {number}"]
            self.send("IDONTWANT", told["sender"], told["node"])
        got = read_table(Arrivals, tables, ARRIVALS)
        self.held = _Held(got.key, got.heartbeat, got.hops)

    def due(self) -> Publications:
        """What became of publications that are due; drops those that nobody tells of any more."""
        now, published, size = self.now, self.published, self.size
        age = now.number - published.round
        is_due = age <= now.deadline if now.is_last else age == now.deadline
        message = np.flatnonzero(is_due)
        found = self._outcomes(message)
        told = now.number + 1 - self.held.round <= self.rules.mcache_gossip
        kept = age < now.deadline
        kept[np.unique(self.held.key[told] // size)] = True
        index = np.cumsum(kept) - 1
        of, node = np.divmod(self.held.key, size)
        self.held.keep(kept[of])
        self.held.key = index[of[kept[of]]] * size + node[kept[of]]
        published.keep(kept)
        published.key = np.arange(len(published))
        return found

    def _outcomes(self, message: np.ndarray) -> Publications:
        """Count who has got publications, of who was to get them."""
        published, size = self.published, self.size
        topic, since = published.topic[message], published.round[message]
        offsets = np.searchsorted(self.members.key // size, [topic, topic + 1])
        of, row = expand(*offsets)
        expected = self.members.joined[row] <= since[of]
        of, row = of[expected], row[expected]
        got = self.held.find(message[of] * size + self.members.key[row] % size)
        has = got >= 0
        in_time = has.copy()
        in_time[has] = self.held.round[got[has]] == since[of[has]]

        def count(which: np.ndarray) -> np.ndarray:
            return np.bincount(of[which], minlength=len(message))

        return Publications(
            since,
            topic,
            np.bincount(of, minlength=len(message)),
            count(in_time),
            count(has & ~in_time),
            count(~has),
            published.duplicates[message],
        )
