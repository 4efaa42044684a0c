"""Events of groups in a table: what is possible, access lists, and each refusal in one line."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.scribe_living.cases import random_world

from scribe_spark import schemas
from scribe_spark.config import WorldConfig
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import InputError
from scribe_spark.worlds import (
    EVENT_NAMES,
    EventRows,
    Extent,
    check_events,
    check_world,
    read_events,
    world_groups,
)
from scribe_spark.worlds import events as events_module
from scribe_spark.worlds.access import RIGHTS, AccessLists
from scribe_spark.worlds.events import check_rows
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.legality import first_impossible_in_groups
from scribe_spark.worlds.made_events import start_of
from scribe_spark.worlds.rows import JOIN

#: Nodes 0 to 3 of five are alive at the start; group 1 has members 0 and 1, group 2 has none yet.
WORLD = {"nodes": 5, "initial": 4, "rounds": 10, "leaf_set": 10}
MEMBERS = "group,node\n1,0\n1,1\n2,3\n"
GOOD = [
    "round,node,event,group",
    "1,0,publish,1",
    "1,2,join,1",
    "1,2,publish,1",
    "2,2,fail,",
    "3,2,recover,",
    "3,2,join,1",
    "4,1,quit,1",
    "5,1,join,1",
    "5,4,arrive,",
    "5,4,join,2",
    "5,4,create,2",
    "6,0,leave,",
]

#: A row beyond `GOOD`, and what is said of it.
BAD = {
    "member from the start": ("1,1,join,1", "row round=1, node=1, event='join', group=1 is imposs"
                              "ible: the node is a member from the start; let it quit before"),
    "member by an event": ("4,2,join,1", "row round=4, node=2, event='join', group=1 is impossible"
                           ": the node is a member since its join in round 3; let it quit before"),
    "joins at the start": ("0,1,join,1", "row round=0, node=1, event='join', group=1 is super"
                           "fluous: the node joins it at the start"),
    "never joined": ("2,3,quit,1", "row round=2, node=3, event='quit', group=1 is impossible: the "
                     "node is no member; let it join before"),
    "death ends it": ("3,2,quit,1", "round=3, node=2, group=1 has two events, join and quit; "
                      "only one is possible in a round: move the later one to round 4"),
    "has quit": ("4,3,quit,1", "row round=4, node=3, event='quit', group=1 is impossible: the node"
                 " is no member; let it join before"),
    "twice": ("1,0,publish,1", "round=1, node=0, group=1 has the event publish twice; keep one"),
    "dead source": ("2,2,publish,1", "row round=2, node=2, event='publish', group=1 is impossible:"
                    " the node is not alive since its fail in round 2; let it arrive or recover"),
    "source that left": ("7,0,publish,2", "row round=7, node=0, event='publish', group=2 is imposs"
                         "ible: the node is not alive since its leave in round 6"),
    "never there": ("1,4,create,1", "row round=1, node=4, event='create', group=1 is impossible: t"
                    "he node was never there (alive at the start are nodes 0 to 3)"),
    "no group": ("1,0,publish,3", "row round=1, node=0, event='publish', group=3 names no group; g"
                 "roups are 1 to 2"),
    "group left out": ("1,0,publish,", "row round=1, node=0, event='publish' is an event of a grou"
                       "p; give its number in the column group"),
    "group of a node": ("7,1,fail,1", "row round=7, node=1, event='fail', group=1 has a group, but"
                        " is an event of a node; leave the group empty"),
    "no node": ("1,5,join,1", "row round=1, node=5, event='join', group=1 names no node; nodes are"
                " 0 to 4"),
    "no round": ("10,0,join,2", "row round=10, node=0, event='join', group=2 is in no round"),
    "half a group": ("1,0,publish,1.5", "column 'group' must be a whole number: row 13 (group=1.5"),
}  # fmt: skip

ACCESS_BAD = {
    "no group": ("3,0,join", "row group=3, node=0, right='join' names no group; groups are 1 to 2"),
    "no node": ("1,5,join", "row group=1, node=5, right='join' names no node; nodes are 0 to 4"),
    "no right": ("1,0,joins", "row group=1, node=0, right='joins' has no known right; rights are "
                 "create, join, multicast; did you mean 'join'?"),
    "twice": ("1,0,join\n1,0,join", "group=1, node=0, right='join' occurs twice; keep one row"),
    "nobody": ("", "has no rows; needs at least one"),
    "no name": ("1,,join", "column 'node' must be a whole number: row 1 (node=missing)"),
    "no creator": ("2,4,create", "allows no node that is alive in round 0 to create group 2"),
}  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    def write(lines: list[str], access: str | None = None) -> WorldConfig:
        (tmp_path / "events.csv").write_text("\n".join(lines))
        (tmp_path / "members.csv").write_text(MEMBERS)
        paths = {name: str(tmp_path / f"{name}.csv") for name in ("events", "members")}
        if access is not None:
            (tmp_path / "access.csv").write_text("group,node,right\n" + access)
            paths["access"] = str(tmp_path / "access.csv")
        return WorldConfig(**WORLD, **paths)

    return write


def refused(config: WorldConfig, field: str) -> str:
    with pytest.raises(InputError) as error:
        check_world(config)
    line, path = str(error.value), config.flat()[field]
    assert "\n" not in line
    assert line.startswith(f"{field} = {path!r}: ")
    return line.removeprefix(f"{field} = {path!r}: ")


def start(config: WorldConfig):
    extent = Extent(5, 10, 4)
    return start_of(config, extent, world_groups(config, extent))


def test_a_good_table_is_read_with_the_start(tables):
    config = tables(GOOD)
    check_world(config)
    frame = check_events(config.world.events, Extent(5, 10, 4), start(config))
    first = frame[frame["round"] == 0]
    joins = first[first["event"] == "join"][["group", "node"]]
    assert sorted(map(tuple, joins.to_numpy())) == [(1, 0), (1, 1), (2, 3)]
    assert sorted(first[first["event"] == "create"]["group"]) == [1, 2]
    assert len(frame) == len(GOOD) - 1 + 5
    assert frame["group"].isna().sum() == 4


@pytest.mark.parametrize("name", BAD)
def test_an_impossible_row_is_refused_wherever_it_is(tables, name):
    row, says = BAD[name]
    assert refused(tables([*GOOD, row]), "events").startswith(says)
    if name != "half a group":
        assert refused(tables([GOOD[0], row, *GOOD[1:]]), "events").startswith(says)


@pytest.mark.parametrize("name", ACCESS_BAD)
def test_an_access_list_that_cannot_be_is_refused(tables, name):
    rows, says = ACCESS_BAD[name]
    assert refused(tables(GOOD, rows), "access").startswith(says)


def test_who_may_not_join_is_no_member(tables):
    access = "1,0,join\n1,4,multicast"
    check_world(tables(GOOD[:7], access))
    says = "row round=4, node=1, event='quit', group=1 is impossible: the access list does not let"
    assert refused(tables(GOOD, access), "events").startswith(says)
    again = "3,1,join,1"
    says = "the access list does not let the node join, which it tried at the start"
    assert says in refused(tables([GOOD[0], again], access), "events")


def test_members_that_are_not_alive_at_the_start_are_refused(tables, tmp_path):
    config = tables(GOOD).replace(initial=3)
    says = "row group=2, node=3 names a node that is not alive at the start (nodes 0 to 2 are)"
    assert refused(config, "members").startswith(says)
    # nodes that a generator brings join when they arrive
    check_world(config.replace(events=None, initial=None, generator="flash-crowd", share=0.4))


def test_lists_permit_by_group_and_right():
    lists = AccessLists(np.array([1, 1, 3]), np.array([5, 6, 5]), np.array([1, 1, 2], np.int8))
    groups, nodes = np.array([1, 1, 2, 3]), np.array([5, 7, 7, 7])
    assert lists.permits(RIGHTS.index("join"), groups, nodes).tolist() == [True, False, True, True]
    assert lists.permits(RIGHTS.index("multicast"), groups, nodes)[-1:].tolist() == [False]
    assert lists.permits(RIGHTS.index("create"), groups, nodes).all()


# --- against a walk through the rounds


def walked(rows, extent: Extent, may_join, starts) -> tuple[int, int, int] | None:
    """The first impossible event of a group: round, node, group; the rules told one by one."""
    live = set(range(extent.initial))
    tried: set[tuple[int, int]] = set()
    for at in range(extent.rounds):
        of_nodes = [(node, event) for r, node, event, group in rows if r == at and group is None]
        for node, event in of_nodes:
            if event in ("leave", "fail"):
                live.discard(node)
                tried = {pair for pair in tried if pair[1] != node}
            else:
                live.add(node)
        now = [(node, group, event) for r, node, event, group in rows if r == at and group]
        added = [(node, group, event) for node, group, event in starts if at == 0 and node in live]
        bad = set()
        for node, group, event in now:
            pair, is_member = (group, node), (group, node) in tried and may_join(group, node)
            both = {(node, group, "join"), (node, group, "quit")} <= {*now, *added}
            if (
                node not in live
                or [*now, *added].count((node, group, event)) > 1
                or (event == "join" and pair in tried)
                or (event == "quit" and not is_member)
                or (event in ("join", "quit") and both)
            ):
                bad.add((at, node, group))
        if bad:
            return min(bad)
        for node, group, event in [*now, *added]:
            if event == "join":
                tried.add((group, node))
            elif event == "quit":
                tried.discard((group, node))
    return None


def as_rows(table) -> EventRows:
    return EventRows(
        np.array([row[0] for row in table], dtype=np.int64),
        np.array([row[1] for row in table], dtype=np.int64),
        np.array([EVENT_NAMES.index(row[2]) for row in table], dtype=np.int8),
        np.array([NO_GROUP if row[3] is None else row[3] for row in table], dtype=np.int64),
    )


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 7), st.integers(0, 3))
def test_the_first_impossible_event_is_that_of_a_walk(seed, nodes, rounds, faults):
    pick = random.Random(seed)
    extent = Extent(nodes, rounds, pick.randint(1, nodes))
    listed = {(1, node) for node in range(nodes) if pick.random() < 0.6} | {(1, 0)}
    access = AccessLists(
        np.array([group for group, _ in listed]),
        np.array([node for _, node in listed]),
        np.full(len(listed), RIGHTS.index("join"), dtype=np.int8),
    )
    live, members, table = set(range(extent.initial)), set(), []
    starts = [(n, g, "join") for g in (1, 7) for n in range(extent.initial) if pick.random() < 0.4]
    for at in range(rounds):
        for node in range(nodes):
            if pick.random() < 0.25:
                gone = node in live
                event = pick.choice(["leave", "fail"] if gone else ["arrive", "arrive"])
                (live.discard if gone else live.add)(node)
                members = {pair for pair in members if pair[1] != node}
                table.append((at, node, event, None))
        if at == 0:
            members |= {(group, node) for node, group, _ in starts if node in live}
        for node in sorted(live):
            for group in (1, 7):
                if (at, node, group) in {(0, n, g) for n, g, _ in starts}:
                    continue
                if (group, node) not in members and pick.random() < 0.3:
                    table.append((at, node, "join", group))
                    members.add((group, node))
                elif (
                    (group, node) in members
                    and pick.random() < 0.3
                    and (group == 7 or (1, node) in listed)
                ):
                    table.append((at, node, "quit", group))
                    members.discard((group, node))
                for event in ("publish", "create"):
                    if pick.random() < 0.2:
                        table.append((at, node, event, group))
    for _ in range(faults):
        event = pick.choice(EVENT_NAMES[4:])
        table.append((pick.randrange(rounds), pick.randrange(nodes), event, pick.choice([1, 7])))
    pick.shuffle(table)
    joins = [(0, node, event, group) for node, group, event in starts]
    found = first_impossible_in_groups(as_rows(table), extent, access, as_rows(joins))
    expected = walked(table, extent, lambda g, n: g == 7 or (g, n) in listed, starts)
    assert (found and found[:2]) == (expected and expected[:2])
    if expected:
        assert f"group={expected[2]}" in found[2]
    elif not faults:
        assert found is None


@pytest.mark.parametrize("seed", range(30))
def test_worlds_of_the_oracle_are_possible(seed):
    """Their groups are created, and joined, by events alone."""
    world = random_world(seed)
    extent = Extent(world.count, world.rounds, world.present)
    lists = [
        (number, node, RIGHTS.index(right))
        for number, group in world.groups.items()
        for right in RIGHTS
        for node in getattr(group.access, right) or ()
    ]
    columns = np.array(lists, dtype=np.int64).reshape(-1, 3).T
    access = AccessLists(columns[0], columns[1], columns[2].astype(np.int8))
    none = np.empty(0, dtype=np.int64)
    groups = WorldGroups(np.array(sorted(world.groups)), lambda: (none, none), access)
    rows = as_rows([(*event, None) if len(event) == 3 else event for event in world.events])
    check_rows(rows, extent, "events", "oracle", groups=groups)
    joins = rows.take(rows.events == JOIN)
    again = EventRows.join(rows, joins.take(np.arange(1)))
    with pytest.raises(InputError, match="has the event join twice"):
        check_rows(again, extent, "events", "oracle", groups=groups)


# --- by Spark


def test_what_only_spark_can_reach_is_read_and_refused_with_the_same_words(
    spark, monkeypatch, tables
):
    config = tables(GOOD, "1,0,create")
    extent = Extent(5, 10, 4)
    expected = read_events(spark, config.world.events, extent, start(config))
    assert expected.schema == schemas.EVENTS
    monkeypatch.setattr(events_module, "is_local", lambda path: False)
    found = read_events(spark, config.world.events, extent, start(config))
    assert found.schema == schemas.EVENTS
    rows = [sorted(map(str, table.collect())) for table in (expected, found)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == len(GOOD) - 1 + 5
    for name in ("joins at the start", "dead source"):
        config = tables([*GOOD, BAD[name][0]])
        with pytest.raises(InputError) as error:
            read_events(spark, config.world.events, extent, start(config))
        path = config.world.events
        assert str(error.value).removeprefix(f"events = {path!r}: ").startswith(BAD[name][1])
