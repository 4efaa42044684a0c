"""Regions as routers: each pair of regions is a link with the latency of a matrix.

All links have the same weight, so a route is the one link between two regions, even if a detour
would take less time.  The diagonal of the matrix is the delay between two nodes of one region.
With jitter, a region is several routers (sites), and each pair of sites has an additional random
delay.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from scribe_spark import draws
from scribe_spark.config import TopologyConfig
from scribe_spark.core.units import parse_time
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.topology.graph import Graph, router_frame
from scribe_spark.topology.hosts import Hosts
from scribe_spark.topology.kind import TopologyKind
from scribe_spark.topology.region_matrix import RegionMatrix, read_matrix

#: With jitter: the greatest number of sites of a region, and of all regions; each pair of sites is
#: a link.
_SITES = 16
_ALL_SITES = 512

#: With shorter delays, the simulation of sizes needs very many steps.
_SHORT_US = 500


def region_network(config: TopologyConfig, seed: int) -> Graph:
    """Return the network of a config with regions."""
    assert config.regions is not None  # the config has checked this
    matrix = read_matrix(config.regions, config.region_latency, config.region_shares)
    jitter_us = 0 if config.region_jitter is None else parse_time(config.region_jitter)
    lan_us = round(config.lan_delay_ms * MICROSECONDS)
    return graph_of_regions(matrix, jitter_us, lan_us, seed, config.regions)


def used_settings(config: TopologyConfig) -> dict[str, str]:
    """Return the settings that the matrix of a config decides, by flat name."""
    if config.regions is None:
        return {}
    return {"region_latency": read_matrix(config.regions, config.region_latency).latency}


def graph_of_regions(
    matrix: RegionMatrix, jitter_us: int, lan_us: int, seed: int, source: str
) -> Graph:
    """Return the network of a matrix.

    `jitter_us` is the greatest additional delay of a pair of sites; `lan_us` decides the note about
    short delays.
    """
    sites = max(1, min(_SITES, _ALL_SITES // len(matrix.names))) if jitter_us else 1
    region = np.repeat(np.arange(len(matrix.names)), sites)
    site = np.arange(len(region))
    us = matrix.us[region[:, None], region[None, :]]
    if jitter_us:
        bits = draws.bits_np(seed, "region jitter", site[:, None], site[None, :])
        us = us + (bits % np.uint64(jitter_us + 1)).astype(np.int64)
    src, dst = np.nonzero(~np.eye(len(region), dtype=bool))
    delay_ms = us[src, dst] / MICROSECONDS
    edges = pd.DataFrame({"src": src, "dst": dst, "delay_ms": delay_ms, "weight": 1.0})
    shares = None if matrix.shares is None else matrix.shares[region] / sites
    hosts = Hosts(shares, us.diagonal().copy(), regions=matrix.names, region=region)
    return Graph(router_frame(site, domain=region), edges, source, hosts, notes=_notes(us, lan_us))


def _notes(us: np.ndarray, lan_us: int) -> tuple[str, ...]:
    shortest = int(us.min()) + 2 * lan_us
    if shortest >= _SHORT_US:
        return ()
    return (
        f"regions: the shortest delay between two nodes is {shortest / MICROSECONDS:g} ms; below "
        "0.5 ms a clock with bandwidth has many windows and takes long",
    )


KIND = TopologyKind("regions", lambda _, config, seed: region_network(config, seed), is_kept=False)
