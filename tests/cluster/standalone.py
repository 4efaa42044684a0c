"""A standalone Spark cluster whose two workers share no disk with the driver or with each other.

Each worker runs in a mount namespace in which the clone, the driver's folder and the other
worker's folder cannot be seen (``worker.sh``): network and installed programs are all they share.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from .fetch import SPARK_HOME
from .processes import Program, environment, running, shell

ROOT = Path(__file__).resolve().parents[2]

#: Seconds that a small run may take.
PATIENCE = 1800

WORKERS = 2

ANY_PORTS = ("--port", "0", "--webui-port", "0")

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"

#: The tests' virtual environment (which has Spark), here and where an isolated worker sees it.
VENV, SEEN_VENV = Path(sys.prefix), Path("/tmp/worker/venv")


@dataclass(frozen=True)
class Cluster:
    """A master, with the folder of drivers and its workers, which may share no disk with it."""

    master: str
    driver: Path
    workers: tuple[Program, ...]
    isolated: bool

    def command(self, script: Path, flags: list[str], options: list[str]) -> list[str]:
        """How a user submits a script: ``spark-submit OPTIONS SCRIPT FLAGS``."""
        venv = SEEN_VENV if self.isolated else VENV
        return [
            *(str(VENV / "bin" / "spark-submit"), "--master", self.master),
            *("--py-files", str(ROOT / "dist" / "scribe_spark.zip")),
            *("--driver-memory", "1g", "--executor-memory", "1g"),
            *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
            *("--conf", f"spark.pyspark.python={venv / 'bin' / 'python'}"),
            *options,
            str(script),
            *flags,
        ]

    def environment(self) -> dict[str, str]:
        """A driver's environment: `VENV` is activated, temporary files are in its folder."""
        path = f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return environment(PATH=path, TMPDIR=str(self.driver), SPARK_LOCAL_DIRS=str(self.driver))

    def submit(
        self, script: Path, flags: list[str], options: list[str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a script to its end."""
        command = self.command(script, flags, options)
        return shell(command, self.driver, self.environment(), PATIENCE)

    def start(self, script: Path, flags: list[str], options: list[str], log: Path) -> Program:
        """Start a script; the caller ends it."""
        command = self.command(script, flags, options)
        return Program(command, log, self.driver, self.environment())

    def kill_an_executor(self) -> None:
        """End an executor of the first worker as if its machine had gone."""
        below = psutil.Process(self.workers[0].process.pid).children(recursive=True)
        (executor,) = [process for process in below if _EXECUTOR in _command_line(process)]
        executor.kill()


def _command_line(process: psutil.Process) -> list[str]:
    """Return the command line of a process; an empty one if the process has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie, too
        return []


@functools.cache
def unshare() -> tuple[str, ...]:
    """The command that starts another in mount and process namespaces of its own; () if none can.

    What runs in a process namespace ends with it, so nothing of a worker survives it.
    """
    base = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:  # where the kernel lets a user be root of namespaces alone
        base += ["--user", "--map-root-user"]
    try:
        tried = subprocess.run(
            [*base, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, timeout=60
        )
    except OSError:
        return ()
    return () if tried.returncode else tuple(base)


def no_isolation() -> str:
    """Why workers see the driver's files; '' where they do not."""
    if unshare():
        return ""
    return "`unshare --mount --pid` does not work here, so the workers can read the driver's files"


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """A master and its workers for the time of a ``with``; their folders are deleted after it."""
    driver = folder / "driver"
    driver.mkdir()
    (driver / "secret.txt").write_text("only the driver can read this")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder / "workers", ignore_errors=True)
        master = _spark_class("master.Master", "--host", "localhost", *ANY_PORTS)
        started = stack.enter_context(running(master, folder / "master.log", driver))
        url = started.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        workers = [
            stack.enter_context(
                running(_worker(folder, number, url), folder / f"worker-{number}.log", folder)
            )
            for number in range(WORKERS)
        ]
        for worker in workers:
            worker.wait_for("Successfully registered with master")
        yield Cluster(url, driver, tuple(workers), not no_isolation())


def _spark_class(name: str, *arguments: str, venv: Path = VENV) -> list[str]:
    home = venv / SPARK_HOME.relative_to(VENV)
    program = ["env", f"SPARK_HOME={home}", str(home / "bin" / "spark-class")]
    return [*program, f"org.apache.spark.deploy.{name}", *arguments]


def _worker(folder: Path, number: int, master: str) -> list[str]:
    own = folder / "workers" / str(number)
    own.mkdir(parents=True)
    isolated = not no_isolation()
    seen = Path("/tmp/worker") if isolated else own
    # executors of one host read each other's shuffled blocks from the disk
    host = f"127.0.0.{2 + number}" if isolated else "localhost"
    flags = ["--host", host, *ANY_PORTS, "--cores", "1", "--memory", "2g"]
    spark = _spark_class(
        "worker.Worker", *flags, "--work-dir", str(seen / "work"), master,
        venv=SEEN_VENV if isolated else VENV,
    )  # fmt: skip
    if not isolated:
        return spark
    script = Path(__file__).with_name("worker.sh")
    hidden = [str(ROOT), str(folder)]
    return [*unshare(), "sh", str(script), str(own), str(VENV), *hidden, "--", *spark]
