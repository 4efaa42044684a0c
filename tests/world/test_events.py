"""Events tables: what is taken, and each thing that is refused, in one line."""

from __future__ import annotations

import random
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.living.cases import small_events, small_overlay

from scribe_spark import draws, schemas
from scribe_spark.errors import InputError
from scribe_spark.worlds import (
    EVENT_NAMES,
    EventRows,
    Extent,
    check_events,
    read_events,
)
from scribe_spark.worlds import events as events_module
from scribe_spark.worlds.events import check_rows, events_frame, events_table
from scribe_spark.worlds.legality import first_impossible, live_after
from scribe_spark.worlds.rows import ARRIVE, FAIL, LEAVE, RECOVER

EXTENT = Extent(nodes=5, rounds=10, initial=3)
GOOD = [
    "round,node,event",
    "4,0,recover",
    "2,0,fail",
    "2,4,arrive",
    "3,4,leave",
    "9,4,recover",
    "5,0,fail",
    "6,0,arrive",
]
FRAME = [
    (2, 0, "fail"),
    (2, 4, "arrive"),
    (3, 4, "leave"),
    (4, 0, "recover"),
    (5, 0, "fail"),
    (6, 0, "arrive"),
    (9, 4, "recover"),
]

#: Rows beyond `GOOD` (or instead of it), and what is said.
BAD = {
    "unknown event": ("1,1,die", "row round=1, node=1, event='die' has no known event; events are "
                      "arrive, leave, fail, recover, create, join, quit, publish"),
    "misspelt event": ("1,1,fial", "row round=1, node=1, event='fial' has no known event; events "
                       "are arrive, leave, fail, recover, create, join, quit, publish; did you "
                       "mean 'fail'?"),
    "of a group": ("1,1,join", "row round=1, node=1, event='join' is an event of a group, and the "
                   "world has none; give groups or members"),
    "no node": ("1,5,arrive", "row round=1, node=5, event='arrive' names no node; nodes are 0 to "
                "4"),
    "below zero": ("1,-1,fail", "row round=1, node=-1, event='fail' names no node"),
    "no round": ("10,1,fail", "row round=10, node=1, event='fail' is in no round; rounds are 0 to "
                 "9"),
    "before": ("-1,1,fail", "row round=-1, node=1, event='fail' is in no round"),
    "two events": ("2,0,recover", "round=2, node=0 has two events, fail and recover; "
                   "only one is possible in a round: move the later one to round 3"),
    "the same twice": ("2,4,arrive", "round=2, node=4 has two events, arrive and arrive; keep one"),
    "fails dead": ("3,0,fail", "row round=3, node=0, event='fail' is impossible: the node is not "
                   "alive since its fail in round 2; let it arrive or recover before"),
    "leaves dead": ("8,4,leave", "row round=8, node=4, event='leave' is impossible: the node is "
                    "not alive since its leave in round 3; let it arrive or recover before"),
    "never there": ("1,3,fail", "row round=1, node=3, event='fail' is impossible: the node was "
                    "never there (alive at the start are nodes 0 to 2); let it arrive before"),
    "recovers new": ("1,3,recover", "row round=1, node=3, event='recover' is impossible: the node "
                     "was never there (alive at the start are nodes 0 to 2); let it arrive before"),
    "recovers live": ("1,1,recover", "row round=1, node=1, event='recover' is impossible: the node "
                      "is alive from the start; let it leave or fail before"),
    "arrives live": ("7,0,arrive", "row round=7, node=0, event='arrive' is impossible: the node is "
                     "alive since its arrive in round 6; let it leave or fail before"),
}  # fmt: skip

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


@pytest.fixture
def table(tmp_path):
    def write(lines: list[str]) -> str:
        path = tmp_path / "events.csv"
        path.write_text("\n".join(lines))
        return str(path)

    return write


def refused(path: str) -> str:
    with pytest.raises(InputError) as error:
        check_events(path, EXTENT)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(f"events = {path!r}: ")
    return line.removeprefix(f"events = {path!r}: ")


def test_a_good_table_is_read_in_order_without_spark(table, tmp_path):
    frame = check_events(table(GOOD), EXTENT)
    assert list(frame.iloc[:, :3].itertuples(index=False, name=None)) == FRAME
    assert frame["group"].isna().all()
    assert frame.dtypes.astype(str).to_list() == ["int32", "int64", "category", "Int64"]
    frame["other"] = 1
    for event in (frame["event"], frame["event"].astype(object), frame["event"].astype("string")):
        frame.assign(event=event).to_parquet(tmp_path / "e.parquet")
        again = check_events(str(tmp_path / "e.parquet"), EXTENT)
        pd.testing.assert_frame_equal(again, frame.drop(columns="other"))


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("place", [1, len(GOOD)])
def test_an_impossible_row_is_refused_wherever_it_is(table, name, place):
    row, says = BAD[name]
    assert refused(table([*GOOD[:place], row, *GOOD[place:]])).startswith(says)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_table_is_refused(table, name):
    lines, says = MALFORMED[name]
    assert refused(table(lines)).startswith(says)


def test_a_round_after_which_no_node_is_alive_is_refused(table):
    assert refused(table(EMPTIES)) == "leaves no node alive after round 2; keep at least one"
    # within one round one may come while the others go
    check_events(table([*EMPTIES[:-1], "2,3,arrive"]), EXTENT)


def test_a_node_that_left_may_recover(table):
    """docs/rules.md says what a recovering node still has, not how it went."""
    check_events(table(["round,node,event", "1,1,leave", "2,1,recover"]), EXTENT)


# --- against a walk through the rounds


def walked(rows: list[tuple[int, int, int]], extent: Extent) -> tuple[int, int] | None:
    """The first impossible event by round and node, by going through them one after the other."""
    live, known = set(range(extent.initial)), set(range(extent.initial))
    for place, (at, node, event) in enumerate(sorted(rows)):
        again = place > 0 and sorted(rows)[place - 1][:2] == (at, node)
        entering = event in (ARRIVE, RECOVER)
        if again or entering == (node in live) or (event == RECOVER and node not in known):
            return at, node
        (live.add if entering else live.discard)(node)
        known.add(node)
    return None


def rows_of(table: list[tuple[int, int, int]]) -> EventRows:
    columns = [np.array(column, dtype=np.int64) for column in zip(*table, strict=True)]
    return EventRows(columns[0], columns[1], columns[2].astype(np.int8))


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8), st.integers(0, 20))
def test_the_first_impossible_event_is_that_of_a_walk(seed, nodes, rounds, size):
    pick = random.Random(seed)
    extent = Extent(nodes, rounds, pick.randint(1, nodes))
    some = {(pick.randrange(rounds), pick.randrange(nodes)) for _ in range(size)} or {(0, 0)}
    # mostly possible ones, so that chains of events are met
    alive = {node: node < extent.initial for node in range(nodes)}
    table = []
    for at, node in sorted(some):
        event = pick.choice([LEAVE, FAIL] if alive[node] else [ARRIVE, RECOVER])
        event = pick.randrange(4) if pick.random() < 0.1 else event
        alive[node] = event in (ARRIVE, RECOVER)
        table.append((at, node, event))
    if pick.random() < 0.2:
        table.append((*pick.choice(table)[:2], pick.randrange(4)))
    pick.shuffle(table)
    found = first_impossible(rows_of(table), extent)
    assert (found and found[:2]) == walked(table, extent)


@pytest.mark.parametrize("seed", range(40))
def test_worlds_of_the_oracle_are_possible(seed):
    overlay = small_overlay(seed)
    nodes, initial = len(overlay.idents), len(overlay.live)
    events = small_events(overlay, seed, range(12), busy=0.2)
    if not events:
        return
    assert sorted(overlay.live) == list(range(initial))
    extent = Extent(nodes, 12, initial)
    rows = rows_of([(at, node, EVENT_NAMES.index(event)) for at, node, event in events])
    check_rows(rows, extent, "events", "oracle")
    assert live_after(rows, extent).min() >= min(2, initial)


def test_a_million_rows_are_checked_without_a_loop_over_them():
    rounds, nodes = 10, 100_000
    at, node = (cell.ravel() for cell in np.mgrid[0:rounds, 0:nodes])
    event = np.where((at + node) % 2 == 0, FAIL, RECOVER).astype(np.int8)
    possible = np.flatnonzero((at > 0) | (event == FAIL))  # half of the nodes go, then the others
    shuffled = np.argsort(draws.stream(1, "test").random_raw(len(possible)))
    rows = EventRows(at, node, event).take(possible[shuffled])
    began = time.process_time()
    check_rows(rows, Extent(nodes, rounds, nodes), "events", "x")
    assert time.process_time() - began < 10


# --- by Spark


def test_events_become_a_table(spark, table):
    frame = check_events(table(GOOD), EXTENT)
    given = events_table(spark, frame)
    assert given.schema == schemas.EVENTS
    assert sorted(map(tuple, given.collect())) == [(*row, None) for row in FRAME]
    nothing = EventRows.at_once(0, np.empty(0, dtype=np.int64), FAIL)
    assert events_table(spark, events_frame(nothing)).count() == 0


@pytest.mark.parametrize("local", [True, False])
def test_a_good_table_is_read(spark, monkeypatch, table, local):
    monkeypatch.setattr(events_module, "is_local", lambda path: local)
    given = read_events(spark, table(GOOD), EXTENT)
    assert given.schema == schemas.EVENTS
    assert sorted(map(tuple, given.collect())) == [(*row, None) for row in FRAME]


REMOTE = ["unknown event", "no node", "no round", "two events", "fails dead", "never there"]


@pytest.mark.parametrize("name", REMOTE)
def test_what_only_spark_can_reach_is_refused_with_the_same_words(spark, monkeypatch, table, name):
    monkeypatch.setattr(events_module, "is_local", lambda path: False)
    path = table([*GOOD, BAD[name][0]])
    with pytest.raises(InputError) as error:
        read_events(spark, path, EXTENT)
    assert str(error.value).removeprefix(f"events = {path!r}: ").startswith(BAD[name][1])


def test_what_only_spark_can_reach_and_lacks_values_or_empties_the_ring(spark, monkeypatch, table):
    monkeypatch.setattr(events_module, "is_local", lambda path: False)
    for lines, says in (
        ([*GOOD, "1,1,"], "row round=1, node=1, event=None lacks a value of the right type"),
        ([*GOOD, "x,1,fail"], "row round=None, node=1, event='fail' lacks a value"),
        (GOOD[:1], "has no rows; needs at least one"),
        (EMPTIES, "leaves no node alive after round 2; keep at least one"),
    ):
        with pytest.raises(InputError) as error:
            read_events(spark, table(lines), EXTENT)
        assert says in str(error.value)
