"""CAN multicast: one CAN for each group, flooded from the group's source.

References
----------
JSAC 2002, Section V; NGC 2001, Section 4; docs/rules.md, C1 to C16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scribe_spark.can.cans import Placement, zones_of_groups
from scribe_spark.can.flooding import goes_on
from scribe_spark.can.joining import CONTROL as TAKEN
from scribe_spark.can.joining import KINDS, NEIGHBOURS, JoinAndFlood, Joining, start_buckets
from scribe_spark.can.points import Landmarks
from scribe_spark.can.space import Space
from scribe_spark.can.with_bandwidth import flood_with_bandwidth
from scribe_spark.can.zones import KnowsZones, SharedZones
from scribe_spark.config.can import CanConfig
from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.dissemination import Dissemination, read_copies, read_deliveries
from scribe_spark.engine import Columns
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.views import Names, view_together
from scribe_spark.multicast import CONTROL, STATE, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.schemas import MICROSECONDS

SYSTEM = "can"


def placement_of(config: CanConfig, seed: int, routers: int) -> Placement:
    """Return the rule that gives nodes their points; refuse fewer routers than landmarks."""
    landmarks = None
    if config.landmarks:
        config.refuse_routers(routers)
        landmarks = Landmarks.drawn(seed, config.landmarks, routers)
    return Placement(Space(config.dimensions, config.halvings), seed, landmarks)


def multicast(stages: Any) -> Multicast:
    """Build the CANs of all groups, and flood each from its source; see `systems.System`."""
    config, ring, underlay = stages.config, stages.overlay.ring, stages.underlay
    listed = stages.multicast_groups.select("group", "key_hi").toArrow().sort_by("group")
    number = listed.column("group").to_numpy()
    key = listed.column("key_hi").to_numpy().view(np.uint64)
    channels = stages.publications.by_source()
    of_channel = np.searchsorted(number, channels.group)
    sources = ring.facts.positions(channels.source)
    first_of_group = np.searchsorted(of_channel, np.arange(len(number)))
    source = sources[first_of_group]

    # 1. assign zones to nodes
    placement = placement_of(config.can, config.seed, len(underlay.routers))
    members = Batches.of(stages.memberships, ["group", "node"]).frame.select("group", "node")
    rows = members.toArrow()
    of_group = rows.column("group").to_numpy()
    index = find_sorted(number, of_group)
    there = index >= 0  # keep groups with a source
    member = ring.facts.positions(rows.column("node").to_numpy()[there])
    index, member = with_others(index[there], member, of_channel, sources, len(ring))
    zones = zones_of_groups(
        placement, ring.facts.ring, underlay.kernel, number, source, index, member
    )
    known = stages.own(SharedZones.distribute(stages.spark, zones))

    # 2. find neighbours, send the messages of joining, and flood
    point = (key >> np.uint64(64 - placement.space.bits)).astype(np.int64)
    floods = of_channel, sources
    join = Joining(ring.bounds, known, point, source, config.can.flooding, *floods)
    flood = Dissemination(
        *(ring.bounds, ring.facts, underlay.kernel, underlay.lan_us),
        rule=goes_on,
        carried=("face",),
        clock=config.can.clock,
        processing_us=round(config.can.processing_ms * MICROSECONDS),
    )
    tables = stages.own(BucketTables(ring.layout, start_buckets(ring)))
    with_bandwidth = config.bandwidth.on
    program = join if with_bandwidth else JoinAndFlood(join, flood)
    counts = tables.play(program, "CAN", stages.progress)
    if with_bandwidth:
        flood_with_bandwidth(stages, tables, channels, sources, flood.processing_us)
    names, scheduled = Names(ring.facts, underlay.kernel, number), stages.schedule is not None
    return Multicast(
        SYSTEM,
        None,
        read_deliveries(tables, flood, channels.group, scheduled),
        copies=read_copies(tables, flood, channels.group, scheduled),
        state=_state(tables, known, names),
        control=_control(tables, len(counts), names),
        scheduled=scheduled,
    )


def with_others(
    group: np.ndarray, member: np.ndarray, of: np.ndarray, source: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Add the sources that are not members to the members of groups."""
    pair = of * size + source
    new = pair[find_sorted(np.sort(group * size + member), pair) < 0]
    return np.concatenate([group, new // size]), np.concatenate([member, new % size])


def _state(tables: BucketTables, known: KnowsZones, names: Names) -> Batches:
    """Return the number of neighbours of each node, in all CANs: `multicast.STATE`."""

    def rows(bucket: int, tables: Mapping[str, Columns]) -> Iterator[dict[str, Any]]:
        zones = known.zones
        zone, entries = np.unique(tables[NEIGHBOURS]["zone"], return_counts=True)
        group, node = zones.can[zone], zones.node[zone]
        group = np.where(group == len(names.groups), NONE, group)
        yield {"group": group, "node": node, "kind": "neighbours", "entries": entries}

    return view_together(tables.rows(NEIGHBOURS), names, STATE, rows)


def _control(tables: BucketTables, supersteps: int, names: Names) -> Batches:
    """Return the CONTACT and JOIN messages that were received: `multicast.CONTROL`."""

    def rows(bucket: int, tables: Mapping[str, Columns]) -> Iterator[dict[str, Any]]:
        every = concatenate(tables.values())
        added = add_rows("messages", every, "kind", "group", "sender", "receiver")
        yield {**added, "kind": np.array(KINDS)[added["kind"]]}

    taken = [f"{TAKEN} {superstep}" for superstep in range(supersteps)]
    return view_together(tables.rows(*taken), names, CONTROL, rows)
