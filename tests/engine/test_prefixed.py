"""Programs with prefixed tables: which tables they read, share and own; players forget by name."""

import numpy as np
import pytest
from in_tasks import TablesInTasks

from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import PrefixedTables, Tables


def one(number: int) -> dict[str, np.ndarray]:
    return {"number": np.array([number])}


def tables() -> Tables:
    """The tables of a bucket: of nodes, and of two systems."""
    names = ("leaves", "found", "a/made", "a/found", "b/made")
    return Tables.of({name: one(number) for number, name in enumerate(names)})


@pytest.mark.parametrize(
    ("name", "full"),
    [
        pytest.param("leaves", "leaves", id="a table that is read has no prefix"),
        pytest.param("found", "found", id="a table that is shared has no prefix"),
        pytest.param("made", "a/made", id="a table of the system has its prefix"),
    ],
)
def test_a_name_is_that_of_one_table(name: str, full: str) -> None:
    there = tables()
    mine = PrefixedTables(there, "a/", reads=("leaves",), shares=("found",))
    assert name in mine
    assert mine[name] is there[full]
    assert "b/made" not in mine
    assert sorted(mine) == ["found", "made"]  # the system's own tables
    if name == "leaves":
        with pytest.raises(RuntimeError, match="leaves is read only"):
            mine[name] = one(7)
        with pytest.raises(KeyError):
            del mine[name]
    else:
        mine[name] = one(7)
        assert there[full]["number"] == [7]
        del mine[name]
        assert full not in there
        assert len(there) == 4


def test_players_forget_tables_by_name() -> None:
    """A task deletes them; with jobs they are left out of what the next superstep reads."""
    in_task, jobs = InTask([tables(), tables()]), TablesInTasks([tables(), tables()])
    for player in (in_task, jobs):
        player.forget(lambda name: name.startswith("a/"))
        assert not player.has("a/made")
        assert player.has("b/made")
    left = ["b/made", "found", "leaves"]
    assert [sorted(mine) for mine in in_task.tables] == [left, left]
    assert sorted(name for _, name, _ in jobs.all()) == sorted(left * 2)
