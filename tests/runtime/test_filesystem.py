"""The three ways to a file system, folders that tasks share, and a disk without space."""

import errno
import os
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from scribe_spark.core.errors import RunError
from scribe_spark.experiments.folder import SWEPT, Folder
from scribe_spark.runtime import filesystem as full_disk
from scribe_spark.runtime.environment import SCRATCH
from scribe_spark.runtime.filesystem import ArrowFiles, HadoopFiles, LocalFiles, open_files


@pytest.fixture(params=["local", "hadoop", "arrow"])
def files(request, spark, tmp_path):
    """A file system of each kind, over this machine's files."""
    url = tmp_path.as_uri()
    opened = {
        "local": lambda: LocalFiles(),
        "hadoop": lambda: HadoopFiles(spark, url),
        "arrow": lambda: ArrowFiles(url),
    }[request.param]()
    yield opened
    opened.close()


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}"


def test_write_replaces_and_leaves_nothing_beside(files, url, tmp_path):
    for content in (b"first", "second, with ü".encode(), b""):
        files.write(f"{url}/deep/in/a b.txt", content)
        assert (tmp_path / "deep/in/a b.txt").read_bytes() == content
        assert files.read(f"{url}/deep/in/a b.txt") == content
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a b.txt"]


@pytest.mark.parametrize("name", ["a.json.tmp", ".a.json.tmp", "a.json"])
def test_no_link_leads_a_write_to_another_file(files, url, tmp_path, name):
    (tmp_path / "stranger").write_text("theirs")
    (tmp_path / name).symlink_to(tmp_path / "stranger")
    files.write(f"{url}/a.json", b"ours")
    assert (tmp_path / "stranger").read_text() == "theirs"
    assert files.read(f"{url}/a.json") == b"ours"


def test_create_does_not_follow_a_link_to_nowhere(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"^lock is a symbolic link$"):
        LocalFiles().create(f"file://{tmp_path}/lock", b"")
    assert not (tmp_path / "nowhere").exists()


def test_create_keeps_what_is_there(files, url):
    assert files.create(f"{url}/new/lock", b"mine")
    assert not files.create(f"{url}/new/lock", b"yours")
    assert files.read(f"{url}/new/lock") == b"mine"


def test_list_and_status(files, url):
    files.write(f"{url}/b", b"12345")
    files.write(f"{url}/a/inner", b"")
    entries = files.list(url)
    assert [(e.name, e.url, e.is_folder, e.bytes) for e in entries] == [
        ("a", f"{url}/a", True, 0),
        ("b", f"{url}/b", False, 5),
    ]
    assert abs(entries[1].modified - time.time()) < 60
    assert files.status(f"{url}/b") == entries[1]
    assert files.status(f"{url}/c") is None
    assert files.status(f"{url}/b/below") is None


def test_checksum_is_the_crc_32_of_the_content(files, url, tmp_path):
    content = bytes(range(256)) * 10_000  # more than is read at a time
    (tmp_path / "table").write_bytes(content)
    assert files.checksum(f"{url}/table") == zlib.crc32(content)
    (tmp_path / "table").write_bytes(b"")
    assert files.checksum(f"{url}/table") == 0


def test_delete_takes_folders_whole_and_minds_nothing_that_is_gone(files, url, tmp_path):
    files.write(f"{url}/a/b/c", b"")
    files.write(f"{url}/d", b"")
    for name in ("a", "d", "never"):
        files.delete(f"{url}/{name}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ask", ["read", "list", "checksum"])
def test_what_is_not_there_is_file_not_found(files, url, ask):
    with pytest.raises(FileNotFoundError) as caught:
        getattr(files, ask)(f"{url}/nowhere")
    assert "\n" not in str(caught.value)


def test_a_file_in_the_place_of_a_folder_is_an_error_of_one_line(files, url):
    files.write(f"{url}/file", b"")
    with pytest.raises(OSError, match=r"^[^\n]*$"):
        files.write(f"{url}/file/below", b"")


def test_a_url_of_no_file_system_is_an_error_of_one_line(spark, monkeypatch):
    for tricks in ("all", "none"):
        monkeypatch.setenv("SCRIBE_SPARK_TRICKS", tricks)
        with pytest.raises(OSError, match=r"^[^\n]+$"):
            open_files(spark, "nosuch://host/run")


def test_which_file_system_a_url_gets(spark, monkeypatch, tmp_path):
    assert isinstance(open_files(spark, f"file://{tmp_path}"), LocalFiles)
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.somewhere.link./data", tmp_path.as_uri())
    assert isinstance(open_files(spark, "viewfs://somewhere/data"), HadoopFiles)
    monkeypatch.setenv("SCRIBE_SPARK_TRICKS", "-hadoop_files")
    assert isinstance(open_files(spark, "mock:///data"), ArrowFiles)


# --- a full disk ----------------------------------------------------------------------------------


GO_ON = "free space there, then continue with --resume"


@contextmanager
def files_of_at_most(bytes_: int) -> Iterator[None]:
    """Inside, this process can write no longer files, which is what a full disk looks like."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def session(tmp_path, monkeypatch):
    """What is asked of a session here: a local one with a scratch folder of its own."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    context = SimpleNamespace(master="local[2]", getConf=dict)
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def free(monkeypatch, tmp_path):
    """How much room there is, by folder below `tmp_path`; plenty where nothing is said."""
    room: dict[str, int] = {}

    def disk_usage(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(free=room.get(Path(folder).name, 1 << 40))

    monkeypatch.setattr(full_disk.shutil, "disk_usage", disk_usage)
    return room


WRITING = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/x\nCaused by: "
NO_ROOM = "java.io.IOException: No space left on device"


@pytest.mark.parametrize(
    ("text", "least", "named"),
    [
        (WRITING + NO_ROOM, {}, "out"),
        (NO_ROOM, {}, "scratch"),
        (WRITING + NO_ROOM, {"scratch": 0, "out": 1 << 30}, "scratch"),  # a sort that is spilled
        (NO_ROOM, {"out": 4096}, "out"),
        (
            "java.io.FileNotFoundException: {tmp}/scratch/a/b (No space left on device)",
            {},
            "scratch",
        ),
        (WRITING + "java.io.IOException: Disk quota exceeded", {}, "out"),
        (WRITING + "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: x", {}, "out"),
        ("OSError: [Errno 27] File too large: '{tmp}/scratch/x.npy'", {}, "scratch"),
    ],
)
def test_which_folder(session, free, tmp_path, text, least, named):
    free.update(least)
    error = RuntimeError("An error occurred\n" + text.replace("{tmp}", str(tmp_path)))
    line = full_disk.full_disk(error, session, "given", tmp_path / "out")
    assert line is not None
    whose = "out = 'given': " if named == "out" else f"SPARK_LOCAL_DIRS = '{tmp_path}/scratch': "
    assert line.startswith(whose + "has no space left (")
    assert "\n" not in line


def test_an_executor_elsewhere(free):
    session = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://host:7077"))
    line = full_disk.full_disk(RuntimeError(NO_ROOM), session, "s3a://b/x", None)
    assert "an executor's" in str(line)
    line = full_disk.full_disk(RuntimeError(WRITING + NO_ROOM), session, "s3a://b/x", None)
    assert str(line).startswith("out = 's3a://b/x': has no space left")


def test_other_failures_are_none_of_it(session, tmp_path):
    for error in (RuntimeError("Task failed"), OSError(errno.EACCES, "Permission denied")):
        assert full_disk.full_disk(error, session, "out", tmp_path) is None


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    files, url = LocalFiles(), f"file://{tmp_path}"
    files.write(f"{url}/text", b"before")
    with files_of_at_most(1000):
        for write in (files.write, files.create):
            with pytest.raises(OSError, match="File too large"):
                write(f"{url}/new", b"x" * 2000)
        with pytest.raises(OSError, match="File too large"):
            files.write(f"{url}/text", b"x" * 2000)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"text": b"before"}


def test_a_text_of_a_run_that_finds_no_room(spark, tmp_path):
    out = str(tmp_path / "out")
    with files_of_at_most(1000), pytest.raises(RunError) as error, Folder(spark, out) as folder:
        folder.write_text("metrics.json", "x" * 2000)
    assert str(error.value) == f"out = {out!r}: has no space left (File too large); {GO_ON}"
    assert not list(Path(out).iterdir())


def test_a_task_that_finds_no_room(spark, tmp_path, capfd):
    """Spark's own words around it are found in, and its log says nothing of it."""

    def fails(batches):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(RunError, match="has no space left") as error:  # noqa: SIM117
        with Folder(spark, str(tmp_path / "out")) as folder:
            folder.write_tables({SWEPT: spark.range(3).mapInArrow(fails, "id bigint")})
    assert "No space left on device" in str(error.value)
    assert "ERROR" not in capfd.readouterr().err


# --- scratch folders ------------------------------------------------------------------------------


PROGRAM = """
from scribe_spark.runtime.environment import scratch_folder
folder = scratch_folder()
(folder / "table").write_text("rows")
print(folder)
raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("folders", "where"),
    [("a,b", "a"), ("a", "a"), ("", "tmp"), (None, "tmp"), ("file/a", "tmp")],
    ids=str,
)
def test_where_it_is_and_that_it_goes(tmp_path, folders, where):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").write_text("no folder can be made in it")
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    environment.pop(SCRATCH, None)
    if folders is not None:
        environment[SCRATCH] = ",".join(str(tmp_path / of) for of in folders.split(",") if of)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    made = Path(done.stdout.strip())
    assert made.parent == tmp_path / where, done.stderr
    assert not made.exists()
