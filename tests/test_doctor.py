"""The commands that say what is there: doctor, --version, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

import pytest

from scribe_spark import __version__
from scribe_spark.cli import doctor
from scribe_spark.systems import all_systems

ROOT = Path(__file__).resolve().parent.parent


def test_all_is_well_here(call):
    code, told, err = call("doctor")
    assert (code, err) == (0, "")
    lines = told.splitlines()
    assert f"ok       scribe_spark: {__version__}" in lines
    assert any(re.fullmatch(r"ok +Java: (17|21)", line) for line in lines)
    assert any(re.fullmatch(r"ok +memory: [\d.]+ GiB; Spark's heap .*", line) for line in lines)
    assert not any(line.startswith("missing") for line in lines)


#: What is not as it should be -> the line.
MISSING = {
    "java": (
        lambda patch: patch.setenv("JAVA_HOME", "/nowhere"),
        "missing  Java: /nowhere cannot be run (No such file or directory); Spark needs a full Ja",
    ),
    "no spark": (
        lambda patch: patch.setattr(doctor, "version", _not_installed),
        "missing  pyspark: not installed; pip install 'scribe-spark[spark]', or use the cluster's",
    ),
    "old spark": (
        lambda patch: patch.setattr(doctor, "version", lambda name: "3.5.6"),
        "missing  pyspark: 3.5.6; Spark 4.1.1 or newer, older than 4.2, is needed: pip install",
    ),
    "new spark": (
        lambda patch: patch.setattr(doctor, "version", lambda name: "4.2.0"),
        "missing  pyspark: 4.2.0; Spark 4.1.1 or newer, older than 4.2, is needed",
    ),
    "memory": (
        lambda patch: patch.setattr(doctor, "memory_limit", lambda: 2**31),
        "missing  memory: 2.0 GiB; Spark's heap takes 1.2 of it for 100,000 nodes; give 3 GiB",
    ),
    "scratch": (
        lambda patch: patch.setenv("SPARK_LOCAL_DIRS", "/dev/null/x"),
        "missing  scratch disk: /dev/null/x Not a directory; name one by SPARK_LOCAL_DIRS",
    ),
    "python": (
        lambda patch: patch.setattr(doctor, "_PYTHON", (99, 1)),
        "; use 99.1 or newer",
    ),
}


def _not_installed(name: str) -> str:
    raise doctor.PackageNotFoundError(name)


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_told_with_the_remedy_and_exit_1(call, monkeypatch, name):
    change, line = MISSING[name]
    change(monkeypatch)
    if name == "no spark":
        monkeypatch.setattr(doctor, "find_spec", lambda module: None)
    code, told, err = call("doctor")
    assert (code, err.count("\n")) == (1, 1)
    assert "a run cannot start; " in err
    assert line in told


def test_the_versions_are_those_that_the_package_asks_for():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    spark = setup["options.extras_require"]["spark"]
    assert spark == f"pyspark >={doctor.SPARK},<{doctor.NOT_SPARK}"
    assert "pyspark" not in setup["options"]["install_requires"]
    python = ".".join(map(str, doctor._PYTHON))
    assert setup["options"]["python_requires"] == f">={python}"
    readme = (ROOT / "README.md").read_text()
    assert f"Spark {doctor.SPARK}" in readme


def test_without_spark_a_run_says_what_to_install(tmp_path):
    program = "import sys; sys.modules['pyspark'] = None; from scribe_spark.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--nodes", "20", "--out", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Spark is not installed: pip install 'scribe-spark[spark]'" in done.stderr


def test_the_version(call):
    assert call("--version") == (0, f"scribe-spark {__version__}\n", "")
    assert __version__ == version("scribe_spark")


def test_scripts_of_completion(call, refused):
    for shell in ("bash", "zsh", "fish"):
        code, told, _ = call("completion", shell)
        assert code == 0
        assert f"_SCRIBE_SPARK_COMPLETE={shell}_complete" in told
    assert "give one of bash, zsh, fish" in refused("completion", "nushell")


#: What has been typed -> what may come next.
COMPLETED = {
    "ver": ["verify"],
    "run --overw": ["--overwrite"],
    "run --systems scribe,gos": ["scribe,gossipsub"],
    "run --tie ": ["delay", "seeded"],
    "world --variants bot": ["bottleneck"],
}


@pytest.mark.parametrize("typed", COMPLETED)
def test_words_are_completed(call, monkeypatch, typed):
    words = f"scribe-spark {typed}"
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("_SCRIBE_SPARK_COMPLETE", "bash_complete")
    code, told, _ = call()
    assert code == 0
    assert [line.partition(",")[2] for line in told.splitlines()] == COMPLETED[typed]


def test_a_reader_that_goes_is_no_fault():
    command = f"{sys.executable} -m scribe_spark.cli --help | true"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=os.environ, timeout=60
    )
    assert done.stderr == ""


def test_help_lists_every_registered_system(call):
    _, told, _ = call("run", "--help")
    told = " ".join(told.split())
    for system in all_systems():
        assert f" {system.name}," in told
    code, _, err = call("run", "--systems", "nothing")
    assert code == 2
    assert all(system.name in err for system in all_systems())
