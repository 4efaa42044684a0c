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
J. Jannotti, D. Gifford, K. Johnson, M. F. Kaashoek, J. O'Toole: Overcast: reliable multicasting
with an overlay network, OSDI 2000.  Its text could not be had: rules and values are recalled.
Rules: docs/rules.md, E1 to E14.
"""

from __future__ import annotations

from scribe_spark.rounds.declaration import GROWN_MEASURES, TREE, Picture, System, function_at

#: The bandwidth that decides: a link's rate divided by the flows on it, or the rate alone.
SHARED, BOTTLENECK = "shared", "bottleneck"

#: The greatest number of members of a group, and why there may be no more.
LIMIT = 5_000, "trees are deep, and nodes know all nodes below them"

#: The greatest bandwidth of a class in pictures, in bit/s: nodes of one router have more.
GREATEST = 1e11


def _class_of_bandwidth(rank: int) -> str:
    """Return the name of the edges of a rank: a class of bandwidths, two per power of ten."""
    least = 10 ** (-rank // 2 - 6) * (3 if rank % 2 else 1)
    return "same router" if least * 1e6 >= GREATEST else f"from {least:g} Mbit/s"


_OVERCAST = function_at("scribe_spark.systems.overcast.overlay:Overcast")
_FRACTION = "fraction of the possible"

OVERCAST = System(
    "overcast",
    "Overcast",
    TREE,
    requested=True,
    config="scribe_spark.systems.overcast.config:OvercastConfig",
    control=True,
    world=lambda config: _OVERCAST(config.overcast.for_tasks()),
    round_seconds=lambda config: config.overcast.round_seconds,
    world_measures={
        **GROWN_MEASURES,
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
        "certificates.news": "certificates",
    },
    picture=Picture(
        "edges by bandwidth",
        _class_of_bandwidth,
        "An edge leads from a parent to a child; copies on a link share the link's rate. Members "
        "look for bandwidth, not for near parents, so edges are long and the tree is deep.",
        "Mbit/s from the root",
    ),
)
