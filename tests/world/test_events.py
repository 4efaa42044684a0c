"""Tables of events: what is taken, and each thing that is refused, in one line."""

import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.config import WorldConfig
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.core.errors import InputError
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Keys, Ring, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.rounds import group_events
from scribe_spark.rounds.event_rows import (
    EVENT_NAMES,
    EventRows,
    Extent,
    first_impossible,
    first_impossible_in_groups,
    live_after,
)
from scribe_spark.rounds.events import ImpossibleRound, Lives, end_lives
from scribe_spark.rounds.events import check_events as check_round
from scribe_spark.rounds.group_events import Groups, change_memberships, check_group_events
from scribe_spark.rounds.player import Environment, Observer, RoundPlayer
from scribe_spark.worlds import events as events_module
from scribe_spark.worlds.events import (
    check_events,
    check_world,
    extent_of,
    sorted_events,
)
from scribe_spark.worlds.groups import RIGHTS, AccessLists, WorldGroups, world_groups
from scribe_spark.worlds.world_state import split_events

EXTENT = Extent(nodes=5, rounds=10, initial=3)
NODES = {"nodes": 5, "initial": 3, "rounds": 10}
GOOD = [
    *("round,node,event", "4,0,recover", "2,0,fail", "2,4,arrive", "3,4,leave", "9,4,recover"),
    *("5,0,fail", "6,0,arrive"),
]
FRAME = [
    *((2, 0, "fail"), (2, 4, "arrive"), (3, 4, "leave"), (4, 0, "recover"), (5, 0, "fail")),
    *((6, 0, "arrive"), (9, 4, "recover")),
]

DEAD, LIVE = "impossible: the node is not alive; let it arrive", "is alive; let it leave or fail"

#: A row beyond `GOOD`, and what is said of it.
BAD = {
    "unknown event": ("1,1,die", "has no known event; events are arrive, leave, fail, recover, "),
    "misspelt event": ("1,1,fial", "join, quit, publish; did you mean 'fail'?"),
    "of a group": ("1,1,join", "an event of a group, and the world has none; give groups or mem"),
    "no node": ("1,5,arrive", "names no node; nodes are 0 to 4"),
    "below zero": ("1,-1,fail", "row round=1, node=-1, event='fail' names no node"),
    "no round": ("10,1,fail", "is in no round; rounds are 0 to 9"),
    "before": ("-1,1,fail", "row round=-1, node=1, event='fail' is in no round"),
    "two events": ("2,0,recover", "round=2, node=0 has two events, fail and recover; keep one"),
    "the same twice": ("2,4,arrive", "node=4 has two events, arrive and arrive; keep one"),
    "fails dead": ("3,0,fail", f"row round=3, node=0, event='fail' is {DEAD} or recover before"),
    "leaves dead": ("8,4,leave", f"{DEAD} or recover"),
    "never there": ("1,3,fail", f"{DEAD} before"),
    "recovers new": ("1,3,recover", f"event='recover' is {DEAD} before"),
    "recovers live": ("1,1,recover", LIVE),
    "arrives live": ("7,0,arrive", LIVE),
}

#: Tables that the reader refuses, whatever an event is.
MALFORMED = {
    "no column": (["round,node", "1,1"], "has no column 'event'; needs round, node, event"),
    "no rows": (["round,node,event"], "has no rows; needs at least one"),
    "no round": ([*GOOD, ",1,fail"], "column 'round' must be a whole number: row 8 (round=miss"),
    "no node": ([*GOOD, "1,,fail"], "column 'node' must be a whole number: row 8 (node=missing)"),
    "no event": ([*GOOD, "1,1,"], "column 'event' must be a text: row 8 (event=missing)"),
    "number": (["round,node,event", "1,1,7"], "row round=1, node=1, event='7' has no known event"),
    "half": ([*GOOD, "1.5,1,fail"], "column 'round' must be a whole number: row 8 (round=1.5)"),
}
EMPTIES = ["round,node,event", "1,0,fail", "1,1,fail", "2,2,leave", "3,3,arrive"]

#: Nodes 0 to 3 of five are alive at the start; group 1 has members 0 and 1, group 2 has none yet.
GROUPS = {"nodes": 5, "initial": 4, "rounds": 10, "leaf_set": 10}
MEMBERS = "group,node\n1,0\n1,1\n2,3\n"
GROUP_GOOD = [
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

#: A row beyond `GROUP_GOOD`, and what is said of it.
GROUP_BAD = {
    "member from the start": ("1,1,join,1", "row round=1, node=1, event='join', group=1 is impos"
                              "sible: the node is a member; let it quit before"),
    "member by an event": ("4,2,join,1", "the node is a member; let it quit before"),
    "joins at the start": ("0,1,join,1", "has the event join twice, perhaps at the start; keep"),
    "never joined": ("2,3,quit,1", "group=1 is impossible: the node is no member; let it join bef"),
    "death ends it": ("3,2,quit,1", "round=3, node=2, group=1 has two events, join and quit; keep"),
    "has quit": ("4,3,quit,1", "node=3, event='quit', group=1 is impossible: the node is no memb"),
    "twice": ("1,0,publish,1", "round=1, node=0, group=1 has the event publish twice"),
    "dead source": ("2,2,publish,1", f"{DEAD} or recover before"),
    "source that left": ("7,0,publish,2", DEAD),
    "never there": ("1,4,create,1", DEAD),
    "no group": ("1,0,publish,3", "group=3 names no group; groups are 1 to 2"),
    "group left out": ("1,0,publish,", "event of a group; give its number in the column group"),
    "group of a node": ("7,1,fail,1", "has a group, but is an event of a node; leave the group "),
    "no node": ("1,5,join,1", "group=1 names no node; nodes are 0 to 4"),
    "no round": ("10,0,join,2", "row round=10, node=0, event='join', group=2 is in no round"),
    "half a group": ("1,0,publish,1.5", "column 'group' must be a whole number: row "),
}  # fmt: skip

ACCESS_BAD = {
    "no group": ("3,0,join", "row group=3, node=0, right='join' names no group; groups are 1 to 2"),
    "no node": ("1,5,join", "row group=1, node=5, right='join' names no node; nodes are 0 to 4"),
    "no right": ("1,0,joins", "rights are create, join, multicast; did you mean 'join'?"),
    "twice": ("1,0,join\n1,0,join", "group=1, node=0, right='join' occurs twice; keep one row"),
    "nobody": ("", "has no rows; needs at least one"),
    "no name": ("1,,join", "column 'node' must be a whole number: row 1 (node=missing)"),
    "no creator": ("2,4,create", "allows no node that is alive in round 0 to create group 2"),
}  # fmt: skip


CASES = {
    **{f"node {name}": (NODES, GOOD, *case) for name, case in BAD.items()},
    **{f"group {name}": (GROUPS, GROUP_GOOD, *case) for name, case in GROUP_BAD.items()},
}


@pytest.fixture
def tables(tmp_path):
    """Write tables; return the config of their world."""

    def write(lines: list[str], of: dict[str, Any] = NODES, access: str = "") -> WorldConfig:
        files = {"events": "\n".join(lines)}
        if of is GROUPS:
            files["members"] = MEMBERS
        if access:
            files["access"] = "group,node,right" + access
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text)
        return WorldConfig(**of, **{name: str(tmp_path / f"{name}.csv") for name in files})

    return write


def refused(config: WorldConfig, field: str = "events", check=check_world) -> str:
    with pytest.raises(InputError) as error:
        check(config)
    line, path = str(error.value), config.flat()[field]
    assert "\n" not in line
    assert line.startswith(f"{field} = {path!r}: ")
    return line.removeprefix(f"{field} = {path!r}: ")


def groups_of(config: WorldConfig) -> WorldGroups | None:
    return world_groups(config, extent_of(config))


def test_a_good_table_is_read_in_order_without_spark(tables, tmp_path):
    config = tables(GOOD)
    table = sorted_events(*check_events(config, EXTENT))
    assert table.schema == to_arrow_schema(schemas.WORLD_EVENTS)
    assert [tuple(row.values()) for row in table.to_pylist()] == [(*row, None) for row in FRAME]
    frame = table.to_pandas().astype({"group": "Int64"}).assign(other=1)
    for kind in ("category", object, "string"):
        event = frame["event"].astype(kind)
        frame.assign(event=event).to_parquet(tmp_path / "e.parquet")
        of_file = config.replace(events=str(tmp_path / "e.parquet"))
        assert sorted_events(*check_events(of_file, EXTENT)) == table


def test_a_good_table_is_read_with_the_start(tables):
    config = tables(GROUP_GOOD, GROUPS)
    check_world(config)
    frame = sorted_events(*check_events(config, extent_of(config), groups_of(config))).to_pandas()
    first = frame[frame["round"] == 0]
    joins = first[first["event"] == "join"][["group", "node"]]
    assert sorted(map(tuple, joins.to_numpy())) == [(1, 0), (1, 1), (2, 3)]
    assert sorted(first[first["event"] == "create"]["group"]) == [1, 2]
    assert len(frame) == len(GROUP_GOOD) - 1 + 5
    assert frame["group"].isna().sum() == 4


@pytest.mark.parametrize("name", CASES)
def test_an_impossible_row_is_refused_wherever_it_is(tables, name):
    of, good, row, says = CASES[name]
    for place in (1, len(good)):
        assert says in refused(tables([*good[:place], row, *good[place:]], of))


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_table_is_refused(tables, name):
    lines, says = MALFORMED[name]
    assert refused(tables(lines)).startswith(says)


@pytest.mark.parametrize("name", ACCESS_BAD)
def test_an_access_list_that_cannot_be_is_refused(tables, name):
    rows, says = ACCESS_BAD[name]
    assert says in refused(tables(GROUP_GOOD, GROUPS, f"\n{rows}"), "access")


def test_a_round_after_which_no_node_is_alive_is_refused(tables):
    assert refused(tables(EMPTIES)) == "leaves no node alive after round 2; keep at least one"
    # within one round one may come while the others go
    check_world(tables([*EMPTIES[:-1], "2,3,arrive"]))


def test_who_may_not_join_is_no_member(tables):
    access = "\n1,0,join\n1,4,multicast"
    check_world(tables(GROUP_GOOD[:7], GROUPS, access))
    for rows, row in ((GROUP_GOOD, "4, node=1, event='quit'"), (
        [GROUP_GOOD[0], "3,1,join,1"], "3, node=1, event='join'"
    )):  # fmt: skip
        says = f"row round={row}, group=1 is impossible: the access list does not let the node join"
        assert refused(tables(rows, GROUPS, access)) == says


def test_members_that_are_not_alive_at_the_start_are_refused(tables):
    config = tables(GROUP_GOOD, GROUPS).replace(initial=3)
    says = "row group=2, node=3 names a node that is not alive at the start (nodes 0 to 2 are)"
    assert refused(config, "members").startswith(says)
    # nodes that a generator brings join when they arrive
    check_world(config.replace(events=None, initial=None, generator="flash-crowd", share=0.4))


# --- against a walk through the rounds

Table = list[tuple[int, int, str, int | None]]


def walked_nodes(table: Table, extent: Extent) -> tuple[int, int] | None:
    """The first impossible event of a node by round and node, one after the other."""
    live, known = set(range(extent.initial)), set(range(extent.initial))
    rows = sorted(row[:3] for row in table if row[3] is None)
    for place, (at, node, event) in enumerate(rows):
        again = place > 0 and rows[place - 1][:2] == (at, node)
        entering = event in ("arrive", "recover")
        if again or entering == (node in live) or (event == "recover" and node not in known):
            return at, node
        (live.add if entering else live.discard)(node)
        known.add(node)
    return None


def walked_groups(rows, extent: Extent, may_join, starts) -> tuple[int, int, int] | None:
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


def random_table(pick: random.Random, extent: Extent, listed: set, starts: list) -> Table:
    """Mostly possible events, so that chains of them are met; nodes of group 1 are listed."""
    live, known, members, table = set(range(extent.initial)), set(range(extent.initial)), set(), []
    for at in range(extent.rounds):
        for node in range(extent.nodes):
            if pick.random() < 0.25:
                gone = node in live
                back = "recover" if node in known else "arrive"
                event = pick.choice(["leave", "fail"] if gone else ["arrive", back])
                (live.discard if gone else live.add)(node)
                known.add(node)
                members = {pair for pair in members if pair[1] != node}
                table.append((at, node, event, None))
        if at == 0:
            members |= {(group, node) for node, group, _ in starts if node in live}
        for node in sorted(live):
            for group in (1, 7):
                pair = group, node
                if at == 0 and (node, group, "join") in starts:
                    continue
                if pair not in members and pick.random() < 0.3:
                    table.append((at, node, "join", group))
                    members.add(pair)
                elif pair in members and pick.random() < 0.3 and (group == 7 or pair in listed):
                    table.append((at, node, "quit", group))
                    members.discard(pair)
                for event in ("publish", "create"):
                    if pick.random() < 0.2:
                        table.append((at, node, event, group))
    return table


def as_rows(table: Table) -> EventRows:
    return EventRows(
        np.array([row[0] for row in table], dtype=np.int64),
        np.array([row[1] for row in table], dtype=np.int64),
        np.array([EVENT_NAMES.index(row[2]) for row in table], dtype=np.int8),
        np.array([NO_GROUP if row[3] is None else row[3] for row in table], dtype=np.int64),
    )


def faulty_table(pick, extent, faults: int, of_nodes: bool, listed: set, starts: list) -> Table:
    """A random table with some random rows, of nodes or of groups."""
    table = random_table(pick, extent, listed, starts)
    for _ in range(faults):
        names = EVENT_NAMES[:4] if of_nodes else EVENT_NAMES[4:]
        group = None if of_nodes else pick.choice([1, 7])
        at, node = pick.randrange(extent.rounds), pick.randrange(extent.nodes)
        table.append((at, node, pick.choice(names), group))
    pick.shuffle(table)
    return table


def assert_tells(said: str | None, event: tuple[int, ...] | None) -> None:
    """A refusal names the round, the node and perhaps the group of an event."""
    words = zip(("round", "node", "group"), event or (), strict=False)
    assert bool(said) == bool(event), (said, event)
    assert not said or all(f"{word}={value}" in re.split(r"[ ,]+", said) for word, value in words)


@settings(max_examples=800, deadline=None, derandomize=True, database=None)
@given(
    *(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8), st.integers(0, 3)),
    st.integers(0, 1),
)
def test_the_first_impossible_event_is_that_of_a_walk(seed, nodes, rounds, faults, of_nodes):
    pick = random.Random(seed)
    extent = Extent(nodes, rounds, pick.randint(1, nodes))
    listed = {(1, node) for node in range(nodes) if pick.random() < 0.6} | {(1, 0)}
    access = AccessLists(
        np.array([group for group, _ in listed]),
        np.array([node for _, node in listed]),
        np.full(len(listed), RIGHTS.index("join"), dtype=np.int8),
    )
    starts = [(n, g, "join") for g in (1, 7) for n in range(extent.initial) if pick.random() < 0.4]
    table = faulty_table(pick, extent, faults, bool(of_nodes), listed, starts)
    assert_tells(first_impossible(as_rows(table), extent), walked_nodes(table, extent))
    if of_nodes and faults:
        return
    joins = [(0, node, event, group) for node, group, event in starts]
    found = first_impossible_in_groups(as_rows(table), extent, access.may_join, as_rows(joins))
    expected = walked_groups(table, extent, lambda g, n: g == 7 or (g, n) in listed, starts)
    assert_tells(found, expected)
    assert faults or found is None


def refused_round(table: Table, extent: Extent, numbers: list[int]) -> tuple[int, str] | None:
    """The first round that is refused, and why; each round is checked by what buckets know."""
    none, at = np.zeros(extent.nodes, dtype=np.uint64), np.arange(extent.nodes)
    ring = Ring(none, at.astype(np.uint64), np.array(numbers), at)
    groups = Groups.of(np.array([1, 7]), Keys(none[:2], none[:2]), ring)
    lives = Lives.of(extent.nodes, np.flatnonzero(ring.node < extent.initial))
    bounds = np.array([0, extent.nodes // 2, extent.nodes])
    given: Any = RingInMemory(ring), bounds, None, None, Observer(())
    buckets = [Tables(), Tables()]
    player = RoundPlayer(InTask(buckets), Environment(*given, lives=lives), lives)
    for number in range(extent.rounds):
        rows = as_rows([row for row in table if row[0] == number])
        columns = {"node": rows.nodes, "event": rows.events, "group": rows.groups}
        try:
            of_nodes, of_groups = split_events(number, columns, ring, groups)
            check_round(lives, ring, number, of_nodes)
            check_group_events(player, number, groups, of_nodes, of_groups)
        except ImpossibleRound as refused:
            return number, refused.what
        end_lives(lives, number, of_nodes, 0)
        lives.enter(of_nodes.entering)
        for program in change_memberships(player, groups, of_nodes, of_groups):
            player.play(program)
        for tables, first, last in zip(buckets, bounds[:-1], bounds[1:], strict=True):
            members = tables.get(group_events.MEMBERS, {"key": at[:0]})["key"] % extent.nodes
            assert ((members >= first) & (members < last)).all()
    return None


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    *(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 8), st.integers(0, 3)), st.booleans()
)
def test_a_round_is_refused_for_what_is_refused_in_a_table(seed, nodes, rounds, faults, of_nodes):
    pick = random.Random(seed)
    extent = Extent(nodes, rounds, pick.randint(1, nodes))
    listed = {(1, node) for node in range(nodes)}
    table = faulty_table(pick, extent, faults, of_nodes, listed, [])
    if of_nodes:  # groups' events may be impossible after such a fault
        table = [row for row in table if row[3] is None]
        expected = walked_nodes(table, extent)
    else:
        expected = walked_groups(table, extent, lambda group, node: True, [])
    found = refused_round(table, extent, pick.sample(range(nodes), nodes))
    empty = np.flatnonzero(live_after(as_rows(table), extent) < 1)
    if len(empty) and (expected is None or empty[0] <= expected[0]):
        return  # a round without nodes is refused, too
    assert (found and found[0]) == (expected and expected[0])
    assert_tells(found and f"round={found[0]} {found[1]}", expected)


# --- by Spark


def read(spark, config: WorldConfig):
    return sorted_events(*check_events(config, extent_of(config), groups_of(config), spark))


#: What only Spark can reach is refused with the same words, and for values that it lacks.
REMOTE = [
    *((NODES, [*GOOD, BAD[name][0]], BAD[name][1]) for name in (
        "unknown event", "fails dead"
    )),
    *((GROUPS, [*GROUP_GOOD, GROUP_BAD[name][0]], GROUP_BAD[name][1]) for name in (
        "joins at the start",
    )),
    (NODES, [*GOOD, "1,1,"], "column 'event' must be a text: row 8 (event=missing)"),
    (NODES, [*GOOD, "x,1,fail"], "column 'round' must be a whole number: row 8 (round='x')"),
    (NODES, GOOD[:1], "has no rows; needs at least one"),
    (NODES, EMPTIES, "leaves no node alive after round 2; keep at least one"),
]  # fmt: skip


def test_what_only_spark_can_reach_is_refused_with_the_same_words(spark, monkeypatch, tables):
    monkeypatch.setattr(events_module, "is_local", lambda path: False)
    for of, lines, says in REMOTE:
        config = tables(lines, of)
        assert says in refused(config, check=lambda config: read(spark, config))
