"""Route convergence: the distance that two messages to one key travel until their routes meet.

The routes are those of JOINs, in systems whose trees are made of them (`System.routes_to_key`).  A
node's next hop towards the key of a group is its parent in the tree, so two members' routes meet at
their lowest common ancestor, and the table `tree_edges` is sufficient.

References
----------
JSAC 2002, Section II.A: "the average distance traveled by each of the two messages before their
routes converge is approximately equal to the distance between their respective source nodes".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from scribe_spark.core import draws
from scribe_spark.core.arrays import (
    depths,
    distinct,
    find_sorted,
    index_in_run,
    index_sorted,
    whole_numbers,
)
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.measures.group_size import rank_groups, sizes_of_groups
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables, collected
from scribe_spark.underlay.protocol import node_delays

#: About how many members are paired: those of the smallest groups.
_MEMBERS = 20_000


def member_pairs(
    members: pa.Table, edges: pa.Table, delays: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pair the members of each group at random; return the distances that their routes travel.

    `edges` (``group, parent, child, parent_router, child_router``) is a tree for each group;
    `delays` are those of the edges in microseconds.  Members outside of the tree are ignored, and
    one member of an odd number.

    The result is the routers of both members of each pair, and the sum of the two members'
    distances to the node where their routes meet, in microseconds.
    """
    if not len(members):
        return whole_numbers(), whole_numbers(), whole_numbers()
    asking = {name: members.column(name).to_numpy() for name in ("group", "node")}
    drawn = draws.bits_np(seed, "route convergence", asking["group"], asking["node"])
    legs = {name: edges.column(name).to_numpy() for name in edges.column_names}
    return _travelled(asking, drawn.view(np.int64), legs, delays)


def _travelled(
    asking: dict[str, np.ndarray],
    drawn: np.ndarray,
    legs: dict[str, np.ndarray],
    delays: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pair the members of each group at random, and follow both ways up to where they meet.

    Parameters
    ----------
    asking : mapping
        The members: ``group, node``.
    drawn : ndarray
        A draw of each member, by which members of a group are paired.
    legs : mapping
        The edges of the trees: ``group, parent, child``, and the routers of both ends.
    delays : ndarray
        The delay of each edge.

    Returns
    -------
    tuple of ndarray
        The routers of the first and the second member of each pair, and the sum of the delays of
        both ways.
    """
    # 1. the nodes of trees with their parents and the edges (legs) to these
    groups = distinct(np.concatenate([asking["group"], legs["group"]]))
    width = int(max(c.max(initial=0) for c in (asking["node"], legs["parent"], legs["child"]))) + 1
    of_leg = index_sorted(groups, legs["group"])
    child, parent = (of_leg * width + legs[name] for name in ("child", "parent"))
    trees = distinct(np.concatenate([child, parent]))
    at, up_at = index_sorted(trees, child), index_sorted(trees, parent)
    up = np.full(len(trees), -1)
    leg, router = np.zeros((2, len(trees)), dtype=np.int64)
    up[at], leg[at] = up_at, delays
    router[up_at] = legs["parent_router"]
    router[at] = legs["child_router"]
    depth = depths(up)
    # 2. pair the members that are in the tree, in random order
    group = index_sorted(groups, asking["group"])
    key = group * width + asking["node"]
    order = np.lexsort((asking["node"], drawn, group))
    order = order[find_sorted(trees, key[order]) >= 0]
    of, member = group[order], key[order]
    place = index_in_run(of)
    first = np.flatnonzero((place[:-1] % 2 == 0) & (of[:-1] == of[1:]))
    a, b = (index_sorted(trees, member[pair]) for pair in (first, first + 1))
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


def _collect(run: RunTables) -> dict[str, float | None]:
    """Return mean distances in ms: ``travelled`` by a message, ``between`` the pair of nodes."""
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
    a, b, travelled = member_pairs(members, legs, delays(*ends), run.seed)
    if not len(a):
        return {"travelled": None, "between": None}
    return {
        "travelled": int(travelled.sum()) / (2 * len(a) * MICROSECONDS),
        "between": int(delays(a, b).sum()) / (len(a) * MICROSECONDS),
    }


_EDGE = ("group", "parent", "child", "parent_router", "child_router")


def _ratio(found: Found) -> float | None:
    travelled, between = (collected("convergence", n)(found) for n in ("travelled", "between"))
    return travelled / between if travelled is not None and between else None


CONVERGENCE = Measure(
    "convergence",
    collect=_collect,
    early=True,
    metrics=(
        Metric(
            "pastry.convergence.travelled",
            "ms",
            "II.A",
            "Mean distance that each of two members' JOINs travels before their routes meet, over "
            "drawn pairs of members of the smallest groups.",
            collected("convergence", "travelled"),
        ),
        Metric(
            "pastry.convergence.between",
            "ms",
            "II.A",
            "Mean distance between the two members of these pairs.",
            collected("convergence", "between"),
        ),
        Metric(
            "pastry.convergence.ratio",
            "x",
            "II.A",
            "Quotient of these two distances.",
            _ratio,
            note="paper: about 1",
        ),
    ),
)
