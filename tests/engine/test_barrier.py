"""Tasks of a barrier stage that swap: in Spark's own workers, and where they are lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from scribe_spark.engine import barrier
from scribe_spark.engine.barrier import (
    own_address,
    play_in_tasks,
    run_again_where_lost,
    why_no_tasks,
)
from scribe_spark.errors import InputError, RunError
from scribe_spark.runtime import slots as slots_of
from scribe_spark.runtime.blocks import materialise_and_read, release
from scribe_spark.runtime.concurrent_jobs import concurrent_jobs
from scribe_spark.runtime.sessions import abilities
from scribe_spark.runtime.slots import slots
from scribe_spark.runtime.tricks import VARIABLE

SCHEMA = "task long, rows long, pid long"


def rows_of(spark, tasks=2):
    return spark.range(30).select((F.col("id") % tasks).alias("bucket"))


def swapping(swaps=5, at=None, what=None):
    """Return work: a few swaps; at one of them something happens, to task 1."""

    names = [field.split()[0] for field in SCHEMA.split(", ")]

    def work(exchange, batches):
        rows = sum(map(len, batches))
        for number in range(swaps):
            if number == at and exchange.rank == 1:
                what()
            _, notes = exchange.swap({}, b"%d" % rows)
        everywhere = sum(map(int, notes))
        row = [exchange.rank, everywhere, os.getpid()]
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], names)

    return work


def played(spark, work, tasks=2, **options):
    frame = play_in_tasks(rows_of(spark, tasks), tasks, work, SCHEMA, **options)
    table, read = run_again_where_lost(lambda: materialise_and_read(frame, ["*"]))
    assert table.count() == tasks
    release(table)
    return read.sort_by("task").to_pylist()


def test_tasks_swap_in_spark_and_leave_nothing_behind(spark):
    for _ in range(2):  # the second time in the workers of the first
        rows = played(spark, swapping())
        assert [row["task"] for row in rows] == [0, 1]
        assert [row["rows"] for row in rows] == [30, 30]
    for row in rows:
        process = psutil.Process(row["pid"])
        assert not [one for one in process.net_connections() if one.status == "LISTEN"]
        assert process.num_threads() < 50


def test_one_task_needs_no_barrier(spark):
    assert [row["rows"] for row in played(spark, swapping(), tasks=1)] == [30]


@pytest.mark.parametrize("tasks", [1, 2])
def test_an_error_of_the_work_is_one_line_and_not_tried_again(spark, tmp_path, tasks):
    def work(exchange, batches):
        exchange.swap({}, b"")
        if exchange.rank == tasks - 1:
            (tmp_path / str(time.time_ns())).touch()
            raise InputError("nodes", 7, "are too few")
        while True:
            exchange.swap({}, b"")
        yield

    with pytest.raises(RunError, match=r"^nodes = 7: are too few$") as failed:
        played(spark, work, tasks)
    assert "in work" in str(failed.value.__cause__)  # the traceback
    assert len(list(tmp_path.iterdir())) == 1


def test_a_killed_task_makes_all_begin_again(spark, tmp_path):
    def die_once():
        if not list(tmp_path.iterdir()):
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert [row["rows"] for row in played(spark, swapping(9, 4, die_once))] == [30, 30]
    assert (tmp_path / "died").exists()


def test_a_task_that_never_answers_is_lost(spark, tmp_path):
    def stop():
        (tmp_path / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGSTOP)

    frame = play_in_tasks(rows_of(spark), 2, swapping(9, 4, stop), SCHEMA, patience=1.0)
    line = (
        r"^tasks were lost in each of 1 runs: task 1 of 2 at 127.0.0.1:\d+ has not answered for 1 s"
    )
    started = time.monotonic()
    with pytest.raises(RunError, match=line):
        run_again_where_lost(frame.toArrow, tries=1)
    assert time.monotonic() - started < 30
    (stopped,) = map(int, (path.name for path in tmp_path.iterdir()))
    assert gone(stopped)


def gone(pid):
    """Whether a process ends within some seconds."""
    try:
        psutil.Process(pid).wait(20)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_cancelled_job_ends_its_tasks(spark, tmp_path):
    """As Ctrl-C does, see `runtime.interrupts`."""

    def swap_for_ever(exchange, batches):
        exchange.swap({}, b"")
        (tmp_path / str(os.getpid())).touch()
        while True:
            exchange.swap({1 - exchange.rank: [bytes(100_000)]}, b"")
        yield

    frame = play_in_tasks(rows_of(spark), 2, swap_for_ever, SCHEMA)

    def interrupt(job):
        end = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < end
            assert not job.done()
            time.sleep(0.05)
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), concurrent_jobs(spark) as submit:
        job = submit(lambda: run_again_where_lost(frame.toArrow))
        interrupt(job)
    assert "cancel" in str(job.exception())
    for path in tmp_path.iterdir():
        assert gone(int(path.name))


def test_the_daemon_of_workers_loads_no_grpc(spark):
    """A process that has it should not fork."""

    def look(batches):
        parent = Path(f"/proc/{os.getppid()}/maps").read_text()
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"loaded": ["libarrow_flight" in parent]})

    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc")
    played(spark, swapping())
    (row,) = spark.range(1).coalesce(1).mapInArrow(look, "loaded boolean").collect()
    assert not row["loaded"]


@pytest.mark.slow
def test_a_killed_executor_makes_all_begin_again(tmp_path):
    """On executor processes of this machine, which talk on loopback."""
    script = Path(__file__).with_name("executors.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    trial, sums = done.stdout.splitlines()
    assert trial == "None | 3 tasks cannot run at once: there are 2 slots"
    assert sums == f"{[sum(range(100))] * 2} 2"
    names = {path.name for path in tmp_path.iterdir()} - {"out"}
    assert names == {"killed", "0 at 127.0.0.1", "1 at 127.0.0.1"}


# --- why tasks cannot stay


def test_slots(spark, monkeypatch):
    assert slots(spark) == 2
    monkeypatch.setenv(VARIABLE, "none")
    assert slots(spark) == 2


def test_why_tasks_cannot_stay(spark, monkeypatch):
    assert why_no_tasks(spark, 1) is None
    assert why_no_tasks(spark, 2) is None
    assert why_no_tasks(spark, 3) == "3 tasks cannot run at once: there are 2 slots"
    monkeypatch.setattr(barrier.importlib.util, "find_spec", lambda name: None)
    assert why_no_tasks(spark, 2) == "this pyarrow is without Arrow Flight"
    assert why_no_tasks(spark, 1) is None


SETTINGS = {
    "spark.dynamicAllocation.enabled": "Spark starts no barrier stage with dynamic allocation",
    "spark.network.crypto.enabled": "connections between tasks would not be encrypted",
    "spark.ssl.rpc.enabled": "connections between tasks would not be encrypted",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_keep_tasks_from_staying(spark, monkeypatch, name):
    monkeypatch.setattr(slots_of, "read_setting", lambda _, read: "true" if read == name else None)
    assert why_no_tasks(spark, 2) is None  # threads of one process
    monkeypatch.setattr(slots_of, "is_local_master", lambda master: False)
    assert why_no_tasks(spark, 2) == f"{SETTINGS[name]} ({name})"


def test_a_trial_of_the_network(spark, monkeypatch):
    """Where tasks may be on several machines they try whether they reach each other, once."""
    monkeypatch.setattr(type(abilities(spark)), "shares_disk", False)
    assert why_no_tasks(spark, 2) is None
    monkeypatch.setattr(barrier, "_swap_once", None)
    assert why_no_tasks(spark, 2) is None  # not tried again
    monkeypatch.setattr(barrier, "_tried", type(barrier._tried)())
    assert "not callable" in why_no_tasks(spark, 2)


@pytest.mark.parametrize("hosts", [["127.0.0.1", "192.0.2.1"], ["no.such.host", "192.0.2.1"]])
def test_an_address_that_other_machines_reach(hosts):
    try:
        address = own_address(hosts, 0)
    except OSError:
        pytest.skip("no route to other machines")
    assert not address.startswith("127.")
    assert own_address([address, "192.0.2.1"], 0) == address
