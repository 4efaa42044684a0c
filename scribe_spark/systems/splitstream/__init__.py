"""SplitStream: a channel's stripes go down trees of their own, whose inner nodes should differ.

See `protocol` for the messages, `policies` for what full nodes do, `spare` for the anycasts,
`routes` for where SUBSCRIBEs enter a channel.

References
----------
M. Castro et al.: SplitStream: high-bandwidth multicast in cooperative environments, SOSP 2003;
Scalable application-level anycast for highly dynamic groups, NGC 2003.  Their texts could not be
had: rules are recalled, or settled here.  Rules: docs/rules.md, L1 to L12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, Picture, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets

#: The measures of each round of a world -> their units.
MEASURES = {
    "interior.one": "share",
    "interior.nodes": "nodes",
    "open": "stripes",
    "orphans": "stripes",
    "anycasts": "stripes",
    "cycles": "stripes",
    "hops": "hops",
}


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.systems.splitstream.splitstream import SplitStream

    return SplitStream(config.splitstream.for_tasks(), config.overlay.b)


SPLITSTREAM = System(
    "splitstream",
    "SplitStream",
    TREE,
    requested=True,
    config="scribe_spark.systems.splitstream.config:SplitStreamConfig",
    control=True,
    over_pastry=True,
    world=_live,
    world_measures=MEASURES,
    picture=Picture(
        "children by stripe",
        lambda rank: f"stripe {-1 - rank}" if rank else "parents",
        "The node has a parent in each stripe, unless it is the stripe's root, and children in the "
        "stripes of which it is an inner node.",
        "stripe of this parent",
        "node of this picture",
    ),
)
