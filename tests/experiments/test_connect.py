"""Sessions of Spark Connect, of a real server that is a process of its own, as classic ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from listening import LOOPBACK, listening

from scribe_spark.experiments import PHASES
from scribe_spark.runtime.jvm_process import start_server

from .conftest import FLAGS, ROOT, command, left, shell

pytest.importorskip("grpc", reason="the extra `connect` is not installed")

DIGESTS = [sys.executable, str(ROOT / "tests" / "golden" / "digests.py")]


@pytest.fixture(scope="module")
def server(folder_of_modules: Path) -> Iterator[str]:
    """The URL of a server, with the settings that docs/cluster.md recommends."""
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.python.daemon.module": "scribe_spark.runtime.daemon",
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.ui.enabled": "false",
        # not theirs: most plans of these tests run once
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder_of_modules)
        started = start_server("local[2]", settings)
    yield started.url
    started.stop()


def test_a_run_leaves_the_tables_of_a_classic_one(server, small, tmp_path):
    out = str(tmp_path / "out")
    phases = [text for phase in PHASES if phase != "report" for text in ("--phase", phase)]
    where = ["--remote", server, "--out", out]
    done = shell(command("run", *FLAGS, "--write-routing-table", *phases, *where))
    assert done.returncode == 0, done.stderr
    found, expected = left(out), left(small.out)
    assert {"tree_edges", "deliveries", "link_stress", "group_delay"} <= found.keys()
    assert found == {name: expected[name] for name in found}


def test_no_other_machine_reaches_the_server(server):
    found = listening()
    assert len(found) >= 3
    assert {address for address, _ in found} <= LOOPBACK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("session", "names"),
    [
        ([], ("no_groups", "40_nodes", "shed_random_random", "world_mass_failure")),
        (["--refusing"], ("40_nodes", "world_mass_failure")),
    ],
    ids=["usual", "keeps nothing"],
)
def test_variants_and_worlds_have_the_recorded_digests(server, session, names):
    """Some also where nothing is cached or checkpointed, as Databricks documents serverless."""
    chosen = [word for name in names for word in ("--only", name)]
    done = shell([*DIGESTS, "--remote", server, *session, *chosen])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"all {len(names)} are as recorded" in done.stdout


@pytest.mark.slow
def test_every_notebook(server, tmp_path):
    given = {
        "topology": str(ROOT / "data" / "tiny_topology.csv"),
        "quick_start_out": str(tmp_path / "quick"),
        "paper_out": str(tmp_path / "paper"),
        "nodes": "120",
        "groups": "3",
    }
    books = sorted(map(str, (ROOT / "jobs" / "notebooks").glob("*.py")))
    widgets = [f"{name}={value}" for name, value in given.items()]
    run = [sys.executable, "-m", "tools.run_notebook", f"--remote={server}", *widgets, *books]
    done = shell(run)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("---")]
    assert told == [f"--- {book}" for book in books]
    assert "Notebook exited: GraphFrames cannot be used: a session of Spark Connect" in done.stdout


def test_python_ends_where_tables_are_left(server):
    """Destructors that run when Python ends have no server to ask any more."""
    program = (
        "from scribe_spark import session; from scribe_spark.config import Execution\n"
        f"spark = session(Execution(out='.', remote={server!r}), nodes=1_000)\n"
        "class Kept: pass\n"
        "kept = Kept(); kept.itself = kept; kept.table = spark.range(10).localCheckpoint()\n"
        "print(kept.table.count())"
    )
    done = shell([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (0, "10\n")


def test_a_server_ends_with_who_started_it(server):
    """However that is: the other end of its standard input closes."""
    from scribe_spark.runtime import guard  # the parent of a server

    # whose standard input is at its end
    done = shell([sys.executable, "-P", guard.__file__, "sleep", "60"])
    assert done.returncode != 0


def test_a_server_that_cannot_begin_is_one_line(refused, tmp_path):
    line = refused("run", *FLAGS, "--remote", "local[0]", "--out", tmp_path / "out")
    assert line == "remote = 'local[0]': threads must be 1 to 10,000"
    assert not (tmp_path / "out").exists()
