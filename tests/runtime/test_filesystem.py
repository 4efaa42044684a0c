"""The three ways to a file system do the same things, and refuse in the same words."""

from __future__ import annotations

import time
import zlib

import pytest

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
