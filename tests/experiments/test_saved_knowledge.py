"""Leaf sets and routing tables that one run saved and others begin with."""

import json
from pathlib import Path

import pytest
from small_network import NETWORK

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import check, run
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.world_setup import check_world_run

pytestmark = pytest.mark.slow

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


def test_a_run_with_rounds_on_saved_tables_equals_one_that_makes_them(spark, saved, tmp_path):
    config, found = CONFIG.replace(generator="mass-failure", replicas=3), []
    for name, knowledge in (("made", None), ("read", saved[0])):
        given, how = config.replace(knowledge=knowledge), Execution(out=str(tmp_path / name))
        check(given, how)
        with run(spark, given, how) as done:
            found.append(contents(done.manifest()))
    assert found[0] == found[1]


def test_a_world_begins_with_saved_tables_and_saves_them(spark, saved, tmp_path):
    """A world of no events has at its end what it had at its start."""
    world = WorldConfig(**NETWORK, nodes=60, overlay="arrivals", leaf_set=8, seed=3, rounds=2)
    tables = {}
    for name, given in {
        "made": {"generator": "mass-failure", "write_knowledge": True},
        "read": {"generator": "mass-failure", "write_knowledge": True, "knowledge": saved[0]},
        "quiet": {"knowledge": saved[0], "write_knowledge": True, "write_routing_table": True},
    }.items():
        config, how = world.replace(**given), Execution(out=str(tmp_path / name))
        check_world_run(config, how)
        run_world(spark, config, how)
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        tables[name] = {
            table: (of["rows"], of["digest"]) for table, of in manifest["world"]["tables"].items()
        }
    assert tables["made"] == tables["read"]
    wanted = saved[1]["knowledge"]
    assert tables["quiet"]["knowledge"] == (wanted["rows"], wanted["digest"])
    assert tables["quiet"]["routing_table"][0] > 60
    assert tables["read"]["knowledge"][0] == 54
    config = CONFIG.replace(knowledge=str(tmp_path / "quiet"))
    check(config, Execution(out=str(tmp_path / "out")))
    with run(spark, config, Execution(out=str(tmp_path / "out"))) as done:
        found = contents(done.manifest())
    assert found["deliveries"] == saved[1]["deliveries"]
    with pytest.raises(InputError, match="has 54 of the 60 nodes"):
        check(CONFIG.replace(knowledge=str(tmp_path / "made")), Execution(out="out"))
    with pytest.raises(InputError, match="48 are alive at the start; give initial = 60"):
        check_world_run(world.replace(knowledge=saved[0], initial=48), Execution(out="out"))


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
