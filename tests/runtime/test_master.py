"""Masters that Spark cannot use are refused in one line, and quickly."""

from __future__ import annotations

import socket
import time

import pytest

from scribe_spark.errors import InputError
from scribe_spark.runtime.master import check_master, is_local_master, on_this_machine, reach_master

GOOD = [
    "local",
    "local[1]",
    "local[*]",
    "local[2,4]",
    "local[*, 3]",
    "local-cluster[2,1,1024]",
    "spark://host:7077",
    "spark://a:7077,b:7077",
    "k8s://https://host:6443",
    "k8s://host",
    "k8s://[::1]:6443/path",
]
BAD = [
    "",
    "nonsense",
    "local[0]",
    "local[",
    "local[-1]",
    "local[2,0]",
    "local[99999999999]",
    "local-cluster[0,1,1024]",
    "local://x",
    "spark://host",
    "spark://host:0",
    "spark://host:70000",
    "spark://",
    "LOCAL",
    "local[\N{ARABIC-INDIC DIGIT FOUR}]",
    "other://host",  # spark-submit, which starts every session's JVM, takes no other scheme
    "mesos://host:5050",
    "k8s://",
    "k8s://https://host:70000",
]


@pytest.mark.parametrize("master", GOOD)
def test_good_masters(master):
    check_master(master)


@pytest.mark.parametrize("master", BAD)
def test_bad_masters(master):
    with pytest.raises(InputError, match=r"^master = ") as caught:
        check_master(master)
    assert "\n" not in str(caught.value)


def test_yarn_needs_its_settings(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="HADOOP_CONF_DIR"):
        check_master("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    check_master("yarn")


def test_where_executors_are():
    assert is_local_master("local[2]")
    assert not is_local_master("local-cluster[2,1,1024]")
    assert on_this_machine("local-cluster[2,1,1024]")
    assert not on_this_machine("spark://host:7077")


@pytest.fixture
def port():
    """A port of this machine that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_master_that_accepts_a_connection(port):
    reach_master(f"spark://127.0.0.1:{port}")
    reach_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    reach_master(f"k8s://https://127.0.0.1:{port}")
    reach_master("local[2]")
    reach_master("yarn")


@pytest.mark.parametrize(
    "master",
    [
        "spark://127.0.0.1:1",
        "spark://no.such.host.invalid:7077",
        "spark://a..b:7077",
        "k8s://https://127.0.0.1:1",
        "k8s://http://127.0.0.1:1",
    ],
)
def test_a_master_that_does_not(master):
    with pytest.raises(InputError, match=r"^master = .* cannot be reached \(.+\)$"):
        reach_master(master)


def test_a_master_that_never_answers_is_given_up_soon(monkeypatch):
    def connect(address, timeout):
        time.sleep(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect)
    begun = time.perf_counter()
    with pytest.raises(InputError, match=r"no answer in 0\.1 s"):
        reach_master("spark://10.0.0.1:7077", patience=0.1)
    assert time.perf_counter() - begun < 5
