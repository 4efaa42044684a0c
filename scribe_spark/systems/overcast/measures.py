"""Measures of Overcast's trees: bandwidth, load, depth, and the faults of the root's table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scribe_spark.core.arrays import find_sorted
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.overcast import GREATEST
from scribe_spark.systems.overcast.bandwidth import Flows, Routes
from scribe_spark.systems.overcast.tables import CERTIFICATES, MEMBERS
from scribe_spark.underlay.protocol import narrowest

#: Measure of a round -> the sums of which it is the quotient.
QUOTIENTS = {
    "shared": ("shared_sum", "possible_sum"),
    "shared.mean": ("shared_fractions", "nodes"),
    "bottleneck": ("bottleneck_sum", "possible_sum"),
    "bottleneck.mean": ("bottleneck_fractions", "nodes"),
    "load": ("load", "ip_load"),
    "flows": ("load", "links"),
    "flows.max": ("most", "groups"),
    "depth.max": ("depth", "groups"),
    "table.faults": ("faults", "members"),
}


def tree_edges(members: Columns, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges between living members: the rows of children and parents."""
    key = key_of([members["group"], members["node"]], size)
    child = np.flatnonzero(members["alive"] & (members["parent"] >= 0))
    parent = find_sorted(key, key_of([members["group"][child], members["parent"][child]], size))
    lives = members["alive"][parent]
    return child[lives], parent[lives]


def measured(state: Mapping[str, Columns], network: Network) -> dict[str, np.ndarray]:
    """Return sums over the members of each group that has any, for `QUOTIENTS`.

    The bandwidth of a member is the least one of the edges from the root; it is 0 without a way
    from the root.  Members at the root's router are left out of bandwidths, as no link limits them.
    """
    members, kernel = state[MEMBERS], network.kernel
    child, parent = tree_edges(members, len(network.ring))
    is_root = members["rank"] == 0
    group = np.unique(members["group"][is_root])
    if not len(group):
        return {"group": group}
    of = np.searchsorted(group, members["group"])  # each group with members has a root
    root = np.flatnonzero(is_root)[of]
    router = network.ring.router[members["node"]]
    routes = Routes.between(kernel, router[parent], router[child])
    possible = narrowest(kernel, router[root], router)
    lives = members["alive"]
    limited = lives & np.isfinite(possible)

    def add_up(number: np.ndarray, some: np.ndarray) -> np.ndarray:
        return np.bincount(of[some], weights=number[some], minlength=len(group))

    found = {"group": group, "groups": np.ones(len(group)), "members": add_up(lives * 1.0, lives)}
    found["nodes"] = add_up(limited * 1.0, limited)
    found["possible_sum"] = add_up(possible, limited)
    for name, shared in (("shared", True), ("bottleneck", False)):
        flows = Flows.of(kernel, shared, routes, of[child], child)
        edge = np.zeros(len(lives))
        edge[child] = flows.bandwidth(routes, of[child], child)
        edge[is_root] = np.inf
        least, depth = down_trees(edge, child, parent, is_root)
        found[f"{name}_sum"] = add_up(least, limited)
        fraction = np.divide(least, possible, out=np.zeros(len(least)), where=limited)
        found[f"{name}_fractions"] = add_up(fraction, limited)
    flows = Flows.of(kernel, True, routes, of[child], child)
    tree = flows.key // len(flows.rates)
    found["load"] = np.bincount(tree, weights=flows.count, minlength=len(group))
    found["links"] = np.bincount(tree, minlength=len(group)).astype(np.float64)
    for name, at, number in (("most", tree, flows.count), ("depth", of, depth)):
        found[name] = np.zeros(len(group))
        np.maximum.at(found[name], at, number)
    packets = [kernel.merged_packets(of[lives], router[root[lives]], router[lives])[2].sum()]
    found["ip_load"] = np.r_[packets, np.zeros(len(group) - 1)]
    truth = key_of([of, members["node"], members["parent"]], len(network.ring))
    known = roots_view(state, len(network.ring), group)
    found["faults"] = _faults(truth[lives & (depth > 0)], known, len(network.ring), len(group))
    return found


def drawn(members: Columns, network: Network) -> Columns:
    """Return the edges of trees, ranked by bandwidth; values: Mbit/s from the root (rule E4)."""
    (child, parent), group = tree_edges(members, len(network.ring)), members["group"]
    router = network.ring.router[members["node"]]
    routes = Routes.between(network.kernel, router[parent], router[child])
    flows = Flows.of(network.kernel, True, routes, group[child], child)
    edge = np.full(len(router), np.inf)
    edge[child] = flows.bandwidth(routes, group[child], child)
    least = down_trees(edge, child, parent, members["rank"] == 0)[0][child]
    rank = -np.floor(2 * np.log10(np.clip(edge[child], 1, GREATEST))).astype(np.int64)
    ends = {"parent": members["node"][parent], "child": members["node"][child]}
    return {"group": group[child], **ends, "rank": rank, "value": least / 1e6}


def down_trees(
    edge: np.ndarray, child: np.ndarray, parent: np.ndarray, is_root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least of the numbers of edges from the root, and the depth.

    The depth is -1, and the number 0, without a way from the root.
    """
    up = np.arange(len(edge))
    up[child] = parent
    depth, least = (up != np.arange(len(edge))).astype(np.int64), edge
    while True:
        depth, least, further = depth + depth[up], np.minimum(least, least[up]), up[up]
        if np.array_equal(further, up):
            break
        up = further
    return np.where(is_root[up], least, 0.0), np.where(is_root[up], depth, -1)


def roots_view(state: Mapping[str, Columns], size: int, groups: np.ndarray) -> np.ndarray:
    """Return the edges that roots know: keys (index in `groups`, node, parent), ascending.

    A node is below the root if its certificate is alive, and its parent is the root or below: rule
    E14.
    """
    members, rows = state[MEMBERS], state.get(CERTIFICATES)
    if rows is None:
        return np.empty(0, dtype=np.int64)
    root = members["node"][members["rank"] == 0]
    owner, node = rows["key"] // size, rows["key"] % size
    mine = find_sorted(groups * size + root, owner)
    group, node, parent, alive = (
        column[mine >= 0] for column in (mine, node, rows["parent"], rows["alive"])
    )
    # the root and the dead have places after all rows
    top, dead = len(node), len(node) + 1
    at = find_sorted(group * size + node, group * size + parent)
    up = np.where(parent == root[group], top, np.where(at < 0, dead, at))
    up = np.r_[np.where(alive, up, dead), top, dead]
    for _ in range(len(up).bit_length()):
        up = up[up]
    return np.sort(key_of([group, node, parent], size)[up[:-2] == top])


def _faults(truth: np.ndarray, known: np.ndarray, size: int, groups: int) -> np.ndarray:
    """Return the number of nodes whose parents are not those that the root knows, by group."""

    def count(keys: np.ndarray) -> np.ndarray:
        return np.bincount(keys // size**2, minlength=groups)

    nodes = np.intersect1d(truth // size, known // size) * size
    right = np.intersect1d(truth, known)
    return count(truth) + count(known) - count(nodes) - count(right)
