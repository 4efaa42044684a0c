"""The tables of small runs: trees of the page, parts of nodes, schedules, digests."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from small_network import table

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Simulation
from scribe_spark.experiments.digests import content_digest, same_content, watch_content
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.phases import TABLE_PHASES
from scribe_spark.experiments.reporting import read_trees
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import all_systems, is_built_in
from scribe_spark.topology.links import Topology

from .conftest import manifest


def test_a_table_of_a_system_is_a_dataframe(small):
    """As the run wrote it; a name that is wrong is refused with a hint."""
    for name, columns in (("deliveries", ["group", "node", "hops"]),
                          ("tree_edges", ["group", "parent", "child"])):  # fmt: skip
        made = small.simulation.table("scribe", name).select(columns).toPandas()
        wrote = table(Path(small.out), name)
        wrote = wrote[wrote["system"] == "scribe"][columns]
        alike = [frame.sort_values(columns, ignore_index=True) for frame in (made, wrote)]
        pd.testing.assert_frame_equal(*alike, check_dtype=False)
    with pytest.raises(InputError, match="systems = 'scrib': is unknown; did you mean 'scribe'"):
        small.simulation.table("scrib", "deliveries")
    with pytest.raises(InputError, match="table of scribe = 'copies': is unknown; give one of"):
        small.simulation.table("scribe", "copies")


def test_the_page_draws_a_small_the_median_and_the_largest_group(spark, small):
    """Against the tables, edge by edge."""
    out = Path(small.out)
    found = read_trees(Folder(spark, str(out)).collect)
    assert [what.partition(" ")[0] for what, _ in found.trees] == ["smallest", "median", "largest"]
    groups, edges = table(out, "groups").set_index("group"), table(out, "tree_edges")
    of = [groups.at[tree.group, "size"] for _, tree in found.trees]
    assert (of[0], of[2]) == (groups["size"].min(), groups["size"].max())
    for _, tree in found.trees:
        mine = edges[(edges["system"] == "scribe") & (edges["group"] == tree.group)]
        parents = dict(zip(mine["child"], mine["parent"], strict=True))
        assert {int(tree.node[i]): int(tree.node[tree.parent[i]]) for i in tree.below} == parents
        assert tree.node[tree.parent < 0].tolist() == [groups.at[tree.group, "root"]]
    figures = sorted(file.stem for file in (out / "figures").glob("tree-*.svg"))
    assert figures == ["tree-largest", "tree-median", "tree-smallest"]


# --- a graph that the caller has in hand ----------------------------------------------------------


EDGES = pd.DataFrame({"src": [4, 5, 6, 7], "dst": [5, 6, 7, 4], "delay_ms": [1.0, 2.0, 3.0, 4.0]})


def test_a_graph_goes_where_a_path_goes_and_a_run_is_resumed_by_its_content(spark, tmp_path):
    def run(topology, phases=("topology",), resume=True):
        execution = Execution(out=str(tmp_path / "out"), resume=resume)
        config = RunConfig(nodes=5, groups=1, topology=topology)
        experiments.check(config, execution)
        return experiments.run(spark, config, execution, phases=phases)

    done = run((None, EDGES), resume=False)
    links = done.table("links").toPandas().sort_values(["src", "dst"])
    assert links["delay_ms"].tolist() == [1, 4, 1, 2, 2, 3, 4, 3]
    assert (links["weight"] == links["delay_ms"]).all()
    assert manifest(done.out)["resolved"]["topology"] == str(done.simulation.config.topology.kind)

    with pytest.raises(InputError, match=r"topology = 'graph:\w{16}'"):
        run((None, EDGES.assign(delay_ms=9.0)))
    with pytest.raises(InputError, match="topology = 'transit-stub'"):
        run("transit-stub")

    before = manifest(done.out)["phases"][0]
    shuffled = spark.createDataFrame(EDGES.sample(frac=1, random_state=1)).repartition(2)
    resumed = run(Topology(spark.range(4, 8), shuffled), phases=("topology", "overlay"))
    assert manifest(done.out)["phases"][0] == before
    assert resumed.table("nodes").count() == 5


# --- classes and regions of nodes -----------------------------------------------------------------


CLASSES = ({"name": "fast", "share": 0.25}, {"name": "slow", "share": 0.75})


@pytest.fixture(scope="module")
def tables_of_parts(spark, tmp_path_factory):
    config = RunConfig(
        nodes=150,
        groups=5,
        overlay="perfect",
        regions="continents",
        classes=CLASSES,
        write_routing_table=True,
    )
    out = tmp_path_factory.mktemp("parts") / "run"
    how = Execution(out=str(out), engine="tasks", partitions=1)
    experiments.run(spark, config, how, phases=tuple(TABLE_PHASES)).close()
    names = ("nodes", "deliveries", "node_stress", "link_stress", "by_part", "groups")
    names += ("routing_table", "part_latencies")
    return {name: pd.read_parquet(out / "tables" / name) for name in names}


@pytest.mark.parametrize("by", ["class", "region"])
@pytest.mark.parametrize(
    ("measure", "table"), [("delay_ms", "deliveries"), ("children_entries", "node_stress")]
)
def test_measures_are_split(tables_of_parts, by, measure, table):
    rows = tables_of_parts[table].merge(tables_of_parts["nodes"][["node", by]], on="node")
    found = tables_of_parts["by_part"].query("by == @by and measure == @measure")
    found = found.set_index(["system", "part"])
    split = rows.groupby(["system", by])[measure]
    assert {*found.index} == {*split.groups}
    for key, values in split:
        ordered, n = np.sort(values), len(values)
        row = found.loc[key]
        assert row["count"] == n
        assert row["mean"] == pytest.approx(ordered.mean())
        for name, q in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("max", 100)):
            assert row[name] == ordered[-(-q * n // 100) - 1]


@pytest.mark.parametrize("by", ["class", "region"])
def test_latencies_are_counted_by_part(tables_of_parts, by):
    rows = tables_of_parts["deliveries"].merge(tables_of_parts["nodes"][["node", by]], on="node")
    whole = rows.assign(value=np.ceil(rows["delay_ms"].round(3)))
    expected = whole.groupby([by, "system", "value"]).size()
    found = tables_of_parts["part_latencies"].query("by == @by")
    assert found.set_index(["part", "system", "value"])["count"].to_dict() == expected.to_dict()


# --- a schedule without some groups ---------------------------------------------------------------


#: The schedule leaves out the first group, one in the middle and the last one.
NODES, GROUPS, SCHEDULED = 60, (1, 2, 3, 5, 7), (2, 5)
GIVEN = {
    "nodes": NODES, "overlay": "perfect", "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "source": "direct", "lan_delay_ms": 0.5, "seed": 4,
    "uplink": "10Mbit/s", "downlink": "16Mbit/s", "limit": 64,
    "gossipsub_flood_publish": False, "gossipsub_d": 4, "gossipsub_heartbeats": 3,
}  # fmt: skip
SYSTEMS = [system.name for system in all_systems() if is_built_in(system)]
VARIANTS = [system.variant for system in all_systems() if system.variant and is_built_in(system)]


def members(group: int) -> list[int]:
    """Return twelve nodes or more, some in several groups."""
    return np.random.default_rng(group).permutation(NODES)[: 12 + group].tolist()


#: The nodes that publish: two of a group, so that some systems have two channels; one is no member.
NO_MEMBER = next(node for node in range(NODES) if node not in members(2))
SOURCES = {2: [members(2)[0], NO_MEMBER], 5: members(5)[:1]}


def tables(spark, folder, joined: tuple[int, ...], **given) -> dict[str, dict[str, Counter]]:
    """Return the rows of each system and table of a run, without those of unscheduled groups."""
    rows = [f"{group},{node}" for group in joined for node in members(group)]
    (folder / "members.csv").write_text("\n".join(["group,node", *rows]) + "\n")
    sent = [(n * 5, g, node) for g in SCHEDULED for n, node in enumerate(SOURCES[g])]
    lines = [f"{ms},{g},{node},20000" for ms, g, node in sent]
    (folder / "schedule.csv").write_text("\n".join(["time,group,node,size", *lines]) + "\n")
    files = {name: str(folder / f"{name}.csv") for name in ("members", "schedule")}
    found: dict[str, dict[str, Counter]] = {}
    with Simulation(spark, RunConfig(**GIVEN | given | files), engine="tasks") as stages:
        for made in stages.systems:
            by_name = {name: made.table(name) for name in ("copies", "state", "control")}
            by_name |= {"edges": made.edges, "deliveries": made.deliveries}
            found[made.system] = {
                name: counted(Batches.of(table).frame.toPandas())
                for name, table in by_name.items()
                if table is not None
            }
    return found


def counted(table: pd.DataFrame) -> Counter:
    table = table[table["group"].isin(SCHEDULED) | table["group"].isna()].astype(object)
    return Counter(table.where(table.notna(), None).itertuples(False, None))


@pytest.mark.slow
def test_members_of_other_groups_change_nothing(spark, tmp_path):
    """Played with members of all groups, and with members of the scheduled groups."""
    given = {"systems": tuple(SYSTEMS), "variants": tuple(VARIANTS)}
    with_them, without = (tables(spark, tmp_path, of, **given) for of in (GROUPS, SCHEDULED))
    assert with_them == without
    assert {*without} >= {*given["systems"]}
    for system, found in without.items():
        got = Counter(row[0] for row in found["deliveries"].elements())
        assert got == {2: 13 + 14, 5: 16}, system


# --- digests of tables ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame(spark) -> DataFrame:
    rows = [(1, None, "x"), (2, 5, None), (None, 1, ""), (7, 7, "NULL in"), (None, None, None)]
    return spark.createDataFrame(rows, "a bigint, b bigint, c string").coalesce(1)


def content(frame: DataFrame) -> dict[str, Any]:
    seen = Observation()
    watched = watch_content(frame, seen)
    assert watched.collect() == frame.collect()
    return content_digest(seen.get, frame.schema)


def test_order_and_partitions_do_not_matter(frame):
    assert content(frame) == content(frame.orderBy(F.desc("c"), "b").repartition(3))
    assert content(frame)["columns"] == "a BIGINT, b BIGINT, c STRING"
    assert content(frame)["rows"] == 5


OTHERS = {
    "names exchanged": lambda frame: frame.toDF("b", "a", "c"),
    "a NULL moved": lambda frame: frame.select(
        F.when(F.col("c") == "x", F.col("b")).otherwise(F.col("a")).alias("a"),
        F.when(F.col("c") == "x", F.col("a")).otherwise(F.col("b")).alias("b"),
        "c",
    ),
    "a row twice": lambda frame: frame.union(frame.limit(1)),
}


def test_others_are_told_apart(frame):
    ours = content(frame)
    for name, other in OTHERS.items():
        assert not same_content(ours, content(other(frame))), name
