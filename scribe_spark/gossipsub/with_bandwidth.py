"""Publications with the clock with bandwidth, instead of `publication.Spread`.

Rules: docs/rules.md, W1 to W7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from scribe_spark.bandwidth.runs import Clock, clock_of, play_clock, play_on_spark
from scribe_spark.bandwidth.setting import ROOMS, TimedPublications, mesh_links
from scribe_spark.bandwidth.windows import ARRIVALS as FIRST_COPIES
from scribe_spark.bandwidth.windows import COPIES as ALL_COPIES
from scribe_spark.core.arrays import distinct, find_sorted, read_table
from scribe_spark.core.keys import key_of
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Inbox, Tables
from scribe_spark.gossipsub.mesh import CONNECTIONS, MESH, Topics, TopicsProgram
from scribe_spark.gossipsub.publication import (
    ARRIVALS,
    COPIES,
    FANOUT,
    Arrivals,
    Copies,
    Messages,
    publish_lazily,
)
from scribe_spark.gossipsub.router import Links
from scribe_spark.rounds.system import LivingRound, SystemPlayer

#: The columns of `publication.COPIES` -> the columns of the clock's copies.
_KEPT = {
    "message": "publication",
    "node": "node",
    "sender": "sender",
    "sent": "sent_us",
    "hops": "hops",
    "first": "first",
}


def _links(
    clock: Clock, topics: Topics, messages: Messages, new: np.ndarray, tables: Tables, inbox: Inbox
) -> Columns:
    """Return the links of meshes and of sources' connections, for messages published now."""
    space, key = topics.space, read_table(Links, tables, MESH).key
    has = np.zeros(len(topics.number), dtype=bool)
    has[messages.topic[new]] = True
    if not has.all():
        key = key[has[space.split(key)[0]]]
    of_sources = _of_sources(topics, messages, new, tables)
    more = [known[find_sorted(key, known) < 0] for known in of_sources]
    topic, node, peer = space.split(np.concatenate([key, *more]))
    room = topic * ROOMS
    order = np.broadcast_to(np.int64(0), node.shape)
    links = mesh_links(room, node, room, peer, clock.delay(node, peer), order)
    return {**links, "mesh": np.arange(len(node)) < len(key)}


def _of_sources(
    topics: Topics, messages: Messages, new: np.ndarray, tables: Tables
) -> Iterator[np.ndarray]:
    """Yield the links outside the meshes on which sources send."""
    space, topic, source = topics.space, messages.topic, messages.source
    if topics.rules.flood_publish:
        place = distinct(key_of([topic[new], source[new]], space.size))
        yield space.at(read_table(Links, tables, CONNECTIONS), place)
    if FANOUT in tables:  # the peers of sources that do not subscribe
        message, peer = tables[FANOUT]["message"], tables[FANOUT]["peer"]
        yield space.key(key_of([topic[message], source[message]], space.size), peer)


def _write(copies: Copies, at_us: np.ndarray, announced: np.ndarray, tables: Tables) -> None:
    """Convert the clock's results to the tables of `publication`; times count from `at_us`."""
    size = copies.topics.space.size
    came, sent = tables.pop(FIRST_COPIES), tables.pop(ALL_COPIES)
    none = np.zeros(len(came["node"]), dtype=np.int64)
    key = key_of([came["publication"], came["node"]], size)
    since_us = came["at_us"] - at_us[came["publication"]]
    arrivals = Arrivals(key, since_us, came["hops"], came["sender"], none, none)
    tables[ARRIVALS] = arrivals.to_columns()
    if announced.any():
        told = np.flatnonzero((arrivals.hops > 0) & announced[came["publication"]])
        copies.note_idontwant(arrivals, told, tables)
    kept = {name: sent[ours] for name, ours in _KEPT.items()}
    kept["sent"] = kept["sent"] - at_us[kept["message"]]
    tables[f"{COPIES} 0"] = {**kept, "lost": np.broadcast_to(np.False_, kept["node"].shape)}


def _write_heartbeat(copies: Copies, new: np.ndarray, announced: bool, tables: Tables) -> None:
    """Add the clock's results to the tables of a world's heartbeat; the dead receive no copies."""
    topics, heartbeat = copies.topics, copies.heartbeat
    came, sent = tables.pop(FIRST_COPIES), tables.pop(ALL_COPIES)
    came = take(came, topics.is_alive(came["node"]))
    key = key_of([new[came["publication"]], came["node"]], topics.space.size)
    arrivals = read_table(Arrivals, tables, ARRIVALS)
    first = {"at": came["at_us"], "hops": came["hops"], "sender": came["sender"]}
    arrivals.insert(key, **first, heartbeat=heartbeat, way=0)
    tables[ARRIVALS] = arrivals.to_columns()
    if announced:
        copies.note_idontwant(arrivals, arrivals.find(key[came["hops"] > 0]), tables)
    kept = {name: sent[ours].astype(np.int64) for name, ours in _KEPT.items()}
    lost = ~topics.is_alive(kept["node"])
    kept |= {"message": new[kept["message"]], "lost": lost}
    kept["first"] = kept["first"].astype(bool) & ~lost
    name = f"{COPIES} {heartbeat}"
    tables[name] = concatenate([tables[name], kept]) if name in tables else kept


def publish_in_round(
    player: SystemPlayer, topics: Topics, messages: Messages, new: np.ndarray, now: LivingRound
) -> None:
    """Publish messages that have a size in a heartbeat of a world."""
    assert now.links is not None
    links, rules = now.links, topics.rules
    idontwant = links.idontwant if rules.idontwant else None
    network = player.facts, player.bounds, now.kernel
    clock = links.clock(*network, rules.processing_us, idontwant=idontwant)
    topic, source = messages.topic[new], messages.source[new]
    # a source that does not subscribe has no mesh, and sends to all peers that it has dialled
    place = key_of([topic, source], topics.space.size)
    flood = ~topics.directory.has(place) | rules.flood_publish
    published = TimedPublications.of(0, topic, source, links.size, flood=flood)
    read = partial(_links, clock, topics, messages, new)
    announced = rules.idontwant and links.size >= links.idontwant
    write = partial(_write_heartbeat, Copies(topics, messages, now.number), new, announced)
    played = partial(play_clock, clock, published, read, write, kept=tuple(_KEPT.values()))
    player.keep(played, "clock with bandwidth")


def publish_with_bandwidth(
    stages: Any,
    play: Callable[[TopicsProgram, str], list[int]],
    tables: BucketTables,
    topics: Topics,
    messages: Messages,
) -> int:
    """Publish messages that have a size in a run; return the number of lazy heartbeats."""
    schedule, rules = stages.publications, topics.rules
    least = stages.config.bandwidth.idontwant_bytes
    clock = clock_of(stages, rules.processing_us, idontwant=least if rules.idontwant else None)
    channel = messages.topic, messages.source
    published = TimedPublications.of(
        *(schedule.at_us, *channel, schedule.size), flood=rules.flood_publish
    )
    read = partial(_links, clock, topics, messages, np.arange(len(messages.topic)))
    announced = (schedule.size >= least) & rules.idontwant
    write = partial(_write, Copies(topics, messages, 0), schedule.at_us, announced)
    played = partial(play_clock, clock, published, read, write, kept=tuple(_KEPT.values()))
    play_on_spark(tables, played, "GossipSub PUBLISH with bandwidth")
    return publish_lazily(play, topics, messages)
