"""Groups: sizes, keys, creators, members and senders."""

from collections import Counter

import identifiers
import keyed
import numpy as np
import pandas as pd
import pytest
from oracle.scribe import creator_rooted_group_id, group_id, gsize

from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.experiments import Simulation
from scribe_spark.rounds.event_rows import Extent
from scribe_spark.schemas import MEMBERS
from scribe_spark.systems.scribe import groups as module
from scribe_spark.worlds.groups import world_groups

#: Members of group 3 of seed 1, N = 50.
GOLDEN_MEMBERS = [3, 7, 16, 18, 19, 24, 25, 29, 30, 34, 39, 41, 44]
#: Groups of seed 1, N = 50: key, creator.
GOLDEN_GROUPS = {
    1: ("cbf5e95fc7b5c9debb5152e637d0f254", 30),
    2: ("84180356114b35952f6429c0420e0484", 23),
    3: ("7ed32622edf15ad41b3f36bfbf3877c2", 30),
}


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 16, 999, 16 * 3**4, 100_000, 1_000_000])
def test_sizes_are_exact(nodes):
    sizes = module.group_sizes(RunConfig(nodes=nodes, groups=700))
    assert sizes.tolist() == [gsize(nodes, rank) for rank in range(1, 701)]


def test_sizes_of_the_paper_of_another_exponent_and_all_alike():
    sizes = module.group_sizes(RunConfig())
    assert (sizes[0], sizes[-1], len(sizes), sizes.sum()) == (100_000, 11, 1500, 395_247)
    steep = module.group_sizes(RunConfig(nodes=100, groups=4, zipf_exponent=2.0))
    assert steep.tolist() == [100, 25, 11, 6]
    alike = module.group_sizes(RunConfig(nodes=100, groups=3, group_size=11))
    assert alike.tolist() == [11] * 3


# --- custody: every node is in a number of groups -------------------------------------------------

CLASSES = (
    {"name": "all", "share": 0.2, "custody": 128},
    {"name": "few", "share": 0.3, "custody": 2},
    {"name": "usual", "share": 0.5},
)


def in_groups(config: RunConfig, groups: int, usual: int) -> set[tuple[int, int]]:
    """Return the members, each node by itself: the groups of least draw (group, node)."""
    nodes = range(config.overlay.nodes)
    said = NodeClasses.of(config).values("custody", np.array(nodes), usual).tolist()

    def least(node: int) -> list[int]:
        def draw(group: int) -> int:
            return keyed.bits(config.seed, "custody", node, group) % 2**64

        return sorted(range(1, groups + 1), key=draw)[: said[node]]

    return {(group, node) for node in nodes for group in least(node)}


def test_nodes_choose_their_groups(spark, monkeypatch):
    """A class of nodes may be in another number of them; chunks change nothing."""
    monkeypatch.setattr(module, "_DRAWS_AT_ONCE", 100)
    config = RunConfig(nodes=40, groups=9, custody=3, classes=CLASSES, seed=7)
    wanted = in_groups(config, 9, 3)
    by_node = Counter(Counter(node for _, node in wanted).values())
    assert by_node.keys() == {2, 3, 9}
    group, node = module.GroupDraws.of(config).members()
    assert list(zip(group.tolist(), node.tolist(), strict=True)) == sorted(wanted)
    sizes = Counter(group for group, _ in wanted)
    assert module.group_sizes(config).tolist() == [sizes[rank] for rank in range(1, 10)]
    frame = module.draw_members(spark, config).frame
    assert sorted(map(tuple, frame.collect())) == sorted(wanted)


def test_nodes_of_a_world_choose_their_groups():
    """Nodes that arrive later join when they arrive, where they join by themselves."""
    given = {"nodes": 40, "initial": 30, "groups": 9, "custody": 3, "classes": CLASSES, "seed": 7}
    for more, nodes in ({}, 30), ({"generator": "churn"}, 40):
        config = WorldConfig(**given, **more)
        found = world_groups(config, Extent(40, 5, 30))
        pairs = set(zip(*(column.tolist() for column in found.members), strict=True))
        wanted = in_groups(RunConfig(nodes=40, custody=3, classes=CLASSES, seed=7), 9, 3)
        assert pairs == {(group, node) for group, node in wanted if node < nodes}
        sizes = Counter(group for group, node in wanted if node < 30)
        assert found.sizes(30).tolist() == [sizes[rank] for rank in range(1, 10)]


@pytest.mark.parametrize("kind", [RunConfig, WorldConfig])
def test_custody_is_the_only_way_to_sizes_and_is_estimated(kind):
    for given, line in (
        ({"custody": 3, "group_size": 4}, "group_size = 4: cannot be combined with custody"),
        (
            {"custody": 3, "members": "some.csv", "groups": None},
            "custody = 3: contradicts the table",
        ),
        ({"classes": CLASSES}, "classes.custody of class all = 128: has no effect without custody"),
        ({"custody": -1}, "custody = -1: must be at least 0"),
    ):
        with pytest.raises(InputError) as refused:
            kind(**{"nodes": 40, "groups": 9} | given)
        assert str(refused.value).startswith(line)
    config = kind(nodes=1000, groups=9, custody=3, classes=CLASSES)
    assert config.groups.memberships(1000, config.classes) == 200 * 9 + 300 * 2 + 500 * 3


# --- members --------------------------------------------------------------------------------------


def drawn(**fields) -> dict[int, list[int]]:
    group, node = module.GroupDraws.of(RunConfig(**fields)).members()
    return {int(one): node[group == one].tolist() for one in np.unique(group)}


def test_members_are_distinct_nodes_as_many_as_the_size(spark):
    config = {"nodes": 400, "groups": 30, "seed": 5}
    members = drawn(**config)
    sizes = module.group_sizes(RunConfig(**config))
    assert [len(members[rank]) for rank in range(1, 31)] == sizes.tolist()
    for nodes in members.values():
        assert sorted(set(nodes)) == nodes
        assert set(nodes) <= set(range(400))
    frame = module.draw_members(spark, RunConfig(**config)).frame  # by tasks
    assert frame.schema == MEMBERS
    rows = sorted(map(tuple, frame.collect()))
    assert rows == [(group, node) for group, nodes in members.items() for node in nodes]


def test_members_are_drawn_group_by_group():
    members = drawn(nodes=50, groups=3, seed=1)
    assert members[3] == GOLDEN_MEMBERS
    assert drawn(nodes=50, groups=9, seed=1)[3] == members[3]  # others change nothing
    assert drawn(nodes=50, groups=3, seed=2)[3] != members[3]
    assert set(drawn(nodes=4, groups=20)) == {rank for rank in range(1, 21) if gsize(4, rank)}


# --- keys and creators ----------------------------------------------------------------------------

#: The upper halves of nodeIds, and the routers of nodes.
ID_HI, ROUTER = np.arange(50) * 10**15, np.arange(50) % 7


def rows_of(node: np.ndarray) -> dict[str, np.ndarray]:
    return {"id_hi": ID_HI[node], "router": ROUTER[node]}


def made(**fields) -> dict[int, dict]:
    config = RunConfig(**{"nodes": 50, "groups": 40} | fields)
    groups = module.make_groups(None, rows_of, config)
    names = ["group", "key_hi", "key_lo", "size", "creator", "creator_router"]
    assert groups.column_names == names
    return {row["group"]: row for row in groups.to_pylist()}


def key(row: dict) -> int:
    return identifiers.whole(row["key_hi"], row["key_lo"])


def test_keys_are_the_hash_of_name_and_creator():
    groups = made()
    assert sorted(groups) == list(range(1, 41))
    for group, row in groups.items():
        assert key(row) == group_id(f"group-{group}", f"node-{row['creator']}")
        assert row["creator_router"] == ROUTER[row["creator"]]
    assert {g: (f"{key(groups[g]):032x}", groups[g]["creator"]) for g in (1, 2, 3)} == GOLDEN_GROUPS
    assert [groups[g]["size"] for g in range(1, 41)] == [gsize(50, g) for g in range(1, 41)]


def test_keys_of_the_creators_make_it_the_root():
    for group, row in made(group_ids="creator").items():
        creator = int(ID_HI[row["creator"]]) << 64
        assert key(row) == creator_rooted_group_id(creator, f"group-{group}")


# --- senders --------------------------------------------------------------------------------------


def test_senders_are_members_drawn_alike(spark):
    rows = [(group, node, 7 * node) for group in range(3000) for node in (3, 5, 8)]
    members = spark.createDataFrame(rows, "group bigint, node bigint, router bigint")
    found = sorted(map(tuple, module.senders(members, 1).collect()))
    assert [group for group, *_ in found] == list(range(3000))
    assert all(router == 7 * source for _, source, router in found)
    counts = Counter(source for _, source, _ in found)
    assert set(counts) == {3, 5, 8}
    assert all(abs(count - 1000) < 110 for count in counts.values())
    again = module.senders(members.repartition(5).orderBy("router"), 1).collect()
    assert sorted(map(tuple, again)) == found
    assert sorted(map(tuple, module.senders(members, 2).collect())) != found


# --- a user's members -----------------------------------------------------------------------------


@pytest.fixture(params=["local", "by Spark"])
def anywhere(request, monkeypatch):
    """The table is read on the driver, and by Spark as one that is on no local disk."""
    if request.param == "by Spark":
        monkeypatch.setattr("scribe_spark.runtime.remote_inputs.is_local", lambda path: False)


def table(tmp_path, text: str, **fields) -> RunConfig:
    path = tmp_path / "members.csv"
    path.write_text(text)
    return RunConfig(**{"nodes": 10, "members": str(path)} | fields)


def read_members(spark, config: RunConfig):
    return module.read_members(spark, config.groups.members, config.overlay.nodes)


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_members_and_groups_of_a_table(spark, tmp_path, ending):
    path, rows = tmp_path / f"members.{ending}", {"node": [3, 0, 9], "group": [70, 70, 2**60]}
    frame = pd.DataFrame(rows)
    frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
    config = RunConfig(nodes=50, members=str(path))
    found = read_members(spark, config)
    assert found.dtypes == [("group", "bigint"), ("node", "bigint")]
    assert sorted(map(tuple, found.collect())) == [(70, 0), (70, 3), (2**60, 9)]
    groups = {row["group"]: row for row in module.make_groups(found, rows_of, config).to_pylist()}
    assert {group: row["size"] for group, row in groups.items()} == {70: 2, 2**60: 1}
    assert key(groups[70]) == group_id("group-70", f"node-{groups[70]['creator']}")


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ("1,3\n1,10\n", "group=1, node=10 names no node; nodes are 0 to 9"),
        ("1,-1\n", "group=1, node=-1 names no node"),
        ("1,3\n2,3\n1,3\n", "group=1, node=3 occurs twice"),
        (f"-1,3\n{-(2**63)},4\n", f"row group={-(2**63)}, node=4 names no group; groups are "),
        ("1,\n", "members"),
        (",3\n", "members"),
    ],
)
def test_bad_members_are_refused(spark, tmp_path, rows, complaint):
    config = table(tmp_path, "group,node\n" + rows)
    with pytest.raises(InputError, match=complaint) as raised:
        read_members(spark, config)
    assert raised.value.field == "members"
    assert raised.value.value == config.groups.members


def test_a_table_that_only_spark_reads_has_as_many_groups_as_have_room(
    spark, tmp_path, monkeypatch
):
    """Before any work; `test_key_limits` has what is read here."""
    config = table(tmp_path, "group,node\n-1,3\n0,3\n7,3\n", nodes=2**31 - 1)
    monkeypatch.setattr("scribe_spark.experiments.stages.is_local", lambda path: False)
    with pytest.raises(InputError, match="has 3 groups, which must be at most 2 with"):
        Simulation(spark, config).read_inputs()
    with Simulation(spark, config.replace(nodes=10)) as small:
        small.read_inputs()
