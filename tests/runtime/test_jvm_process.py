"""A JVM that does not start says why on one line, and one that ends is known to have ended."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark import SparkContext

from scribe_spark.errors import RunError
from scribe_spark.runtime import jvm_process
from scribe_spark.runtime.environment import spark_failure
from scribe_spark.runtime.jvm_process import (
    JvmError,
    JvmWords,
    how_it_ended,
    reason_in,
    start_jvm,
)

#: What JVMs have said, and the line that is made of each.
SAID = {
    "WARNING: Using incubator modules\n"
    "Picked up JAVA_TOOL_OPTIONS: -Xms900g\n"
    "Error occurred during initialization of VM\n"
    "Could not reserve enough space for 943718400KB object heap\n": (
        "Error occurred during initialization of VM; Could not reserve enough space for "
        "943718400KB object heap",
        "it has too little memory",
    ),
    ":: loading settings :: url = jar:file:x\n"
    "Ivy Default Cache set to: /x\n"
    'Exception in thread "main" java.net.UnknownHostException: box: Name or service not known\n'
    "\tat java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1671)\n"
    "Caused by: java.net.UnknownHostException: box: Name or service not known\n"
    "\t... 13 more\n": (
        'Exception in thread "main" java.net.UnknownHostException: box: Name or service not known; '
        "Caused by: java.net.UnknownHostException: box: Name or service not known",
        "this machine does not know its own name",
    ),
    'Exception in thread "main" java.lang.X: basedir must be absolute: ?\n': (
        'Exception in thread "main" java.lang.X: basedir must be absolute: ?',
        "the user of this process has no name",
    ),
    "java.io.IOException: Failed to get a temp directory under [/tmp].\n": (
        "java.io.IOException: Failed to get a temp directory under [/tmp].",
        "it has no folder for temporary files",
    ),
    "env: 'bash': No such file or directory\n": (
        "env: 'bash': No such file or directory",
        "check JAVA_HOME",
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", SAID)
def test_one_line_and_what_to_do(said):
    reason, cure = SAID[said]
    assert reason_in(said.encode().splitlines()) == reason
    line = str(spark_failure(RuntimeError(reason)))
    assert line.startswith(f"Spark cannot start ({reason}); {cure}")


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


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"])
def test_no_jvm_is_started_where_spark_is_elsewhere(no_jvm, monkeypatch, name):
    monkeypatch.setattr(jvm_process, "launch_gateway", lambda *_: pytest.fail("it is started"))
    monkeypatch.setenv(name, "1")
    assert start_jvm({}) is None


def test_how_a_process_ended():
    asleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(asleep) as process:
        assert how_it_ended(process) is None
        process.kill()
        assert how_it_ended(process) == "signal 9"
    with subprocess.Popen([sys.executable, "-c", "exit(3)"]) as process:
        process.wait()
        assert how_it_ended(process) == "exit code 3"
    assert how_it_ended(None) is None


def test_a_session_whose_jvm_has_ended_is_one_line(monkeypatch):
    from contextlib import nullcontext
    from types import SimpleNamespace

    from scribe_spark.cli import sessions
    from scribe_spark.config import Execution

    ended = SimpleNamespace(cancel_all=None, how_it_ended=lambda: "signal 9")
    monkeypatch.setattr(sessions, "_checked", lambda *_: "a session")
    monkeypatch.setattr(sessions, "interruptible", lambda _: nullcontext())
    monkeypatch.setattr("scribe_spark.runtime.sessions.abilities", lambda _: ended)
    monkeypatch.setattr("scribe_spark.runtime.session.warmed_up", lambda _: nullcontext())
    with (
        pytest.raises(RunError, match=r"^Spark's JVM ended \(signal 9\), probably"),
        sessions.open_session(Execution(out="out"), 10, 10),
    ):
        raise ConnectionError("Answer from Java side is empty")
