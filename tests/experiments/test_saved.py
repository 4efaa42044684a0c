"""The tables that a run has saved, or is about to."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from scribe_spark.experiments.saved import SavedTables


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
