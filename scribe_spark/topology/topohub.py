"""Real networks from the package topohub.

References
----------
Jurkiewicz, "TopoHub: a repository of reference Gabriel graph and real-world topologies for
networking research", SoftwareX 24, 2023.
"""

from __future__ import annotations

import difflib
from importlib import resources
from importlib.resources.abc import Traversable

import numpy as np
import pandas as pd

from scribe_spark.core.errors import InputError, listed
from scribe_spark.topology.graph import Graph, TopologyKind, router_frame
from scribe_spark.topology.links import FIELD, graph_of_links

#: Light in fibre: 5 microseconds per kilometre.
KM_PER_MS = 200.0


def topohub_network(name: str) -> Graph:
    """Return a network of the topohub package, for example ``sndlib/germany50``.

    topohub gives the length of a link in kilometres; its delay is the time of light in fibre, 200
    km per ms.  ``x`` and ``y`` are longitude and latitude in degrees.
    """
    source = f"topohub:{name}"
    try:
        import topohub
    except ImportError:
        remedy = "needs the topohub package: pip install 'scribe_spark[topohub]'"
        raise InputError(FIELD, source, remedy) from None
    names = _names(resources.files(topohub) / "data")
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        remedy = f"is unknown to topohub; it has {listed(near or names)}"
        raise InputError(FIELD, source, remedy)
    network = topohub.get(name)
    ids = [int(node["id"]) for node in network["nodes"]]
    x, y = np.array([node["pos"] for node in network["nodes"]], dtype=np.float64).T
    links = [(int(e["source"]), int(e["target"]), e["dist"]) for e in network["edges"]]
    edges = pd.DataFrame(links, columns=["src", "dst", "delay_ms"])
    edges = edges.astype({"src": "int64", "dst": "int64", "delay_ms": "float64"})
    edges["delay_ms"] /= KM_PER_MS
    return graph_of_links(router_frame(ids, x=x, y=y), edges, source)


def _names(folder: Traversable, prefix: str = "") -> list[str]:
    """Return the names (``sndlib/germany50``) of all networks in a folder of topohub's data."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            found.append(prefix + entry.name.removesuffix(".json"))
    return sorted(found)


KIND = TopologyKind("topohub", lambda name, config, seed: topohub_network(name), argument="NAME")
