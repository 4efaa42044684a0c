"""Tables are the same, to the bit, for all partitions, machines, tricks and interruptions."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from killed import CLUSTER, NOTHING_SHARED

from scribe_spark import experiments
from scribe_spark.experiments import PHASES

from .conftest import FLAGS, GROWN, JAVA, ROOT, command, environment, flags, left, manifest, shell

#: Executors run this very Python, and a short run's JVM.
EXECUTORS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": f"--conf 'spark.executor.extraJavaOptions={JAVA}' pyspark-shell",
}


@pytest.mark.slow
def test_partitions(make, grown, tmp_path):
    """Two against seven; against four below, against one under spark-submit."""
    out = tmp_path / "seven"
    make(out, partitions=7, engine="jobs", write_routing_table=True, **GROWN)
    assert left(out) == left(grown.out)


def killed_when(arguments: list[str], log: Path, ripe: Callable[[], bool]) -> None:
    """Start a run and kill its processes, Python and Java, in the moment that `ripe` says."""
    tricks = NOTHING_SHARED if CLUSTER in arguments else {}
    with open(log, "w") as stderr:
        run = subprocess.Popen(
            arguments, env=environment(**EXECUTORS, **tricks), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip
        end = time.monotonic() + 300
        while not ripe():
            assert run.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        os.killpg(run.pid, signal.SIGKILL)
        assert run.wait(60) == -signal.SIGKILL


@pytest.mark.slow
def test_killed_in_every_phase(grown, tmp_path):
    """The same folder each time; each run gets a phase further, as a first table of it appears.

    Begun in local mode; trees and measures are made by two executor processes, which share nothing
    with the driver but OUT.
    """
    out, log = tmp_path / "out", tmp_path / "log"
    again = command(
        "run", *flags(GROWN), "--write-routing-table", "--out", str(out), "--resume", "--master"
    )
    local = [*again, "local[2]"]
    cluster = [*again, CLUSTER, "--partitions", "4"]
    firsts = {
        "topology": (local, "routers"),
        "overlay": (local, "nodes"),
        "trees": (local, "groups"),
        "measures": (cluster, "link_stress"),
    }
    for number, (phase, (run, table)) in enumerate(firsts.items()):
        killed_when(run, log, (out / "tables" / table).exists)
        before = experiments.PHASES[:number]
        assert [entry["name"] for entry in manifest(out)["phases"]] == list(before)
        said = log.read_text()
        assert f"{phase}: started" in said
        # the phase that was killed the time before has been done again
        assert said.count(": complete, skipped") == max(0, number - 1)
    killed_when(cluster, log, lambda: "report: started" in log.read_text())
    done = shell(local)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(": complete, skipped") == 4
    assert left(out) == left(grown.out)
    # the page but for its times, places and the like is that of the run in one go
    assert (out / "figures").is_dir()
    for figure in (out / "figures").glob("*.svg"):  # `grown` has no whole PNG
        assert figure.read_bytes() == Path(grown.out, "figures", figure.name).read_bytes()
    assert not list(out.rglob("*.tmp"))
    # nothing of the JVM's own is said
    lines = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert all(": " in line and "WARN" not in line and "log4j" not in line for line in lines), lines


@pytest.mark.slow
def test_the_same_tables_without_tricks(small, tmp_path):
    out = str(tmp_path / "out")
    phases = [text for phase in PHASES if phase != "report" for text in ("--phase", phase)]
    flags = [*FLAGS, "--write-routing-table", *phases, "--master", "local[2]", "--out", out]
    done = shell(command("run", *flags), SCRIBE_SPARK_TRICKS="none")
    assert done.returncode == 0, done.stderr
    found, expected = left(out), left(small.out)
    assert {"tree_edges", "deliveries", "link_stress", "group_delay"} <= found.keys()
    assert found == {name: expected[name] for name in found}


# --- under pyspark's own spark-submit

SUBMIT = Path(sys.executable).parent / "spark-submit"


def submit(command: str, *flags: str):
    options = ["--master", "local[1]", "--driver-java-options", JAVA]
    program = [str(SUBMIT), *options, str(ROOT / "jobs" / "submit.py"), command]
    return shell([*program, *flags], PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT))


@pytest.mark.slow
def test_phase_after_phase(small, tmp_path):
    """One core, one partition; the tables are those of two cores and two partitions."""
    out = tmp_path / "out"
    flags = [*FLAGS, "--write-routing-table", "--partitions", "1", "--out", str(out)]
    for number, phase in enumerate(PHASES, start=1):
        done = submit("run", "--phase", phase, *flags)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == str(out)
        assert f"{phase}: started" in done.stdout
        assert [entry["name"] for entry in manifest(out)["phases"]] == list(PHASES[:number])
    assert manifest(out)["execution"]["master"] == "local[1]"
    assert left(out) == left(small.out)
    assert (out / "report.html").stat().st_size > 10_000
