"""Bayeux of one oracle case: round 0 of a run, played by the engine in process."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import worlds
from oracle.bayeux.cases import BayeuxCase
from oracle.pastry import Overlay
from round_0 import Round0

from scribe_spark.engine.facts import bucket_bounds
from scribe_spark.pastry.states import CELLS
from scribe_spark.systems.bayeux.live import LiveBayeux


def run_of(
    one: BayeuxCase,
    buckets: int,
    publish: Sequence[tuple[int, int, int, int]] | None = None,
    **more: Any,
) -> Round0:
    """Return the run of a case; by default, each group's source publishes once, at time 0."""
    case, options, world = one.case, one.options, worlds.world(one.case)
    ring, bounds = world.ring, bucket_bounds(world.ring, buckets, case.b)
    if publish is None:
        publish = [(group, node, 0, 0) for group, (node, _) in sorted(one.sources.items())]
    system = LiveBayeux(
        options.hops, b=case.b, partitions=options.partitions, root_rule=options.root
    )
    given = {"kernel": world.kernel, "lan_us": worlds.LAN_US, "seed": case.seed}
    given["source"] = next((way for _, way in one.sources.values()), "root")
    given |= more.pop("given", {})
    known = known_of(world, one.overlay(), bounds)
    ring = replace(ring, node=ring.node - world.base)
    return Round0(system, ring, bounds, case.keys, case.joins(), publish, given, known, **more)


def known_of(world: worlds.World, overlay: Overlay, bounds: np.ndarray) -> list[dict]:
    """The tables of an oracle's overlay, whose leaf sets are right."""
    tables = world.make_tables(bounds)
    for first, known in zip(bounds[:-1].tolist(), tables, strict=True):
        cells = np.full_like(known[CELLS]["cells"], -1)
        known[CELLS] = {"cells": cells}
        for place in range(len(cells)):
            node = int(world.ring.node[first + place]) - world.base
            for (row, digit), entry in overlay.routing_table(node).items():
                at = world.ring.positions(np.array([entry + world.base]))[0]
                cells[place, row, digit] = at
    return tables
