"""Replay of multicasts by the clock, along edges that do not depend on times.

If a system returns the edges of its trees, the clock plays the same edges again with sizes and
rates, and computes the deliveries: each publication goes along the same copies, from its source or
from the root of its group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun, time_round
from scribe_spark.bandwidth.runs import Change, RoundLinks, links_of, play_on_spark, player_of
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
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.program import AT, Inbox, Tables
from scribe_spark.engine.views import Names, read_view
from scribe_spark.multicast import COPIES as COPY_ROWS
from scribe_spark.multicast import DELIVERIES, PAYLOAD, PUBLICATION, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.underlay.protocol import Kernel, node_delays

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
    tables = cache(partial(_play, stages, made, ways))
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


def _play(stages: Any, made: Multicast, ways: Ways | None) -> BucketTables:
    """Play a multicast along trees by the clock; return the tables of buckets with the results."""
    ring, underlay, schedule = stages.overlay.ring, stages.underlay, stages.publications
    stages.note_clock(player_of(ring.layout))
    group, of = np.unique(schedule.group, return_inverse=True)
    listed = stages.source_rows.sort_by("group")
    every, roots = (listed.column(name).to_numpy() for name in ("group", "root"))
    ends = schedule.source, roots[index_sorted(every, group)][of]
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
    of_draws = _of_draws(ring.facts, underlay.kernel, stages.config.seed, schedule.group, source)
    keeps = stages.schedule is not None
    played = partial(_play_trees, links_of(stages), network, begun, *of_draws, keeps)
    play_on_spark(tables, played, f"{made.system} with bandwidth")
    return tables


def _of_draws(
    facts: Facts, kernel: Kernel, seed: int, group: np.ndarray, source: np.ndarray
) -> tuple[Lost | None, Late | None]:
    """Return losses and jitter of copies; a publication's rank in its group keys draws."""
    losses, jitter, rank = Losses.of(facts, kernel), Jitter.of(facts, kernel), rank_in_group(group)
    return (
        losses and losses.of_publications(publication_keys(seed, group, rank), source),
        jitter and jitter.of_publications(jitter_keys(seed, group, rank)),
    )


def _play_trees(
    links: RoundLinks,
    network: tuple[Facts, np.ndarray, Kernel],
    begun: Begun,
    lost: Lost | None,
    late: Late | None,
    keeps: bool,
    player: PlaysPrograms,
) -> None:
    facts, bounds, _ = network
    player.play(Change(bounds, _store))
    tables, clock = (_SENT, _DELIVERED), (False, True, late, lost, keeps)
    time_round(player, links, *network, begun, tables, *clock)
    write = partial(_write, begun, len(facts.ring), links)
    player.play(Change(bounds, write))


def _store(tables: Tables, inbox: Inbox) -> None:
    """Store messages as the members, and as the copies along which all publications go."""
    none = whole_numbers()
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
    kept = find_sorted(wanted, key_of([came["group"], came["node"]], size)) >= 0
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
