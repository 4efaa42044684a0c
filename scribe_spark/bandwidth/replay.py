"""Replay of multicasts by the clock, along edges that do not depend on times.

If a system returns the edges of its trees, the clock plays the same edges again with sizes and
rates, and computes the deliveries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.runs import Clock, clock_of, play_clock, play_on_spark
from scribe_spark.bandwidth.setting import ROOMS, Parts, TimedPublications, mesh_links
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES
from scribe_spark.core.arrays import find_sorted, index_sorted, rank_in_group, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.losses import (
    Jitter,
    Late,
    Losses,
    Lost,
    jitter_keys,
    publication_keys,
)
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT, Inbox, Tables
from scribe_spark.engine.views import Names, read_view
from scribe_spark.multicast import COPIES as COPY_ROWS
from scribe_spark.multicast import DELIVERIES, PAYLOAD, PUBLICATION, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.sessions import local_frame

#: ``ways(groups, sources)`` returns the hops and the delays of routes from sources to roots.
Ways = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

# kinds of messages; members are a table, too
_EDGE, _WAY, _MEMBER = "edge", "way to the root", "member"

#: The tables of a bucket's deliveries, and of its copies.
_DELIVERED, _SENT = "delivered", "sent"


def replayed(
    stages: Any,
    made: Multicast,
    ways: Ways | None = None,
) -> Multicast:
    """Return a multicast along trees, with the deliveries that the clock with bandwidth computes.

    `made` is the multicast without bandwidth.  A source that is not the root sends its message to
    the root first: in one hop, or by `ways`, a function that returns the hops and delays of ways.
    """
    scheduled = stages.schedule is not None
    tables = cache(partial(_play, stages, made, ways))
    more = f", {PUBLICATION}" if scheduled else ""

    def view(name: str, schema: str, rows: Callable[[Columns], dict[str, Any]] = dict) -> Batches:
        ring, underlay = stages.overlay.ring, stages.underlay
        names = Names(ring.facts, underlay.kernel, np.unique(stages.publications.group))
        return read_view(tables().batches(name), names, schema + more, rows)

    def copies(some: Columns) -> dict[str, Any]:
        return {**some, "receiver": some["node"], "hop": some["hops"], "kind": PAYLOAD}

    made = replace(made, delivered=lambda: view(_DELIVERED, DELIVERIES))
    if not scheduled:
        return made
    return replace(made, copies=lambda: view(_SENT, COPY_ROWS, copies), scheduled=True)


def _play(stages: Any, made: Multicast, ways: Ways | None) -> BucketTables:
    """Play a multicast along trees by the clock; return the tables of buckets with the results."""
    clock = clock_of(stages, held_back=False, spares=False, seed=None)
    ring, facts, scheduled = (
        stages.overlay.ring,
        stages.overlay.ring.facts,
        stages.schedule is not None,
    )

    schedule = stages.publications
    group, topic_of = np.unique(schedule.group, return_inverse=True)
    listed = stages.source_rows.sort_by("group")
    every, roots = (listed.column(name).to_numpy() for name in ("group", "root"))
    roots = roots[index_sorted(every, group)]
    root = facts.positions(roots)
    source = facts.positions(schedule.source)
    relayed = root[topic_of] != source
    more_hops = np.zeros(len(schedule), dtype=np.int64)  # of routed ways to roots, beyond one
    at_us, size = schedule.at_us, schedule.size
    published = TimedPublications.of(at_us, topic_of, source, size, relayed)
    assert made.edges is not None
    edges = Batches.of(made.edges, ["group", "parent", "child"])
    sent = [ring.messages(edges, _EDGE, "parent", _edge, group)]
    if relayed.any():
        # the ways from sources to roots, each once
        ends = np.column_stack([topic_of[relayed], schedule.source[relayed]])
        ends, way = np.unique(ends, axis=0, return_inverse=True)
        topic, node = ends.T
        hops, delay_us = np.ones_like(topic), np.zeros_like(topic)
        if ways is not None:
            hops, delay_us = ways(group[topic], node)
        more_hops[relayed] = hops[way.ravel()] - 1
        rows = {"topic": topic, "source": node, "root": roots[topic], "delay_us": delay_us}
        frame = local_frame(stages.spark, pa.table(rows))
        sent.append(ring.messages(frame, _WAY, "source", _way))
    members = Batches.of(stages.memberships, ["group", "node"])
    sent.append(ring.messages(members, _MEMBER, "node", groups=group))
    tables = stages.own(BucketTables(ring.layout, union_tables(sent)))
    read = partial(_links_of_trees, clock)
    of_topics = more_hops, root, len(ring)
    write = partial(_write, published, *of_topics, scheduled, clock.links.parts)
    kept = ("room", *_COPY_COLUMNS) if scheduled else ()
    lost = _lost_copies(facts, clock, stages.config.seed, schedule.group, source)
    late = _late_copies(facts, clock, stages.config.seed, schedule.group)
    played = partial(play_clock, clock, published, read, write, kept=kept, lost=lost, late=late)
    play_on_spark(tables, played, f"{made.system} with bandwidth")
    return tables


def _lost_copies(
    facts: Facts, clock: Clock, seed: int, group: np.ndarray, source: np.ndarray
) -> Lost | None:
    """Return the losses of copies, or None; the rank of a publication in its group keys draws."""
    losses = Losses.of(facts, clock.kernel)
    if losses is None:
        return None
    return losses.of_publications(publication_keys(seed, group, rank_in_group(group)), source)


def _late_copies(facts: Facts, clock: Clock, seed: int, group: np.ndarray) -> Late | None:
    """Return the jitter of copies, or None; the rank of a publication in its group keys draws."""
    jitter = Jitter.of(facts, clock.kernel)
    if jitter is None:
        return None
    return jitter.of_publications(jitter_keys(seed, group, rank_in_group(group)))


def _links_of_trees(clock: Clock, tables: Tables, inbox: Inbox) -> Columns:
    """Return the links of trees and of ways to roots, from messages; also store the members."""

    def links(edges: Columns, relayed: int) -> dict[str, np.ndarray]:
        node, peer, room = edges[AT], edges["peer"], edges["group"] * ROOMS
        delay_us = clock.delay(node, peer)
        if "delay_us" in edges:
            delay_us = np.where(edges["delay_us"] > 0, edges["delay_us"], delay_us)
        return mesh_links(room + relayed, node, room, peer, delay_us, peer)

    nothing = {name: whole_numbers() for name in (AT, "peer", "group")}
    tables[_MEMBER] = dict(inbox.get(_MEMBER, nothing))
    kinds = (_EDGE, 0), (_WAY, 1)
    parts = [links(inbox[kind], relayed) for kind, relayed in kinds if kind in inbox]
    return concatenate(parts) if parts else links(nothing, 0)


def _write(
    published: TimedPublications,
    more_hops: np.ndarray,
    root: np.ndarray,
    size: int,
    keeps_copies: bool,
    parts: Parts,
    tables: Tables,
) -> None:
    """Write the tables of deliveries to members and, with `keeps_copies`, of copies along trees."""
    came, members = tables.pop(ARRIVALS), tables.pop(_MEMBER)
    wanted = np.sort(key_of([members["group"], members[AT]], size))
    p, topic = came["publication"], came["room"] // ROOMS
    kept = (came["room"] % ROOMS == 0) & (came["node"] != published.source[p])
    kept &= find_sorted(wanted, key_of([topic, came["node"]], size)) >= 0
    delivered = {name: came[name] for name in ("node", "hops", "publication")}
    delivered |= {"group": topic, "delay_us": came["at_us"] - published.at_us[p]}
    delivered["hops"] = came["hops"] + more_hops[p]
    tables[_DELIVERED] = parts.complete(take(delivered, kept), size)
    if keeps_copies:
        copies = tables.pop(COPIES)
        p, topic = copies["publication"], copies["room"] // ROOMS
        # the copy from a source to the root is not a result
        kept = ~published.relayed[p] | (copies["node"] != root[topic])
        sent = {"group": topic, **{name: copies[name] for name in _COPY_COLUMNS}}
        sent["hops"] = copies["hops"] + more_hops[p]
        tables[_SENT] = take(sent, kept)


_COPY_COLUMNS = ("publication", "node", "sender", "sent_us", "hops", "first")


def _edge(facts: Facts, batch: pa.RecordBatch) -> Columns:
    return {"peer": facts.positions(batch.column("child").to_numpy())}


_OF_WAYS = {"group": "topic", "delay_us": "delay_us"}


def _way(facts: Facts, batch: pa.RecordBatch) -> Columns:
    peer = facts.positions(batch.column("root").to_numpy())
    return {"peer": peer, **{n: batch.column(of).to_numpy() for n, of in _OF_WAYS.items()}}
