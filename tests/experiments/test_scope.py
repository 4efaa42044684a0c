"""The resources of a simulation are released once; its saved tables are waited for."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from scribe_spark.experiments.scope import SavedTables, Scope, stage


class Resource:
    def __init__(self, log: list[str], name: str, fails: bool = False) -> None:
        self.log, self.name, self.fails = log, name, fails

    def release(self) -> None:
        self.log.append(self.name)
        if self.fails:
            raise RuntimeError(self.name)


def test_the_newest_is_released_first_and_once():
    log: list[str] = []
    with Scope() as scope:
        for name in "abc":
            assert scope.own(Resource(log, name)).name == name
    assert log == ["c", "b", "a"]
    scope.close()
    assert log == ["c", "b", "a"]
    scope.own(Resource(log, "d"))
    scope.close()
    assert log[3:] == ["d"]


def test_one_failure_does_not_keep_the_others():
    log: list[str] = []
    scope = Scope()
    for name in "abc":
        scope.own(Resource(log, name, fails=name == "b"))
    with pytest.raises(RuntimeError):
        scope.close()
    assert log == ["c", "b", "a"]


def test_released_where_something_raises():
    log: list[str] = []

    def work() -> float:
        with Scope() as scope:
            scope.own(Resource(log, "a"))
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        work()
    assert log == ["a"]


def test_stages_are_computed_once_until_they_are_forgotten():
    class Owner:
        def __init__(self) -> None:
            self.stages: dict[str, object] = {}
            self.made = 0

        @stage
        def number(self) -> int:
            """How often it was made."""
            self.made += 1
            return self.made

    owner = Owner()
    assert (owner.number, owner.number) == (1, 1)
    owner.stages.clear()
    assert owner.number == 2
    assert Owner.number.__doc__ == "How often it was made."


def test_a_table_on_its_way_is_waited_for():
    saved, write = SavedTables(), Future()
    saved["nodes"] = write
    assert "nodes" in saved
    assert list(saved) == ["nodes"]
    assert not saved.has("nodes")
    write.set_result("the rows")
    assert saved.has("nodes")
    assert not saved.has("links")
    assert saved["nodes"] == "the rows"


def test_a_write_that_failed_is_raised_to_the_reader_and_can_be_made_again():
    saved, write = SavedTables(), Future()
    write.set_exception(OSError("no space"))
    saved["nodes"] = write
    with pytest.raises(OSError, match="no space"):
        saved["nodes"]
    del saved["nodes"]
    saved["nodes"] = "the rows"
    assert dict(saved) == {"nodes": "the rows"}
    assert len(saved) == 1
