"""Publications with the clock with bandwidth, instead of `publication.Spread`.

Rules: docs/rules.md, W1 to W7.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from scribe_spark.bandwidth.runs import Clock, play_clock
from scribe_spark.bandwidth.setting import ROOMS, TimedPublications, mesh_links
from scribe_spark.bandwidth.windows import ARRIVALS as FIRST_COPIES
from scribe_spark.bandwidth.windows import COPIES as ALL_COPIES
from scribe_spark.core.arrays import distinct, find_sorted, read_table
from scribe_spark.core.keys import key_of
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Inbox, Tables
from scribe_spark.gossipsub.mesh import CONNECTIONS, MESH, Topics
from scribe_spark.gossipsub.publication import (
    ARRIVALS,
    COPIES,
    FANOUT,
    Arrivals,
    Copies,
    Messages,
)
from scribe_spark.gossipsub.router import Links
from scribe_spark.rounds.system import LivingRound, Publishing, SystemPlayer

#: The columns of `publication.COPIES` -> the columns of the clock's copies.
_KEPT = {
    "message": "publication",
    "node": "node",
    "sender": "sender",
    "sent": "sent_us",
    "hops": "hops",
    "first": "first",
}


def publish_with_bandwidth(
    player: SystemPlayer, copies: Copies, new: np.ndarray, now: LivingRound
) -> None:
    """Publish the new messages, which have sizes and times, in the heartbeat of a program."""
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
    published = TimedPublications.of(publish.at_us, topic, source, publish.size, flood=flood)
    read = partial(_links, clock, topics, messages, new)
    announced = (publish.size >= links.idontwant) & rules.idontwant
    write = partial(_write, copies, new, publish, announced)
    played = partial(play_clock, clock, published, read, write, kept=tuple(_KEPT.values()))
    player.keep(played, "clock with bandwidth")


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


def _write(
    copies: Copies, new: np.ndarray, publish: Publishing, announced: np.ndarray, tables: Tables
) -> None:
    """Add the clock's results to the tables of `publication`; the dead receive no copies.

    Times count from the publications.
    """
    topics, heartbeat = copies.topics, copies.heartbeat
    came, sent = tables.pop(FIRST_COPIES), tables.pop(ALL_COPIES)
    if not topics.all_live:
        came = take(came, topics.is_alive(came["node"]))
    of, hops = came["publication"], came["hops"]
    key = key_of([new[of], came["node"]], topics.space.size)
    arrivals = read_table(Arrivals, tables, ARRIVALS)
    first = {"at": came["at_us"] - publish.at_us[of], "hops": hops, "sender": came["sender"]}
    arrivals.insert(key, **first, heartbeat=heartbeat, way=0)
    tables[ARRIVALS] = arrivals.to_columns()
    if announced.any():
        told = key[(hops > 0) & announced[of]]
        copies.note_idontwant(arrivals, arrivals.find(told), tables)
    kept = {name: sent[ours] for name, ours in _KEPT.items()}
    of, lost = kept["message"], ~topics.is_alive(kept["node"])
    kept |= {"message": new[of], "sent": kept["sent"] - publish.at_us[of], "lost": lost}
    kept["first"] = kept["first"] & ~lost
    name = f"{COPIES} {heartbeat}"
    tables[name] = concatenate([tables[name], kept]) if name in tables else kept
