"""The package's face: few names, each where it says, and nothing heavy before it is asked for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scribe_spark
from scribe_spark import InputError, RunConfig, run

HEAVY = ("pyspark", "py4j", "pandas", "numpy", "matplotlib", "scipy")


def test_every_name_of_the_face_is_there():
    for name in scribe_spark.__all__:
        assert callable(getattr(scribe_spark, name))
        assert name in dir(scribe_spark)


def test_the_names_are_the_modules_own():
    from scribe_spark.experiments import Simulation
    from scribe_spark.overlay import Application, Overlay
    from scribe_spark.topology import Topology

    face = scribe_spark
    assert (face.Simulation, face.Topology) == (Simulation, Topology)
    assert (face.Application, face.Overlay) == (Application, Overlay)


@pytest.mark.parametrize(
    "statement",
    [
        "from scribe_spark import session",
        "from scribe_spark import Simulation, session",
        "import scribe_spark.runtime.session; from scribe_spark import session",
    ],
)
def test_session_can_be_called_whoever_came_first(statement):
    program = f"{statement}; assert callable(session)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_session_is_the_function_and_its_module(spark):
    assert scribe_spark.session() is spark
    from scribe_spark.runtime.settings import tuned

    assert callable(tuned)


def test_a_wrong_name_is_told():
    with pytest.raises(AttributeError, match="no attribute 'Simulator'"):
        _ = scribe_spark.Simulator


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
    modules = "can.overlay, gossipsub, overlay, pastry, scribe, scribe.variants"
    modules += ", underlay.hops, underlay.matrices, worlds.drivers"
    modules += ", bandwidth.runs, bandwidth.windows, bayeux.live, flooding.live, gossipsub.round"
    modules += ", rounds.group_overlays, measures.copies, measures.delay, measures.distributions"
    modules += ", measures.latency, measures.message_bytes, measures.node_parts"
    modules += ", measures.joining, measures.stress"
    kernels = ", ".join(f"scribe_spark.{module}" for module in modules.split(", "))
    forbidden = "{'pydantic', 'click', 'scribe_spark.config'}"
    program = f"import sys, {kernels}; assert not {forbidden} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)


WORDS = """LeafSets routing_table next_hop route arrival repair create join leave multicast children
root failover heartbeat replicas upcalls reliable"""


def test_words_of_the_papers_are_files_or_names():
    files = list(Path(scribe_spark.__file__).parent.rglob("*.py"))
    defined = re.compile(r"^ *(?:def|class) (\w+)", re.MULTILINE)
    names = {name for file in files for name in defined.findall(file.read_text())}
    names |= {file.stem for file in files}
    assert [word for word in WORDS.split() if not {word, word.title()} & names] == []


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
    rooms = (Path(scribe_spark.__file__).parent, Path(__file__).parents[1] / "jobs")
    found = {
        f"{path.name}: {ast.unparse(node)}"
        for room in rooms
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and not _narrows(node.test)
    }
    assert not found


def test_no_name_of_a_package_is_that_of_a_module_of_it():
    """Else the module replaces the name once both are loaded."""
    for package in (scribe_spark, scribe_spark.worlds):
        modules = {file.stem for file in Path(package.__file__).parent.glob("*.py")}
        assert set(package.__all__) & modules == set()
