"""Runs of a standalone cluster into HDFS and S3, complete, killed, resumed and overwritten."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import FLAGS, SMALL
from .outcome import Outcome, download, outcome, phases, table_digest
from .processes import environment, shell
from .standalone import PATIENCE, ROOT, Cluster, no_isolation
from .storage import Storage

SCRIPT = ROOT / "jobs" / "submit.py"
PHASES = ["topology", "overlay", "trees", "measures", "report"]


def submit(
    cluster: Cluster, storage: Storage, command: str, *flags: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """``spark-submit jobs/submit.py COMMAND FLAGS``, which has to succeed."""
    done = cluster.submit(SCRIPT, [command, *flags], [*storage.options, *options])
    assert done.returncode == 0, done.stdout
    return done


def manifest_phases(storage: Storage, out: str) -> list[str]:
    return phases(storage.read(f"{out}/manifest.json"))


def check(storage: Storage, out: str, expected: Outcome, folder: Path) -> None:
    """The run in `out` is complete, left what a local one leaves, and nothing else."""
    assert manifest_phases(storage, out) == PHASES
    found = outcome(download(storage, out, folder))
    assert found.passing == []
    assert found.names == expected.names
    assert found.tables == expected.tables
    assert found.metrics == expected.metrics


@pytest.fixture(scope="module")
def finished(cluster: Cluster, storage: Storage) -> str:
    """A complete run, by its path in the storage; not to be changed."""
    submit(cluster, storage, "run", *FLAGS, "--out", storage.url("finished"))
    return "finished"


def test_workers_share_no_disk_with_the_driver(cluster):
    """What the other tests rest on."""
    if not cluster.isolated:
        pytest.skip(no_isolation())
    paths = [cluster.driver / "secret.txt", ROOT / "README.md", cluster.driver.parent / "workers"]
    assert all(path.exists() for path in paths)
    probe = Path(__file__).with_name("probe.py")
    done = cluster.submit(probe, [str(path) for path in paths], [])
    assert done.returncode == 0, done.stdout
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("EXECUTORS ")]
    one, other = json.loads(line.removeprefix("EXECUTORS "))
    assert one["folder"] != other["folder"]
    for executor in (one, other):
        assert executor["seen"] == []
        assert "scribe_spark.zip" in executor["package"]


def test_a_run(storage, finished, local, tmp_path):
    check(storage, finished, local, tmp_path / "copy")


def test_a_complete_run_is_left_as_it_is(cluster, storage, finished):
    before = storage.files(f"{finished}/tables")
    submit(cluster, storage, "run", *FLAGS, "--resume", "--out", storage.url(finished))
    assert storage.files(f"{finished}/tables") == before
    assert manifest_phases(storage, finished) == PHASES


def test_a_report_is_drawn_again(cluster, storage, finished):
    def drawn() -> dict[str, bytes]:
        names = [n for n in storage.files(finished) if n.startswith(("report.html", "figures/"))]
        return {name: storage.read(f"{finished}/{name}") for name in names}

    before = drawn()
    assert len(before) > 5
    for name in before:
        storage.delete(f"{finished}/{name}")
    submit(cluster, storage, "report", "--out", storage.url(finished))
    assert drawn() == before


def test_killed_and_resumed(cluster, storage, local, tmp_path):
    flags = [*FLAGS, "--out", storage.url("killed")]
    log = tmp_path / "killed.log"
    program = cluster.start(SCRIPT, ["run", *flags], list(storage.options), log)
    try:
        program.wait_for("^trees: ", PATIENCE)
    finally:
        program.kill()
    assert manifest_phases(storage, "killed") == ["topology", "overlay"]
    before = {n: c for n, c in storage.files("killed/tables").items() if n.startswith("nodes/")}
    assert before
    submit(cluster, storage, "run", *flags, "--resume")
    check(storage, "killed", local, tmp_path / "copy")
    after = storage.files("killed/tables")
    assert {name: after[name] for name in before} == before


def test_overwrite_deletes_only_what_a_run_left(cluster, storage, local, tmp_path):
    flags = [*FLAGS, "--out", storage.url("replaced")]
    submit(cluster, storage, "run", "--phase", "topology", *flags, "--seed", "2")
    assert manifest_phases(storage, "replaced") == PHASES[:1]
    storage.write("replaced/notes.txt", b"mine")
    submit(cluster, storage, "run", *flags, "--overwrite")
    assert storage.read("replaced/notes.txt") == b"mine"
    storage.delete("replaced/notes.txt")
    check(storage, "replaced", local, tmp_path / "copy")


def test_a_world_on_buckets(cluster, storage, tmp_path):
    """Executors share nothing but the storage; the tables are those of one bucket here."""
    world = [
        *(word for flag in SMALL.items() for word in flag),
        *("--group-size", "20", "--rounds", "4", "--generator", "mass-failure+publications"),
        *("--event-round", "1", "--share", "0.2", "--delivery", "reliable", "--lookups", "20"),
    ]
    here = tmp_path / "here"
    program = str(Path(sys.executable).parent / "scribe-spark")
    flags = ["--master", "local[2]", "--buckets", "1", "--out", str(here)]
    done = shell([program, "world", *world, *flags], tmp_path, environment(), PATIENCE)
    assert done.returncode == 0, done.stdout
    submit(cluster, storage, "world", *world, "--buckets", "2", "--out", storage.url("world"))
    copy = download(storage, "world", tmp_path / "copy")
    names = ("events", "rounds", "publications", "memberships", "watched_trees")
    for table in (Path("tables", name) for name in names):
        assert table_digest(copy / table) == table_digest(here / table), table


def test_an_executor_lost_with_a_checkpoint_directory(cluster, hdfs, local, tmp_path):
    """What was materialised on it is read from the directory, and the run goes on."""
    flags = [*FLAGS, "--out", hdfs.url("lossy")]
    options = [*hdfs.options, "--conf", f"spark.checkpoint.dir={hdfs.url('checkpoints')}"]
    log = tmp_path / "lossy.log"
    program = cluster.start(SCRIPT, ["run", *flags], options, log)
    try:
        program.wait_for(r"^trees: started$[\s\S]*: round 1, ", PATIENCE)
        cluster.kill_an_executor()
        program.wait_for("^trees: done", PATIENCE)
        assert program.process.wait(PATIENCE) == 0, program.output()
    finally:
        program.kill()
    check(hdfs, "lossy", local, tmp_path / "copy")


def test_a_local_session(hdfs, local, tmp_path):
    """Where blocks are on the very host of the session, which once made it wait for ever."""
    program = str(Path(sys.executable).parent / "scribe-spark")
    out = ["--master", "local[2]", "--out", hdfs.url("local")]
    done = shell([program, "run", *FLAGS, *out], tmp_path, environment(), PATIENCE)
    assert done.returncode == 0, done.stdout
    check(hdfs, "local", local, tmp_path / "copy")
