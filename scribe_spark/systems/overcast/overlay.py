"""Overcast as a system that keeps its trees between periods, and the measures of these trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE, depths, distinct, find_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import MEASURED, GrownOverlays, Period, entry_tables
from scribe_spark.systems.overcast import GREATEST
from scribe_spark.systems.overcast.tables import CERTIFICATES, CHILDREN, MEMBERS, Members
from scribe_spark.systems.overcast.tree import ADOPT, CHECK_IN, PROBE, Round
from scribe_spark.underlay.flows import Flows
from scribe_spark.underlay.protocol import narrowest

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.overcast.config import OvercastConfig

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

_NOBODY = {name: whole_numbers() for name in (*Members().columns(), "group", "node")}


@dataclass(frozen=True)
class Overcast(GrownOverlays):
    """Overcast by rules E1 to E14; `rules` is the section ``overcast`` of the config."""

    rules: OvercastConfig

    notes_failures: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = (MEMBERS, CHILDREN, CERTIFICATES, MEASURED)
    structure: ClassVar[tuple[str, ...]] = (MEMBERS, "group", "node", "parent", "alive")
    counted: ClassVar[tuple[str, ...]] = ("moves", "certificates", "certificates.news")
    control: ClassVar[tuple[str, ...]] = (PROBE, ADOPT, CHECK_IN)
    quotients: ClassVar[Mapping[str, tuple[str, str | None]]] = QUOTIENTS
    state: ClassVar[Mapping[str, str]] = entry_tables(
        "children", "ancestors", "certificates", "root's view", "linear nodes"
    )

    @property
    def rounds_before(self) -> int:
        """See `SystemOnBuckets.rounds_before`."""
        return self.rules.rounds

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """Play one round of Overcast; see `GrownOverlays.play_period`."""
        round = Round(self.rules, state, period)
        sent = round.play()
        told, news = round.told_to_root, round.news_to_root
        period.counts.update(
            {"moves": round.moves, "certificates": told, "certificates.news": news}
        )
        state.update(round.tables())
        if period.ends_round:
            state[MEASURED] = measured(state, period.network)
        return sent

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of trees, and those from sources that are no root to the root: E13."""
        members = overlays.state.get(MEMBERS, _NOBODY)
        child, parent = tree_edges(members, len(network.ring))
        ends = {"node": members["node"][parent], "peer": members["node"][child]}
        is_root = members["rank"] == 0
        top = find_sorted(members["group"][is_root], overlays.of)
        down = overlays.each_publication({"group": members["group"][child], **ends})
        return overlays.from_sources(down, np.r_[members["node"][is_root], NONE][top])

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return the entries of members (E1, E3); the root's certificates are its view (E14)."""
        rows, size = state.get(MEMBERS, _NOBODY), len(network.ring)
        key = key_of([rows["group"], rows["node"]], size)
        above = find_sorted(key, rows["group"] * size + rows["parent"])
        above[rows["parent"] < 0] = NONE
        children, certificates = (
            np.bincount(find_sorted(key, _owners(state, name, size)), minlength=len(key))
            for name in (CHILDREN, CERTIFICATES)
        )
        ranked, is_root = rows["rank"] >= 0, rows["rank"] == 0
        line = np.bincount(rows["group"][ranked], minlength=1)[rows["group"]] - 1
        counts = (
            *(children, depths(above), np.where(is_root, 0, certificates)),
            *(np.where(is_root, certificates, 0), np.where(ranked, line, 0)),
        )
        ends = {name: rows[name][rows["alive"]] for name in ("group", "node")}
        return self.by_kind(ends, *(count[rows["alive"]] for count in counts))

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of trees, ranked by bandwidth (E4); values are Mbit/s from the root."""
        if not (members := overlays.state.get(MEMBERS)):
            return {}
        (child, parent), group = tree_edges(members, len(network.ring)), members["group"]
        router = network.ring.router[members["node"]]
        edge = Flows(network.kernel, True, router, group, child, parent).edge
        least = down_trees(edge, child, parent, members["rank"] == 0)[0][child]
        rank = -np.floor(2 * np.log10(np.clip(edge[child], 1, GREATEST))).astype(np.int64)
        ends = {"parent": members["node"][parent], "child": members["node"][child]}
        return {"group": group[child], **ends, "rank": rank, "value": least / 1e6}


def _owners(state: Mapping[str, Columns], name: str, size: int) -> np.ndarray:
    """Return the keys (group, node) of the nodes that have the rows of a table of knowledge."""
    rows = state.get(name, {"group": whole_numbers(), "key": whole_numbers()})
    return key_of([rows["group"], rows["key"] // size % size], size)


def tree_edges(members: Columns, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges between living members: rows (of `members`) of children and parents."""
    key = key_of([members["group"], members["node"]], size)
    child = np.flatnonzero(members["alive"] & (members["parent"] >= 0))
    parent = find_sorted(key, key_of([members["group"][child], members["parent"][child]], size))
    lives = members["alive"][parent]
    return child[lives], parent[lives]


def measured(state: Mapping[str, Columns], network: Network) -> dict[str, np.ndarray]:
    """Return sums over the members of each group, whose quotients (`QUOTIENTS`) are measures.

    The bandwidth of a member is the least one of the edges from the root, 0 without a way.  Members
    at the root's router are left out of bandwidths, as no link limits them.
    """
    members, kernel, size = state[MEMBERS], network.kernel, len(network.ring)
    child, parent = tree_edges(members, size)
    is_root, lives = members["rank"] == 0, members["alive"]
    group = np.unique(members["group"][is_root])
    if not len(group):
        return {"group": group}
    of = np.searchsorted(group, members["group"])  # each group with members has a root
    root, router = np.flatnonzero(is_root)[of], network.ring.router[members["node"]]
    possible = narrowest(kernel, router[root], router)
    limited = lives & np.isfinite(possible)

    def add_up(number: np.ndarray, some: np.ndarray = limited) -> np.ndarray:
        return np.bincount(of[some], weights=number[some], minlength=len(group))

    found = {"group": group, "groups": np.ones(len(group)), "members": add_up(lives * 1.0, lives)}
    found |= {"nodes": add_up(limited * 1.0), "possible_sum": add_up(possible)}
    for name, shared in (("bottleneck", False), ("shared", True)):
        flows = Flows(kernel, shared, router, of, child, parent)
        least, depth = down_trees(flows.edge, child, parent, is_root)
        fraction = np.divide(least, possible, out=np.zeros(len(least)), where=limited)
        found |= {f"{name}_sum": add_up(least), f"{name}_fractions": add_up(fraction)}
    tree = flows.key // len(flows.rates)
    found["load"] = np.bincount(tree, weights=flows.count, minlength=len(group))
    found["links"] = np.bincount(tree, minlength=len(group)).astype(np.float64)
    for name, at, number in (("most", tree, flows.count), ("depth", of, depth)):
        found[name] = np.zeros(len(group))
        np.maximum.at(found[name], at, number)
    packets = [kernel.merged_packets(of[lives], router[root[lives]], router[lives])[2].sum()]
    found["ip_load"] = np.r_[packets, np.zeros(len(group) - 1)]
    truth = np.sort(key_of([of, members["node"], members["parent"]], size)[lives & (depth > 0)])
    wrong = distinct(np.setxor1d(truth, roots_view(state, size, group)) // size)
    found["faults"] = np.bincount(wrong // size, minlength=len(group))
    return found


def down_trees(
    edge: np.ndarray, child: np.ndarray, parent: np.ndarray, is_root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least of the numbers `edge` from the root to each member (or 0), and the depth."""
    up = np.arange(len(edge))
    up[child] = parent
    depth, least = (up != np.arange(len(edge))).astype(np.int64), np.where(is_root, np.inf, edge)
    while True:
        depth, least, further = depth + depth[up], np.minimum(least, least[up]), up[up]
        if np.array_equal(further, up):
            break
        up = further
    return np.where(is_root[up], least, 0.0), np.where(is_root[up], depth, -1)


def roots_view(state: Mapping[str, Columns], size: int, groups: np.ndarray) -> np.ndarray:
    """Return the edges that roots know (E14): keys (index in `groups`, node, parent), ascending."""
    members, rows = state[MEMBERS], state.get(CERTIFICATES)
    if rows is None:
        return np.empty(0, dtype=np.int64)
    root = members["node"][members["rank"] == 0]
    owner, node = rows["key"] // size, rows["key"] % size
    mine = find_sorted(groups * size + root, owner)
    group, node, parent, alive = (
        column[mine >= 0] for column in (mine, node, rows["parent"], rows["alive"])
    )
    row, at = np.arange(len(node)), find_sorted(group * size + node, group * size + parent)
    # who is not below the root, is its own parent here, a circle
    up = np.where(parent == root[group], NONE, np.where(at < 0, row, at))
    up[~alive] = row[~alive]
    return np.sort(key_of([group, node, parent], size)[depths(up, circles=True) >= 0])
