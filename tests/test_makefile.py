"""The Makefile as a user types it, over a stand-in for the console script."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ECHO = """#!/bin/sh
for word in "$@"; do printf '<%s>' "$word"; done
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder where everything is set up and ``scribe-spark`` prints its arguments."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("setup.cfg", "pyproject.toml"):
        (tmp_path / name).touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("scribe-spark", "python"):
        program = tmp_path / ".venv" / "bin" / name
        program.write_text(ECHO)
        program.chmod(0o755)
    (tmp_path / ".jars").mkdir()
    for stamp in (".venv/.run", ".venv/.test", ".venv/.lint", ".jars/asked", ".jars/recorded"):
        (tmp_path / stamp).touch()
    return tmp_path


#: What the `make test` that runs these tests would hand on to the make inside.
OUTER = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"} | {
    *("NODES", "GROUPS", "SEED", "SEEDS", "OUT", "MASTER", "REMOTE", "CONFIG", "ARGS")
}


def make(folder: Path, *arguments: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in OUTER}
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments, "PYTHON=true"],
        cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_lists_every_target_and_variable(clone):
    text = make(clone, "help")
    targets = "run paper sweep test test-slow test-cluster report world bench digests lint"
    for target in f"{targets} notebooks clean help".split():
        assert f"\n  {target} " in text
    for variable in ("NODES", "GROUPS", "SEED", "SEEDS", "OUT", "MASTER", "REMOTE", "ARGS"):
        assert f"  {variable}=" in text


def test_help_is_the_default(clone):
    assert make(clone) == make(clone, "help")


#: What follows `make`, and the words of the command that it runs.
CALLS = [
    ("run", "<run>"),
    ("run NODES=5 OUT=o", "<run><--nodes><5><--out><o>"),
    ("run CONFIG=c", "<run><--config><c>"),
    ("report OUT=o", "<report><--out><o>"),
    ("sweep CONFIG=c OUT=o", "<sweep><--out><o><--config><c>"),
    ("paper", "<paper><--resume>"),
    ("paper SEEDS=3 OUT=o", "<paper><--resume><--seeds><3><--out><o>"),
    ("paper ARGS=--overwrite", "<paper><--overwrite>"),
    ("digests 'ARGS=--only tiny'", "<tests/golden/digests.py><--only><tiny>"),
    ("run GROUPS=50 SHELL=/bin/bash", "<run><--groups><50>"),  # bash has a variable of that name
    ("run 'ARGS=--overwrite --b 2 *'", "<run><--overwrite><--b><2><*>"),
]


@pytest.mark.parametrize(("line", "words"), CALLS)
def test_variables_become_flags(clone, line, words):
    assert make(clone, *shlex.split(line)) == words


@pytest.mark.parametrize(
    "value",
    [
        "a b",
        "x; touch y",
        "$(touch y)",
        "$(shell touch y)",
        "`touch y`",
        "'; touch y; '",
        '"; touch y; "',
        "a$b$$c",
        "a#b",
        "--resume",
        "s3a://bucket/run",
    ],
)
@pytest.mark.parametrize("variable", ["OUT", "CONFIG", "MASTER"])
def test_values_reach_the_program_as_they_stand(clone, variable, value):
    before = sorted(clone.rglob("*"))
    assert f"<--{variable.lower()}><{value}>" in make(clone, "run", f"{variable}={value}")
    assert sorted(clone.rglob("*")) == before


def test_values_from_the_environment_are_as_harmless(clone):
    value = "$(shell touch y); touch y"
    assert f"<--out><{value}>" in make(clone, "run", OUT=value)
    assert not (clone / "y").exists()


def test_arguments_run_nothing(clone):
    make(clone, "run", "ARGS=; touch y $(touch y) $(shell touch y)")
    assert not (clone / "y").exists()


def test_every_notebook_is_run(clone):
    (clone / "jobs" / "notebooks").mkdir(parents=True)
    (clone / "jobs" / "notebooks" / "quick.py").touch()
    flag, runner, nodes, groups, *books = make(clone, "notebooks").strip("<>").split("><")
    assert (flag, runner) == ("-m", "tools.run_notebook")
    assert (nodes, groups) == ("nodes=2000", "groups=50")
    assert books == ["jobs/notebooks/quick.py"]


def test_setup_happens_once(clone):
    assert "pip" not in make(clone, "-n", "setup")
    assert "pip" in make(clone, "-n", "-W", "setup.cfg", "setup")


def test_the_tests_are_run_over_what_the_first_run_left():
    """`.ci/run` has README's commands in README's order, and the run where `make run` puts it."""
    readme = (ROOT / "README.md").read_text()
    block = readme.split("## Quick start")[1].split("```")[1]
    commands = [line.split("#")[0].strip() for line in block.splitlines() if "make" in line]
    assert commands == ["make run", "make test"]
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    first = lines.index("make run NODES=2000 GROUPS=50")
    assert first < lines.index("make test")
    assert not any("OUT=" in line for line in lines)
