"""Leaf sets and routing tables that one run saved and others begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import check, run

pytestmark = pytest.mark.slow

NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}
CONFIG = RunConfig(**NETWORK, nodes=60, groups=4, overlay="arrivals", leaf_set=8, seed=3)


@pytest.fixture(scope="module")
def saved(spark, tmp_path_factory):
    """A run that has saved them: its folder and its tables' digests."""
    out = str(tmp_path_factory.mktemp("knowledge") / "out")
    with run(spark, CONFIG.replace(write_knowledge=True), Execution(out=out)) as done:
        return out, contents(done.manifest())


def contents(manifest) -> dict[str, str]:
    tables = {n: of for phase in manifest["phases"] for n, of in phase["tables"].items()}
    return {name: {k: v for k, v in of.items() if k != "files"} for name, of in tables.items()}


def test_a_run_on_saved_tables_equals_one_that_makes_them(spark, saved, tmp_path):
    folder, wanted = saved
    config = CONFIG.replace(knowledge=folder)
    check(config, Execution(out=str(tmp_path / "out")))
    with run(spark, config, Execution(out=str(tmp_path / "out"))) as done:
        found = contents(done.manifest())
        assert list(done.manifest()["inputs"]) == ["knowledge"]
    assert found == {name: of for name, of in wanted.items() if name != "knowledge"}
    assert found["arrival_messages"]["rows"] == 8
    # other groups on the same overlay
    other = CONFIG.replace(knowledge=folder, groups=2, write_knowledge=True)
    with run(spark, other, Execution(out=str(tmp_path / "other"))) as done:
        assert contents(done.manifest())["knowledge"] == wanted["knowledge"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"seed": 4}, "seed"), ({"leaf_set": 16}, "leaf_set"), ({"growth": 2.0}, "growth")],
)
def test_tables_of_another_overlay_are_refused(saved, tmp_path, changes, field):
    config = CONFIG.replace(knowledge=saved[0], **changes)
    with pytest.raises(InputError, match=f"was made with {field} = "):
        check(config, Execution(out=str(tmp_path / "out")))


def test_what_holds_no_tables_is_refused(saved, tmp_path):
    out = Execution(out=str(tmp_path / "out"))
    for knowledge in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="has no manifest"):
            check(CONFIG.replace(knowledge=str(knowledge)), out)
    (tmp_path / "manifest.json").write_text('{"resolved": {}, "phases": []}')
    with pytest.raises(InputError, match="without --write-knowledge"):
        check(CONFIG.replace(knowledge=str(tmp_path)), out)


def test_damaged_tables_are_refused(spark, saved, tmp_path):
    (part,) = list(Path(saved[0], "tables", "knowledge").glob("part-*.parquet"))[:1]
    before = part.read_bytes()
    part.write_bytes(before[:-9] + b"x" + before[-8:])
    try:
        with pytest.raises(InputError, match="knowledge is damaged"):
            run(spark, CONFIG.replace(knowledge=saved[0]), Execution(out=str(tmp_path / "out")))
    finally:
        part.write_bytes(before)
