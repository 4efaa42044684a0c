"""The root of the largest group fails, and its access list is enforced by the next one.

A world that is stepped in Python: who is whose parent is looked at between rounds.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import Execution, Simulation, World, WorldConfig, make_world
from scribe_spark.cli.sessions import open_session
from scribe_spark.core.paths import replace_file
from scribe_spark.engine.facts import Keys
from scribe_spark.pastry.next_hop import roots
from scribe_spark.worlds.events import extent_of, world_events
from scribe_spark.worlds.groups import group_keys, world_groups
from scribe_spark.worlds.setting import node_ring
from tools.folders import COUNTS

#: The largest group of a world with drawn members.
_GROUP = 1

#: When the root fails; the round at whose end its children have joined again; when strangers
#: arrive, when they join and publish, and when one that may publishes.
_FAILS, _REPAIRED, _ARRIVE, _TRY, _PERMITTED = 5, 8, 9, 11, 13

_SIZES = {"nodes": 10_200, "initial": 10_000, "groups": 150}


def run(folder: Path) -> None:
    """Write ``result.json`` into `folder`, unless it is there."""
    if not (folder / "result.json").exists():
        nodes = _SIZES["nodes"]
        with open_session(Execution(out=str(folder)), nodes, 20 * nodes) as spark:
            result = played(spark, folder)
        replace_file(folder / "result.json", f"{json.dumps(result, indent=1)}\n".encode())


def played(spark: SparkSession, folder: Path, **given: Any) -> dict[str, Any]:
    """Return the events of the group as numbers; its access list is written into `folder`.

    The list names half of the nodes that come later, and all nodes of the start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {**_SIZES, **given}
    late = np.arange(sizes["initial"], sizes["nodes"])
    named, unnamed = (some.tolist() for some in np.array_split(late, 2))
    allowed = pd.DataFrame({"group": _GROUP, "node": np.arange(unnamed[0])})
    access = allowed.merge(pd.DataFrame({"right": ["join", "multicast"]}), how="cross")
    replace_file(folder / "access.csv", access.to_csv(index=False).encode())
    config = WorldConfig(
        **{"seed": 1, "rounds": 20, "lookups": 0, "access": str(folder / "access.csv")},
        **{"generator": "root-failure+publications", "event_round": _FAILS, **sizes},
    )
    trees, measured, published = [], [], []
    with Simulation(spark, config) as simulation:
        world = make_world(simulation, config, _events(simulation, config, named, unnamed))
        for _ in range(config.world.rounds):
            measured.append(world.step())
            trees.append(_tree(world))
            published.append(world.publications)
        world.release()
        before, after, end = trees[_FAILS - 1], trees[_REPAIRED], trees[-1]
        (root,), (new,) = (tree.index[tree["root"]].tolist() for tree in (before, after))
        nearest = _nearest(simulation, config, root)
    publications = pd.concat([table for table in published if len(table)])
    permitted = publications[publications["group"] == _GROUP].set_index("round").loc[_PERMITTED]
    children = {*before.index[before["parent"] == root]}
    both = before.join(after, how="inner", lsuffix="_before", rsuffix="_after")
    # nodes that are in the tree before and after, under another parent
    rejoined = {*both.index[both["parent_before"] != both["parent_after"]]} - {new}
    joined = {*end.index[end["member"]]}
    kinds = ("JOIN", "MULTICAST")
    refused = {kind: measured[_TRY].get(f"scribe.refused.{kind}", 0) for kind in kinds}
    return {
        **{"members": int(before["member"].sum()), "root": root, "new_root": new},
        **{"nearest": nearest, "new_root_was_child": new in children, "children": len(children)},
        **{"rejoined": len(rejoined), "rejoined_no_children": len(rejoined - children)},
        "children_not_rejoined": len(children - rejoined - {new}),
        **{"tried": len(unnamed), "refused": refused, "named": len(named)},
        **{"joined_named": len(joined & {*named}), "joined_unnamed": len(joined & {*unnamed})},
        "permitted": {name: int(permitted[name]) for name in COUNTS},
    }


def _events(
    simulation: Simulation, config: WorldConfig, named: list[int], unnamed: list[int]
) -> DataFrame:
    """Return the generators' events, and those of nodes that come after the failure."""
    made = world_events(simulation.nodes, config)
    own = (F.col("group") == _GROUP) & (F.col("event") == "publish") & (F.col("round") >= _TRY)
    rows: list[tuple[int, int, str, int | None]] = []
    rows += [(_ARRIVE, node, "arrive", None) for node in named + unnamed]
    rows += [(_TRY, node, "join", _GROUP) for node in named + unnamed]
    rows += [(_TRY, node, "publish", _GROUP) for node in unnamed]
    rows += [(_PERMITTED, named[0], "publish", _GROUP)]
    more = simulation.spark.createDataFrame(rows, made.schema)
    return made.where(~F.coalesce(own, F.lit(False))).unionByName(more)


def _tree(world: World) -> pd.DataFrame:
    """Return the group's tree, by node: ``parent`` (-1 of none), ``member``, ``root``."""
    table: pd.DataFrame = world.memberships.where(F.col("group") == _GROUP).toPandas()
    table["parent"] = table["parent"].fillna(-1).astype("int64")
    return table.set_index("node")[["parent", "member", "root"]]


def _nearest(simulation: Simulation, config: WorldConfig, failed: int) -> int:
    """Return the nearest node to the groupId, of the nodes at the start except the failed one."""
    extent = extent_of(config)
    groups = world_groups(config, extent)
    assert groups is not None
    found = group_keys(simulation.rows_of_nodes, groups, config, extent)
    (row,) = found.filter(pc.equal(found["group"], _GROUP)).to_pylist()
    keys = Keys(*(np.array([row[name]]).view(np.uint64) for name in ("key_hi", "key_lo")))
    ring = node_ring(simulation.nodes)
    live = np.flatnonzero((ring.node < extent.initial) & (ring.node != failed))
    return int(ring.node[roots(ring, live, keys)][0])
