"""What the tests share: one Spark session, started by the first test that asks for it."""

import functools
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from hypothesis import settings
from pyspark.sql import SparkSession
from xdist.scheduler import LoadFileScheduling

from scribe_spark import overlays
from scribe_spark.cli import commands
from scribe_spark.config import Execution
from scribe_spark.measures.metrics import _MEASURES
from scribe_spark.report import world as world_pages
from scribe_spark.report.svg import PageFigure
from scribe_spark.runtime import interrupts
from scribe_spark.runtime.session import session as make_session
from scribe_spark.systems.registry import _SYSTEMS
from scribe_spark.topology import registry as topologies
from scribe_spark.worlds.generators import _GENERATORS

# on a busy machine a case takes as long as it takes
settings.register_profile("tests", settings.default, deadline=None)
settings.load_profile("tests")

ROOT = Path(__file__).resolve().parent.parent
_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP

MASTER, PARTITIONS = "local[2]", 2


#: What takes longest is begun first, so that the workers end together.
SLOW = (
    "test_determinism", "test_tutorials", "test_paper", "test_scribe_round", "test_living_run",
    "test_world", "test_schedules_of_worlds", "test_scheduled_runs", "test_resume",
    "test_world_groups", "test_run_tables", "test_connect", "test_round_clock",
    "test_systems_on_spark", "test_kernel", "test_rounds_combine",
    "test_parts_of_worlds", "test_extending", "test_handed_over", "test_interrupts", "test_bench",
    "test_supersteps", "test_exchange_between_tasks", "test_world_on_buckets", "test_asked_for",
    "test_protocols", "test_rounds", "test_equals_oracle",
    "test_round_clock_on_spark", "test_arrivals", "test_world_state", "test_package", "test_runs",
    "test_watched_trees", "test_sweep", "test_docs", "test_users_system",
    "test_reference_multicast", "test_mesh_links", "test_group_numbers", "test_barrier",
    "test_environment", "test_legends", "test_living_round", "test_generators", "test_events",
    "test_ends", "test_group_overlays", "test_reference_tree_run", "test_results",
    "test_rounds_together", "test_contract", "test_notebooks",
)  # fmt: skip


@functools.cache
def plays_all_cases(file: Path) -> bool:
    """Whether a file has tests of all random cases (`worlds`), which are made once a process."""
    return re.search(r"^(import|from) worlds\b", file.read_text(), re.MULTILINE) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files of tests: what one worker plays together, then the slowest."""
    places = {name: place for place, name in enumerate(SLOW)}

    def place(item: pytest.Item) -> tuple[bool, int]:
        return not plays_all_cases(item.path), places.get(item.path.stem, len(places))

    items.sort(key=place)


class ByFile(LoadFileScheduling):
    """A file of tests to each worker in turn; all files that share random cases to one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "worlds" if plays_all_cases(ROOT / file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Return the scheduler of ``--dist loadfile``."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


#: Drawing the PNG files of all pages, and twenty figures over the rounds of each world, would take
#: minutes.
_AS_PNG, _OF_ROUNDS = PageFigure.as_png, world_pages.draw


@pytest.fixture(scope="session", autouse=True)
def quick_pages() -> Iterator[None]:
    """Write the first bytes of a PNG file in place of each image, and no lines over rounds."""
    PageFigure.as_png = lambda figure: b"\x89PNG"
    world_pages.draw = lambda panel: PageFigure(
        panel.name, panel.title, "<svg/>", words=panel.words
    )
    yield
    PageFigure.as_png, world_pages.draw = _AS_PNG, _OF_ROUNDS


@pytest.fixture
def images(monkeypatch) -> None:
    """Draw images, as users' commands do."""
    monkeypatch.setattr(PageFigure, "as_png", _AS_PNG)


@pytest.fixture(scope="session", autouse=True)
def empty_working_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run every test in an empty folder, whatever lies in the checkout, and see it left empty.

    Programs that tests start take the package of this checkout, nevertheless.
    """
    folder = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        yield
    left = sorted(path.name for path in folder.iterdir())
    assert not left, f"tests have left {', '.join(left)} in the working directory"


def extensions() -> list[list[str]]:
    """Return the names of all that is registered in this process, and the flags of commands."""
    kinds = _SYSTEMS, _MEASURES, overlays._KINDS, topologies._KINDS, _GENERATORS
    flags = ([flag.name for flag in one.params] for one in (commands.run, commands.world))
    return [*map(list, kinds), *flags]


@pytest.fixture(scope="module", autouse=True)
def no_extension_stays() -> Iterator[None]:
    """See that a file of tests leaves no extension, which a later file would find."""
    before = extensions()
    yield
    assert extensions() == before


@pytest.fixture(autouse=True)
def handlers_of_signals() -> Iterator[None]:
    """Take back what a command that a test calls in this process does with signals and stderr.

    A signal that the tests' own parent wants ignored (nohup, a background process of a script) has
    a handler meanwhile: programs that tests start would ignore it, too.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in (number for number, handler in before.items() if handler is signal.SIG_IGN):
        here = signal.default_int_handler if number == signal.SIGINT else lambda *_: None
        signal.signal(number, here)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    if interrupts._stderr is not None:
        os.dup2(interrupts._stderr, 2)
        os.close(interrupts._stderr)
    interrupts._first = interrupts._last_words = interrupts._stderr = None


@pytest.fixture(scope="session")
def folder_of_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: a module of theirs, and a file by the name of each module of Python's."""
    folder = tmp_path_factory.mktemp("modules")
    libraries = {"numpy", "pandas", "pyarrow", "pyspark", "scipy", "py4j", "psutil", "google"}
    for name in {*sys.stdlib_module_names, *libraries} - {*sys.builtin_module_names}:
        if importlib.util.find_spec(name) is None:  # another system's
            continue
        (folder / f"{name}.py").write_text(f"raise SystemError('{name} is shadowed')")
    (folder / "module_of_the_user.py").write_text("VALUE = 5")
    return folder


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, folder_of_modules: Path
) -> Iterator[SparkSession]:
    """A session as a run makes it, on two cores; queries use two partitions and no AQE.

    All of its processes are in a folder with files that must replace no module.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder_of_modules)
        # local workers run this very Python whatever this says
        patch.setenv("PYSPARK_PYTHON", "/no/such/python")
        session = make_session(
            Execution(out=str(tmp_path_factory.mktemp("out")), master=MASTER), nodes=1000
        )
    session.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    session.conf.set("spark.sql.adaptive.enabled", False)
    # Spark would compile a class for each of thousands of plans, of which most run once: an eighth
    # of the suite.  Commands in processes of their own have compiled plans.
    session.conf.set("spark.sql.codegen.wholeStage", False)
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def no_early_jvm() -> Iterator[None]:
    """Commands in the process of the tests start no JVM before their input is checked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scribe_spark.cli.commands._begin", lambda *_: None)
        yield


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process: exit code, stdout, stderr."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        return (exit_code(arguments), *capsys.readouterr())

    return run


@pytest.fixture
def refused(call: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Run a command line that is refused in one line: what the line says."""

    def run(*arguments: Any) -> str:
        code, out, err = call(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("scribe-spark: error: ")
        return err.removeprefix("scribe-spark: error: ").rstrip("\n")

    return run


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test whose command would start Spark, or look for Java."""

    def started(*_: Any, **__: Any) -> None:
        pytest.fail("Spark would have been started")

    monkeypatch.setattr("scribe_spark.runtime.session.session", started)
    monkeypatch.setattr("scribe_spark.runtime.java.check_java", started)


@pytest.fixture(scope="session")
def drawn_rounds() -> Callable[[], AbstractContextManager[None]]:
    """A context in which the figures over rounds are drawn, for tests that look at them."""

    @contextmanager
    def drawn() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world_pages, "draw", _OF_ROUNDS)
            yield

    return drawn


@pytest.fixture
def with_graphframes(spark: SparkSession) -> None:
    """Skip a test where GraphFrames' Python or JVM half is missing."""
    pytest.importorskip("graphframes", reason="GraphFrames' Python half is not installed")
    from scribe_spark.runtime import graph_frame

    if not graph_frame.has_graphframes(spark):
        pytest.skip(f"{graph_frame.COORDINATES} is not on the session's class path")
