"""The Java check, against stand-ins for the ``java`` program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scribe_spark.errors import InputError
from scribe_spark.runtime.java import check_java

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
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("21-ea", 21), ("17.0.1+12", 17)]
)
def test_versions_that_spark_runs_on(home, version, major):
    home(version)
    assert check_java() == major


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


def test_as_a_script_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "scribe_spark.runtime.java"],
        cwd=ROOT, env={"JAVA_HOME": "/nowhere", "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("scribe-spark: error: JAVA_HOME = '/nowhere': ")
