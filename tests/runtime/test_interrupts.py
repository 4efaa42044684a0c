"""Ctrl-C while Spark works: the real signal, sent to this very process."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from scribe_spark.experiments import verify
from scribe_spark.runtime.interrupts import interruptible
from scribe_spark.runtime.sessions import abilities


def ctrl_c(after: float) -> None:
    threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()


def ctrl_c_in_a_job(spark) -> None:
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_job_is_cancelled_and_the_session_still_answers(spark):
    cleaned = []

    def work() -> None:
        try:
            spark.range(10**13).selectExpr("sum(id % 7)").collect()
        finally:
            cleaned.extend(spark.range(5).count() for _ in range(5))

    threading.Thread(target=ctrl_c_in_a_job, args=(spark,)).start()
    with pytest.raises(KeyboardInterrupt), interruptible(abilities(spark).cancel_all):
        work()
    assert cleaned == [5] * 5
    assert spark.range(7).count() == 7


# ----------------------------------------------------------------- a process of its own, no Spark

ROOT = Path(__file__).resolve().parents[2]

#: What each program below begins with; `signal_me` sends signals to the program itself.
BEGIN = """
import os, signal, subprocess, sys, threading, time
from scribe_spark.runtime.interrupts import *
from scribe_spark.runtime import interrupts

def signal_me(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)

end_on_signals(lambda: "the last words")
"""


def ended(program: str, **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, **how,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_with_nothing_under_way_the_process_ends_at_once(name, code):
    """Not even code that catches everything, as some do while they are imported, keeps it alive."""
    done = ended(f"""
try:
    signal_me(signal.{name})
    time.sleep(30)
except BaseException:
    print("caught")
""")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "the last words\n")


def test_what_is_to_be_ignored_stays_so():
    """As under nohup, or in the background of a script."""
    done = ended(
        "signal_me(signal.SIGHUP, signal.SIGINT)\nprint('alive')",
        preexec_fn=lambda: [signal.signal(n, signal.SIG_IGN) for n in (1, 2)],
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_a_deferred_interrupt_comes_at_the_end():
    done = ended("""
try:
    with deferred():
        signal_me(signal.SIGINT)
        time.sleep(0.1)
        print("done")
except KeyboardInterrupt:
    print("interrupted", interrupted(), exit_code())
""")
    assert done.stdout == "done\ninterrupted True 130\n"


#: Starts a process that starts another one, neither of which hears SIGTERM, and waits for it.
STUBBORN = """
sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
sleep += "; time.sleep(300)"
both = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleep!r}]); {sleep}"

def work():
    try:
        child = subprocess.Popen([sys.executable, "-c", both], stdout=subprocess.PIPE)
        child.stdout.readline(), child.stdout.readline()
        threading.Timer(0, signal_me, NUMBERS).start()
        raise SystemExit(child.wait())  # as pyspark does where its JVM has ended
    finally:
        print("cleaned up", child.returncode)

interrupts._PATIENCE = 0.5
"""


def test_an_interrupt_ends_what_a_thread_has_started():
    """Its own waiting for the process is not disturbed."""
    done = ended(
        "NUMBERS = [signal.SIGINT]"
        + STUBBORN
        + """
interrupts._PATIENCE = 0.5
try:
    in_thread(work)
except KeyboardInterrupt:
    print(threading.active_count(), interrupts._processes(), exit_code())
"""
    )
    assert done.stdout == "cleaned up -9\n1 set() 130\n", done.stderr


def test_a_second_one_ends_everything_at_once():
    done = ended(
        "NUMBERS = [signal.SIGINT, signal.SIGTERM]" + STUBBORN + "in_thread(work)",
        start_new_session=True,
    )
    assert (done.returncode, done.stderr) == (130, "the last words\n")


#: An object that is interrupted while it is deleted, without any job.
DELETED = """
class Deleted:
    def __del__(self):
        signal_me(signal.SIGINT)
        time.sleep(0.1)

try:
    with interruptible(lambda silently: None):
        Deleted()
        try:
            time.sleep(30)
        finally:
            time.sleep(1)
            print("cleaned up")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_that_comes_into_a_destructor_is_not_lost():
    """Python drops what is raised there; and cleaning up is not interrupted again."""
    done = ended(DELETED)
    assert done.stdout.splitlines()[-2:] == ["cleaned up", "interrupted"], done.stderr


# ------------------------------------------------------------------------------ the real command


#: A small one, whose routes are there at once.
NETWORK = ("--transit-domains=2", "--transit-size=2", "--stubs-per-transit=2", "--stub-size=3")


def of_session(session: int) -> list[psutil.Process]:
    """The processes of a session (what `start_new_session` begins), wherever they are now."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def is_starting(process: psutil.Process, told: str) -> bool:
    """Whether spark-submit is there, or what it has become."""
    return any("spark" in " ".join(each.cmdline()[:3]).lower() for each in process.children())


def has_java(process: psutil.Process, told: str) -> bool:
    """Whether the JVM is there, which has not said yet how it is talked to."""
    return any("java" in each.name() for each in process.children())


def tells(line: str) -> Callable[[psutil.Process, str], bool]:
    return lambda process, told: line in told


@pytest.mark.parametrize(
    ("moment", "whole_group"),
    [
        pytest.param(is_starting, False, id="spark-submit starts", marks=pytest.mark.slow),
        pytest.param(has_java, True, id="java starts"),
        pytest.param(tells("Using incubator"), True, id="java has started", marks=pytest.mark.slow),
        pytest.param(tells("topology: started"), True, id="topology", marks=pytest.mark.slow),
        pytest.param(tells("overlay: started"), True, id="overlay", marks=pytest.mark.slow),
        pytest.param(tells("report: done"), True, id="end", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_at_any_moment(
    tmp_path, moment: Callable[[psutil.Process, str], bool], whole_group: bool
):
    """A terminal sends the signal to the whole group of processes, kill to one."""
    out = tmp_path / "out"
    command = ["run", "--overlay=perfect", "--nodes=60", "--groups=3", "--master=local[1]"]
    command += [*NETWORK, f"--out={out}"]
    check_ctrl_c(tmp_path, command, moment, whole_group, "the last complete phase")
    assert {path.name for path in tmp_path.iterdir()} <= {"told", "out"}
    assert not (out / ".scribe-spark-lock").exists()


@pytest.mark.parametrize(
    ("line", "whole_group"),
    [
        pytest.param("rounds: started", True, marks=pytest.mark.slow),
        ("round 1:", True),
        pytest.param("round 5:", False, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_in_the_rounds_of_a_world(tmp_path, line, whole_group):
    """A job plays rounds, or they are being saved; what is saved is whole."""
    command = [
        *("world", *NETWORK, "--nodes=40", "--initial=30", "--groups=2", "--lifetime=20"),
        *("--generator=churn+publications", "--rounds=200", "--link-stress-period=1"),
        *("--delivery=reliable", "--master=local[1]", f"--out={tmp_path}/out"),
    ]
    check_ctrl_c(tmp_path, command, tells(line), whole_group, "the last saved round")
    found = verify(f"{tmp_path}/out")
    assert not found.damaged
    assert not found.finished


@pytest.mark.slow
def test_under_nohup_a_run_goes_on_after_a_hang_up(tmp_path):
    """The terminal's SIGHUP to the whole group of processes: Python, the JVM and its workers."""
    command = ["run", "--nodes=60", "--groups=3", "--master=local[1]", *NETWORK]
    run = started(tmp_path, ["nohup"], [*command, f"--out={tmp_path}/out"])
    wait_for(tells("overlay: started"), run, tmp_path)
    os.killpg(run.pid, signal.SIGHUP)
    assert run.wait(120) == 0, (tmp_path / "told").read_text()
    assert verify(f"{tmp_path}/out").finished


def started(tmp_path: Path, prefix: list[str], arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start a command in a group of its own; the file `told` gets all that the command prints."""
    with open(tmp_path / "told", "w") as told:
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "scribe_spark.cli", *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=told, stderr=told, start_new_session=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        )  # fmt: skip


def wait_for(
    moment: Callable[[psutil.Process, str], bool], run: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process = psutil.Process(run.pid)
    while not moment(process, (tmp_path / "told").read_text()):
        assert run.poll() is None, (tmp_path / "told").read_text()
        time.sleep(0.02)


def check_ctrl_c(
    tmp_path: Path,
    arguments: list[str],
    moment: Callable[[psutil.Process, str], bool],
    whole_group: bool,
    saved: str,
) -> None:
    """One line, exit code 130, and no process is left."""
    run = started(tmp_path, [], arguments)
    wait_for(moment, run, tmp_path)
    (os.killpg if whole_group else os.kill)(run.pid, signal.SIGINT)
    code = run.wait(120)
    left = of_session(run.pid)
    for each in left:
        each.kill()
    progress = re.compile(
        r"WARNING: Using incubator|  "
        r"|\w+: (started|done in|in tasks|stopped after|complete, skipped)"
    )
    lines = (tmp_path / "told").read_text().splitlines()
    assert [line for line in lines if not progress.match(line)] == [
        f"scribe-spark: interrupted; the same command with --resume continues after {saved}"
    ]
    assert code == 130
    assert not left
