"""The share of packets that are lost on routes, from the losses of links."""

from __future__ import annotations

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted


def route_losses(pred: np.ndarray, routers: np.ndarray, losses: pd.DataFrame) -> np.ndarray:
    """Return 1 - the product of (1 - loss) over the links of each route: float64, shape (R, R).

    `pred` has the predecessors of `RouteMatrices`; a link from a router to itself is between two of
    its nodes.

    Examples
    --------
    >>> lossy = pd.DataFrame({"src": [4, 5], "dst": [5, 6], "loss": [0.5, 0.5]})
    >>> pred = np.array([[-1, 0, 1], [1, -1, 1], [1, 2, -1]])
    >>> route_losses(pred, np.array([4, 5, 6]), lossy)[0].tolist()
    [0.0, 0.5, 0.75]
    """
    r = len(routers)
    passes = np.ones((r, r))
    ends = [index_sorted(routers, losses[end].to_numpy()) for end in ("src", "dst")]
    passes[ends[0], ends[1]] = 1 - losses["loss"].to_numpy(np.float64)
    source = np.repeat(np.arange(r), r)
    here = np.tile(np.arange(r), r)
    kept = passes.diagonal()[source] * (source == here) + (source != here)
    route = np.flatnonzero(source != here)
    while len(route):
        before = pred[source[route], here[route]].astype(np.int64)
        kept[route] *= passes[before, here[route]]
        here[route] = before
        route = route[before != source[route]]
    return (1 - kept).reshape(r, r)
