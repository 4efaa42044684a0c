"""Schedules of publications: tables, drawn ones, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scribe_spark import InputError, RunConfig
from scribe_spark.bandwidth.schedule import Schedule, check_schedule, draw_schedule
from scribe_spark.config import Execution
from scribe_spark.config.bandwidth import BandwidthConfig
from scribe_spark.core import draws
from scribe_spark.experiments.checks import check

NODES = 20


def read(tmp_path, text: str, usual: int = 7) -> list[tuple[int, ...]]:
    """Return the publications of a text."""
    file = tmp_path / "schedule.csv"
    file.write_text(text)
    return rows(check_schedule(str(file), NODES, usual))


def rows(schedule: Schedule) -> list[tuple[int, ...]]:
    columns = (schedule.at_us, schedule.group, schedule.source, schedule.size)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_table_has_units_or_none_and_is_numbered_by_time_group_and_source(tmp_path):
    text = "time,group,node,size\n20,1,3,1KB\n1.5ms,2,5,64\n0.02 s,1,2,2KiB\n1500us,1,9,3 B\n"
    wanted = [(1_500, 1, 9, 3), (1_500, 2, 5, 64), (20_000, 1, 2, 2_048), (20_000, 1, 3, 1_000)]
    assert read(tmp_path, text) == wanted
    assert read(tmp_path, "node;time;group\n1;0;4\n") == [(0, 4, 1, 7)]


def test_a_parquet_table_of_numbers_is_in_ms_and_bytes(tmp_path):
    columns = {"time": [0.25, 10.0], "group": [1, 1], "node": [4, 3], "size": [100, 2]}
    pq.write_table(pa.table(columns), tmp_path / "schedule.parquet")
    found = check_schedule(str(tmp_path / "schedule.parquet"), NODES, 7)
    assert rows(found) == [(250, 1, 4, 100), (10_000, 1, 3, 2)]


HEAD = "time,group,node,size\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group,node\n1,1\n", "has no column 'time'; needs time, group, node (size may be left"),
        (HEAD, "no row"),
        (HEAD + "0,1,20,1KB\n", "names no node: row 1 (group=1, node=20); nodes are 0 to 19"),
        (HEAD + "0,1,-1,1KB\n", "names no node: row 1 (group=1, node=-1)"),
        (HEAD + "0,1,1,1KB\n0,1,1,0KB\n", "column size: row 2 (size='0KB'): must be above 0"),
        (HEAD + "0,1,1,-5\n", "column size: row 1 (size=-5): must be above 0"),
        (HEAD + "-3ms,1,1,1KB\n", "column time: row 1 (time='-3ms'): must be at least 0us"),
        (HEAD + "soon,1,1,1KB\n", "column time: row 1 (time='soon'): must be a number and a unit"),
        (HEAD + "1KB,1,1,1KB\n", "column time: row 1 (time='1KB'): must be a number and a unit"),
        (HEAD + "0.0001,1,1,1KB\n", "must be a whole number of microseconds"),
        (HEAD + "2000000s,1,1,1KB\n", "must be at most 1000000s"),
        (HEAD + "0,1,1,\n", "column 'size' must be a number, with or without a unit"),
        (HEAD + "0,one,1,1KB\n", "column 'group' must be a whole number"),
        (HEAD + "0,7,1,1KB\n0,1,1,1KB\n", "names no group of the run: 7; groups are 1 to 3"),
    ],
)
def test_what_a_table_cannot_have_is_refused_in_one_line(tmp_path, text, words):
    (tmp_path / "schedule.csv").write_text(text)
    config = RunConfig(nodes=NODES, groups=3, schedule=str(tmp_path / "schedule.csv"))
    with pytest.raises(InputError) as refused:
        check(config, Execution(out=str(tmp_path / "out")))
    assert words in str(refused.value), str(refused.value)
    assert str(refused.value).startswith("schedule")
    assert "\n" not in str(refused.value)


def test_the_largest_size_of_a_table_must_fit_the_slowest_link(tmp_path):
    (tmp_path / "schedule.csv").write_text(HEAD + "0,1,1,1GB\n")
    given = {"nodes": NODES, "groups": 3, "schedule": str(tmp_path / "schedule.csv")}
    for slow in ({"uplink": "1bit/s"}, {"classes": [{"name": "a", "share": 1.0, "up": "1bit/s"}]}):
        with pytest.raises(InputError, match="has a size of 1GB, which takes more than"):
            check(RunConfig(**given | slow), Execution(out=str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"publications": 2, "schedule": "a.csv"}, "publications"),
        ({"publications": 0}, "publications"),
        ({"publications": 2, "interval": "100"}, "interval"),
        ({"publications": 2, "interval": "-1ms"}, "interval"),
        ({"publications": 9, "interval": "500000s"}, "publications"),
        ({"publications": 10_000_000, "groups": 2}, "publications"),
        ({"publications": 2, "published_by": "nobody"}, "published_by"),
    ],
)
def test_drawn_schedules_that_cannot_be_are_refused(given, field):
    with pytest.raises(InputError) as refused:
        RunConfig(**{"nodes": NODES, "groups": 3} | given)
    assert str(refused.value).startswith(field)


def draw(**given) -> list[tuple[int, ...]]:
    members = np.array([2, 1, 1, 2, 1]), np.array([8, 5, 4, 6, 9])
    groups = np.array([1, 2]), np.array([4, 8])
    config = BandwidthConfig(message_size="1KB", **given)
    return rows(draw_schedule(config, 5, *groups, members))


def test_everyone_publishes_at_once():
    found = draw(publications=1, published_by="everyone")
    assert [row[:3] for row in found] == [(0, 1, 4), (0, 1, 5), (0, 1, 9), (0, 2, 6), (0, 2, 8)]
    assert len(draw(publications=2, published_by="everyone")) == 10


def test_members_are_drawn_by_seed_group_and_number():
    members = {1: [4, 5, 9], 2: [6, 8]}
    found = draw(publications=4, interval="1ms", published_by="members")
    for at, group, node, _ in found:
        bits = int(draws.bits_np(5, "publisher", group, at // 1_000))
        assert node == members[group][bits % len(members[group])]
    assert len(found) == 8
    assert len({row[2] for row in found}) > 2


def test_a_table_of_members_says_which_groups_there_are(tmp_path):
    (tmp_path / "members.csv").write_text("group,node\n7,1\n7,2\n9,3\n")
    (tmp_path / "schedule.csv").write_text(HEAD + "0,9,1,1KB\n")
    given = {name: str(tmp_path / f"{name}.csv") for name in ("members", "schedule")}
    check(RunConfig(nodes=NODES, **given), Execution(out=str(tmp_path / "out")))
    (tmp_path / "schedule.csv").write_text(HEAD + "0,8,1,1KB\n")
    with pytest.raises(InputError, match="names no group of the run: 8; groups are 7 to 9"):
        check(RunConfig(nodes=NODES, **given), Execution(out=str(tmp_path / "out")))


def test_more_deliveries_than_fit_are_refused(tmp_path):
    (tmp_path / "schedule.csv").write_text(HEAD + "0,1,1,1KB\n" * 25_000)
    for given in (
        {"published_by": "everyone", "publications": 1},
        {"schedule": str(tmp_path / "schedule.csv")},
    ):
        config = RunConfig(**given, nodes=100_000, groups=1)
        with pytest.raises(InputError, match="deliveries; must be at most 2,000,000,000"):
            check(config, Execution(out=str(tmp_path / "out")))
