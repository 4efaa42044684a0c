"""Programs in the background: started, awaited by a line of their log, and always ended."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

#: Seconds in which a server has to start.
PATIENCE = 300


def environment(**more: str) -> dict[str, str]:
    """The environment of a user's shell, on the loopback interface alone; `more` on top."""
    foreign = ("PYSPARK_", "SPARK_", "AWS_", "HADOOP_", "PYTHONPATH")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    # the machine's name need not resolve
    return clean | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"} | more


class Program:
    """A program in the background, which prints to a file."""

    def __init__(self, command: list[str], log: Path, cwd: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """Wait until it prints a line that matches; the match."""
        end = time.monotonic() + patience
        while True:
            ended = self.process.poll() is not None
            if found := re.search(pattern, self.output(), re.MULTILINE):
                return found
            assert not ended, f"ended without {pattern!r}:\n{self.output()}"
            assert time.monotonic() < end, f"{patience} s without {pattern!r}:\n{self.output()}"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it and all that it started in its process group, without a chance to clean up."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(
    command: list[str], log: Path, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """A program for the time of a ``with``."""
    program = Program(command, log, cwd, environment() if env is None else env)
    try:
        yield program
    finally:
        program.kill()


def shell(
    command: list[str], cwd: Path, env: Mapping[str, str], patience: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, or kill it with all it started; its output and standard error."""
    process = subprocess.Popen(
        command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"not finished after {patience} s:\n{output}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output)
