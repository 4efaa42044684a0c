"""The network, the sizes of groups, Pastry's routes and tables, and route convergence.

The routes are those of the CREATE messages from each group's creator to its root.

*Route convergence* is the distance that two messages to one key travel until their routes meet.
The routes are those of JOINs, in systems whose trees are made of them (`System.routes_to_key`).  A
node's next hop towards the key of a group is its parent in the tree, so two members' routes meet at
their lowest common ancestor, and the table `tree_edges` is sufficient.

References
----------
JSAC 2002, Section IV.A (links; group sizes, Figure 6), II (hops, table entries), II.A (stretch;
"the average distance traveled by each of the two messages before their routes converge is
approximately equal to the distance between their respective source nodes"), II.B (arrivals);
Rowstron and Druschel 2001 (messages per arrival).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from scribe_spark.core import arrays, draws
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.measures import measure
from scribe_spark.measures.distributions import ALL_SYSTEMS, histogram_of, number_of
from scribe_spark.underlay.protocol import node_delays

# --- group sizes


def rank_groups(groups: pa.Table) -> pd.DataFrame:
    """Rank groups by size, the largest first: ``group, size, rank``, sorted by rank (from 1).

    Ties go to the smaller group number.
    """
    table: pd.DataFrame = groups.select(["group", "size"]).to_pandas()
    table = table.sort_values(["size", "group"], ascending=[False, True], ignore_index=True)
    return table.assign(rank=range(1, len(table) + 1))


def sizes_of_groups(run: measure.RunTables) -> pa.Table:
    """Return the groups of a run: ``group, size``."""
    return run.collect("groups", ["group", "size"])


def group_of_rank_1(groups: pa.Table) -> int | None:
    """Return the number of the largest group (ties: the smallest number); None without groups."""
    ranked = rank_groups(groups)
    return int(ranked["group"].iloc[0]) if len(ranked) else None


def _sizes(run: measure.RunTables) -> pd.DataFrame:
    """Return the distribution of sizes, with the rank as value and the size as count."""
    ranked = rank_groups(sizes_of_groups(run))
    return pd.DataFrame(
        {
            "system": pd.Series([ALL_SYSTEMS] * len(ranked), dtype=object),
            "value": ranked["rank"].astype(float),
            "count": ranked["size"],
        }
    )


def _of_sizes(number: Callable[[np.ndarray], int]) -> measure.Value:
    return number_of(histogram_of("group_size"), lambda ranks, _: number(ranks.counts))


_SIZE_SUM = "Members of all groups, a node counted once for each of its groups."

GROUP_SIZE = measure.Measure(
    "group_size",
    distributions=(measure.Distribution("group_size", "6", _sizes),),
    metrics=(
        measure.Metric(
            *("groups.size.sum", "members", "6", _SIZE_SUM),
            lambda found: _of_sizes(np.sum)(found) or 0,
        ),
        measure.Metric(
            "groups.size.max", "members", "6", "Members of the largest group.", _of_sizes(np.max)
        ),
        measure.Metric(
            "groups.size.min", "members", "6", "Members of the smallest group.", _of_sizes(np.min)
        ),
    ),
)


# --- the network and the overlay


def _collect_network(run: measure.RunTables) -> dict[str, Any]:
    """Return the mean delay and the number of core links, and the number of routers."""
    delay_ms = run.collect("links", ["delay_ms"]).column("delay_ms").to_numpy()
    # integers, because sums of floats depend on their order
    mean = np.rint(delay_ms * MICROSECONDS).mean() / MICROSECONDS if len(delay_ms) else None
    return {
        "core_links": len(delay_ms),
        "topology.core_delay.mean": mean,
        "routers": len(run.collect("routers", ["router"])),
    }


_CORE_DELAY = "Mean delay of a directed link between two routers."
_LINKS = "topology.core_links", "directed links", "IV.A"

NETWORK = measure.Measure(
    "network",
    collect=_collect_network,
    early=True,
    metrics=(
        *measure.collected_metrics(
            "network",
            "IV.A",
            {
                "topology.core_delay.mean": ("ms", _CORE_DELAY),
            },
        ),
        measure.Metric(
            *(*_LINKS, "Links between routers, each direction counted."),
            lambda found: found.size.core_links,
        ),
    ),
)


def _collect(run: measure.RunTables) -> dict[str, Any]:
    """Return the metrics of the measure but bounds, by name."""
    chosen = run.collect("pastry_routes", ["hops", "delay_ms", "direct_ms"])
    routes: pd.DataFrame = chosen.to_pandas()
    # sums of floats depend on their order
    routes = routes.sort_values(list(routes.columns), ignore_index=True)
    direct = routes["direct_ms"].sum()
    (entries,) = run.collect("table_entries", ["entries"]).column("entries").to_pylist()
    messages = None
    if "arrival_messages" in run:
        messages = run.collect("arrival_messages", ["messages"]).column("messages").to_pylist()
    return {
        "pastry.hops.mean": routes["hops"].mean() if len(routes) else None,
        "pastry.stretch": routes["delay_ms"].sum() / direct if direct else None,
        "pastry.table_entries.mean": entries / run.nodes,
        "pastry.arrival_messages.mean": None if messages is None else sum(messages) / run.nodes,
    }


def _arrival_bound(found: measure.Found) -> float | None:
    if measure.collected("overlay", "pastry.arrival_messages.mean")(found) is None:
        return None
    return 3 * 2**found.b * math.log(found.size.nodes, 2**found.b)


_HOPS = "Mean number of overlay hops of a CREATE, from the group's creator to its root."
_STRETCH = "Delay of all CREATE routes together / delay of the direct routes between their ends."
_ENTRIES = "Mean number of entries in a node's routing table."
_MESSAGES = "Messages of all arrivals (the table arrival_messages has their kinds) / nodes."
_MESSAGES_BOUND = "Messages of an arrival according to Pastry's authors: 3 x 2^b x log_2^b N."


def _of_overlay(figure: str, name: str, unit: str, definition: str) -> tuple[measure.Metric, ...]:
    return measure.collected_metrics("overlay", figure, {name: (unit, definition)})


OVERLAY = measure.Measure(
    "overlay",
    collect=_collect,
    early=True,
    metrics=(
        *_of_overlay("II", "pastry.hops.mean", "hops", _HOPS),
        measure.Metric(
            *("pastry.hops.bound", "hops", "II", "Upper bound of the mean: ceil(log_2^b N)."),
            lambda found: math.ceil(math.log(found.size.nodes, 2**found.b) - 1e-9),
            note="ceil(log_2^b N)",
        ),
        *_of_overlay("II.A", "pastry.stretch", "x", _STRETCH),
        *_of_overlay("II", "pastry.table_entries.mean", "per node", _ENTRIES),
        *_of_overlay("II.B", "pastry.arrival_messages.mean", "messages", _MESSAGES),
        measure.Metric(
            *("pastry.arrival_messages.bound", "messages", "II.B", _MESSAGES_BOUND),
            _arrival_bound,
            note="3 x 2^b x log_2^b N",
        ),
    ),
)


# --- route convergence


#: About how many members are paired: those of the smallest groups.
_MEMBERS = 20_000


def pair_members(
    members: pa.Table, edges: pa.Table, delays: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pair the members of each group at random; return the distances that their routes travel.

    `edges` (``group, parent, child, parent_router, child_router``) is a tree for each group, with
    the `delays` (us) of its edges.  Members outside of the tree are ignored, and one of an odd
    number. The result is the routers of both members of each pair, and the sum (us) of the two
    members' distances to the node where their routes meet.
    """
    if not len(members):
        return arrays.whole_numbers(), arrays.whole_numbers(), arrays.whole_numbers()
    asking = {name: members.column(name).to_numpy() for name in ("group", "node")}
    legs = {name: edges.column(name).to_numpy() for name in edges.column_names}
    drawn = draws.bits_np(seed, "route convergence", asking["group"], asking["node"])
    # 1. the nodes of trees with their parents and the edges (legs) to these
    groups = arrays.distinct(np.concatenate([asking["group"], legs["group"]]))
    width = int(max(c.max(initial=0) for c in (asking["node"], legs["parent"], legs["child"]))) + 1
    of_leg = arrays.index_sorted(groups, legs["group"])
    child, parent = (of_leg * width + legs[name] for name in ("child", "parent"))
    trees = arrays.distinct(np.concatenate([child, parent]))
    at, up_at = arrays.index_sorted(trees, child), arrays.index_sorted(trees, parent)
    up = np.full(len(trees), -1)
    leg, router = np.zeros((2, len(trees)), dtype=np.int64)
    up[at], leg[at] = up_at, delays
    router[up_at] = legs["parent_router"]
    router[at] = legs["child_router"]
    depth = arrays.depths(up)
    # 2. pair the members that are in the tree, in random order
    group = arrays.index_sorted(groups, asking["group"])
    key = group * width + asking["node"]
    order = np.lexsort((asking["node"], drawn.view(np.int64), group))
    order = order[arrays.find_sorted(trees, key[order]) >= 0]
    of, member = group[order], key[order]
    place = arrays.index_in_run(of)
    first = np.flatnonzero((place[:-1] % 2 == 0) & (of[:-1] == of[1:]))
    a, b = (arrays.index_sorted(trees, member[pair]) for pair in (first, first + 1))
    ends = router[a], router[b]
    # 3. move the deeper member up (both, at equal depth) until the two meet
    travelled = np.zeros(len(a), dtype=np.int64)
    while (apart := a != b).any():
        deeper = depth[a] - depth[b]
        for side, goes in ((a, apart & (deeper >= 0)), (b, apart & (deeper <= 0))):
            travelled[goes] += leg[side[goes]]
            side[goes] = up[side[goes]]
    return *ends, travelled


# --- the measure


def _collect_distances(run: measure.RunTables) -> dict[str, float | None]:
    """Return the metrics of the measure, by name."""
    routed = [system.name for system in run.systems if system.routes_to_key]
    if run.underlay is None or not routed:
        return {}
    ranked = rank_groups(sizes_of_groups(run)).query("size > 1")[::-1]
    few = ranked[ranked["size"].cumsum().shift(fill_value=0) < _MEMBERS]
    groups = few["group"].tolist()
    among = {"group": groups}
    legs = run.collect("tree_edges", _EDGE, {"system": routed[:1], **among})
    members = run.collect("members", ("group", "node"), among)
    kernel, lan_us = run.underlay.kernel, run.underlay.lan_us

    def delays(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return node_delays(kernel, lan_us, kernel.index(a), kernel.index(b))

    ends = (legs.column(name).to_numpy() for name in ("parent_router", "child_router"))
    a, b, travelled = pair_members(members, legs, delays(*ends), run.seed)
    if not len(a):
        return {}
    far = int(travelled.sum()) / (2 * len(a) * MICROSECONDS)
    between = int(delays(a, b).sum()) / (len(a) * MICROSECONDS)
    ratio = far / between if between else None
    return dict(zip(_CONVERGENCE, (far, between, ratio), strict=True))


_EDGE = ("group", "parent", "child", "parent_router", "child_router")


#: Metric -> unit, definition.
_CONVERGENCE = {
    "pastry.convergence.travelled": (
        "ms",
        "Mean distance that each of two members' JOINs travels before their routes meet, over "
        "drawn pairs of members of the smallest groups.",
    ),
    "pastry.convergence.between": ("ms", "Mean distance between the two members of these pairs."),
    "pastry.convergence.ratio": ("x", "Quotient of these two distances."),
}

CONVERGENCE = measure.Measure(
    "convergence",
    collect=_collect_distances,
    early=True,
    metrics=tuple(
        replace(metric, note="paper: about 1") if metric.name.endswith("ratio") else metric
        for metric in measure.collected_metrics("convergence", "II.A", _CONVERGENCE)
    ),
)
