"""A fixed piece of work, timed: figures of different machines and hours are compared by it.

A calibration is SciPy's `dijkstra` with predecessors, by weight, from all 5,050 routers of the
paper's network (seed 1), in one thread.
"""

import time

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from scribe_spark.config import RunConfig
from scribe_spark.topology.registry import load


def calibrate() -> float:
    """Seconds of one calibration, drawing the network not included."""
    graph = load(RunConfig(seed=1))
    routers = graph.vertices["id"].to_numpy()
    src, dst = (np.searchsorted(routers, graph.edges[end].to_numpy()) for end in ("src", "dst"))
    shape = (len(routers), len(routers))
    links = csr_array((graph.edges["weight"].to_numpy(), (src, dst)), shape=shape)
    started = time.perf_counter()
    dijkstra(links, directed=True, return_predecessors=True)
    return time.perf_counter() - started
