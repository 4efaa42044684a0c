"""The JVM: the Java check, the heap's size, a process that does not start, masters."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from scribe_spark.core.errors import InputError, RunError
from scribe_spark.runtime import jvm_process
from scribe_spark.runtime.environment import spark_failure
from scribe_spark.runtime.java import check_java
from scribe_spark.runtime.jvm_process import JvmError, JvmWords, reason_in, start_jvm
from scribe_spark.runtime.master import check_master, reach_master
from scribe_spark.runtime.memory import memory_limit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """JAVA_HOME of a java that answers as told."""

    def make(version: str, vector: bool = True) -> Path:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir(exist_ok=True)
        refuse = "" if vector else 'case "$1" in --add*) exit 1;; esac\n'
        program.write_text(f"#!/bin/sh\n{refuse}echo 'openjdk version \"{version}\" x' >&2\n")
        program.chmod(0o755)
        return tmp_path

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return make


@pytest.mark.parametrize(
    ("version", "major"),
    [("1.8.0_402", 8), ("11.0.2", 11), ("16", 16), ("23", 23), ("25.0.1", 25), ("26-ea", 26)],
)
def test_too_old_or_too_new(home, version, major):
    home(version, vector=major >= 16)
    with pytest.raises(InputError, match=f"is Java {major}; Spark needs a full Java 17 or 21: "):
        check_java()


def test_java_that_cannot_be_used(home, monkeypatch, tmp_path):
    program = home("17") / "bin" / "java"
    said = "Picked up JAVA_TOOL_OPTIONS: -Xmx9\nError occurred\nCould not reserve\nmore"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    with pytest.raises(InputError, match=r"cannot be run \(Error occurred; Could not reserve\);"):
        check_java()
    home("17.0.2", vector=False)
    with pytest.raises(InputError, match=r"is Java 17 without jdk\.incubator\.vector"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(InputError, match="JAVA_HOME = '/nowhere': cannot be run"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="java = 'java': cannot be run"):
        check_java()


def test_needs_no_installed_package():
    """``make`` runs it before there is a .venv."""
    code = "import sys; sys.argv = ['x']; import scribe_spark.runtime.java; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"pyspark", "numpy", "pandas", "click"} & set(done.stdout.split())


# --- a JVM that does not start, or ends -----------------------------------------------------------


#: What JVMs have said, and the line that is made of each.
SAID = {
    "WARNING: Using incubator modules\n"
    "Picked up JAVA_TOOL_OPTIONS: -Xms900g\n"
    "Error occurred during initialization of VM\n"
    "Could not reserve enough space for 943718400KB object heap\n":
        "Error occurred during initialization of VM; Could not reserve enough space for "
        "943718400KB object heap",
    ":: loading settings :: url = jar:file:x\n"
    "Ivy Default Cache set to: /x\n"
    'Exception in thread "main" java.net.UnknownHostException: box: Name or service not known\n'
    "\tat java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1671)\n"
    "Caused by: java.net.UnknownHostException: box: Name or service not known\n"
    "\t... 13 more\n":
        'Exception in thread "main" java.net.UnknownHostException: box: Name or service not known; '
        "Caused by: java.net.UnknownHostException: box: Name or service not known",
    "env: 'bash': No such file or directory\n": "env: 'bash': No such file or directory",
}  # fmt: skip


@pytest.mark.parametrize("said", SAID)
def test_one_line_and_what_to_do(said):
    assert reason_in(said.encode().splitlines()) == SAID[said]
    line = str(spark_failure(RuntimeError(SAID[said])))
    assert line.startswith(f"Spark cannot start ({SAID[said]}); check JAVA_HOME, the memory")


def test_words_are_held_back_until_there_is_a_session(capfd):
    words = JvmWords()
    with open(words.write_end, "wb", buffering=0) as jvm:
        jvm.write(b"first\n")
        jvm.write(b"second\n")
        assert words.reason() == "first; second"
        assert capfd.readouterr().err == ""
        words.pass_on()
        jvm.write(b"third\n")
    words._reader.join()
    assert capfd.readouterr().err == "first\nsecond\nthird\n"


@pytest.fixture
def no_jvm(monkeypatch):
    """As in a process that has started no JVM."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "SCRIBE_SPARK_TRICKS"):
        monkeypatch.delenv(name, raising=False)


def test_a_jvm_that_does_not_start(no_jvm, monkeypatch, tmp_path, capfd):
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\necho 'Error occurred'\necho '\tat trace' >&2\nexit 1\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(JvmError, match=r"^Error occurred$"):
        start_jvm({"spark.master": "local[2]"})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("begun", "wanted", "launched", "ended"),
    [
        (None, {"a": "1"}, [{"a": "1"}], 0),
        ({"a": "1"}, {"a": "1"}, [{"a": "1"}], 0),
        ({"a": "1"}, {"a": "2"}, [{"a": "1"}, {"a": "2"}], 1),
    ],
)
def test_a_begun_jvm_is_taken_by_a_session_with_its_settings(
    no_jvm, monkeypatch, begun, wanted, launched, ended
):
    made, ends = [], []

    def launch(settings):
        made.append((dict(settings), os.environ.get("OF_THE_JVM")))
        return f"gateway of {settings}", "words"

    taken: dict[str, str] = {}
    monkeypatch.setattr(jvm_process, "_launch", launch)
    monkeypatch.setattr(jvm_process, "end_started", ends.append)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **given: taken.update(given))
    if begun is not None:
        jvm_process.begin_jvm(begun, {"OF_THE_JVM": "yes"})
        jvm_process.await_jvm()
        assert made == [(begun, "yes")]
    assert start_jvm(wanted) == "words"
    assert taken == {"gateway": f"gateway of {wanted}"}
    assert [settings for settings, _ in made] == launched
    assert len(ends) == ended
    assert "OF_THE_JVM" not in os.environ
    jvm_process._end_begun()  # as at the end of Python: nothing is left to end
    assert len(ends) == ended


def test_a_session_whose_jvm_has_ended_is_one_line(monkeypatch):
    from contextlib import nullcontext
    from types import SimpleNamespace

    from scribe_spark.cli import sessions
    from scribe_spark.config import Execution

    ended = SimpleNamespace(cancel_all=None, how_it_ended=lambda: "signal 9")
    monkeypatch.setattr(sessions, "_checked", lambda *_: nullcontext())
    monkeypatch.setattr(sessions, "interruptible", lambda _: nullcontext())
    monkeypatch.setattr("scribe_spark.runtime.sessions.abilities", lambda _: ended)
    monkeypatch.setattr("scribe_spark.runtime.session.warmed_up", lambda _: nullcontext())
    with (
        pytest.raises(RunError, match=r"^Spark's JVM ended \(signal 9\), probably"),
        sessions.open_session(Execution(out="out"), 10, 10),
    ):
        raise ConnectionError("Answer from Java side is empty")


# --- the heap's size ------------------------------------------------------------------------------


GIB = 2**30


def limit_file(root: Path, place: str, text: str) -> None:
    file = root / "sys/fs/cgroup" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/", {"memory.max": "3000000000"}, 3_000_000_000),  # a container, version 2
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "2000000000"}, 2_000_000_000),
        ("0::/a", {"a/memory.max": "2000000000", "memory.max": "1500000000"}, 1_500_000_000),
        (
            "5:cpu:/x\n4:memory:/docker/5e\n0::/",  # version 1, the group as the host knows it
            {"memory/memory.limit_in_bytes": "1000000000"},
            1_000_000_000,
        ),
        (
            "4:hugetlb,memory:/y",
            {
                "memory/memory.limit_in_bytes": "9223372036854771712",  # version 1's "no limit"
                "memory/y/memory.limit_in_bytes": "1200000000",
            },
            1_200_000_000,
        ),
    ],
)
def test_a_containers_limit_is_the_limit(tmp_path, groups, limits, expected):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for place, text in limits.items():
        limit_file(tmp_path, place, text)
    assert memory_limit(tmp_path) == expected


@pytest.mark.parametrize("text", ["max", "0", "9223372036854771712"])
def test_without_a_limit_it_is_the_machines_memory(tmp_path, text):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\nodd line\n")
    limit_file(tmp_path, "memory.max", text)
    assert memory_limit(tmp_path) == memory_limit(tmp_path / "nowhere") > GIB // 2


# --- masters that Spark cannot use ----------------------------------------------------------------


GOOD = [
    "local", "local[1]", "local[*]", "local[2,4]", "local[*, 3]", "local-cluster[2,1,1024]",
    "spark://host:7077", "spark://a:7077,b:7077", "k8s://https://host:6443", "k8s://host",
    "k8s://[::1]:6443/path",
]  # fmt: skip
#: spark-submit, which starts every session's JVM, takes no other scheme.
BAD = [
    "", "nonsense", "local[0]", "local[", "local[-1]", "local[2,0]", "local[99999999999]",
    "local-cluster[0,1,1024]", "local://x", "spark://host", "spark://host:0", "spark://host:70000",
    "spark://", "LOCAL", "local[\N{ARABIC-INDIC DIGIT FOUR}]", "other://host",
    "mesos://host:5050", "k8s://", "k8s://https://host:70000",
]  # fmt: skip


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
        "spark://127.0.0.1:1", "spark://no.such.host.invalid:7077", "spark://a..b:7077",
        "k8s://https://127.0.0.1:1", "k8s://http://127.0.0.1:1",
    ],
)  # fmt: skip
def test_a_master_that_does_not(master):
    with pytest.raises(InputError, match=r"^master = .* cannot be reached \(.+\)$"):
        reach_master(master)
