"""One process from outside: its seconds, its lines of stderr, its process tree's memory, disk."""

import math
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, NamedTuple

import psutil

#: Memory is sampled this often (seconds), and for at most this share of the time.
PACE, SHARE = 0.2, 0.05


class TreeMemory(NamedTuple):
    """Memory of a process and all below it, in bytes.

    Attributes
    ----------
    rss, pss : int
        Of all together.
    driver, worker, jvm : int
        PSS of the process itself, of the largest other one, of all JVMs together.
    """

    rss: int = 0
    pss: int = 0
    driver: int = 0
    worker: int = 0
    jvm: int = 0


@dataclass(frozen=True)
class Watched:
    """What was seen of a process: lines of stderr and memory, each with the time (epoch seconds).

    Attributes
    ----------
    lines : list of (float, str)
    memory : list of (float, TreeMemory)
    disk : int
        Bytes that the file system of temporary files filled by, at most; whoever else writes there
        is counted too.
    """

    started: float
    ended: float
    code: int
    lines: list[tuple[float, str]]
    memory: list[tuple[float, TreeMemory]]
    disk: int = 0

    @property
    def seconds(self) -> float:
        """From the process's start to its end."""
        return self.ended - self.started

    def largest(self, start: float = 0.0, end: float = math.inf) -> TreeMemory | None:
        """Return the largest samples of each number from `start` to `end`; None: there are none."""
        seen = [memory for moment, memory in self.memory if start <= moment <= end]
        return TreeMemory(*map(max, zip(*seen, strict=True))) if seen else None

    def peak(self, start: float = 0.0, end: float = math.inf) -> dict[str, int | None]:
        """The largest samples taken from `start` to `end`; None if there are none."""
        most = self.largest(start, end)
        return {
            "peak_rss": None if most is None else most.rss,
            "peak_pss": None if most is None else most.pss,
        }


def watch(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Watched:
    """Run a command to its end; its stderr is passed on."""
    started, lines = time.time(), []  # type: float, list[tuple[float, str]]

    def read(stream: IO[str]) -> None:
        for line in stream:
            lines.append((time.time(), line.rstrip("\n")))
            sys.stderr.write(line)

    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    reader = threading.Thread(target=read, args=(child.stderr,), daemon=True)
    reader.start()
    memory, used = [], [_used()]
    try:
        while child.poll() is None:
            sampled = time.time()
            memory.append((sampled, tree_memory(child.pid)))
            used.append(_used())
            try:
                child.wait(max(PACE, (time.time() - sampled) / SHARE))
            except subprocess.TimeoutExpired:
                continue
        ended = time.time()
        used.append(_used())
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    reader.join(timeout=5)
    return Watched(started, ended, child.returncode, lines, memory, max(used) - used[0])


def _used() -> int:
    """Bytes in use on the file system of temporary files, where Spark and Python put theirs."""
    return shutil.disk_usage(tempfile.gettempdir()).used


def tree_memory(pid: int) -> TreeMemory:
    """Return the memory of a process and all below it; without PSS, RSS takes its place."""
    rss = driver = worker = jvm = pss = 0
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return TreeMemory()
    for process in processes:
        try:
            name, info = process.name(), process.memory_full_info()
        except psutil.Error:  # it has just ended
            continue
        share = getattr(info, "pss", info.rss)
        rss += info.rss
        pss += share
        if process.pid == pid:
            driver = share
        elif name.startswith("java"):
            jvm += share
        else:
            worker = max(worker, share)
    return TreeMemory(rss, pss, driver, worker, jvm)


_STARTED = re.compile(r"(\w+): started")
_DONE = re.compile(r"(\w+): done in .*")
#: A line of progress: loop, round, messages.
ROUND_LINE = re.compile(r"  (\S.*): round (\d+), ([\d,]+) messages left.*")


def windows(seen: Watched) -> list[tuple[str, float, float]]:
    """The phases in the progress lines, and what is before and after: name, start, end.

    They follow one another without a gap.
    """
    marks, done_at = [("start", seen.started)], 0.0
    for moment, line in seen.lines:
        if begun := _STARTED.fullmatch(line):
            marks.append((begun[1], moment))
        elif (done := _DONE.fullmatch(line)) and done[1] == marks[-1][0]:
            done_at = moment
    if done_at > marks[-1][1]:
        marks.append(("end", done_at))
    ends = [start for _, start in marks[1:]] + [seen.ended]
    return [(name, start, end) for (name, start), end in zip(marks, ends, strict=True)]
