"""CAN multicast: a CAN for each group, flooded from the group's source.

References
----------
JSAC 2002, Section V; NGC 2001, Section 4; docs/rules.md, C1 to C16.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.can.cans import Placement, zones_of_groups
from scribe_spark.can.flooding import goes_on
from scribe_spark.can.joining import CONTROL as TAKEN
from scribe_spark.can.joining import KINDS, NEIGHBOURS, JoinAndFlood, Joining, start_buckets
from scribe_spark.can.points import Landmarks
from scribe_spark.can.space import Space
from scribe_spark.can.with_bandwidth import flood_with_bandwidth
from scribe_spark.can.zones import KnowsZones, SharedZones
from scribe_spark.config.can import CanConfig
from scribe_spark.core.arrays import find_sorted
from scribe_spark.dissemination import Dissemination, read_copies, read_deliveries
from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import read_typed
from scribe_spark.engine.exchange import add_rows, gather
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate
from scribe_spark.multicast import CONTROL, STATE, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.underlay.protocol import Kernel, Underlay

__all__ = ["SYSTEM", "multicast", "placement_of"]

SYSTEM = "can"

_ROWS_AT_ONCE = 2**17


def placement_of(config: CanConfig, seed: int, routers: int) -> Placement:
    """Return how nodes get their points, in a network of so many routers.

    Raises
    ------
    InputError
        There are fewer routers than landmarks.
    """
    landmarks = None
    if config.landmarks:
        config.refuse_routers(routers)
        landmarks = Landmarks.drawn(seed, config.landmarks, routers)
    return Placement(Space(config.dimensions, config.halvings), seed, landmarks)


def multicast(stages: Any) -> Multicast:
    """Build the CANs of all groups, and flood each from its source.

    Parameters
    ----------
    stages : Simulation
        See `systems.System`.

    Raises
    ------
    InputError
        Fewer routers than landmarks; a zone that cannot be halved any more.
    """
    config, ring, underlay = stages.config, stages.overlay.ring, stages.underlay
    groups = stages.multicast_groups.select("group", "key_hi", "source")
    listed = groups.toArrow().sort_by("group")
    number, source = (listed.column(name).to_numpy() for name in ("group", "source"))
    key = listed.column("key_hi").to_numpy().view(np.uint64)
    source = ring.facts.positions(source)

    # 1. who has which zone
    placement = placement_of(config.can, config.seed, len(underlay.routers))
    members = Batches.of(stages.memberships, ["group", "node"]).frame.select("group", "node")
    rows = members.toArrow()
    of_group = rows.column("group").to_numpy()
    index = find_sorted(number, of_group)
    there = index >= 0  # groups that have a source
    member = ring.facts.positions(rows.column("node").to_numpy()[there])
    zones = zones_of_groups(
        placement, ring.facts.ring, underlay.kernel, number, source, index[there], member
    )
    known = stages.own(SharedZones.distribute(stages.spark, zones))

    # 2. what nodes know of each other, the messages by which they join, and the floods
    point = (key >> np.uint64(64 - placement.space.bits)).astype(np.int64)
    join = Joining(ring.bounds, known, point, source, config.can.flooding)
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
        flood_with_bandwidth(stages, tables, source, flood.processing_us)
    return Multicast(
        SYSTEM,
        None,
        read_deliveries(tables, flood, number),
        copies=read_copies(tables, flood, number),
        state=_state(tables, known, ring.facts, number),
        control=_control(tables, len(counts), ring.facts, underlay, number),
    )


def _state(tables: BucketTables, known: KnowsZones, facts: Facts, number: np.ndarray) -> Batches:
    """`multicast.STATE`: how many neighbours each node has, in groups' CANs and in that of all."""

    def rows(bucket: int, table: Columns) -> Iterator[pa.RecordBatch]:
        zones = known.zones
        zone, entries = np.unique(table["zone"], return_counts=True)
        can = zones.can[zone]
        group = pa.array(np.append(number, 0)[can], mask=can == len(number))
        kind = pa.repeat(pa.scalar("neighbours"), len(zone))
        columns = [group, pa.array(facts.ring.node[zones.node[zone]]), kind, pa.array(entries)]
        yield pa.RecordBatch.from_arrays(columns, names=_names(STATE))

    return read_typed(tables.rows(NEIGHBOURS), rows, STATE)


def _control(
    tables: BucketTables, supersteps: int, facts: Facts, underlay: Underlay, number: np.ndarray
) -> Batches:
    """`multicast.CONTROL`: CONTACT and JOIN messages that were taken."""
    kernel = underlay.kernel

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, found in gather(batches):
            every = concatenate(found.values())
            added = add_rows("messages", every, "kind", "group", "sender", "receiver")
            yield from _control_rows(facts, kernel, number, added)

    names = [f"{TAKEN} {superstep}" for superstep in range(supersteps)]
    return Batches.made(tables.rows(*names), run, CONTROL)


def _control_rows(
    facts: Facts, kernel: Kernel, number: np.ndarray, messages: Columns
) -> Iterator[pa.RecordBatch]:
    """Yield typed rows of messages between positions."""
    ring = facts.ring
    for start in range(0, len(messages["group"]), _ROWS_AT_ONCE):
        some = {name: column[start : start + _ROWS_AT_ONCE] for name, column in messages.items()}
        ends = some["sender"], some["receiver"]
        kind = pa.DictionaryArray.from_arrays(some["kind"].astype(np.int8), list(KINDS))
        columns = [pa.array(number[some["group"]])]
        columns += [pa.array(ring.node[end]) for end in ends]
        columns += [pa.array(kernel.ids(ring.router[end])) for end in ends]
        columns += [kind.cast(pa.string()), pa.array(some["messages"])]
        yield pa.RecordBatch.from_arrays(columns, names=_names(CONTROL))


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]
