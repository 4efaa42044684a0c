"""Interrupted, damaged or moved: what is complete is kept, the rest is made again, the same."""

import itertools
import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments.folder import Folder
from scribe_spark.measures.measure import Measure, Metric
from scribe_spark.measures.metrics import register_measure, unregister_measure
from scribe_spark.runtime.filesystem import LocalFiles

from .conftest import SMALL, Notes, left, manifest

# ---------------------------------------------------------------------------------- damage


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


def records(out: Path) -> dict[str, Any]:
    return {name: r for e in manifest(out)["phases"] for name, r in e["tables"].items()}


@pytest.fixture
def folder(spark, copy) -> Iterator[Folder]:
    with Folder(spark, str(copy)) as opened:
        yield opened


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(folder, copy, damage):
    record = records(copy)["link_stress"]
    assert folder.verify_table("link_stress", record) is None
    DAMAGES[damage](parts(copy, "link_stress")[-1])
    assert folder.verify_table("link_stress", record)


# ------------------------------------------------------- storage that does not answer, Ctrl-C


def hiccup(error: BaseException) -> Callable[[LocalFiles, str], int]:
    """Checksums as they are, but the third raises."""
    checksum, asked = LocalFiles.checksum, itertools.count(1)

    def raise_once(files: LocalFiles, url: str) -> int:
        if next(asked) == 3:
            raise error
        return checksum(files, url)

    return raise_once


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(5, "Input/output error"), InputError),
        (RuntimeError("Job 7 cancelled"), InputError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["storage", "cancelled", "interrupted"],
)
def test_what_is_no_damage_is_raised(make, copy, monkeypatch, error, raised):
    """And nothing is lost: not a record, not a table."""
    before = (copy / "manifest.json").read_text()
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "checksum", hiccup(error))
        with pytest.raises(raised) as caught:
            make(copy, resume=True, write_routing_table=True)
    assert "\n" not in str(caught.value)
    assert (copy / "manifest.json").read_text() == before
    assert not list(copy.glob(".scribe*"))
    notes = Notes()
    make(copy, resume=True, write_routing_table=True, phases=("measures",), progress=notes)
    assert len(notes.lines) == 4


def test_a_record_goes_just_before_its_table(make, copy, monkeypatch):
    """Until then an interrupted phase has lost nothing."""
    cut(parts(copy, "group_delay")[-1])
    before = (copy / "manifest.json").read_text()

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("scribe_spark.experiments.phases.count_stress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(copy, resume=True, write_routing_table=True)
    assert (copy / "manifest.json").read_text() == before


def test_damaged_tables_are_made_again(make, copy, small):
    """Those phases alone whose tables are not whole; the later ones still are, to the bit."""
    cut(parts(copy, "links")[-1])
    shutil.rmtree(copy / "tables" / "group_delay")
    (copy / "metrics.json").write_text((copy / "metrics.json").read_text().replace("1", "2"))
    notes = Notes()
    run = make(copy, resume=True, write_routing_table=True, progress=notes)
    assert [line for line in notes.lines if "not as written" not in line] == [
        "overlay: complete, skipped",
        "trees: complete, skipped",
    ]
    assert left(copy) == left(small.out)
    assert [entry["name"] for entry in manifest(copy)["phases"]] == list(experiments.PHASES)
    assert run.metrics() == small.metrics()


def test_a_measure_that_was_not_registered_is_computed(make, copy, small):
    """And what only it has changed is no reason to compute the phases before."""
    definition = Metric("mine.value", "1", None, "Mine.", lambda found: 7)
    register_measure(Measure("mine", (definition,)))
    notes = Notes()
    try:
        run = make(copy, resume=True, write_routing_table=True, progress=notes)
    finally:
        unregister_measure("mine")
    assert notes.lines[2:] == [
        "trees: complete, skipped",
        "measures: the saved tables are of other measures; computed again",
    ]
    assert run.metrics()[-1]["value"] == 7
    assert run.metrics()[:-1] == small.metrics()
    assert manifest(copy)["phases"][3]["registered"]["measures"][-1] == "mine"


# ---------------------------------------------------------------------- going on, starting over


@pytest.mark.parametrize("is_url", [True, False])
def test_places(make, tmp_path, is_url):
    """A URL, and a name with all that Hadoop or Spark might take for syntax."""
    folder = tmp_path / ("a b ü" if is_url else "ä ö [1] {x,y} *?#%41:2")
    out = folder.as_uri() if is_url else str(folder)
    run = make(out, phases=("topology",))
    assert (folder / "tables" / "links" / "_SUCCESS").exists()
    assert run.table("links").count() > 0
    notes = Notes()
    make(out, phases=("topology",), resume=True, progress=notes)
    assert notes.lines == ["topology: complete, skipped"]


@pytest.fixture
def viewfs(spark, tmp_path):
    """A URL that is not of this machine, for all that the code can tell."""
    # a name of its own, because Hadoop keeps file systems by name
    conf, host = spark._jsc.hadoopConfiguration(), f"host{uuid.uuid4().hex}"
    conf.set(f"fs.viewfs.mounttable.{host}.link./data", tmp_path.as_uri())
    return f"viewfs://{host}/data"


@pytest.mark.parametrize("older", [False, pytest.param(True, marks=pytest.mark.slow)])
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
        assert notes.lines == ["topology: complete, skipped"]
        with pytest.raises(InputError, match="was made with seed = 1"):
            make(f"{viewfs}/run", phases=("topology",), resume=True, seed=3)
    finally:
        conf.set(key, before)
    assert (tmp_path / "run" / "tables" / "routers" / "_SUCCESS").exists()
    assert not list((tmp_path / "run").rglob("*.tmp"))


@pytest.mark.parametrize("field", ["members", "capacities"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.parquet", None),
        ("bad.parquet", b"PAR1 and nothing else"),
        ("other.csv", b"a,b\n1,2\n"),
        ("text.csv", b"group,node,limit\n1,x,9\n"),
    ],
)
def test_remote_tables_that_cannot_be_read(make, tmp_path, viewfs, field, name, content):
    """Known only once Spark runs, but before any work is done."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    notes = Notes()
    with pytest.raises(InputError, match=rf"^{field} = 'viewfs://.*/{name}': ") as caught:
        make(f"{viewfs}/run", progress=notes, **{field: f"{viewfs}/{name}"})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    assert notes.lines == []


@pytest.mark.parametrize(
    "out", ["nosuch://host/run", "s3a://bucket/run", "viewfs://nobody/run", "http://localhost:9/x"]
)
def test_a_url_of_no_file_system_or_one_that_cannot_be_listed(make, out):
    """Spark alone knows; the refusal is one line."""
    with pytest.raises(InputError, match=rf"^out = '{out}': cannot be used \(") as caught:
        make(out)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------- the report


def test_report_of_no_run(spark, copy, tmp_path):
    for out in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError, match="has no manifest"):
            experiments.report(spark, str(out))
    record = manifest(copy)
    record["phases"] = record["phases"][:2]
    (copy / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"no finished run \(phases done: topology, overlay\)"):
        experiments.report(spark, str(copy))
    for scrambled in ([], record | {"resolved": []}):
        (copy / "manifest.json").write_text(json.dumps(scrambled))
        with pytest.raises(InputError, match=r"something else|as that of a run"):
            experiments.report(spark, str(copy))


@pytest.mark.parametrize("name", ["metrics.json", "distributions", "tree_edges", "groups"])
def test_report_verifies_what_it_reads(spark, copy, name):
    flip(0.9)(copy / name if name == "metrics.json" else parts(copy, name)[-1])
    with pytest.raises(InputError, match=rf"{name} is not as written: .* has changed"):
        experiments.report(spark, str(copy))


def test_storage_that_does_not_answer(spark, copy, monkeypatch):
    """Is no unreadable manifest, which --overwrite would be the answer to."""

    def broken(*_: Any) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LocalFiles, "read", broken)
    with pytest.raises(InputError, match=r"cannot be used \(Input/output error\)"):
        experiments.report(spark, str(copy))
    before = sorted(copy.rglob("*"))
    config = RunConfig(**SMALL, write_routing_table=True)
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(InputError, match=r"cannot be used \(Input/output error\)"):
            experiments.run(spark, config, Execution(out=str(copy), **how))
    assert sorted(copy.rglob("*")) == before


def test_report_again(spark, copy):
    page = (copy / "report.html").read_text()
    (copy / "report.html").unlink()
    shutil.rmtree(copy / "figures")
    for session in (spark, None):
        assert experiments.report(session, str(copy)) == f"{copy}/report.html"
        assert (copy / "report.html").read_text() == page
        (copy / "report.html").unlink()
