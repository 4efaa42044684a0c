"""Interrupted, damaged or moved about: what is whole is kept, the rest is made again, the same."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from scribe_spark import experiments
from scribe_spark.errors import InputError
from scribe_spark.experiments.folder import Folder

from .conftest import Notes, left, manifest

# ---------------------------------------------------------------------------------- damage


@pytest.fixture
def copy(small, tmp_path) -> Path:
    """The small run, to be damaged."""
    shutil.copytree(small.out, tmp_path / "out")
    return tmp_path / "out"


def parts(out: Path, table: str) -> list[Path]:
    return sorted((out / "tables" / table).glob("*.parquet"), key=lambda file: file.stat().st_size)


def cut(file: Path) -> None:
    with open(file, "r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def flip(at: float) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[int(at * len(content))] ^= 0x10
        file.write_bytes(content)

    return damage


def without_checksum(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """On a file system that finds nothing itself."""

    def both(file: Path) -> None:
        damage(file)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)

    return both


DAMAGES = {
    "cut": cut,
    "emptied": lambda file: file.write_bytes(b""),
    "flipped in the rows": flip(0.2),
    "flipped in the rows, no checksum": without_checksum(flip(0.05)),
    "flipped in the footer": flip(0.9),
    "scrambled": without_checksum(lambda file: file.write_bytes(b"PAR1" * 99)),
    "a part is missing": without_checksum(Path.unlink),
    "the table is missing": lambda file: shutil.rmtree(file.parent),
    "a part is there twice": lambda file: shutil.copy(file, file.with_name("x.parquet")),
    "half-written": lambda file: [
        shutil.rmtree(file.parent),
        (file.parent / "_temporary" / "0").mkdir(parents=True),
    ],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(spark, copy, damage):
    records = {name: r for e in manifest(copy)["phases"] for name, r in e["tables"].items()}
    folder = Folder(spark, str(copy))
    assert folder.is_whole("link_stress", records["link_stress"])
    DAMAGES[damage](parts(copy, "link_stress")[-1])
    assert not folder.is_whole("link_stress", records["link_stress"])


def test_foreign_rows_and_columns_are_found(spark, copy):
    """A Parquet file of somebody else's in a table's folder; and a table in another's place."""
    records = {name: r for e in manifest(copy)["phases"] for name, r in e["tables"].items()}
    folder = Folder(spark, str(copy))
    shutil.copy(parts(copy, "nodes")[-1], copy / "tables" / "members" / "part-x.parquet")
    assert not folder.is_whole("members", records["members"])
    shutil.copy(parts(copy, "groups")[-1], copy / "tables" / "groups" / "again.parquet")
    assert not folder.is_whole("groups", records["groups"])
    shutil.rmtree(copy / "tables" / "nodes")
    shutil.copytree(copy / "tables" / "links", copy / "tables" / "nodes")
    assert not folder.is_whole("nodes", records["nodes"])


def test_a_missing_success_marker_is_no_damage(spark, copy):
    """Not every committer writes one; the rows say whether they are all there."""
    record = manifest(copy)["phases"][0]["tables"]["links"]
    (copy / "tables" / "links" / "_SUCCESS").unlink()
    assert Folder(spark, str(copy)).is_whole("links", record)


def test_damaged_tables_are_made_again(make, copy, small):
    """Those phases alone whose tables are not whole; the later ones still are, to the bit."""
    cut(parts(copy, "links")[-1])
    shutil.rmtree(copy / "tables" / "group_delay")
    (copy / "metrics.json").write_text((copy / "metrics.json").read_text().replace("1", "2"))
    notes = Notes()
    run = make(copy, resume=True, write_routing_table=True, progress=notes)
    assert notes.lines == ["overlay: whole already", "trees: whole already"]
    assert left(copy) == left(small.out)
    assert [entry["name"] for entry in manifest(copy)["phases"]] == list(experiments.PHASES)
    assert run.metrics() == small.metrics()


def test_a_table_from_damaged_ones_is_made_again(make, copy, small):
    """Where a phase comes out otherwise than recorded, all that was made from it goes."""
    file = copy / "manifest.json"
    record = json.loads(file.read_text())
    record["phases"][2]["tables"]["members"]["digest"] = "0-0"
    file.write_text(json.dumps(record))
    notes = Notes()
    make(copy, resume=True, write_routing_table=True, progress=notes)
    assert notes.lines == ["topology: whole already", "overlay: whole already"]
    assert left(copy) == left(small.out)


def test_a_gap_is_told(make, copy):
    shutil.rmtree(copy / "tables" / "nodes")
    with pytest.raises(InputError, match="missing or damaged; run --phase overlay"):
        make(copy, resume=True, write_routing_table=True, phases=("measures",))


# ---------------------------------------------------------------------- going on, starting over


def test_a_whole_run_is_left_as_it_is(make, copy):
    """But the report, which is drawn again, the same."""
    before = {p: p.stat().st_mtime_ns for p in (copy / "tables").rglob("*")}
    page = (copy / "report.html").read_text()
    notes = Notes()
    make(copy, resume=True, write_routing_table=True, progress=notes)
    assert len(notes.lines) == 4
    assert {p: p.stat().st_mtime_ns for p in (copy / "tables").rglob("*")} == before
    assert (copy / "report.html").read_text() == page


def test_overwrite_deletes_only_what_a_run_left(make, copy):
    """What lies beside it is the user's; what is in tables/ and figures/ is the run's."""
    (copy / "notes.txt").write_text("mine")
    (copy / "manifest.json").write_text("scrambled")
    make(copy, overwrite=True, seed=2, phases=("topology",))
    assert (copy / "notes.txt").read_text() == "mine"
    names = {path.name for path in copy.iterdir()}
    assert names == {"notes.txt", "manifest.json", "tables"}
    assert {path.name for path in (copy / "tables").iterdir()} == {"routers", "links"}
    assert manifest(copy)["seed"] == 2
    # and the folder is still a run's, notes or no notes
    make(copy, resume=True, seed=2, phases=("topology",))


@pytest.mark.parametrize("place", ["plain", "url", "odd"])
def test_places(make, tmp_path, monkeypatch, place):
    """A relative path, a URL, and a name with all that Hadoop or Spark might take for syntax."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / {"plain": "a/b", "url": "a b ü", "odd": "ä ö [1] {x,y} *?#%41:2"}[place]
    out = {"plain": "a/b", "url": folder.as_uri(), "odd": str(folder)}[place]
    run = make(out, phases=("topology",))
    assert (folder / "tables" / "links" / "_SUCCESS").exists()
    assert run.table("links").count() > 0
    notes = Notes()
    make(out, phases=("topology",), resume=True, progress=notes)
    assert notes.lines == ["topology: whole already"]


@pytest.fixture
def viewfs(spark, tmp_path):
    """A URL that is not of this machine, for all that the code can tell."""
    # a name of its own, because Hadoop keeps file systems by name
    conf, host = spark._jsc.hadoopConfiguration(), f"host{uuid.uuid4().hex}"
    conf.set(f"fs.viewfs.mounttable.{host}.link./data", tmp_path.as_uri())
    return f"viewfs://{host}/data"


@pytest.mark.parametrize("older", [False, True], ids=["FileContext", "FileSystem only"])
def test_a_url(make, spark, tmp_path, viewfs, older):
    conf, key = spark._jsc.hadoopConfiguration(), "fs.AbstractFileSystem.viewfs.impl"
    before = conf.get(key)
    if older:
        conf.set(key, "there.is.None")
    try:
        make(f"{viewfs}/run", phases=("topology",))
        with pytest.raises(InputError, match="exists; use --resume"):
            make(f"{viewfs}/run", phases=("topology",))
        notes = Notes()
        make(f"{viewfs}/run/", phases=("topology",), resume=True, progress=notes)
        assert notes.lines == ["topology: whole already"]
        with pytest.raises(InputError, match="was made with seed = 1"):
            make(f"{viewfs}/run", phases=("topology",), resume=True, seed=3)
    finally:
        conf.set(key, before)
    assert (tmp_path / "run" / "tables" / "routers" / "_SUCCESS").exists()
    assert not list((tmp_path / "run").rglob("*.tmp"))


@pytest.mark.parametrize("out", ["nosuch://host/run", "s3a://bucket/run", "viewfs://nobody/run"])
def test_a_url_of_no_file_system(make, out):
    """Known only once Spark runs; still one line."""
    with pytest.raises(InputError, match=r"^out = .*: cannot be used \(") as caught:
        make(out)
    assert "\n" not in str(caught.value)


def test_texts_are_written_whole(spark, tmp_path):
    folder = Folder(spark, str(tmp_path))
    for text in ("a", "longer, with ü", ""):
        folder.write_text("deep/in/it.txt", text)
        assert (tmp_path / "deep/in/it.txt").read_text("utf-8") == text
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["it.txt"]


# ---------------------------------------------------------------------------------- the report


def test_report_of_no_run(spark, make, copy, tmp_path):
    for out in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError, match="holds no finished run"):
            experiments.report(spark, str(out))
    record = manifest(copy)
    record["phases"] = record["phases"][:2]
    (copy / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="holds no finished run"):
        experiments.report(spark, str(copy))


def test_report_again(spark, copy):
    page = (copy / "report.html").read_text()
    (copy / "report.html").unlink()
    shutil.rmtree(copy / "figures")
    assert experiments.report(spark, str(copy)) == f"{copy}/report.html"
    assert (copy / "report.html").read_text() == page
