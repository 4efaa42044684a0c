"""The package's face, the Makefile, the commands that say what is there, the faults to try."""

import ast
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import pytest

import scribe_spark
from scribe_spark import InputError, RunConfig, __version__, run
from scribe_spark.cli import doctor
from scribe_spark.systems.registry import all_systems
from tools.try_faults import FAULTS

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
        "a b", "x; touch y", "$(touch y)", "$(shell touch y)", "`touch y`", "'; touch y; '",
        '"; touch y; "', "a$b$$c", "a#b", "--resume", "s3a://bucket/run",
    ],
)  # fmt: skip
def test_values_reach_the_program_as_they_stand(clone, value):
    before, variables = sorted(clone.rglob("*")), ("OUT", "CONFIG", "MASTER")
    told = make(clone, "run", *(f"{variable}={value}" for variable in variables))
    assert all(f"<--{variable.lower()}><{value}>" in told for variable in variables)
    assert sorted(clone.rglob("*")) == before


def test_arguments_run_nothing(clone):
    make(clone, "run", "ARGS=; touch y $(touch y) $(shell touch y)")
    assert not (clone / "y").exists()


def test_the_tests_are_run_over_what_the_first_run_left():
    """`.ci/run` has README's commands in README's order, and the run where `make run` puts it."""
    readme = (ROOT / "README.md").read_text()
    block = readme.split("## Quick start")[1].split("```")[1]
    lines = block.splitlines()
    commands = [line.split("#")[0].strip() for line in lines if line.startswith("make")]
    assert commands == ["make run", "make test"]
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    first = lines.index("make run NODES=2000 GROUPS=50")
    assert first < lines.index("make test")
    assert not any("OUT=" in line for line in lines)


# --- the package ----------------------------------------------------------------------------------


HEAVY = ("pyspark", "py4j", "pandas", "numpy", "matplotlib", "scipy")


@pytest.mark.parametrize(
    "statement",
    [
        "from scribe_spark import session",
        "import scribe_spark.runtime.session; from scribe_spark import session",
    ],
)
def test_session_can_be_called_whoever_came_first(statement):
    program = f"{statement}; assert callable(session)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("statement", ["import scribe_spark", "from scribe_spark import RunConfig"])
def test_nothing_heavy_comes_along(statement):
    program = f"{statement}; import sys; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


# a whole `run` is in test_notebooks.py


@pytest.mark.parametrize(
    ("name", "says"), [("mine.txt", "is not empty"), ("manifest.json", "exists; use")]
)
def test_run_refuses_before_spark(tmp_path, name, says):
    (tmp_path / name).write_text('{"resolved": {}, "phases": []}')
    with pytest.raises(InputError, match=says):
        run(RunConfig(nodes=10, groups=1), out=str(tmp_path))


def test_executors_need_no_library_of_the_config():
    """docs/cluster.md says what they need: the kernels' modules load neither pydantic nor click."""
    modules = "can.overlay, overlay, pastry, systems.scribe, systems.scribe.variants"
    modules += ", underlay.hops, underlay.matrices, worlds.drivers"
    modules += ", bandwidth.runs, bandwidth.windows, systems.bayeux.live, systems.flooding.flood"
    modules += ", systems.gossipsub.round, systems.plumtree.overlay, rounds.group_overlays"
    modules += ", systems.narada.overlay, systems.nice.overlay, systems.overcast.overlay"
    modules += ", systems.splitstream.splitstream"
    modules += ", measures.copies, measures.delay, measures.distributions"
    modules += ", measures.latency, measures.message_bytes, measures.parts"
    modules += ", measures.joins_and_failures, measures.stress"
    kernels = ", ".join(f"scribe_spark.{module}" for module in modules.split(", "))
    forbidden = "{'pydantic', 'click', 'scribe_spark.config'}"
    program = f"import sys, {kernels}; assert not {forbidden} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)


def _narrows(condition: ast.expr) -> bool:
    """Return whether a condition only tells mypy the type of a value that has been checked."""
    if isinstance(condition, ast.UnaryOp):
        return _narrows(condition.operand)
    if isinstance(condition, ast.Compare):
        return ast.unparse(condition).endswith(" is not None")
    return isinstance(condition, ast.Call) and ast.unparse(condition.func) in (
        "isinstance",
        "issubclass",
    )


def test_no_assert_checks_input():
    """``python -O`` leaves asserts out."""
    found = {
        f"{path.name}: {ast.unparse(node)}"
        for room in (ROOT / "scribe_spark", ROOT / "jobs")
        for path in room.rglob("*.py")
        for node in _nodes(path)
        if isinstance(node, ast.Assert) and not _narrows(node.test)
    }
    assert not found


@functools.cache
def _nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text()))]


def test_no_room_has_a_circle_of_imports():
    """Imports within functions and those for types count; `__init__` is the face of its room."""
    package = ROOT / "scribe_spark"
    files = [path for path in package.rglob("*.py") if path.stem != "__init__"]
    module_of = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    imported: dict[str, set[str]] = {}
    for path, module in module_of.items():
        of = [node for node in _nodes(path) if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}" for node in of for alias in node.names}
        imported[module] = (names | {str(node.module) for node in of}) & {*module_of.values()}
    assert list(TopologicalSorter(imported).static_order())  # a circle raises CycleError


# --- doctor, --version, completion ----------------------------------------------------------------


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
    "python": (lambda patch: patch.setattr(doctor, "_PYTHON", (99, 1)), "; use 99.1 or newer"),
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


def test_help_lists_every_registered_system(call):
    _, told, _ = call("run", "--help")
    told = " ".join(told.split())
    for system in all_systems():
        assert f" {system.name}," in told
    code, _, err = call("run", "--systems", "nothing")
    assert code == 2
    assert all(system.name in err for system in all_systems())


# --- faults of `tools.try_faults` -----------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_one_line(name):
    fault = FAULTS[name]
    text = (Path(scribe_spark.__file__).parent / fault.file).read_text()
    assert text.count(fault.right) == 1
    assert fault.wrong not in text
    assert (ROOT / fault.tests).is_file()
