"""The clock after a round: the times of deliveries whose copies do not depend on times.

:func:`time_round` reads the copies that nodes sent, and replaces the times of deliveries.
:func:`replayed` plays the publications of a run along the trees of a system, from the source or
from the root of the group.

Rules: docs/rules.md, W10, W11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth import runs
from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.bandwidth.setting import ROOMS, TimedLinks, TimedPublications, mesh_links
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES
from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine.buckets import Names, read_view
from scribe_spark.engine.facts import Facts, KnowsRing
from scribe_spark.engine.losses import Late, Lost, late_copies, loses, lost_copies
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables
from scribe_spark.multicast import COPIES as COPY_ROWS
from scribe_spark.multicast import DELIVERIES, PAYLOAD, PUBLICATION, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.underlay.protocol import Kernel, node_delays


@dataclass(frozen=True)
class Begun(arrays.Rows):
    """The p publications that start in a round, with sources and roots; arrays of shape (p,)."""

    group: np.ndarray = field(default_factory=arrays.whole_numbers)  # the indices of the groups
    publication: np.ndarray = field(default_factory=arrays.whole_numbers)  # the names
    #: The node where the publication starts, and the node from which hops count.  If they differ,
    #: the way between them counts as one copy.
    source: np.ndarray = field(default_factory=arrays.whole_numbers)
    root: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: Hops and delay of the way from the source to the root.
    hops: np.ndarray = field(default_factory=arrays.whole_numbers)
    delay_us: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: The names of the publications whose copies they go along, in tables of copies and deliveries;
    #: by default their own names.
    along: np.ndarray = field(default_factory=arrays.whole_numbers)
    #: With a schedule, the times since the begin of the round, and the sizes in bytes; negative
    #: values are those of a world without a schedule.
    at_us: np.ndarray = None  # type: ignore[assignment]
    size: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not len(self.along):
            object.__setattr__(self, "along", self.publication)
        for name in ("at_us", "size"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.full_like(self.group, arrays.NONE))

    def with_times(self, at_us: np.ndarray, size: np.ndarray) -> Begun:
        """Return the publications by number, with times (us) and sizes (bytes) from two arrays.

        Publications that have times already are returned as they are.
        """
        if (self.at_us >= 0).all():
            return self
        by_number = self.take(np.argsort(self.publication))
        number = by_number.publication
        return replace(by_number, at_us=at_us[number], size=size[number])

    @property
    def relayed(self) -> np.ndarray:
        """True for publications that the source first sends to another node, the root: bool."""
        return self.source != self.root

    @property
    def topic(self) -> np.ndarray:
        """The topic of each publication: the first publication that goes along the same copies."""
        return self.find({"group": self.group, "publication": self.along})

    def find(self, rows: Columns) -> np.ndarray:
        """Return the topic of each row of copies or deliveries: int64; NONE without one."""
        names = arrays.distinct(self.along)
        key = self.group * len(names) + arrays.index_sorted(names, self.along)
        key, first = np.unique(key, return_index=True)
        name = arrays.find_sorted(names, rows["publication"])
        found = arrays.find_sorted(key, rows["group"] * len(names) + name)
        return (
            np.where((name >= 0) & (found >= 0), first[found], arrays.NONE) if len(key) else found
        )


#: The columns of copies in a run.
_COPY_COLUMNS = ("publication", "room", "node", "sender", "sent_us", "hops", "first")

# the message with a link to the bucket of its sender, and the table of these; ways of a bucket's
# sources
_LINK, _WAY = "timed link", "timed way"


@dataclass(frozen=True)
class _MakeLinks:
    """Make the clock's links in the senders' buckets, from copies and from ways to roots."""

    clock: runs.Clock
    begun: Begun
    copies: str  # the table of copies: ``group, publication, sender, to``
    lossy: bool  # True if copies may have the column ``lost``; then links have it

    @property
    def bounds(self) -> np.ndarray:
        return self.clock.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if superstep:
            links = dict(inbox[_LINK])
            tables[_LINK] = {"node": links.pop(AT), **links}
            return {}
        parts = []
        if tables.has_rows(self.copies):
            copies = tables[self.copies]
            topic = self.begun.find(copies)
            known = topic >= 0
            node, peer = copies["sender"][known], copies["to"][known]
            room, to_room = (topic * ROOMS + _room(copies, end) for end in ("from_tree", "tree"))
            delay_us = self.clock.delay(node, peer)
            lost = copies["lost"][known] if "lost" in copies else None
            parts.append(self._link(room[known], node, to_room[known], peer, delay_us, lost))
        if _WAY in inbox:
            row, begun = inbox[_WAY]["row"], self.begun
            room, delay_us = begun.topic[row] * ROOMS, np.maximum(begun.delay_us[row], 1)
            ends = room + 1, begun.source[row], room, begun.root[row]
            parts.append(self._link(*ends, delay_us))
        return {_LINK: concatenate(parts)} if parts else {}

    def _link(
        self,
        room: np.ndarray,
        node: np.ndarray,
        to_room: np.ndarray,
        peer: np.ndarray,
        delay_us: np.ndarray,
        lost: np.ndarray | None = None,
    ) -> Columns:
        """Return links as messages to their senders; the order in a batch is that of nodeIds."""
        links = mesh_links(room, node, to_room, peer, delay_us, peer)
        if self.lossy:
            links["lost"] = np.zeros(len(node), dtype=bool) if lost is None else lost
        return {AT: links.pop("node"), **links}


def _room(copies: Columns, end: str) -> np.ndarray | int:
    """Return the index of each copy's room in its topic; `end` is the column with its tree."""
    return np.where(copies[end] > 0, 1 + copies[end], 0) if end in copies else 0


def _take_links(lossy: bool, tables: Tables, inbox: Inbox) -> Columns:
    if _LINK in tables:
        return tables.pop(_LINK)
    return TimedLinks().to_columns() | ({"lost": arrays.flags()} if lossy else {})


class _OnLostLinks(Lost):
    """The losses of copies on links with the mark ``lost``; withheld copies have no links."""

    def __call__(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """See `Lost`."""
        return links["lost"] > 0


def _write_times(
    begun: Begun, at_us: np.ndarray, nodes: int, deliveries: str, tables: Tables
) -> None:
    """Write the times and hops of first copies into the table of deliveries.

    A delivery without a copy in this round stays: its node got the publication in another way.
    """
    came = tables.pop(ARRIVALS)
    if not tables.has_rows(deliveries):
        return
    came = take(came, came["room"] % ROOMS == 0)
    got = tables[deliveries]
    topic = begun.find(got)
    place = key_of([topic, got["node"]], nodes)
    at = arrays.find_sorted(key_of([came["publication"], came["node"]], nodes), place)
    row = np.flatnonzero((topic >= 0) & (at >= 0))
    topic, at = topic[row], at[row]
    hops, delay_us = got["hops"].copy(), got["delay_us"].copy()
    hops[row] = came["hops"][at] - begun.relayed[topic]
    delay_us[row] = came["at_us"][at] - at_us[topic] - begun.delay_us[topic]
    tables[deliveries] = {**got, "hops": hops, "delay_us": delay_us}


def _write_all(
    begun: Begun,
    at_us: np.ndarray,
    nodes: int,
    names: tuple[str, str],
    recoded: bool,
    tables: Tables,
) -> None:
    """Write the tables of deliveries and of copies of all publications.

    Hops and times of copies count from the source, those of deliveries from the root.
    """
    came = tables.pop(ARRIVALS)
    came = take(came, came["room"] % ROOMS != 1)
    # 1. a node's first copy, of all trees
    key = key_of([came["publication"], came["node"]], nodes)
    order = np.lexsort((came["room"], came["sender"], came["hops"], came["at_us"], key))
    order = order[arrays.run_starts(key[order])]
    came, key = take(came, order), key[order]
    p = came["publication"]
    copies, deliveries = names
    tables[deliveries] = {
        **{"group": begun.group[p], "publication": begun.publication[p], "node": came["node"]},
        "hops": came["hops"] - begun.relayed[p],
        "delay_us": came["at_us"] - at_us[p] - begun.delay_us[p],
    }
    # 2. copies, but those from sources to roots
    if COPIES not in tables:
        return
    sent = tables.pop(COPIES)
    p = sent["publication"]
    first = arrays.find_sorted(key, key_of([p, sent["node"]], nodes))
    is_first = first >= 0
    there = np.flatnonzero(is_first)  # none if all copies to the nodes of this bucket are lost
    for name in ("room", "sender"):
        is_first[there] &= came[name][first[there]] == sent[name][there]
    if recoded:  # copies have numbers of their senders, so the clock says which ones are first
        is_first = sent["first"]
    if "lost" in sent:
        is_first &= ~sent["lost"]
    relay = begun.relayed[p] & (sent["node"] == begun.root[p]) & is_first
    rows = {
        **{"group": begun.group[p], "publication": begun.publication[p]},
        **{"sender": sent["sender"], "to": sent["node"], "first": is_first},
        "hops": sent["hops"] - begun.relayed[p] + begun.hops[p],
        "sent_us": sent["sent_us"] - at_us[p],
    }
    kept = (sent["room"] % ROOMS != 1) & ~relay
    tables[copies] = take(rows, kept)


def time_round(
    player: PlaysPrograms,
    links: RoundLinks,
    facts: KnowsRing,
    bounds: np.ndarray,
    kernel: Kernel,
    begun: Begun,
    tables: tuple[str, str],
    merged: bool,
    in_run: bool = False,
    late: Late | None = None,
    lost: Lost | None = None,
    keeps: bool = True,
) -> None:
    """Replace the times of deliveries by those of the clock, from the copies that nodes sent.

    `tables` are those of copies and of deliveries.  Copies (``group, publication, sender, to``) are
    in any bucket, lost ones included, perhaps with a column ``lost``; if a publication goes along
    several trees, copies also have the trees of their two ends (``from_tree, tree``).  Deliveries
    (``group, publication, node, hops, delay_us``) are in the buckets of the nodes.  If copies are
    `merged`, because routers duplicate packets, times of transmission are added (rule W11).
    `in_run`: the two tables get the rows of all publications, and copies the columns ``hops,
    sent_us, first``.
    """
    if not len(begun):
        return
    copies, deliveries = tables
    at_us, size = np.maximum(begun.at_us, 0), np.where(begun.size < 0, links.size, begun.size)
    if merged:
        size = links.parts.sent_until(begun.publication, size)
        add = partial(_add_transmission, links, facts, begun, size, deliveries)
        player.play(runs.Change(bounds, add))
        return
    clock = links.clock(facts, bounds, kernel, held_back=False, spares=False, seed=None)
    ends = np.column_stack([begun.topic, begun.source])
    relayed = np.sort(np.unique(ends, axis=0, return_index=True)[1])  # each way once
    relayed = relayed[begun.relayed[relayed]]
    ways = {_WAY: {AT: begun.source[relayed], "row": relayed}}
    lossy = lost is None and loses(kernel)
    player.play(_MakeLinks(clock, begun, copies, lossy), ways if len(relayed) else None)
    published = TimedPublications(at_us, begun.topic, begun.source, size, begun.relayed)
    times = begun, published.at_us, len(facts.ring)
    if in_run:
        write = partial(_write_all, *times, tables, links.parts.recoded)
    else:
        write = partial(_write_times, *times, deliveries)
    kept = _COPY_COLUMNS if in_run and keeps else ()
    read, lost = partial(_take_links, lossy), _OnLostLinks() if lossy else lost
    played = partial(
        runs.play_clock, clock, published, read, write, kept=kept, lost=lost, late=late
    )
    player.keep(played, "clock with bandwidth")


def _add_transmission(
    links: RoundLinks,
    facts: KnowsRing,
    begun: Begun,
    size: np.ndarray,
    deliveries: str,
    tables: Tables,
    inbox: Inbox,
) -> None:
    if not tables.has_rows(deliveries):
        return
    got = tables[deliveries]
    topic = begun.find(got)
    row = np.flatnonzero(topic >= 0)
    delay_us, source = got["delay_us"].copy(), begun.source[topic[row]]
    of = got["node"][row], delay_us[row], size[topic[row]]
    delay_us[row] = links.routed_us(facts.ring, source, *of)
    tables[deliveries] = {**got, "delay_us": delay_us}


# --- replay along trees

#: ``ways(groups, sources)`` returns the hops and the delays of routes from sources to roots.
Ways = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

# kinds of messages; members are a table, too
_EDGE, _MEMBER = "edge", "member"

#: The tables of a bucket's deliveries, and of its copies.
_DELIVERED, _SENT = "delivered", "sent"


def replayed(stages: Any, made: Multicast, ways: Ways | None = None) -> Multicast:
    """Return a multicast along trees, with the deliveries that the clock with bandwidth computes.

    `made` is the multicast without bandwidth.  A source that is not the root sends its message to
    the root first: in one hop, or by `ways`, a function that returns the hops and delays of ways.
    """
    scheduled = stages.schedule is not None
    tables = cache(partial(_play, stages, made, ways, scheduled))
    more = f", {PUBLICATION}" if scheduled else ""

    def view(name: str, schema: str, rows: Callable[[Columns], dict[str, Any]] = dict) -> Batches:
        ring, underlay = stages.overlay.ring, stages.underlay
        names = Names(ring.facts, underlay.kernel, np.unique(stages.publications.group))
        return read_view(tables().batches(name), names, schema + more, rows)

    def copies(some: Columns) -> dict[str, Any]:
        return {**some, "receiver": some["to"], "hop": some["hops"], "kind": PAYLOAD}

    made = replace(made, delivered=lambda: view(_DELIVERED, DELIVERIES))
    if not scheduled:
        return made
    return replace(made, copies=lambda: view(_SENT, COPY_ROWS, copies), scheduled=True)


def _play(stages: Any, made: Multicast, ways: Ways | None, scheduled: bool) -> BucketTables:
    """Play a multicast along trees by the clock; return the tables of buckets with the results."""
    ring, underlay, schedule = stages.overlay.ring, stages.underlay, stages.publications
    plays = runs.player_of(ring.layout)
    stages.note_clock(plays)
    group, of = np.unique(schedule.group, return_inverse=True)
    listed = stages.source_rows.sort_by("group")
    every, roots = (listed.column(name).to_numpy() for name in ("group", "root"))
    ends = schedule.source, roots[arrays.index_sorted(every, group)][of]
    source, root = (ring.facts.positions(end) for end in ends)
    router, relayed = ring.facts.ring.router, source != root
    hops, delay_us = relayed.astype(np.int64), np.zeros(len(schedule), dtype=np.int64)
    if ways is None:
        direct = router[source[relayed]], router[root[relayed]]
        delay_us[relayed] = node_delays(underlay.kernel, underlay.lan_us, *direct)
    elif relayed.any():  # each way is routed once
        rows = np.column_stack([schedule.group, schedule.source])[relayed]
        rows, way = np.unique(rows, axis=0, return_inverse=True)
        hops[relayed], delay_us[relayed] = (of_ways[way.ravel()] for of_ways in ways(*rows.T))
    number, times = np.arange(len(schedule)), (schedule.at_us, schedule.size)
    begun = Begun(of, number, source, root, hops, delay_us, np.zeros_like(number), *times)
    assert made.edges is not None
    edges = Batches.of(made.edges, ["group", "parent", "child"])
    members = Batches.of(stages.memberships, ["group", "node"])
    sent = [ring.messages(edges, _EDGE, "parent", _edge, group)]
    sent.append(ring.messages(members, _MEMBER, "node", groups=group))
    tables = stages.own(BucketTables(ring.layout, union_tables(sent)))
    network = ring.facts, ring.bounds, underlay.kernel
    rank = arrays.rank_in_group(schedule.group)
    named = ring.facts, underlay.kernel, stages.config.seed, schedule.group, rank
    options: dict[str, Any] = {"lost": lost_copies(*named, source), "late": late_copies(*named)}
    options["keeps"] = scheduled
    played = partial(_play_trees, runs.links_of(stages), network, begun, options)
    alone = plays["name"] != runs.IN_TASKS  # one task keeps all buckets
    tables.play_in_tasks(played, f"{made.system} with bandwidth", alone=alone)
    return tables


def _play_trees(
    links: RoundLinks,
    network: tuple[Facts, np.ndarray, Kernel],
    begun: Begun,
    options: Mapping[str, Any],
    player: PlaysPrograms,
) -> None:
    facts, bounds, _ = network
    player.play(runs.Change(bounds, _store))
    names = _SENT, _DELIVERED
    time_round(player, links, *network, begun, names, merged=False, in_run=True, **options)
    write = partial(_write, begun, len(facts.ring), links)
    player.play(runs.Change(bounds, write))


def _store(tables: Tables, inbox: Inbox) -> None:
    """Store messages as the members, and as the copies along which all publications go."""
    none = arrays.whole_numbers()
    nothing = {AT: none, "peer": none, "group": none}
    tables[_MEMBER] = dict(inbox.get(_MEMBER, nothing))
    edges = inbox.get(_EDGE, nothing)
    ends = {"sender": edges[AT], "to": edges["peer"]}
    tables[_SENT] = {"group": edges["group"], "publication": 0 * edges[AT], **ends}


def _write(begun: Begun, size: int, links: RoundLinks, tables: Tables, inbox: Inbox) -> None:
    """Write deliveries to members and copies along trees, with hops and times from the source.

    The copy from a source to the root is not a result.  `size` is the number of nodes.
    """
    members, copies = tables.pop(_MEMBER), tables.pop(_SENT)
    if (came := tables.pop(_DELIVERED, None)) is None:  # a bucket without nodes
        return
    wanted = np.sort(key_of([members["group"], members[AT]], size))
    p = came["publication"]
    kept = arrays.find_sorted(wanted, key_of([came["group"], came["node"]], size)) >= 0
    came = {
        **came,
        "hops": came["hops"] + begun.hops[p],
        "delay_us": came["delay_us"] + begun.delay_us[p],
    }
    came = take(came, kept & (came["node"] != begun.source[p]))
    tables[_DELIVERED] = links.parts.complete(came, size)
    if "first" in copies:
        p = copies["publication"]
        on_way = begun.relayed[p] & (copies["to"] == begun.root[p])
        copies = {**copies, "sent_us": copies["sent_us"] + begun.at_us[p]}
        tables[_SENT] = take(copies, ~on_way)


def _edge(facts: Facts, batch: pa.RecordBatch) -> Columns:
    return {"peer": facts.positions(batch.column("child").to_numpy())}
