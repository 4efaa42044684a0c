"""Servers, a cluster and a local run to compare with: made once, by the first test that asks."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .outcome import Outcome, outcome
from .processes import environment, shell
from .standalone import PATIENCE, ROOT, Cluster, standalone
from .storage import JARS, Storage, hdfs_server, s3_server

#: 28 routers, 200 nodes, 8 groups.
SMALL = {
    "--nodes": "200", "--groups": "8", "--overlay": "perfect", "--transit-domains": "2",
    "--transit-size": "2", "--stubs-per-transit": "2", "--stub-size": "3",
}  # fmt: skip
FLAGS = [*(word for flag in SMALL.items() for word in flag), "--write-routing-table"]


@pytest.fixture(scope="session", autouse=True)
def ready() -> None:
    """Everything is there that ``make test-cluster`` sets up."""
    for needed in (JARS / "ready", ROOT / "dist" / "scribe_spark.zip"):
        if not needed.exists():
            pytest.skip(
                f"no {needed.relative_to(ROOT)}: these tests are run by `make test-cluster`"
            )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything is that these tests make."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def cluster(folder: Path) -> Iterator[Cluster]:
    with standalone(folder) as made:
        yield made


@pytest.fixture(scope="session")
def hdfs(folder: Path) -> Iterator[Storage]:
    with hdfs_server(folder) as server:
        yield server


@pytest.fixture(scope="session")
def s3(folder: Path) -> Iterator[Storage]:
    with s3_server(folder) as server:
        yield server


@pytest.fixture(scope="module", params=["hdfs", "s3"])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Each of the storages in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def local(folder: Path) -> Outcome:
    """The run with :data:`FLAGS` by a local session into a local folder."""
    out = folder / "local"
    program = str(Path(sys.executable).parent / "scribe-spark")
    command = [program, "run", *FLAGS, "--master", "local[2]", "--out", str(out)]
    done = shell(command, folder, environment(), PATIENCE)
    assert done.returncode == 0, done.stdout
    return outcome(out)
