"""Groups: sizes, keys, creators, members and senders."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import worlds
from oracle.scribe import creator_rooted_group_id, group_id, gsize

from scribe_spark import scribe
from scribe_spark.config import RunConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments import Simulation
from scribe_spark.pastry import draw_nodes
from scribe_spark.schemas import MEMBERS
from scribe_spark.scribe import groups as module

#: Members of group 3 of seed 1, N = 50.
GOLDEN_MEMBERS = [3, 7, 16, 18, 19, 24, 25, 29, 30, 34, 39, 41, 44]
#: Groups of seed 1, N = 50: key, creator.
GOLDEN_GROUPS = {
    1: ("cbf5e95fc7b5c9debb5152e637d0f254", 30),
    2: ("84180356114b35952f6429c0420e0484", 23),
    3: ("7ed32622edf15ad41b3f36bfbf3877c2", 30),
}


# --- sizes ----------------------------------------------------------------------------------------


def test_sizes_are_the_papers():
    sizes = scribe.group_sizes(RunConfig())
    assert (sizes[0], sizes[-1], len(sizes), sizes.sum()) == (100_000, 11, 1500, 395_247)
    assert sizes.tolist() == [gsize(100_000, rank) for rank in range(1, 1501)]


@pytest.mark.parametrize("nodes", [1, 2, 16, 48, 999, 1000, 16 * 3**4, 12_345, 1_000_000])
def test_sizes_are_exact(nodes):
    sizes = scribe.group_sizes(RunConfig(nodes=nodes, groups=700))
    assert sizes.tolist() == [gsize(nodes, rank) for rank in range(1, 701)]


def test_sizes_of_another_exponent_and_all_alike():
    steep = scribe.group_sizes(RunConfig(nodes=100, groups=4, zipf_exponent=2.0))
    assert steep.tolist() == [100, 25, 11, 6]
    assert scribe.group_sizes(RunConfig(nodes=100, groups=3, group_size=11)).tolist() == [11] * 3
    assert scribe.group_sizes(RunConfig(nodes=100, groups=0)).tolist() == []


# --- members --------------------------------------------------------------------------------------


def drawn(spark, **fields) -> dict[int, list[int]]:
    frame = scribe.draw_members(spark, RunConfig(**fields)).frame
    assert frame.schema == MEMBERS
    rows = pd.DataFrame(frame.collect(), columns=["group", "node"])
    return {int(group): sorted(part.tolist()) for group, part in rows.groupby("group")["node"]}


def test_members_are_distinct_nodes_as_many_as_the_size(spark):
    config = {"nodes": 400, "groups": 30, "seed": 5}
    members = drawn(spark, **config)
    sizes = scribe.group_sizes(RunConfig(**config))
    assert [len(members[rank]) for rank in range(1, 31)] == sizes.tolist()
    for nodes in members.values():
        assert len(set(nodes)) == len(nodes)
        assert set(nodes) <= set(range(400))
    assert members[1] == list(range(400))


def test_members_are_drawn_group_by_group(spark):
    members = drawn(spark, nodes=50, groups=3, seed=1)
    assert members[3] == GOLDEN_MEMBERS
    assert drawn(spark, nodes=50, groups=9, seed=1)[3] == members[3]  # others change nothing
    assert drawn(spark, nodes=50, groups=3, seed=2)[3] != members[3]
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    try:
        assert drawn(spark, nodes=50, groups=3, seed=1) == members
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_groups_too_small_for_a_member_have_none(spark):
    members = drawn(spark, nodes=4, groups=20)
    assert set(members) == {rank for rank in range(1, 21) if gsize(4, rank)}
    assert drawn(spark, nodes=4, groups=0) == {}


def test_members_are_uniform(spark):
    members = drawn(spark, nodes=20, groups=2000, group_size=5, seed=3)
    counts = Counter(node for nodes in members.values() for node in nodes)
    expected = 2000 * 5 / 20
    assert sum((counts[n] - expected) ** 2 / expected for n in range(20)) < 43.8  # p = 0.001


# --- keys and creators ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(spark):
    return draw_nodes(spark, RunConfig(nodes=50), np.array([4, 5, 6])).frame.persist()


def made(spark, nodes, **fields) -> dict[int, dict]:
    config = RunConfig(**{"nodes": 50, "groups": 40} | fields)
    frame = scribe.make_groups(scribe.draw_members(spark, config).frame, nodes, config)
    assert frame.columns == ["group", "key_hi", "key_lo", "size", "creator", "creator_router"]
    return {row["group"]: row.asDict() for row in frame.collect()}


def key(row: dict) -> int:
    return worlds.whole(row["key_hi"], row["key_lo"])


def test_keys_are_the_hash_of_name_and_creator(spark, nodes):
    groups = made(spark, nodes)
    assert sorted(groups) == list(range(1, 41))
    for group, row in groups.items():
        name = f"group-{group}node-{row['creator']}"
        digest = hashlib.sha1(name.encode()).digest()
        assert key(row) == int.from_bytes(digest[:16], "big")
        assert key(row) == group_id(f"group-{group}", f"node-{row['creator']}")
    assert {g: (f"{key(groups[g]):032x}", groups[g]["creator"]) for g in (1, 2, 3)} == GOLDEN_GROUPS


def test_sizes_and_routers_of_groups(spark, nodes):
    groups = made(spark, nodes)
    router = {row["node"]: row["router"] for row in nodes.collect()}
    assert [groups[g]["size"] for g in range(1, 41)] == [gsize(50, g) for g in range(1, 41)]
    assert all(row["creator_router"] == router[row["creator"]] for row in groups.values())
    assert groups[40]["size"] == 0  # nobody's group is a group


def test_keys_of_the_creators_make_it_the_root(spark, nodes):
    ids = {r["node"]: worlds.whole(r["id_hi"], r["id_lo"]) for r in nodes.collect()}
    for group, row in made(spark, nodes, group_ids="creator").items():
        assert key(row) == creator_rooted_group_id(ids[row["creator"]], f"group-{group}")


def test_creators_are_drawn_group_by_group(spark, nodes):
    creators = {g: row["creator"] for g, row in made(spark, nodes).items()}
    assert len(set(creators.values())) > 15
    fewer = {g: row["creator"] for g, row in made(spark, nodes, groups=10).items()}
    assert fewer == {g: creators[g] for g in fewer}
    assert creators != {g: row["creator"] for g, row in made(spark, nodes, seed=2).items()}


# --- senders --------------------------------------------------------------------------------------


def test_senders_are_members_drawn_alike(spark):
    rows = [(group, node, 7 * node) for group in range(3000) for node in (3, 5, 8)]
    members = spark.createDataFrame(rows, "group bigint, node bigint, router bigint")
    sent = scribe.senders(members, 1)
    assert sent.columns == ["group", "source", "source_router"]
    found = {group: (source, router) for group, source, router in sent.collect()}
    assert sorted(found) == list(range(3000))
    assert all(router == 7 * source for source, router in found.values())
    counts = Counter(source for source, _ in found.values())
    assert set(counts) == {3, 5, 8}
    assert all(abs(count - 1000) < 110 for count in counts.values())
    again = scribe.senders(members.repartition(5).orderBy("router"), 1).collect()
    assert {group: (source, router) for group, source, router in again} == found
    other = {group: source for group, source, _ in scribe.senders(members, 2).collect()}
    assert other != {group: source for group, (source, _) in found.items()}


# --- a user's members -----------------------------------------------------------------------------


@pytest.fixture(params=["local", "by Spark"])
def anywhere(request, monkeypatch):
    """The table is read on the driver, and by Spark as one that is on no local disk."""
    if request.param == "by Spark":
        monkeypatch.setattr(module, "is_local", lambda path: False)


def table(tmp_path, text: str, **fields) -> RunConfig:
    path = tmp_path / "members.csv"
    path.write_text(text)
    return RunConfig(**{"nodes": 10, "members": str(path)} | fields)


def read_members(spark, config: RunConfig):
    return scribe.read_members(spark, config.groups.members, config.overlay.nodes)


@pytest.mark.usefixtures("anywhere")
def test_members_of_a_table(spark, tmp_path):
    config = table(tmp_path, "node,group\n3,7\n0,7\n9,2\n")
    found = read_members(spark, config)
    assert found.dtypes == [("group", "bigint"), ("node", "bigint")]
    assert sorted(map(tuple, found.collect())) == [(2, 9), (7, 0), (7, 3)]


@pytest.mark.usefixtures("anywhere")
def test_members_of_a_parquet_table(spark, tmp_path):
    path = tmp_path / "members.parquet"
    frame = pd.DataFrame({"group": [1, 2**60], "node": [2, 3]})
    frame.to_parquet(path)
    config = RunConfig(nodes=10, members=str(path))
    found = read_members(spark, config)
    assert sorted(map(tuple, found.collect())) == [(1, 2), (2**60, 3)]


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ("1,3\n1,10\n", "group=1, node=10 names no node; nodes are 0 to 9"),
        ("1,-1\n", "group=1, node=-1 names no node"),
        ("1,3\n2,3\n1,3\n", "group=1, node=3 is there twice"),
        (f"-1,3\n{-(2**63)},4\n", f"row group={-(2**63)}, node=4 names no group; groups are "),
    ],
)
def test_bad_members_are_refused(spark, tmp_path, rows, complaint):
    config = table(tmp_path, "group,node\n" + rows)
    with pytest.raises(InputError, match=complaint) as raised:
        read_members(spark, config)
    assert raised.value.field == "members"
    assert raised.value.value == config.groups.members


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("rows", ["1,\n", ",3\n"])
def test_missing_values_are_refused(spark, tmp_path, rows):
    with pytest.raises(InputError, match="members"):
        read_members(spark, table(tmp_path, "group,node\n" + rows))


def test_a_table_that_only_spark_reads_has_as_many_groups_as_have_room(
    spark, tmp_path, monkeypatch
):
    """Before any work; `test_key_limits` has what is read here."""
    config = table(tmp_path, "group,node\n-1,3\n0,3\n7,3\n", nodes=2**31 - 1)
    monkeypatch.setattr("scribe_spark.experiments.simulation.is_local", lambda path: False)
    with pytest.raises(InputError, match="has 3 groups, which must be at most 2 with"):
        Simulation(spark, config).read_inputs()
    with Simulation(spark, config.replace(nodes=10)) as small:
        small.read_inputs()


def test_a_users_groups_are_those_of_the_table(spark, tmp_path, nodes):
    config = table(tmp_path, "group,node\n70,3\n70,0\n5,9\n", nodes=50)
    groups = scribe.make_groups(read_members(spark, config), nodes, config)
    found = {row["group"]: row for row in groups.collect()}
    assert {g: row["size"] for g, row in found.items()} == {70: 2, 5: 1}
    name = f"node-{found[70]['creator']}"
    assert worlds.whole(found[70]["key_hi"], found[70]["key_lo"]) == group_id("group-70", name)
