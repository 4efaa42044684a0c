"""Publications of topics: the first copy at each node, and every copy that is sent.

First copies are found by label correction along the meshes (:class:`SpreadMessages`).  A copy that
is held back because its receiver already has the publication is never the first one (rule G10), so
all links can be used.  When the labels are final, every node tells its mesh what it would send and
when, and the receiver determines whether that copy was held back (:class:`SendCopies`).  If
publications have sizes, the clock with bandwidth replaces these programs
(:func:`publish_with_bandwidth`).

References
----------
docs/rules.md, G10 to G12, W1 to W7.
libp2p/specs, gossipsub-v1.0.md, "Message Processing"; gossipsub-v1.1.md, "Flood Publishing";
gossipsub-v1.2.md, "IDONTWANT".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from scribe_spark.bandwidth.runs import Clock, play_clock
from scribe_spark.bandwidth.setting import ROOMS, TimedPublications, mesh_links
from scribe_spark.bandwidth.windows import ARRIVALS as CLOCK_ARRIVALS
from scribe_spark.bandwidth.windows import COPIES as CLOCK_COPIES
from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import first_of_each
from scribe_spark.engine.losses import Jitter, Late, Losses, Lost
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables, in_bucket
from scribe_spark.multicast import TIME
from scribe_spark.rounds.system import LivingRound, Publishing, SystemPlayer
from scribe_spark.systems.gossipsub.mesh import CONNECTIONS, MESH, Topics, TopicsProgram
from scribe_spark.systems.gossipsub.router import Links

#: Tables of a bucket: first copies (`Arrivals`); the copies that its nodes receive, with those by
#: IWANT in a table of their own; in a run, IHAVEs, IWANTs and IDONTWANTs by the name of the kind.
#: There is one table of each for each heartbeat.  :data:`FANOUT` has the messages of sources that
#: do not subscribe, with the peers to which each is sent: ``message, peer``.
ARRIVALS, COPIES, ANSWERS, FANOUT = "arrivals", "copies", "answers", "fan-out"

#: The kinds of the messages of a publication other than copies.
IHAVE, IWANT, IDONTWANT = TOLD = "IHAVE", "IWANT", "IDONTWANT"

#: If more nodes than this have an offer, some of them wait: see `SpreadMessages`.
_OFFERED_AT_ONCE = 2**14

#: The table with the keys of copies whose offers wait.
_WAITING = "waiting"

_OFFER, _GO_ON, _COPY = "offer", "go on", "copy"


@dataclass
class Arrivals(arrays.SortedTable):
    """First copies, by message and node."""

    #: The time of arrival: microseconds since the publication, or hops in its heartbeat.
    at: np.ndarray = field(default_factory=arrays.whole_numbers)
    hops: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: The position of the sender; :data:`NONE` at the source.
    sender: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: The heartbeat in which the copy arrived.
    heartbeat: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: With the clock of hops: the sum of delays and processing along the first copies, in
    #: microseconds.  With the clock of time: 0, because `at` has the time.
    way: np.ndarray = field(default_factory=arrays.whole_numbers)


@dataclass(frozen=True)
class Messages:
    """The M publications of a heartbeat, or those still announced, by index."""

    #: (M,): the indices of topics and the positions of nodes.
    topic: np.ndarray
    source: np.ndarray
    published: np.ndarray  # (M,): the heartbeats of the publications
    clock: str = TIME  # `multicast.TIME` or `multicast.HOPS`
    stamp: tuple[np.ndarray, ...] = ()  # (M,): further keys of the random draw of a loss
    size: np.ndarray | None = None  # (M,): the sizes in bytes, in a world with a schedule
    #: (M,): the keys of the jitter of copies; None without jitter.
    jitter: np.ndarray | None = None


@dataclass(frozen=True)
class PublicationProgram(TopicsProgram):
    """The base class of programs on messages."""

    messages: Messages
    heartbeat: int  # in a run, it is 0 at the publications

    @property
    def _size(self) -> int:
        return self.topics.space.size

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the delays between the nodes `a` and `b`: us, or 1 with the clock of hops."""
        if self.messages.clock != TIME:
            return np.ones(len(a), dtype=np.int64)
        return self.topics.delay(a, b)

    def copy_delay(
        self, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray
    ) -> np.ndarray:
        """Return the delays of copies, in units of :meth:`delay`, with jitter (rule J4)."""
        delay_us, key = self.delay(sender, receiver), self.messages.jitter
        if key is None or self.messages.clock != TIME:
            return delay_us
        jitter = Jitter(self.topics.facts, self.topics.now.kernel)
        return delay_us + jitter.late_us(key[message], sender, receiver, delay_us)

    def way(self, before: np.ndarray, hops: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return `Arrivals.way` of copies from `a` to `b`; `before`: those of the senders."""
        if self.messages.clock == TIME:
            return np.zeros(len(a), dtype=np.int64)
        waits = np.where(hops > 0, self.topics.rules.processing_us, 0)
        return before + waits + self.topics.delay(a, b)

    def waits(self, hops: np.ndarray) -> np.ndarray:
        """Return how long nodes wait before they forward: us, or 0 in hops; sources do not wait."""
        timed = self.messages.clock == TIME
        return np.where(hops > 0, self.topics.rules.processing_us if timed else 0, 0)

    def subscribes(self, message: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for live nodes that subscribe to the topic of a message."""
        place = self.messages.topic[message] * self._size + node
        return self.topics.directory.has(place) & self.topics.is_alive(node)

    def lost(self, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray) -> np.ndarray:
        """Return True for lost copies: those to dead nodes, and others by rule G12."""
        lost = ~self.topics.is_alive(receiver)
        if (losses := self.losses) is not None:
            lost |= self.lost_on_way(losses, message, sender, receiver)
        return lost

    def withholds(self, message: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for nodes that send no copies of another node's publication: rule N6."""
        if (losses := self.losses) is None:
            return np.zeros(len(node), dtype=bool)
        return losses.withholds(node) & (node != self.messages.source[message])

    def announces(self, message: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for nodes that would announce a message that they have: rule N6."""
        losses = self.losses
        if losses is None or not losses.withholds_announcements:
            return np.ones(len(node), dtype=bool)
        return ~self.withholds(message, node)

    def announced(self, arrivals: Arrivals, heartbeat: int) -> np.ndarray:
        """Return the keys (message, node) for which nodes send IHAVE in a heartbeat: rule G13."""
        key = arrivals.key[heartbeat - arrivals.heartbeat <= self.topics.rules.mcache_gossip]
        return key[self.announces(*arrays.divided(key, self._size))]

    @property
    def losses(self) -> Losses | None:
        """The losses of copies, by the configured share and by routes; None: there are none."""
        topics = self.topics
        return Losses.of(topics.facts, topics.now.kernel, topics.rules.loss)

    def lost_on_way(
        self, losses: Losses, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray
    ) -> np.ndarray:
        """Return True for copies that the network loses (rule G12)."""
        topic = self.messages.topic[message]
        stamp = (number[message] for number in self.messages.stamp)
        key = self.topics.space.bits("gossipsub loss", self.heartbeat, topic)
        return losses.lost(key, sender, receiver, *stamp)

    def links(
        self, table: Links, key: np.ndarray, but: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return links, without peers `but` and the source: row of `key` (message, node), peer."""
        message, node = arrays.divided(key, self._size)
        place = self.messages.topic[message] * self._size + node
        of, row = arrays.expand(*self.topics.space.rows(table, place))
        peer = table.key[row] % self._size
        sent = (peer != but[of]) & (peer != self.messages.source[message[of]])
        return of[sent], peer[sent]

    def sends(
        self, tables: Tables, arrivals: Arrivals, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the peers to which sources and new receivers send: row of `arrivals`, peer."""
        row = row[~self.withholds(*arrays.divided(arrivals.key[row], self._size))]
        at_source = arrivals.hops[row] == 0
        sources, others = row[at_source], row[~at_source]
        mesh = arrays.read_table(Links, tables, MESH)
        of, peer = self.links(mesh, arrivals.key[others], arrivals.sender[others])
        if not len(sources):
            return others[of], peer
        sent_by, to = self.from_sources(tables, arrivals.key[sources])
        return np.concatenate([sources[sent_by], others[of]]), np.concatenate([to, peer])

    def sources(self, bucket: int, new: np.ndarray) -> np.ndarray:
        """Return the keys (message, node) of sources in the bucket, for the new messages."""
        source = self.messages.source[new]
        own = in_bucket(self.bounds, bucket, source)
        return new[own] * self._size + source[own]

    def from_sources(self, tables: Tables, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the peers to which sources send: index in `key` (message, source), and peer."""
        name = CONNECTIONS if self.topics.rules.flood_publish else MESH
        of, peer = self.links(
            arrays.read_table(Links, tables, name), key, np.full(len(key), arrays.NONE)
        )
        if FANOUT not in tables:
            return of, peer
        message, to = tables[FANOUT]["message"], tables[FANOUT]["peer"]
        by_message = np.argsort(key // self._size)
        guest = arrays.index_sorted(key[by_message] // self._size, message)
        return np.concatenate([of, by_message[guest]]), np.concatenate([peer, to])


@dataclass(frozen=True)
class SpreadMessages(PublicationProgram):
    """Find the first copy at each node; sources publish, and answers to IWANT are forwarded.

    A node *offers* its copy to its peers, again whenever an earlier copy arrives. If many nodes
    have an offer, only the earlier half of the offers is sent, because later offers are likely to
    be replaced; they wait for the next superstep.
    """

    new: np.ndarray  # the messages that are published now

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Accept copies that arrive earlier than a node's first one, and offer them to its mesh."""
        arrivals = arrays.read_table(Arrivals, tables, ARRIVALS)
        if superstep:
            changed = self._take_offers(arrivals, inbox)
        else:
            changed = self._begin(bucket, tables, arrivals)
        if len(changed):
            tables[ARRIVALS] = arrivals.to_columns()
        if _WAITING in tables:
            changed = arrays.distinct(np.concatenate([changed, tables.pop(_WAITING)["key"]]))
        early = self._early(arrivals, changed)
        out = {_OFFER: self._offers(tables, arrivals, changed[early])}
        if not early.all():
            tables[_WAITING] = {"key": changed[~early]}
            # a bucket that gets no message is not played
            out[_GO_ON] = {AT: self.bounds[bucket : bucket + 1]}
        return out

    def _early(self, arrivals: Arrivals, key: np.ndarray) -> np.ndarray:
        """Return True for copies, by key (message, node), that are offered in this superstep."""
        if len(key) <= _OFFERED_AT_ONCE:
            return np.ones(len(key), dtype=bool)
        at = arrivals.at[arrivals.find(key)]
        return at <= np.partition(at, len(at) // 2)[len(at) // 2]

    def _begin(self, bucket: int, tables: Tables, arrivals: Arrivals) -> np.ndarray:
        """Record copies of sources and answers to IWANT; return their keys (message, node)."""
        changed = self._take_answers(arrivals, tables)
        published = self.sources(bucket, self.new)
        arrivals.insert(
            published, at=0, hops=0, sender=arrays.NONE, heartbeat=self.heartbeat, way=0
        )
        return np.concatenate([changed, published])

    def _take_offers(self, arrivals: Arrivals, inbox: Inbox) -> np.ndarray:
        if _OFFER not in inbox:
            return arrays.whole_numbers()
        came = inbox[_OFFER]
        key = came["message"] * self._size + came[AT]
        offered = (came[name] for name in ("time", "hops", "sender", "way"))
        return self._take(arrivals, key, *offered)

    def _take_answers(self, arrivals: Arrivals, tables: Tables) -> np.ndarray:
        name = f"{ANSWERS} {self.heartbeat}"
        if name not in tables:
            return arrays.whole_numbers()
        came = tables[name]
        here = ~came["lost"]
        key = (came["message"] * self._size + came["node"])[here]
        sender, node = came["sender"][here], came["node"][here]
        time = came["sent"][here] + self.copy_delay(came["message"][here], sender, node)
        return self._take(arrivals, key, time, came["hops"][here], sender, came["way"][here])

    def _take(
        self,
        arrivals: Arrivals,
        key: np.ndarray,
        at: np.ndarray,
        hops: np.ndarray,
        sender: np.ndarray,
        way: np.ndarray,
    ) -> np.ndarray:
        """Let nodes keep the earliest of the copies that reach them, as their first copy."""
        row = arrivals.find(key)
        some = np.flatnonzero(self._may_be_first(arrivals, row, at))
        some = some[first_of_each(key[some], (at[some], hops[some], sender[some]))]
        row, key, at, hops, sender, way = (one[some] for one in (row, key, at, hops, sender, way))
        known = row >= 0
        old, rank = arrivals.take(row[known]), (at[known], hops[known])
        same = (old.at == rank[0]) & (old.hops == rank[1])
        better = (rank[0] < old.at) | ((rank[0] == old.at) & (rank[1] < old.hops))
        anew = ~known
        anew[known] = better
        taken = ~known
        taken[known] = better | (same & (sender[known] < old.sender))
        copies = {"at": at[taken], "hops": hops[taken], "sender": sender[taken]}
        arrivals.put(key[taken], **copies, heartbeat=self.heartbeat, way=way[taken])
        return key[anew]

    def _may_be_first(self, arrivals: Arrivals, row: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return True for copies that may be the first ones of their nodes."""
        if not len(arrivals):
            return np.ones(len(row), dtype=bool)
        no_later = (at <= arrivals.at[row]) & (arrivals.heartbeat[row] == self.heartbeat)
        return no_later | (row < 0)

    def _offers(self, tables: Tables, arrivals: Arrivals, key: np.ndarray) -> dict[str, np.ndarray]:
        """Return the offers of copies: of nodes to their meshes, of sources to all receivers."""
        row, peer = self.sends(tables, arrivals, arrivals.find(key))
        message, node = arrays.divided(arrivals.key[row], self._size)
        here = ~self.lost(message, node, peer)
        row, peer, message, node = row[here], peer[here], message[here], node[here]
        hops = arrivals.hops[row]
        return {
            AT: peer,
            "message": message,
            "time": arrivals.at[row] + self.waits(hops) + self.copy_delay(message, node, peer),
            "hops": hops + 1,
            "sender": node,
            "way": self.way(arrivals.way[row], hops, node, peer),
        }


@dataclass(frozen=True)
class SendCopies(PublicationProgram):
    """All copies sent by nodes whose first copy arrived in this heartbeat."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Tell receivers what is sent; they determine which copies were held back."""
        if superstep:
            if _COPY in inbox:
                self._take(tables, inbox[_COPY])
            return {}
        arrivals = arrays.read_table(Arrivals, tables, ARRIVALS)
        self._mark_answers(arrivals, tables)
        own = np.flatnonzero(arrivals.heartbeat == self.heartbeat)
        if self.topics.rules.idontwant:
            self.note_idontwant(arrivals, own[arrivals.hops[own] > 0], tables)
        row, peer = self.sends(tables, arrivals, own)
        message, node = arrays.divided(arrivals.key[row], self._size)
        hops = arrivals.hops[row]
        return {
            _COPY: {
                AT: peer,
                "message": message,
                "sender": node,
                "sent": arrivals.at[row] + self.waits(hops),
                "hops": hops + 1,
                "lost": self.lost(message, node, peer),
            }
        }

    def _mark_answers(self, arrivals: Arrivals, tables: Tables) -> None:
        """Mark the answers to IWANT that are first copies."""
        name = f"{ANSWERS} {self.heartbeat}"
        if name in tables:
            came = tables[name]
            row = arrivals.find(came["message"] * self._size + came["node"])
            first = (row >= 0) & ~came["lost"]
            row = row[first]
            first[first] = (arrivals.sender[row] == came["sender"][first]) & (
                arrivals.heartbeat[row] == self.heartbeat
            )
            tables[name] = {**came, "first": first}

    def note_idontwant(self, arrivals: Arrivals, own: np.ndarray, tables: Tables) -> None:
        """Record the IDONTWANTs of the first copies `own` (rows), which go to meshes (G11).

        The sender of a first copy gets none.
        """
        mesh = arrays.read_table(Links, tables, MESH)
        own = own[self.announces(*arrays.divided(arrivals.key[own], self._size))]
        message, node = arrays.divided(arrivals.key[own], self._size)
        place = self.messages.topic[message] * self._size + node
        of, row = arrays.expand(*self.topics.space.rows(mesh, place))
        peer = mesh.key[row] % self._size
        told = peer != arrivals.sender[own[of]]
        of, peer = of[told], peer[told]
        if not self.topics.now.in_run:
            self.topics.observe(tables, IDONTWANT, node[of], peer)
            return
        tables[f"{IDONTWANT} {self.heartbeat}"] = {
            "message": message[of],
            "node": peer,
            "sender": node[of],
            "sent": arrivals.at[own[of]],
            "hops": arrivals.hops[own[of]] + 1,
        }

    def _take(self, tables: Tables, came: Columns) -> None:
        """Record the copies `came` that nodes received, and which of them are first copies."""
        arrivals = arrays.read_table(Arrivals, tables, ARRIVALS)
        node, sender, message = came[AT], came["sender"], came["message"]
        row = arrivals.find(message * self._size + node)
        has = row >= 0
        row = np.where(has, row, 0)
        first = has.copy()
        if has.any():
            first &= (arrivals.sender[row] == sender) & (arrivals.heartbeat[row] == self.heartbeat)
            if self.messages.clock == TIME:
                kept = ~(has & ~first & self._held_back(arrivals, row, came))
                came, first = take(came, kept), first[kept]
        names = "message", "sender", "sent", "hops", "lost"
        copies = {"node": came[AT], "first": first, **{name: came[name] for name in names}}
        tables[f"{COPIES} {self.heartbeat}"] = copies

    def _held_back(self, arrivals: Arrivals, row: np.ndarray, came: Columns) -> np.ndarray:
        """Return True if the receiver's IDONTWANT or own copy came before the sending; rule G10."""
        at, hops = arrivals.at[row], arrivals.hops[row]
        receiver, sender = came[AT], came["sender"]
        back = self.delay(receiver, sender)
        copy_back = self.copy_delay(came["message"], receiver, sender)
        copy = at + self.waits(hops) + copy_back < came["sent"]
        if self.losses is not None:
            copy &= ~self._lost_back(arrivals.heartbeat[row], came["message"], receiver, sender)
            copy &= ~self.withholds(came["message"], receiver)
        if self.topics.rules.idontwant:
            told = (hops > 0) & (at + back < came["sent"])
            copy |= told & self.announces(came["message"], receiver)
        if not self.topics.now.in_run:  # times of earlier heartbeats are not known
            copy &= arrivals.heartbeat[row] == self.heartbeat
        return copy

    def _lost_back(
        self, heartbeat: np.ndarray, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray
    ) -> np.ndarray:
        """Return True for copies sent in an earlier `heartbeat` that the network lost."""
        lost = np.zeros(len(message), dtype=bool)
        for one in arrays.distinct(heartbeat).tolist():
            some = heartbeat == one
            then = PublicationProgram(self.topics, self.messages, one)
            lost[some] = then.lost(message[some], sender[some], receiver[some])
        return lost


# --- with the clock with bandwidth: rules W1 to W7

#: The columns of `publication.COPIES` -> the columns of the clock's copies.
_KEPT = {
    **{"message": "publication", "node": "node", "sender": "sender"},
    **{"sent": "sent_us", "hops": "hops", "first": "first"},
}


def publish_with_bandwidth(
    player: SystemPlayer, copies: SendCopies, new: np.ndarray, now: LivingRound
) -> None:
    """Publish the messages `new`, which have sizes and times, by the clock with bandwidth."""
    assert now.links is not None
    topics, messages, publish, links = copies.topics, copies.messages, now.publish, now.links
    rules = topics.rules
    idontwant = links.idontwant if rules.idontwant else None
    network = player.facts, player.bounds, now.kernel
    clock = links.clock(*network, rules.processing_us, idontwant=idontwant)
    topic, source = messages.topic[new], messages.source[new]
    # a source that does not subscribe has no mesh, and sends to all peers that it has dialled
    place = key_of([topic, source], topics.space.size)
    flood = ~topics.directory.has(place) | rules.flood_publish
    published = TimedPublications(publish.at_us, topic, source, publish.size, flood=flood)
    read = partial(_links, clock, topics, messages, new)
    announced = (publish.size >= links.idontwant) & rules.idontwant
    write = partial(_write, copies, new, publish, announced)
    losses = copies.losses
    lost = None if losses is None else _LostCopies(copies, losses, new)
    late = None if messages.jitter is None else _late(topics, messages.jitter[new])
    kept = tuple(_KEPT.values())
    played = partial(play_clock, clock, published, read, write, kept=kept, lost=lost, late=late)
    player.keep(played, "clock with bandwidth")


def _late(topics: Topics, key: np.ndarray) -> Late:
    return Jitter(topics.facts, topics.now.kernel).of_publications(key)


@dataclass(frozen=True)
class _LostCopies(Lost):
    """The losses of copies of the messages `new`, as a `Lost` for the clock with bandwidth."""

    copies: SendCopies
    losses: Losses
    new: np.ndarray

    def __call__(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """Return True for each copy of a message (an index in `new`) that is lost on a link."""
        ends = links["node"], links["peer"]
        return self.copies.lost_on_way(self.losses, self.new[publication], *ends)

    def withheld(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """Return True for each copy that the node of its link withholds (rule N6)."""
        return self.copies.withholds(self.new[publication], links["node"])

    @property
    def withholds_announcements(self) -> bool:
        """True if nodes that withhold copies also announce nothing."""
        return self.losses.withholds_announcements


def _links(
    clock: Clock, topics: Topics, messages: Messages, new: np.ndarray, tables: Tables, inbox: Inbox
) -> Columns:
    """Return the links of meshes (``mesh``) and of sources on which copies of `new` may go."""
    space, key = topics.space, arrays.read_table(Links, tables, MESH).key
    has = np.zeros(len(topics.now.group), dtype=bool)
    has[messages.topic[new]] = True
    if not has.all():
        key = key[has[space.split(key)[0]]]
    of_sources = _of_sources(topics, messages, new, tables)
    more = [known[arrays.find_sorted(key, known) < 0] for known in of_sources]
    topic, node, peer = space.split(np.concatenate([key, *more]))
    room = topic * ROOMS
    order = np.broadcast_to(np.int64(0), node.shape)
    links = mesh_links(room, node, room, peer, clock.delay(node, peer), order)
    return {**links, "mesh": np.arange(len(node)) < len(key)}


def _of_sources(
    topics: Topics, messages: Messages, new: np.ndarray, tables: Tables
) -> Iterator[np.ndarray]:
    """Yield keys (topic, node, peer) of links outside of meshes on which sources of `new` send."""
    space, topic, source = topics.space, messages.topic, messages.source
    if topics.rules.flood_publish:
        place = arrays.distinct(key_of([topic[new], source[new]], space.size))
        yield space.at(arrays.read_table(Links, tables, CONNECTIONS), place)
    if FANOUT in tables:  # the peers of sources that do not subscribe
        message, peer = tables[FANOUT]["message"], tables[FANOUT]["peer"]
        place = key_of([topic[message], source[message]], space.size)
        yield arrays.distinct(space.key(place, peer))  # a source may publish several times


def _write(
    copies: SendCopies, new: np.ndarray, publish: Publishing, announced: np.ndarray, tables: Tables
) -> None:
    """Add the clock's results to the tables of `publication`; the dead receive no copies."""
    topics, heartbeat = copies.topics, copies.heartbeat
    came, sent = tables.pop(CLOCK_ARRIVALS), tables.pop(CLOCK_COPIES)
    if not topics.all_live:
        came = take(came, topics.is_alive(came["node"]))
    of, hops = came["publication"], came["hops"]
    key = key_of([new[of], came["node"]], topics.space.size)
    arrivals = arrays.read_table(Arrivals, tables, ARRIVALS)
    first = {"at": came["at_us"] - publish.at_us[of], "hops": hops, "sender": came["sender"]}
    arrivals.insert(key, **first, heartbeat=heartbeat, way=0)
    tables[ARRIVALS] = arrivals.to_columns()
    if announced.any():
        told = key[(hops > 0) & announced[of]]
        copies.note_idontwant(arrivals, arrivals.find(told), tables)
    kept = {name: sent[ours] for name, ours in _KEPT.items()}
    of, lost = kept["message"], ~topics.is_alive(kept["node"])
    if "lost" in sent:
        lost |= sent["lost"]
    kept |= {"message": new[of], "sent": kept["sent"] - publish.at_us[of], "lost": lost}
    kept["first"] = kept["first"] & ~lost
    name = f"{COPIES} {heartbeat}"
    tables[name] = concatenate([tables[name], kept]) if name in tables else kept
