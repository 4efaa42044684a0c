"""Pipes, devices and files without an end as the inputs of every command: one line, no wait."""

import gzip
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core import inputs
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import read_table
from scribe_spark.core.paths import MOST_MANIFEST, read_packed
from scribe_spark.experiments.manifest import input_digests

from .conftest import copied


@pytest.fixture(autouse=True)
def no_wait():
    """End a test that waits for a pipe; without this, the test would never end."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waits for ever"))
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def refused(refused, no_spark):
    """Run a command line that is refused before Spark starts; return the line of its error."""
    return refused


#: Commands that read FILE -> good tables.
TABLES = {
    "topology FILE": "src,dst,delay_ms\n0,1,2\n1,2,2\n",
    "topology --regions FILE": "from,to,ms\na,a,1\na,b,2\nb,b,1\n",
    "run --regions FILE": "ms,a,b\na,1,2\nb,2,1\n",
    "run --node-routers FILE": "node,router\n0,1\n1,1\n",
    "run --members FILE": "group,node\n1,2\n1,3\n",
    "run --schedule FILE --message-size 1KB": "time,group,node\n0ms,1,2\n1ms,1,3\n",
    "run --variants lazy --capacities FILE": "node,limit\n0,1\n1,1\n",
    "world --nodes 100 --groups 3 --events FILE": "round,node,event\n1,2,fail\n1,3,fail\n",
    "world --nodes 100 --groups 3 --access FILE": "group,node,right\n1,2,join\n1,3,join\n",
    "world --nodes 100 --members FILE": "group,node\n1,2\n1,3\n",
}


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        *((command, "csv") for command in TABLES),
        *(("topology FILE", "gml"), ("topology --regions FILE", "json")),
        *(("run --members FILE", "parquet"), ("run --classes FILE", "toml")),
        ("run --config FILE", "toml"),
    ],
)
def test_a_pipe_is_no_input(refused, tmp_path, command, ending):
    pipe = tmp_path / f"input.{ending}"
    os.mkfifo(pipe)
    line = refused(*command.replace("FILE", str(pipe)).split())
    assert f" = '{pipe}': " in line
    assert line.endswith("is a pipe, not a file; write its content into a file first")


def test_a_device_is_no_input(refused):
    """Of these numbers there is no end."""
    assert "is a device, not a file" in refused("topology", "/dev/zero")
    assert "is a device, not a file" in refused("run", "--members", "/dev/urandom")


@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [
        *((RunConfig, name, {}) for name in ("members", "node_routers", "topology", "regions")),
        (RunConfig, "schedule", {"message_size": "1KB"}),
        (RunConfig, "capacities", {"variants": "lazy"}),
        *((WorldConfig, name, {"groups": 3}) for name in ("events", "access")),
        *((WorldConfig, name, {}) for name in ("members", "node_routers", "topology", "regions")),
    ],
)
def test_resume_knows_the_content_of_each_table(tmp_path, kind, name, more):
    (tmp_path / "t.csv").write_text("a\n")
    config = kind(**{name: str(tmp_path / "t.csv")}, **more)
    before = input_digests(config)
    (tmp_path / "t.csv").write_text("b\n")
    assert before.keys() == input_digests(config).keys() == {name}
    assert before != input_digests(config)


# --- size


@pytest.mark.parametrize("rows", [100, 101])
@pytest.mark.parametrize("form", ["csv", "parquet", "folder", "index"])
def test_the_most_rows_of_a_table(tmp_path, monkeypatch, form, rows):
    monkeypatch.setattr(inputs, "MOST_ROWS", 100)
    frame = pd.DataFrame({"group": np.arange(rows), "node": 1})
    path = tmp_path / f"m.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
        path.write_text(path.read_text().rstrip("\n"))  # the header also has a line break
    elif form == "folder":
        path.mkdir()
        frame[:60].to_parquet(path / "a.parquet")
        frame[60:].to_parquet(path / "b.parquet")
    elif form == "index":
        frame.drop(columns="group").rename_axis("group").to_parquet(path)
    else:
        frame.to_parquet(path)
    columns = {"group": "int", "node": "int"}
    if rows == 100:
        assert read_table(str(path), "members", columns)["group"].tolist() == [*range(100)]
        return
    with pytest.raises(InputError, match=r"members = .*: it has more than 100 rows; give fewer$"):
        read_table(str(path), "members", columns)


@pytest.mark.parametrize("command", TABLES)
def test_the_most_bytes_of_each_input(refused, tmp_path, monkeypatch, command):
    """The bound, here of 200 bytes, is that of the content of a compressed file."""
    for module in ("core.paths", "topology.regions", "topology.graph_files"):
        bounded = lambda file, most=0: read_packed(file, 200)  # noqa: E731
        monkeypatch.setattr(f"scribe_spark.{module}.read_packed", bounded)
    file = tmp_path / "given.csv.gz"
    header, *rows = TABLES[command].splitlines()
    file.write_bytes(gzip.compress("\n".join([header, *rows * 100]).encode()))
    assert file.stat().st_size < 200
    line = refused(*command.replace("FILE", str(file)).split())
    assert f" = '{file}': cannot be read" in line
    assert "has more than 200 bytes; give a smaller file" in line


# --- cells beyond the header


@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize(("row", "separator"), [(1, ","), (2, ";")])
def test_no_cell_is_dropped(refused, tmp_path, command, row, separator):
    """As in ``1,000``, where a comma is no separator."""
    lines = TABLES[command].splitlines()
    lines[row] += ",5"
    (tmp_path / "given.csv").write_text("\n".join(lines).replace(",", separator))
    line = refused(*command.replace("FILE", str(tmp_path / "given.csv")).split())
    where = "its rows have" if row == 1 else "line 3 has"
    assert line.endswith(f": {where} more cells than its header")


# --- folders of results


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def large(file: Path) -> None:
    """A sparse file."""
    with file.open("r+b") as opened:
        opened.truncate(MOST_MANIFEST + 1)


def endless(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


SPOILT = {
    piped: "is a pipe, not a file; write its content into a file first",
    endless: "is a device, not a file; write its content into a file first",
    large: "has more than 67,108,864 bytes; give a smaller file",
}

#: Commands that read the manifest of OUT.
READERS = [
    "verify OUT", "compare OUT OTHER --out PAGE", "run --resume --out OUT",
    "run --overwrite --out OUT", "sweep --set b=2,4 --resume --out OUT", "world --resume --out OUT",
    "reference-tree --resume --out OUT", "run --knowledge OUT",
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "spoil"),
    [*((command, piped) for command in READERS), (READERS[0], endless), (READERS[0], large)],
)
def test_a_manifest_without_an_end(refused, tmp_path, command, spoil):
    for name in ("out", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    spoil(tmp_path / "out" / "manifest.json")
    paths = {"OUT": tmp_path / "out", "OTHER": tmp_path / "other", "PAGE": tmp_path / "page"}
    line = refused(*(str(paths.get(word, word)) for word in command.split()))
    assert f" = '{tmp_path}/out': " in line
    assert SPOILT[spoil] in line


@pytest.mark.parametrize("spoil", SPOILT)
def test_tables_and_texts_without_an_end_are_damaged(call, small, tmp_path, spoil):
    out = copied(small.out, tmp_path / "out")
    part = min((out / "tables" / "nodes").glob("*.parquet"))
    spoil(out / "metrics.json")
    spoil(part)
    code, told, _ = call("verify", str(out))
    assert code == 1
    text, table = told.splitlines()
    says = "it has changed" if spoil is large else f"it {SPOILT[spoil]}"
    assert text in (f"metrics.json: {says}", "metrics.json: it is not a text file")
    assert table == f"tables/nodes: {part.name} has changed"


@pytest.mark.parametrize("spoil", [piped, endless])
def test_a_lock_without_an_end(refused, tmp_path, spoil):
    (tmp_path / ".scribe-spark-lock").write_text("{}")
    spoil(tmp_path / ".scribe-spark-lock")
    line = refused("run", "--nodes", "100", "--groups", "3", "--out", str(tmp_path))
    assert line == f"out = '{tmp_path}': its .scribe-spark-lock {SPOILT[spoil]}"
