"""The router graph: a plain record on the driver.

Generators and readers make a :class:`Graph`, :mod:`.checks` checks it, and :mod:`.frames` gives
its DataFrames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.topology.hosts import NO_HOSTS, Hosts

#: The resolution of delays is a microsecond, so that integer sums are exact in any order.
DELAY_DECIMALS = 3
#: The resolution of weights is a millionth, for the same reason.
WEIGHT_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class Graph:
    """A router graph on the driver; its size depends on the number of routers R, not on the nodes
    N.

    Attributes
    ----------
    vertices : pandas.DataFrame, shape (R, 5)
        ``id`` (int64), ``kind`` (``transit``, ``stub`` or None), ``domain`` (Int64, NA if unknown),
        ``x``, ``y`` (float64, NaN if unknown), ascending by id.
    edges : pandas.DataFrame, shape (links, 4)
        ``src``, ``dst`` (int64), ``delay_ms`` (float64, milliseconds, whole microseconds),
        ``weight`` (float64, for the choice of routes), one row per direction, ascending by (src,
        dst).
    source : str
        The origin of the graph, for messages.
    hosts : Hosts
        Shares, rates and regions of the nodes at the routers.
    losses : DataFrame or None
        ``src, dst, loss``: the share of packets that a link loses and, from a router to itself,
        that is lost between two of its nodes; None if no packets are lost.
    notes : tuple of str
        Lines about assumptions that were made, for the user.
    """

    vertices: pd.DataFrame
    edges: pd.DataFrame
    source: str = "graph"
    hosts: Hosts = NO_HOSTS
    losses: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()


def router_frame(ids: Any, kind: Any = None, domain: Any = None, x: Any = np.nan, y: Any = np.nan):
    """Return the ``vertices`` of a :class:`Graph` in their types, ascending by id."""
    frame = pd.DataFrame({"id": ids, "kind": kind, "domain": domain, "x": x, "y": y})
    frame = frame.astype({"domain": "Int64", "kind": object, "x": "float64", "y": "float64"})
    return frame.sort_values("id", kind="stable", ignore_index=True)
