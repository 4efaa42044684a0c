"""The worlds whose results are recorded: what a world's folder has, and what its rounds leave.

A world is played twice: into a folder, as the command does, and by :meth:`World.step`, which gives
what no table of the folder has: the lookups and changed leaf sets of every round, and what every
node knows in the end.
"""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from configurations import NETWORK, rows_of

_WORLDS = rows_of("""
# Pastry alone
world_arrivals: nodes=240 initial=200 rounds=6 overlay=arrivals generator=churn lifetime=20.0
    maintenance=1 maintenance_period=2
world_contact_discovered: nodes=200 rounds=6 overlay=arrivals contact=discovered growth=1.5
    generator=flash-crowd share=0.4
world_churn: nodes=400 initial=300 rounds=15 generator=churn lifetime=15.0
    lifetime_distribution=weibull replacement=recover b=2 leaf_set=8
world_mass_failure: nodes=500 rounds=5 generator=mass-failure share=0.25 detection=2 repair=none
    tie=seeded
world_repair_eager: nodes=300 initial=240 rounds=8 generator=churn+adjacent-failure lifetime=25.0
    adjacent=12 event_round=3 repair=eager maintenance_period=3 node_ids=sha1
# leaf sets span the ring, some only after nodes have failed
world_one_leaf_set: nodes=30 initial=16 rounds=10 generator=churn+mass-failure event_round=5
    share=0.4 lifetime=8.0 lookups=100
world_reference_tree: nodes=200 initial=150 rounds=8 generator=churn lifetime=12.0
    reference_tree=true reference_children=3 reference_assignment=chord lookups=50
# with groups
world_groups_mass_failure: nodes=400 groups=20 rounds=10 generator=mass-failure+publications
    event_round=3 share=0.25 lookups=0 link_stress_period=3
world_root_failures: nodes=300 groups=15 rounds=10 generator=root-failure+publications
    event_round=2 roots=4 holders=5 publish_source=root lookups=20 reference_tree=true
world_flash_crowd: nodes=400 groups=6 group_size=5 rounds=6 generator=group-crowd+publications
    event_round=2 crowd=300 crowd_group=1 lookups=0
world_reliable: nodes=300 initial=240 groups=12 rounds=15 generator=churn+publications
    lifetime=20.0 publish_rate=2.0 publishers=3 delivery=reliable buffer=8 lookups=10
    link_stress_period=5
world_access: nodes=200 initial=150 groups=6 group_size=25 rounds=6 generator=churn+publications
    lifetime=12.0 publish_source=any access={inputs}/access.csv delivery=reliable lookups=0
world_group_churn: nodes=250 initial=200 groups=12 group_ids=creator rounds=12
    generator=churn+group-churn+publications lifetime=25.0 membership=6.0 publish_rate=0.5
    replicas=3 parent_timeout=1 refresh=1 child_timeout=2 lost_after=2 lookups=0
    link_stress_period=4
world_events: nodes=150 initial=120 rounds=12 events={inputs}/world_events.csv
    members={inputs}/world_members.csv overlay=arrivals delivery=reliable lookups=100
# every system under churn and after a mass failure, of both deliveries and all variants
world_systems_churn: nodes=2000 initial=1600 groups=20 rounds=8
    systems=["scribe","gossipsub","bayeux"] generator=churn+group-churn+publications
    lifetime=20.0 membership=10.0 link_stress_period=4 lookups=0
world_systems_mass_failure: nodes=2000 groups=20 rounds=8 systems=["scribe","gossipsub","bayeux"]
    generator=mass-failure+publications event_round=3 share=0.25 delivery=reliable lookups=0
world_bottleneck_churn: nodes=2000 initial=1600 groups=20 rounds=8 variants=["bottleneck"]
    limit=8 shed_table=whole generator=churn+publications lifetime=20.0 delivery=reliable
    measures=["delay","node_stress"] lookups=0
world_lazy_mass_failure: nodes=2000 groups=20 rounds=8 variants=["lazy","collapse"] limit=8
    generator=mass-failure+publications event_round=3 share=0.25
    measures=["delay","node_stress","link_stress"] link_stress_period=4 lookups=0
""")

#: Name -> flags.  Each has a seed of its own, which depends on nothing but its name.
WORLDS = {
    name: {"seed": zlib.crc32(name.encode()) % 10_000} | NETWORK | flags
    for name, flags in _WORLDS.items()
}


#: Nodes of the world with a given table of events, how many of them are alive at the start, rounds.
FILE_NODES, FILE_INITIAL, FILE_ROUNDS = (
    WORLDS["world_events"][name] for name in ("nodes", "initial", "rounds")
)


def play_world(
    name: str, flags: dict[str, Any], folder: Path, spark: Any = None, partitions: int | None = None
) -> Path:
    """Play a world into a subfolder of `folder`, and once more step by step; return the subfolder.

    Without a session, the active one is used, or one is made that stays open.
    """
    from scribe_spark import Simulation, WorldConfig, make_world, session
    from scribe_spark.config import Execution
    from scribe_spark.experiments import check_world_run, run_world

    config, out = WorldConfig(**flags), folder / name
    execution = Execution(out=str(out), overwrite=True, partitions=partitions)
    check_world_run(config, execution)
    spark = spark or session(execution, config.overlay.nodes)
    run_world(spark, config, execution)
    with Simulation(spark, config) as simulation:
        world = make_world(simulation, config)
        try:
            left = _step_through(world, config.world.rounds, config.groups.has_groups)
        finally:
            world.release()
    for table, rows in left.items():
        (out / "tables" / table).mkdir()
        pq.write_table(rows, out / "tables" / table / "part.parquet")
    return out


def _step_through(world: Any, rounds: int, has_groups: bool) -> dict[str, pa.Table]:
    """Play the rounds one by one; tables of all that the world's folder does not have."""
    measures, publications, lookups, new_leafs = [], [], [], []
    for number in range(rounds):
        measured = world.step()
        names = pa.array(list(measured), pa.string())
        values = pa.array(list(measured.values()), pa.float64())
        measures.append(_of_round(number, pa.table({"measure": names, "value": values})))
        lookups.append(_of_round(number, world.lookups.toArrow()))
        new_leafs.append(_of_round(number, world.new_leafs.toArrow()))
        due = world.publications
        if len(due):
            due = due[due["system"] == "scribe"].drop(columns="system")
        if len(due):
            due = due.rename(columns={"round": "published"}).astype("int64")
            publications.append(_of_round(number, pa.Table.from_pandas(due, preserve_index=False)))
    left = {
        "stepped_measures": pa.concat_tables(measures),
        "stepped_lookups": pa.concat_tables(lookups),
        "stepped_new_leafs": pa.concat_tables(new_leafs),
        **_of_nodes(world.state.toArrow()),
    }
    if publications:
        left["stepped_publications"] = pa.concat_tables(publications)
    if has_groups:
        left["stepped_memberships"] = world.memberships.toArrow()
        left["stepped_children"] = world.children.toArrow()
    return left


def _of_round(number: int, rows: pa.Table) -> pa.Table:
    return rows.append_column("round", pa.array(np.full(len(rows), number)))


def _of_nodes(state: pa.Table) -> dict[str, pa.Table]:
    """What nodes know, a row for each leaf and each entry; it is int32 in bytes in `state`."""
    node = state.column("node").to_numpy()

    def of_each(*columns: str) -> pa.Table:
        numbers = {
            name: [np.frombuffer(one, "<i4") for one in state.column(name).to_pylist()]
            for name in columns
        }
        lengths = [len(one) for one in numbers[columns[0]]]
        rows = {
            "node": np.repeat(node, lengths),
            "place": np.concatenate([np.arange(length) for length in lengths]),
            **{name: np.concatenate(each).astype(np.int64) for name, each in numbers.items()},
        }
        return pa.table(rows)

    return {
        "stepped_state": state.drop_columns(["entered", "leaves", "cells", "entries"]),
        "stepped_leaf_sets": of_each("leaves"),
        "stepped_cells": of_each("cells", "entries").drop_columns("place"),
    }


def write_world_inputs(folder: Path) -> None:
    """Write the input files of worlds: the same at every call, without any random generator."""
    _access().to_csv(folder / "access.csv", index=False)
    _members().to_csv(folder / "world_members.csv", index=False)
    _events().to_csv(folder / "world_events.csv", index=False)


def _access() -> pd.DataFrame:
    """Who may: group 1 is everybody's, each other one lets some do some of it."""
    lists = {
        (2, "create"): range(0, 200, 3),
        (2, "multicast"): range(0, 200, 2),
        (3, "join"): range(0, 200, 2),
        (4, "join"): range(50, 200),
        (4, "multicast"): range(100),
        (5, "multicast"): range(7, 9),
    }
    rows = [(group, node, right) for (group, right), nodes in lists.items() for node in nodes]
    return pd.DataFrame(rows, columns=["group", "node", "right"])


def _members() -> pd.DataFrame:
    """Groups whose numbers are no ranks: ``group, node``."""
    members = {7: range(0, 120, 2), 11: range(0, 120, 5), 5_000: range(3), 40: range(112, 115)}
    rows = [(group, node) for group, nodes in members.items() for node in nodes]
    return pd.DataFrame(rows, columns=["group", "node"])


def _events() -> pd.DataFrame:
    """Nodes that come, go and are back; members that do: ``round, node, event, group``.

    Nodes from 60 on live and die, those before join, quit and publish.
    """
    rows: list[tuple[int, int, str, int | None]] = []
    for at in range(1, FILE_ROUNDS):
        rows += [(at, 60 + at * 3 + step, "fail", None) for step in range(3)]
        rows += [(at, 100 + at, "leave", None), (at, FILE_INITIAL + 2 * at, "arrive", None)]
        if at > 3:  # who failed three rounds before, with its last leaf set, an empty one, or not
            rows.append((at, 60 + (at - 3) * 3, "recover", None))
            rows.append((at, 60 + (at - 3) * 3 + 1, "arrive", None))
            rows.append((at, 60 + (at - 3) * 3, "join", 7))
        rows += [(at, 2 * at + 1, "join", 7), (at, 4 * at, "quit", 7), (at, at, "join", 40)]
        rows += [(at, node, "publish", 7) for node in range(at % 3 + 1)]
        rows += [(at, 5, "publish", 5_000), (at, FILE_INITIAL + 2 * at, "publish", 11)]
    return pd.DataFrame(rows, columns=["round", "node", "event", "group"]).astype(
        {"group": "Int64"}
    )
