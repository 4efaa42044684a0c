"""The look-up of GraphFrames' jar: one line, whatever comes of it."""

from __future__ import annotations

import subprocess

import pytest

from scribe_spark.runtime import graphframes_jar


def answer(monkeypatch, code=0, stderr="", jar=None, error=None):
    """What spark-submit would do."""

    def run(command, **_):
        if error is not None:
            raise error
        if jar is not None:
            jar.parent.mkdir(parents=True)
            jar.touch()
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)


def test_found(monkeypatch, tmp_path):
    jar = tmp_path / "jars" / "io.graphframes_x.jar"
    answer(monkeypatch, jar=jar)
    assert graphframes_jar.jars(tmp_path) == []
    assert graphframes_jar.fetch(tmp_path) == f"GraphFrames: 1 jar(s) in {tmp_path}"
    assert graphframes_jar.jars(tmp_path) == [str(jar)]
    assert (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"code": 1, "stderr": "io.graphframes#x: not found"}, "(not found)"),
        ({"code": 3}, "(spark-submit exit 3)"),
        ({"error": subprocess.TimeoutExpired("x", 5)}, "(no answer in 5 s)"),
        ({"error": OSError(2, "No such file")}, "(spark-submit: No such file)"),
    ],
)
def test_not_found_is_told_and_no_failure(monkeypatch, tmp_path, how, why):
    answer(monkeypatch, **how)
    line = graphframes_jar.fetch(tmp_path, patience=5)
    assert why in line
    assert "make graphframes" in line
    assert "\n" not in line
    assert (tmp_path / "asked").read_text() == line + "\n"


def test_what_is_there_is_not_looked_up(monkeypatch, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").touch()
    answer(monkeypatch, error=AssertionError("asked again"))
    assert "1 jar(s)" in graphframes_jar.fetch(tmp_path)
