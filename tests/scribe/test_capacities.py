"""Every node's own limit: read as given, refused at the edge, heeded by the remover."""

import pytest

from scribe_spark.core.errors import InputError
from scribe_spark.systems.scribe import groups

NODES = 3
WHOLE = ["node,limit", "0,3", "2,1", "1,7"]
BAD = {
    "no node": (
        [*WHOLE[:3], "3,7"],
        "row node=3 names no node; give one row for each node, 0 to 2",
    ),
    "below zero": ([*WHOLE[:3], "-1,7"], "row node=-1 names no node"),
    "left out": (WHOLE[:3], "node=1 is left out; give one row for each node, 0 to 2"),
    "twice": ([*WHOLE, "1,2"], "node=1 occurs twice"),
    "limit": ([*WHOLE[:3], "1,0"], "limit=0 of node=1 is below 1"),
    "no number": ([*WHOLE[:3], "1,many"], ""),
    "no column": (["node,most", "0,3"], "has no column 'limit'"),
}


@pytest.fixture
def table(tmp_path):
    def write(lines: list[str]) -> str:
        path = tmp_path / "capacities.csv"
        path.write_text("\n".join(lines))
        return str(path)

    return write


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_refused_without_spark(table, name):
    lines, why = BAD[name]
    given = table(lines)
    with pytest.raises(InputError) as error:
        groups.check_capacities(given, NODES)
    assert str(error.value).startswith(f"capacities = '{given}': {why}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("local", [True, False])
def test_limits_are_read_as_given(spark, monkeypatch, table, local):
    monkeypatch.setattr("scribe_spark.runtime.remote_inputs.is_local", lambda path: local)
    given = groups.read_capacities(spark, table(WHOLE), NODES)
    assert given.dtypes == [("node", "bigint"), ("limit", "bigint")]
    assert sorted(map(tuple, given.collect())) == [(0, 3), (1, 7), (2, 1)]
