"""Overcast: a tree of each group by bandwidth, with a root that knows the whole tree.

Messages between members, and the rules that send and handle them:

=========  ==================================================  =============================
message    sent by                                             rule
=========  ==================================================  =============================
probe      a member, to a node that may become its parent      `tree.Round.decide`
adopt      a member, to the chosen parent                      `tree.Round.ask`
check-in   a member, to its parent, with its new certificates  `tree.Round.check_in`
=========  ==================================================  =============================

References
----------
Jannotti et al., OSDI 2000; docs/rules.md, "Overcast".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, Picture, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets

#: The bandwidth that decides: a link's rate divided by the flows on it, or the rate alone.
SHARED, BOTTLENECK = "shared", "bottleneck"

#: The greatest number of members of a group.
MOST_MEMBERS = 5_000


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.systems.overcast.overlay import Overcast

    return Overcast(config.overcast.for_tasks())


def _round_seconds(config: Any) -> float:
    return config.overcast.round_seconds


_FRACTION = "fraction of the possible"

OVERCAST = System(
    "overcast",
    "Overcast",
    TREE,
    requested=True,
    config="scribe_spark.systems.overcast.config:OvercastConfig",
    control=True,
    world=_live,
    round_seconds=_round_seconds,
    world_measures={
        "shared": _FRACTION,
        "shared.mean": _FRACTION,
        "bottleneck": _FRACTION,
        "bottleneck.mean": _FRACTION,
        "load": "packets per packet of IP multicast",
        "flows": "copies per link",
        "flows.max": "copies, mean over groups",
        "depth.max": "edges, mean over groups",
        "table.faults": "nodes per member",
        "moves": "members",
        "certificates": "certificates",
    },
    picture=Picture(
        "edges by bandwidth",
        lambda rank: f"from {float(f'{10 ** (-rank / 2 - 6):.1g}'):g} Mbit/s",
        "An edge leads from a parent to a child; copies on a link share the link's rate. The "
        "number at a node is the least bandwidth on the way from the root.",
        "Mbit/s from the root",
    ),
)
