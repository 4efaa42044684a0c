"""Users number their groups as they like: every number but the least is one, negative ones too."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from small_network import NETWORK

from scribe_spark import schemas
from scribe_spark.can.multicast import DIRECTED, LiveCan
from scribe_spark.can.zones import Placement, Space, zones_of_all
from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.core.errors import InputError
from scribe_spark.engine.facts import Ring
from scribe_spark.experiments import Simulation
from scribe_spark.rounds.event_rows import Extent
from scribe_spark.rounds.events import ImpossibleRound
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.worlds.drivers import events_by_round
from scribe_spark.worlds.events import check_events
from scribe_spark.worlds.round_of_run import deliveries
from scribe_spark.worlds.world_state import split_events

SLOW = pytest.mark.slow

CONFIG = WorldConfig(**NETWORK, nodes=40)

#: Members by group: the least number that there is, what stands for nothing elsewhere, and more.
MEMBERS = {
    NO_GROUP + 1: {3, 4, 30},
    -2: {7, 8},
    -1: set(range(12)),
    0: {20, 21, 22},
    2: set(range(5, 16)),
    2**63 - 1: {1, 39},
}


@pytest.fixture(scope="module")
def members(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("members") / "members.csv"
    rows = [f"{group},{node}" for group, nodes in MEMBERS.items() for node in sorted(nodes)]
    path.write_text("\n".join(["group,node", *rows, ""]))
    return str(path)


def of_group(rows: pd.DataFrame) -> dict[int, set[int]]:
    """Group -> nodes."""
    return {int(group): set(of["node"]) for group, of in rows.groupby("group")}


@pytest.mark.parametrize("buckets", [1, pytest.param(3, marks=SLOW)])
def test_all_groups_of_a_world_are_there(spark, begin, members, tmp_path, buckets):
    events = tmp_path / "events.csv"
    events.write_text(
        "round,node,event,group\n"
        "1,20,join,-1\n1,0,quit,-1\n1,1,publish,-1\n1,6,publish,2\n1,35,fail,\n2,35,arrive,\n"
    )
    least_and_most = [(NO_GROUP + 1, 3), (2**63 - 1, 39)]
    given = {"members": members, "events": str(events), "rounds": 4, "lost_after": 1, "lookups": 0}
    systems = "bayeux,gossipsub,scribe" if buckets == 1 else "scribe"
    config = WorldConfig(**NETWORK, **given, nodes=40, delivery="reliable", systems=systems)
    world = begin(config, buckets=buckets)
    told = []
    for number in range(4):
        if number == 2:
            pairs = spark.createDataFrame(least_and_most, "group bigint, node bigint")
            world.scribe.publish(pairs)
        world.step()
        told.append(world.publications)
    found = of_group(world.memberships.where("member").toPandas())
    assert found == MEMBERS | {-1: MEMBERS[-1] - {0} | {20}}
    roots = Counter(row["group"] for row in world.memberships.where("root").collect())
    assert roots == dict.fromkeys(MEMBERS, 1)
    for name, of in pd.concat([one for one in told if len(one)]).groupby("system"):
        in_time = {group: int(n) for group, n in zip(of["group"], of["in_time"], strict=True)}
        assert in_time == {-1: 12, 2: 11, 2**63 - 1: 2, NO_GROUP + 1: 3}, name
        assert not of[["late", "lost"]].to_numpy().any()


@pytest.mark.slow
def test_all_groups_of_a_run_with_rounds_are_there(spark, members):
    systems = "scribe,can,naive_unicast,bayeux,flooding,gossipsub,reference_tree"
    config = RunConfig(**NETWORK, nodes=40, members=members, delivery="reliable", systems=systems)
    with Simulation(spark, config, engine="tasks") as run:
        found = deliveries(run.systems).frame.toPandas()
        source = {row["group"]: row["source"] for row in run.multicast_groups.collect()}
    assert source.keys() == MEMBERS.keys()
    wanted = {group: nodes - {source[group]} for group, nodes in MEMBERS.items()}
    for system, of in found.groupby("system"):
        assert of_group(of) == wanted, system
    assert set(found["system"]) == {*systems.split(","), "ip_multicast"}


def test_tables_of_events_refuse_the_number_that_stands_for_no_group(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(f"round,node,event,group\n0,3,join,-1\n1,4,leave,{NO_GROUP}\n")
    with pytest.raises(InputError, match=f"a group must be above {NO_GROUP}: row 2 "):
        check_events(WorldConfig(nodes=40, rounds=3, events=str(path)), Extent(40, 3, 40))


def test_events_are_those_of_nodes_or_of_groups_by_their_names():
    """An event of a group without one is refused, whatever stands for that."""
    none = np.zeros(3, dtype=np.uint64)
    known = Ring(none, none, np.arange(3), np.arange(3))
    groups = SimpleNamespace(number=np.array([-1, 2]))
    columns = {"node": [0, 1, 2], "event": ["fail", "join", "join"], "group": [None, -1, 2]}
    given = pa.Table.from_pydict(
        {"round": [0, 0, 0], **columns}, to_arrow_schema(schemas.WORLD_EVENTS)
    )
    by_round = events_by_round(given)
    events = by_round(0)
    assert not any(len(column) for column in by_round(0).values())
    of_nodes, of_groups = split_events(0, events, known, groups)
    assert of_nodes.fail.tolist() == [0]
    assert [part.tolist() for part in of_groups.join] == [[0, 1], [1, 2]]
    lacking = {**events, "group": np.array([NO_GROUP, NO_GROUP, 2])}
    with pytest.raises(
        ImpossibleRound, match="is an event of a group; give its number in the column group"
    ):
        split_events(0, lacking, known, groups)
    unknown = {**events, "event": np.array([2, -1, 5])}
    with pytest.raises(ImpossibleRound, match=r"node=1, .* has no known event; events are arrive"):
        split_events(0, unknown, known, groups)


def test_the_can_of_a_group_is_not_drawn_as_that_of_all_nodes():
    none, nodes = np.zeros(20, dtype=np.uint64), np.arange(20)
    network = Network(Ring(none, none, nodes, nodes), None, 0, 1)
    can, first = LiveCan(Space(2, 20), 1, DIRECTED), np.zeros(20, dtype=np.int64)
    every = zones_of_all(Placement(Space(2, 20), 1), network.ring, None)
    for number in (-1, -2):
        of = np.array([number]), first, nodes, first[:1], first[:1]
        of_group = can.zones(Overlays(*of), network)
        own, other = (one.point[one.of_node(first, nodes)] for one in (of_group, every))
        assert (own != other).sum() > 15
