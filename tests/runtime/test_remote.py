"""Addresses of Spark Connect servers, and the package as tasks elsewhere get it."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from scribe_spark.errors import InputError
from scribe_spark.runtime import master as remote
from scribe_spark.runtime.master import check_remote, reach_remote
from scribe_spark.runtime.sessions import _zipped

pytest.importorskip("grpc", reason="the extra `connect` is not installed")


@pytest.mark.parametrize(
    "url",
    [
        *("sc://host", "sc://host:15002", "sc://host:15002/;use_ssl=true;token=a", "sc://[::1]:1"),
        *("local", "local[2]", "local[*]"),
    ],
)
def test_addresses(url):
    check_remote(url)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("spark://host:7077", "is not a Spark Connect server"),
        ("http://host", "is not a Spark Connect server"),
        ("sc://", "is not a Spark Connect server"),
        ("sc://host:70000", "port must be 1 to 65,535"),
        ("sc://host/path", "is not a Spark Connect server"),
        ("local[0]", "threads must be 1 to 10,000"),
        ("local-cluster[2,1,1024]", "is not a Spark Connect server"),
    ],
)
def test_what_is_none(url, remedy):
    with pytest.raises(InputError, match=remedy) as refused:
        check_remote(url)
    assert refused.value.field == "remote"


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setattr(remote, "_LIBRARIES", ("grpc", "no_such_library.at_all"))
    with pytest.raises(InputError, match=r"needs no_such_library.at_all; pip install 'scribe-"):
        check_remote("sc://host")


def test_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
        reach_remote(f"sc://127.0.0.1:{port}")
    with pytest.raises(InputError, match=r"cannot be reached \(Connection refused\)"):
        reach_remote(f"sc://127.0.0.1:{port}")


def test_the_package_is_imported_from_its_archive(tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import scribe_spark.engine.on_spark as m"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(m.__file__)", str(_zipped(tmp_path))],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path / "scribe_spark.zip")), done.stderr
