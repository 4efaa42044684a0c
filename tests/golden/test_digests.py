"""The smallest recorded configurations give the results that were recorded; `make digests`: all."""

import argparse

import digests
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from configurations import CONFIGURATIONS
from played_worlds import WORLDS
from recorded import read_recorded, write_mended
from results import ABSENT, Difference, differences, read_results
from table_digest import columns_of, digest_table, read_folder

TABLE = pa.table(
    {
        "system": pa.array(["scribe", "naive", None, "scribe"]),
        "node": pa.array([3, 1, None, 2], pa.int64()),
        "hops": pa.array([1, None, 0, 4], pa.int32()),
        "delay_ms": pa.array([1.5, 0.1 + 0.2, None, -2.0]),
    }
)


def sha256(table: pa.Table, columns: dict[str, str] | None = None) -> str:
    return digest_table(table, columns or columns_of(table))["sha256"]


def test_files_and_additional_columns_do_not_matter(tmp_path):
    more = TABLE.append_column("more", pa.array([1, 2, 3, 4]))
    for number, part in enumerate((more.slice(0, 1), more.slice(1, 3), more.slice(0, 0))):
        pq.write_table(part, tmp_path / f"part-{number}.parquet")
    assert sha256(read_folder(tmp_path), columns_of(TABLE)) == sha256(TABLE)


def changed(name: str, values: list, kind: pa.DataType | None = None) -> pa.Table:
    place = TABLE.column_names.index(name)
    return TABLE.set_column(place, name, pa.array(values, kind or TABLE.schema.field(name).type))


@pytest.mark.parametrize(
    "other",
    [
        changed("delay_ms", [1.5, 0.3, None, -2.0]),
        changed("system", ["scribe", "naive", "", "scribe"]),
        changed("system", ["scribe", "naive", None, "naive"]),
        changed("node", [3, 1, 0, 2]),
        changed("hops", [1, 0, None, 4]),
        changed("hops", [1, None, 0, 4], pa.int64()),
        TABLE.rename_columns(["system", "node", "jumps", "delay_ms"]),
        TABLE.slice(0, 3),
        pa.concat_tables([TABLE, TABLE.slice(0, 1)]),
    ],
    ids=["last bit", "NULL or empty", "text", "NULL or 0", "NULL moves", "type", "name", "less",
         "twice"],
)  # fmt: skip
def test_everything_else_matters(other):
    assert sha256(other) != sha256(TABLE)


def test_rows_sorted_by_all_columns():
    """Rows that agree in their first columns, in any order."""
    rows = pa.table({"a": [1, 1, 1, 2], "b": [3, 2, 3, 0], "c": [0.5, -0.5, -0.0, 1.0]})
    digests_found = {
        sha256(rows.take(np.random.default_rng(seed).permutation(4))) for seed in range(20)
    }
    assert len(digests_found) == 1


def test_what_is_missing_is_said():
    found = digest_table(TABLE, {"node": "int64", "group": "int64"})
    assert found == {"rows": 4, "sha256": "column group is missing"}


def test_differences():
    recorded = {"tables": {"nodes": {"rows": 2, "sha256": "a" * 64}}, "metrics": {"x": None}}
    assert not list(differences(recorded, {**recorded, "metrics": {"x": None, "new": 1}}))
    found = list(differences(recorded, {"tables": {}, "metrics": {"x": 0.0}}))
    assert [(d.name, d.found) for d in found] == [("nodes", ABSENT), ("x", 0.0)]


def test_mended_results_take_the_place_of_recorded_ones(tmp_path):
    mended = tmp_path / "mended.json"
    before = read_recorded(digests.SMALL, mended)
    write_mended(mended, "tiny", [Difference("metrics", "scribe.messages", 1, ABSENT)], "a reason")
    after = read_recorded(digests.SMALL, mended)
    assert list(differences(after.results["tiny"], before.results["tiny"]))
    assert after.results["one_node"] == before.results["one_node"]


def test_what_was_not_recorded_is_said_and_not_run(tmp_path, capsys):
    options = argparse.Namespace(paper=False, names=["nobody"], mended=None, partitions=None)
    assert digests.check(options, tmp_path) == ["nobody"]
    assert "nobody: is not recorded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("golden", "flags"), [(digests.SMALL, CONFIGURATIONS), (digests.PLAYED, WORLDS)]
)
def test_every_configuration_is_recorded(golden, flags):
    recorded = read_recorded(golden, digests.MENDED)
    assert {n: r["flags"] for n, r in recorded.results.items()} == flags
    tables = {table for results in recorded.results.values() for table in results["tables"]}
    assert tables == set(recorded.columns)


@pytest.mark.slow
def test_same_results(spark, tmp_path):
    recorded = read_recorded(digests.SMALL, digests.MENDED)
    found = read_results(digests.run_config("tiny", tmp_path, spark, 2), recorded.columns)
    assert [str(d) for d in differences(recorded.results["tiny"], found)] == []


@pytest.mark.parametrize(
    "name", [pytest.param("world_access", marks=pytest.mark.slow), "world_contact_discovered"]
)
def test_same_worlds(spark, tmp_path, name):
    recorded = read_recorded(digests.PLAYED, digests.MENDED)
    out = digests.run_config(name, tmp_path, spark, 2)
    found = read_results(out, recorded.columns)
    assert [str(d) for d in differences(recorded.results[name], found)] == []
    assert found["tables"].keys() == recorded.results[name]["tables"].keys()
    # what the command leaves is what the rounds are, one by one
    played = read_folder(out / "tables" / "rounds").sort_by([("round", "ascending")])
    stepped = read_folder(out / "tables" / "stepped_measures").sort_by([("round", "ascending")])
    assert set(values_of(stepped)) <= set(values_of(played))


def values_of(rows: pa.Table) -> list[tuple]:
    columns = (rows.column(name).to_pylist() for name in ("round", "measure", "value"))
    return list(zip(*columns, strict=True))
