"""An internet-like router graph: preferential attachment, degrees by a power law.

References
----------
Barabasi and Albert, "Emergence of scaling in random networks", Science 286, 1999: a new router
links to routers in proportion to the links they have, and degrees fall off as k**-3.
Batagelj and Brandes, "Efficient generation of large random networks", Phys. Rev. E 71, 2005: a
random element of the list of all links' ends is such a router.
Sanders and Schulz, "Scalable generation of scale-free graphs", Inf. Proc. Letters 116, 2016: draws
that refer to other draws are resolved afterwards, all at once.
JSAC 2002, Section IV.A: "a realistic topology with 102,639 routers that was obtained from Internet
measurements".
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from scribe_spark.core import draws
from scribe_spark.topology.graph import Graph, TopologyKind, router_frame
from scribe_spark.topology.links import both_ways

#: The delay of every link; the distance D then counts hops.
HOP_MS = 1.0


def generate(routers: int, links: int, seed: int) -> Graph:
    """Return a connected graph that grows router by router; a new one has links to earlier ones.

    The undirected links, at least R - 1, are spread evenly over the routers that bring them.  Of
    several links between two routers one is kept, so there are a few fewer.  Routers ``0 .. R - 1``
    are in order of age; every link has weight 1 and delay :data:`HOP_MS`.
    """
    brought = np.diff(np.arange(routers) * links // max(1, routers - 1))
    newer = np.repeat(np.arange(1, routers), brought)
    # link i has ends 2 i (the newer router) and 2 i + 1, which is drawn from all ends of the links
    # that were there before the newer router
    before = 2 * np.repeat(np.cumsum(brought) - brought, brought)
    shares = draws.uniform(draws.stream(seed, "power law"), len(newer))
    drawn = (shares * before).astype(np.int64)
    end = drawn.copy()
    while (unknown := (end % 2 == 1) & (before > 0)).any():  # it refers to a drawn end: follow it
        at = end[unknown] // 2
        end[unknown] = np.where(before[at] > 0, drawn[at], _OLDEST)
    older = np.where((before > 0) & (end != _OLDEST), newer[end // 2], 0)
    edges = pd.DataFrame({"src": newer, "dst": older, "delay_ms": HOP_MS, "weight": 1.0})
    return Graph(router_frame(np.arange(routers)), both_ways(edges), "power-law")


_OLDEST = -2  # even, as an end that is known: router 0, the first link's older end


KIND = TopologyKind(
    "power-law",
    lambda _, config, seed: generate(config.power_law_routers, config.power_law_links, seed),
)
