"""A disk that has no space left: told from other failures, with the folder that is on it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scribe_spark.errors import InputError, RunError
from scribe_spark.experiments.folder import Folder
from scribe_spark.runtime import distribute, filesystem
from scribe_spark.runtime.filesystem import LocalFiles

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

    monkeypatch.setattr(filesystem.shutil, "disk_usage", disk_usage)
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
    line = filesystem.full_disk(error, session, "given", tmp_path / "out")
    assert line is not None
    whose = "out = 'given': " if named == "out" else f"SPARK_LOCAL_DIRS = '{tmp_path}/scratch': "
    assert line.startswith(whose + "has no space left (")
    assert "\n" not in line


def test_an_executor_elsewhere(free):
    session = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://host:7077"))
    line = filesystem.full_disk(RuntimeError(NO_ROOM), session, "s3a://b/x", None)
    assert "an executor's" in str(line)
    line = filesystem.full_disk(RuntimeError(WRITING + NO_ROOM), session, "s3a://b/x", None)
    assert str(line).startswith("out = 's3a://b/x': has no space left")


def test_other_failures_are_none_of_it(session, tmp_path):
    for error in (RuntimeError("Task failed"), OSError(errno.EACCES, "Permission denied")):
        assert filesystem.full_disk(error, session, "out", tmp_path) is None


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


def test_an_array_that_finds_no_room_names_its_file(tmp_path):
    with files_of_at_most(1000), pytest.raises(OSError) as error:  # noqa: PT011
        distribute._save(tmp_path / "a.npy", np.zeros(1000))
    assert filesystem.full_disk(error.value, None, "out", tmp_path) is not None
    assert error.value.filename == str(tmp_path / "a.npy")


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
            folder.write_rows("rows", spark.range(3).mapInArrow(fails, "id bigint"))
    assert "No space left on device" in str(error.value)
    assert "ERROR" not in capfd.readouterr().err


def test_refusals_of_input_stay_what_they_are(spark, tmp_path):
    refused = InputError("members", "No space left on device.csv", "does not exist")
    with pytest.raises(InputError) as error, Folder(spark, str(tmp_path / "out")):
        raise refused
    assert error.value is refused
