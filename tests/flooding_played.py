"""Flooding over Pastry of one oracle case, played in process as round 0 of a run."""

import bayeux_played
import worlds
from oracle.flooding.flood import FloodingCase
from poisoned import PoisonedTask
from round_0 import Round0

from scribe_spark.engine.facts import bucket_bounds
from scribe_spark.systems.flooding.flood import FloodedOverlay, LiveFlooding


def flood(case: FloodingCase, buckets: int) -> Round0:
    """Every group's source floods the group's ring, or the overlay; nodes have `base` added."""
    one = worlds.world(case.case)
    bounds = bucket_bounds(one.ring, buckets, one.case.b)
    joins = [(group, node + one.base) for group, node in case.case.joins()]
    publish = [(group, node + one.base, 0, 0) for group, node in sorted(case.sources.items())]
    given = {"seed": 1, "kernel": one.kernel, "lan_us": worlds.LAN_US, "source": "source"}
    system, known = LiveFlooding(one.case.b, one.case.leaf_set_size), None
    if case.over == "overlay":
        known = bayeux_played.known_of(one, case.overlay(), bounds)
        system = FloodedOverlay()
    of_case = one.case.keys, joins, publish, given
    return Round0(system, one.ring, bounds, *of_case, known, PoisonedTask)
