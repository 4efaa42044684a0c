"""Tasks of a barrier stage that swap: in Spark's own workers, and where they are lost."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError, RunError
from scribe_spark.engine import barrier
from scribe_spark.engine.barrier import (
    gather_in_files,
    own_address,
    run_in_tasks,
    why_no_tasks,
)
from scribe_spark.engine.between_tasks import PeerLost
from scribe_spark.engine.on_spark import BucketTables, Layout
from scribe_spark.engine.packing import pack_rows, read_rows
from scribe_spark.runtime import settings as slots_of
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.sessions import abilities, concurrent_jobs, local_frame


def rows_of(spark, tasks=2):
    return spark.range(30).select((F.col("id") % tasks).alias("bucket"))


def swapping(swaps=5, at=None, what=None):
    """Return work: a few swaps; at one of them something happens, to task 1."""

    def work(exchange, batches):
        rows = sum(map(len, batches))
        for number in range(swaps):
            if number == at and exchange.rank == 1:
                what()
            _, notes = exchange.swap({}, b"%d" % rows)
        everywhere = sum(map(int, notes))
        row = {"task": exchange.rank, "rows": everywhere, "pid": os.getpid()}
        columns = {name: np.array([value]) for name, value in row.items()}
        yield from pack_rows(exchange.rank, exchange.rank, True, "seen", columns)

    return work


def played(spark, work, tasks=2, **options):
    with tempfile.TemporaryDirectory() as folder:
        table, _ = run_in_tasks(rows_of(spark, tasks), tasks, work, ["name"], folder, **options)
    rows = sorted(read_rows(table.toArrow().to_batches()), key=lambda row: row.bucket)
    release(table)
    assert len(rows) == tasks
    return [{name: column[0] for name, column in row.read().items()} for row in rows]


def test_tasks_swap_in_spark_and_leave_nothing_behind(spark):
    for _ in range(2):  # the second time in the workers of the first
        rows = played(spark, swapping())
        assert [row["task"] for row in rows] == [0, 1]
        assert [row["rows"] for row in rows] == [30, 30]
    for row in rows:
        process = psutil.Process(row["pid"])
        assert not [one for one in process.net_connections() if one.status == "LISTEN"]
        assert process.num_threads() < 50


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("is_input", [True, False])
def test_an_error_of_the_work_is_one_line_and_not_tried_again(spark, tmp_path, tasks, is_input):
    def work(exchange, batches):
        exchange.swap({}, b"")
        yield from pack_rows(exchange.rank, 0, True, "made", {"n": np.arange(3)})
        (tmp_path / str(time.time_ns())).touch()
        if exchange.rank == tasks - 1:
            raise InputError("nodes", 7, "are too few") if is_input else ZeroDivisionError("!")
        while True:
            exchange.swap({}, b"")

    line = "nodes = 7: are too few" if is_input else "ZeroDivisionError: !"
    with pytest.raises(InputError if is_input else RunError, match=f"^{line}$") as failed:
        played(spark, work, tasks)
    assert "in work" in str(failed.value.__cause__)  # the traceback
    assert len(list(tmp_path.iterdir())) == tasks


@pytest.mark.parametrize("buckets", [1, 2])
def test_tables_are_as_before_where_a_program_fails(spark, buckets, tmp_path):
    """A program of a run or a world that fails is played once."""

    def fail(player):
        (tmp_path / f"{player.first} {time.time_ns()}").touch()
        player.tables[0]["seen"] = {"n": np.arange(3)}
        player.agree(True)
        raise KeyError("no such node")

    def double(player, beside):
        first = player.tables[0]["seen"]["n"]
        player.tables[0]["seen"] = {"n": first * 2 + beside.column("more").to_numpy()}

    layout = Layout(spark, buckets, buckets)
    first = [
        row
        for bucket in range(buckets)
        for row in pack_rows(bucket, bucket, True, "seen", {"n": np.array([bucket])})
    ]
    tables = BucketTables(layout, local_frame(spark, pa.Table.from_batches(first)))
    with pytest.raises(RunError, match=r"^KeyError: ['\"]no such node['\"]$"):
        tables.play_in_tasks(fail, "a program that fails")
    assert len(list(tmp_path.iterdir())) == buckets
    tables.play_in_tasks(
        double, "another", beside=spark.range(5, 6).withColumnRenamed("id", "more")
    )
    assert [table["n"].tolist() for *_, table in tables.read("seen")] == [[5], [7]][:buckets]
    tables.release()
    layout.release()


def test_a_killed_task_makes_all_begin_again(spark, tmp_path):
    def die_once():
        if not list(tmp_path.iterdir()):
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert [row["rows"] for row in played(spark, swapping(9, 4, die_once))] == [30, 30]
    assert (tmp_path / "died").exists()


def test_a_task_that_never_answers_is_lost_and_all_begin_again(spark, tmp_path):
    def stop_once():
        if not list(tmp_path.iterdir()):
            (tmp_path / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    rows = played(spark, swapping(9, 4, stop_once), patience=1.0)
    assert [row["rows"] for row in rows] == [30, 30]
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

    def play():
        return run_in_tasks(rows_of(spark), 2, swap_for_ever, ["name"])

    def interrupt(job):
        end = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < end
            assert not job.done()
            time.sleep(0.05)
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), concurrent_jobs(spark) as submit:
        job = submit(play)
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


def test_why_tasks_cannot_stay(spark, monkeypatch):
    assert why_no_tasks(spark, 1) is None
    assert why_no_tasks(spark, 2) is None
    assert why_no_tasks(spark, 3) == "3 tasks cannot run at once: there are 2 slots"
    monkeypatch.setattr(barrier.importlib.util, "find_spec", lambda name: None)
    assert why_no_tasks(spark, 2) == "this pyarrow is without Arrow Flight"
    assert why_no_tasks(spark, 1) is None


@pytest.mark.parametrize(("name", "why"), slots_of._SETTINGS.items())
def test_settings_that_keep_tasks_from_staying(spark, monkeypatch, name, why):
    monkeypatch.setattr(slots_of, "read_setting", lambda _, read: "true" if read == name else None)
    assert why_no_tasks(spark, 2) is None  # threads of one process
    monkeypatch.setattr(slots_of, "is_local_master", lambda master: False)
    assert why_no_tasks(spark, 2) == f"{why} ({name})"


def test_a_trial_of_the_network(spark, monkeypatch):
    """Where tasks may be on several machines they try whether they reach each other, once."""
    monkeypatch.setattr(type(abilities(spark)), "shares_disk", False)
    assert why_no_tasks(spark, 2) is None
    monkeypatch.setattr(barrier, "_swap_once", None)
    assert why_no_tasks(spark, 2) is None  # not tried again
    monkeypatch.setattr(barrier, "_tried", type(barrier._tried)())
    assert "not callable" in why_no_tasks(spark, 2)


def test_addresses_in_files_are_those_of_the_last_try_of_each_task(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    files = {"2 99": ended.pid, "1 3": os.getpid(), "1 11": os.getpid(), "2 12": os.getpid()}
    for name, process in files.items():
        (tmp_path / f"{name} {process}").write_text(f"address {name}")
    gathered = gather_in_files(tmp_path, 0, 3, 10, "own address", 60)
    assert gathered == ["own address", "address 1 11", "address 2 12"]
    assert not list(tmp_path.glob(".*"))


def test_a_task_without_an_address_is_lost(tmp_path):
    with pytest.raises(PeerLost, match="task 1 has told no address"):
        gather_in_files(tmp_path / "of a stage", 0, 2, 5, "address 0", 0.1)
    assert (tmp_path / "of a stage").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("hosts", [["127.0.0.1", "192.0.2.1"], ["no.such.host", "192.0.2.1"]])
def test_an_address_that_other_machines_reach(hosts):
    try:
        address = own_address(hosts, 0)
    except OSError:
        pytest.skip("no route to other machines")
    assert not address.startswith("127.")
    assert own_address([address, "192.0.2.1"], 0) == address
