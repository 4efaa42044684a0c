"""All tables and texts of a folder against its manifest, with no Spark where it is local."""

import json
import shutil
from typing import Any

import pytest
from damage import assert_all_damage_is_told, places

from scribe_spark.core.errors import InputError
from scribe_spark.experiments import verify

from .conftest import copied, left


@pytest.fixture
def call(call, no_spark):
    """Run the command line in this process, which may start no Spark."""
    return call


@pytest.fixture
def out(small, tmp_path):
    return copied(small.out, tmp_path / "out")


def test_every_table_of_a_run_is_looked_at(out):
    assert len(places(out)) == len(left(out)) > 10
    assert_all_damage_is_told(out)


def test_a_line_for_each_damaged_table_and_exit_1(call, out):
    code, told, err = call("verify", str(out))
    assert (code, err) == (0, "")
    assert told == f"{out}: a run; tables: {len(left(out)) - 1}, texts: 1, all as written\n"
    shutil.rmtree(out / "tables" / "link_stress")
    (file := min((out / "tables" / "nodes").glob("*.parquet"))).write_bytes(b"PAR1")
    (out / "metrics.json").unlink()
    code, told, err = call("verify", "--out", str(out))
    assert code == 1
    assert sorted(told.splitlines()) == [
        "metrics.json: it is missing",
        "tables/link_stress: the table or a part of it is missing",
        f"tables/nodes: {file.name} has changed",
    ]
    assert err.startswith(f"scribe-spark: error: {out}: a run; tables: ")
    assert "damaged: 3; make them again by their command with --resume" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "has no manifest.json: it holds no results of scribe-spark"),
        ("{", "its manifest.json cannot be read (Expecting property name"),
        ("[]", "its manifest.json belongs to something else"),
        ('{"resolved": {}, "phases": 5}', "its manifest.json cannot be read as that of a run"),
        ('{"resolved": {}, "phases": [], "config": 5}', "cannot be read as that of a run"),
        ('{"resolved": {}, "phases": [], "machine": [1]}', "cannot be read as that of a run"),
        ('{"resolved": {}, "world": []}', "its manifest.json cannot be read as that of a world"),
        ('{"resolved": {}, "runs": {"a": 1}}', "its manifest.json cannot be read as that of the w"),
        ('{"resolved": {}, "phases": [], "points": 1}', "cannot be read as that of a sweep of run"),
        ('{"resolved": {}, "points": [1]}', "cannot be read as that of experiments on the refere"),
    ],
)
def test_what_cannot_be_verified_is_refused(call, tmp_path, text, says):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    code, told, err = call("verify", str(tmp_path))
    assert (code, told) == (2, "")
    assert err.startswith(f"scribe-spark: error: out = {str(tmp_path)!r}: ")
    assert says in err
    assert err.count("\n") == 1


_RECORD = {"rows": 0, "columns": "", "digest": "", "files": {}}


def _manifests(name: Any) -> dict[str, dict[str, Any]]:
    """A manifest of each command, with one name that is given, by what is so called."""
    phase = {"name": "topology", "tables": {}, "texts": {}}
    return {
        "table of a run": {"phases": [{**phase, "tables": {name: _RECORD}}]},
        "text of a run": {"phases": [{**phase, "texts": {name: ""}}]},
        "table of a world": {"world": {"tables": {name: _RECORD}, "saved": None}},
        "slot of a world": {
            "world": {
                "tables": {},
                "saved": {"number": 1, "slot": f"/{name}", "state": _RECORD, "measures": ""},
            }
        },
        "point of a sweep": {"phases": [], "points": [name]},
        "point of a sweep of worlds": {"phases": [], "points": [name], "resolved": {"lookups": 1}},
        "table of a sweep": {"phases": [], "points": [], "tables": {name: _RECORD}},
        "point of a reference tree": {"points": {name: ""}},
        "text of a reference tree": {"points": {}, "texts": {name: ""}},
        "experiment of the paper": {"runs": [{"name": f"{name}, seed 1"}]},
        "seed of the paper": {"runs": [{"name": f"main, seed {name}"}]},
        "text of the paper": {"runs": [], "texts": {name: ""}},
    }


@pytest.mark.parametrize("what", _manifests(""))
@pytest.mark.parametrize("name", [".", "..", "", "/", "../x", "a/../../x", "a\\b", "a\0b"])
def test_a_name_in_a_manifest_is_that_of_one_folder(tmp_path, what, name):
    manifest = {"resolved": {}, **_manifests(name)[what]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"^a name in manifest.json = .*must be the name of one"):
        verify(str(tmp_path))


@pytest.mark.parametrize("points", [["."], ["b=2"]])
def test_a_sweep_in_a_sweep_is_not_looked_into(tmp_path, points):
    """However it comes there: by its name, or by a link that leads back."""
    (tmp_path / "b=2").symlink_to(tmp_path)
    manifest = {"resolved": {}, "phases": [], "points": points, "tables": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    if points == ["."]:
        with pytest.raises(InputError, match="must be the name of one file or folder"):
            verify(str(tmp_path))
    else:
        assert verify(str(tmp_path)).damaged == ["b=2: it holds a sweep of runs, not a run"]
