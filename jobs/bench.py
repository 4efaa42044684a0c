"""How long the main job takes, how much memory, how many bytes it shuffles.

``python jobs/bench.py [--sizes 10000,100000] [--repeat 3] [flags of scribe-spark run]``

The job runs as a user runs it, in a process of its own, timed from that process's start to its end.
The memory of its whole process tree (driver, JVM, Python workers) is sampled on the way: resident
(RSS), and proportional (PSS), where a page that several processes share counts once.  Rows and
shuffled bytes of each superstep come from Spark's event log, which costs time of its own, so it is
written in a run more, whose total is not the one that is told.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median
from typing import IO, Any, NoReturn

import psutil

from scribe_spark.errors import InputError

#: Memory is sampled this often (seconds), and for at most this share of the time.
PACE, SHARE = 0.2, 0.05

_MIB, _GIB = 2**20, 2**30


# ------------------------------------------------------------------------- one run, from outside


@dataclass(frozen=True)
class Watched:
    """What was seen of a process: lines of stderr and memory, each with the time (epoch seconds).

    Attributes
    ----------
    lines : list of (float, str)
    memory : list of (float, int, int)
        Time, RSS, PSS of the process tree in bytes.
    """

    started: float
    ended: float
    code: int
    lines: list[tuple[float, str]]
    memory: list[tuple[float, int, int]]

    @property
    def seconds(self) -> float:
        """From the process's start to its end."""
        return self.ended - self.started

    def peak(self, start: float = 0.0, end: float = math.inf) -> dict[str, int | None]:
        """The largest samples taken from `start` to `end`; None if there are none."""
        rows = [row for row in self.memory if start <= row[0] <= end]
        return {
            "peak_rss": max((rss for _, rss, _ in rows), default=None),
            "peak_pss": max((pss for _, _, pss in rows), default=None),
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
    memory = []
    try:
        while child.poll() is None:
            sampled = time.time()
            memory.append((sampled, *_tree_memory(child.pid)))
            try:
                child.wait(max(PACE, (time.time() - sampled) / SHARE))
            except subprocess.TimeoutExpired:
                continue
        ended = time.time()
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    reader.join(timeout=5)
    return Watched(started, ended, child.returncode, lines, memory)


def _tree_memory(pid: int) -> tuple[int, int]:
    """RSS and PSS of a process and all below it; where there is no PSS, RSS twice."""
    rss = pss = 0
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0, 0
    for process in processes:
        try:
            info = process.memory_full_info()
        except psutil.Error:  # it has just ended
            continue
        rss += info.rss
        pss += getattr(info, "pss", info.rss)
    return rss, pss


_STARTED = re.compile(r"(\w+): started")
_DONE = re.compile(r"(\w+): done in .*")
_ROUND = re.compile(r"  (\S.*): round (\d+), ([\d,]+) messages left.*")


def windows(seen: Watched) -> list[tuple[str, float, float]]:
    """The phases that the progress lines tell of, and what is before and after: name, start, end.

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


# ------------------------------------------------------------------------------- the event log


@dataclass
class Superstep:
    """One round of a loop of messages; the last of a loop, in which none is left, included.

    Attributes
    ----------
    rows : int
        Messages of the round.
    seconds : float
        From its start to the start of the loop's next round.
    jobs : int
        Spark jobs.
    shuffle_read, shuffle_written : int
        Bytes.
    """

    loop: str
    round: int
    rows: int = 0
    seconds: float = 0.0
    jobs: int = 0
    shuffle_read: int = 0
    shuffle_written: int = 0


@dataclass
class Job:
    """A Spark job: when it started (epoch seconds), for which query, and the bytes it shuffled."""

    started: float
    query: int | None
    shuffle_read: int = 0
    shuffle_written: int = 0


@dataclass
class EventLog:
    """Jobs by id, and of each query its description, start and end (epoch seconds)."""

    jobs: dict[int, Job]
    queries: dict[int, tuple[str, float, float]]


def read_event_log(lines: Iterable[str]) -> EventLog:
    """What Spark's event log says of jobs and queries."""
    log, stage_job = EventLog({}, {}), {}  # type: EventLog, dict[int, int]
    for line in lines:
        event = json.loads(line)
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerSQLExecutionStart":
            start = event["time"] / 1000
            log.queries[event["executionId"]] = (event["description"], start, start)
        elif kind == "SparkListenerSQLExecutionEnd" and event["executionId"] in log.queries:
            description, start, _ = log.queries[event["executionId"]]
            log.queries[event["executionId"]] = (description, start, event["time"] / 1000)
        elif kind == "SparkListenerJobStart":
            query = (event.get("Properties") or {}).get("spark.sql.execution.id")
            job = Job(event["Submission Time"] / 1000, None if query is None else int(query))
            log.jobs[event["Job ID"]] = job
            for stage in event["Stage IDs"]:
                # a stage that later jobs share has run for the first of them
                stage_job.setdefault(stage, event["Job ID"])
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in stage_job:
            metrics, job = event.get("Task Metrics") or {}, log.jobs[stage_job[event["Stage ID"]]]
            read = metrics.get("Shuffle Read Metrics", {})
            job.shuffle_read += read.get("Local Bytes Read", 0) + read.get("Remote Bytes Read", 0)
            written = metrics.get("Shuffle Write Metrics", {})
            job.shuffle_written += written.get("Shuffle Bytes Written", 0)
    return log


_DESCRIPTION = re.compile(r"(.+) round (\d+)")


def supersteps(log: EventLog, progress: Iterable[str]) -> list[Superstep]:
    """The supersteps of a run, in order.

    Parameters
    ----------
    log : EventLog
        Says what a superstep did: `superstep.run` describes its jobs as ``LOOP round N``.
    progress : iterable of str
        Lines of the run's stderr, which say how many messages each round had.
    """
    told = [m for m in map(_ROUND.fullmatch, progress) if m]
    found: list[tuple[Superstep, float, float]] = []
    of_query: dict[int, Superstep] = {}
    for query, (description, start, end) in sorted(log.queries.items()):
        named = _DESCRIPTION.fullmatch(description)
        if not named:
            continue
        loop, number = named[1], int(named[2])
        if found and (found[-1][0].loop, found[-1][0].round) == (loop, number):
            step, first, last = found[-1]  # a round may take several queries
            found[-1] = (step, first, max(last, end))
        else:
            step = Superstep(loop, number)
            if told and (told[0][1], int(told[0][2])) == (loop, number):
                step.rows = int(told.pop(0)[3].replace(",", ""))
            found.append((step, start, end))
        of_query[query] = step
    for place, (step, start, end) in enumerate(found):
        after = found[place + 1] if place + 1 < len(found) else None
        follows = after and (after[0].loop, after[0].round) == (step.loop, step.round + 1)
        step.seconds = round((after[1] if after and follows else end) - start, 3)
    for job in log.jobs.values():
        if job.query in of_query:
            step = of_query[job.query]
            step.jobs += 1
            step.shuffle_read += job.shuffle_read
            step.shuffle_written += job.shuffle_written
    return [step for step, _, _ in found]


# ----------------------------------------------------------------------------------- a benchmark


def growth_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log N by least squares: 1 is linear."""
    logs = [[math.log(value) for value in values] for values in (sizes, seconds)]
    return linear_regression(*logs).slope


def job(flags: Sequence[str]) -> list[str]:
    """The main job's command."""
    return [sys.executable, "-m", "scribe_spark.cli", "run", *flags]


def resolve(flags: Sequence[str]) -> dict[str, Any]:
    """The config that the flags amount to; bad ones end this program as they would end the job."""
    done = subprocess.run(job([*flags, "--dry-run"]), capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    return tomllib.loads(done.stdout)


def measure(flags: Sequence[str], repeat: int, event_log: bool, folder: str | None) -> dict:
    """Run the job `repeat` times, and once more with the event log.

    Returns
    -------
    dict
        An entry of ``sizes`` in the JSON: seconds are medians over the runs, memory is the most
        that any of them had.
    """
    totals, phases, rows = [], {}, {}  # type: list[float], dict[str, list[dict]], dict[str, int]
    whole: list[dict[str, int | None]] = []
    with tempfile.TemporaryDirectory(prefix="scribe-bench-", dir=folder) as scratch:
        for number in range(repeat):
            out = Path(scratch, f"run-{number}")
            seen = _run(flags, out)
            totals.append(seen.seconds)
            whole.append(seen.peak())
            for name, start, end in windows(seen):
                phases.setdefault(name, []).append(
                    {"seconds": end - start, **seen.peak(start, end)}
                )
            manifest = json.loads((out / "manifest.json").read_text())
            rows = {entry["name"]: entry["rows"] for entry in manifest["phases"]}
        result: dict[str, Any] = {
            "seconds": round(median(totals), 3),
            "each": [round(total, 3) for total in totals],
            **_most(whole),
            "phases": [
                {
                    "name": name,
                    "seconds": round(median(run["seconds"] for run in runs), 3),
                    "rows": rows.get(name),
                    **_most(runs),
                }
                for name, runs in phases.items()
            ],
        }
        if event_log:
            _add_event_log(result, flags, Path(scratch))
    return result


def _most(peaks: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    return {
        name: max((peak[name] for peak in peaks if peak[name] is not None), default=None)
        for name in ("peak_rss", "peak_pss")
    }


def _run(flags: Sequence[str], out: Path, environment: Mapping[str, str] | None = None) -> Watched:
    seen = watch(job([*flags, "--out", str(out)]), environment)
    if seen.code:
        sys.exit(seen.code)
    return seen


def _add_event_log(result: dict[str, Any], flags: Sequence[str], scratch: Path) -> None:
    logs = scratch / "events"
    logs.mkdir()
    seen = _run(flags, scratch / "run-logged", logging_to(logs))
    (path,) = logs.iterdir()
    with path.open(encoding="utf-8") as lines:
        log = read_event_log(lines)
    spans = {name: (start, end) for name, start, end in windows(seen)}
    for phase in result["phases"]:
        start, end = spans[phase["name"]]
        jobs = [each for each in log.jobs.values() if start <= each.started < end]
        phase["jobs"] = len(jobs)
        phase["shuffle_read"] = sum(each.shuffle_read for each in jobs)
        phase["shuffle_written"] = sum(each.shuffle_written for each in jobs)
    steps = supersteps(log, (line for _, line in seen.lines))
    result["supersteps"] = [dataclasses.asdict(step) for step in steps]
    result["seconds_with_event_log"] = round(seen.seconds, 3)


def logging_to(folder: Path) -> dict[str, str]:
    """An environment in which Spark writes its event log, one plain file, into `folder`."""
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{shlex.join(words)} {given}"}


def machine() -> dict[str, Any]:
    """Cores, memory (bytes), and how busy others keep them (load average of the last minute)."""
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "load": round(psutil.getloadavg()[0], 2),
    }


# ------------------------------------------------------------------------------------- in words


def text(bench: Mapping[str, Any]) -> str:
    """The benchmark as tables for a terminal."""
    on = bench["machine"]
    lines = [f"{on['cores']} cores, {on['memory'] / _GIB:.1f} GiB, load {on['load']} at the start"]
    for size in bench["sizes"]:
        lines += ["", *_size_text(size)]
    if bench["growth_exponent"] is not None:
        lines += ["", f"growth exponent of seconds in N: {bench['growth_exponent']:.2f}"]
    return "\n".join(lines)


def _size_text(size: Mapping[str, Any]) -> list[str]:
    logged = "supersteps" in size
    each = ", ".join(f"{seconds:.1f}" for seconds in size["each"])
    runs = f" (median of {each})" if len(size["each"]) > 1 else ""
    groups = "members from a table" if size["groups"] is None else f"G = {size['groups']:,}"
    lines = [f"N = {size['nodes']:,}, {groups}: {size['seconds']:.1f} s{runs}", ""]
    columns = ["phase", "seconds", "rows", "RSS GiB", "PSS GiB"]
    columns += ["jobs", "read MiB", "written MiB"] if logged else []
    total = {"name": "all", **size, "rows": sum(p["rows"] or 0 for p in size["phases"])}
    for name in ("jobs", "shuffle_read", "shuffle_written"):
        total[name] = sum(phase.get(name, 0) for phase in size["phases"])
    rows = [
        [phase["name"], f"{phase['seconds']:.1f}", _count(phase["rows"])]
        + [_gib(phase[peak]) for peak in ("peak_rss", "peak_pss")]
        + (_shuffled(phase) if logged else [])
        for phase in [*size["phases"], total]
    ]
    lines += _table(columns, rows)
    if logged:
        columns = ["superstep", "seconds", "rows", "jobs", "read MiB", "written MiB"]
        steps = [
            [f"{s['loop']} {s['round']}", f"{s['seconds']:.2f}", _count(s["rows"]), *_shuffled(s)]
            for s in size["supersteps"]
        ]
        lines += ["", *_table(columns, steps)]
        lines += ["", f"with the event log: {size['seconds_with_event_log']:.1f} s"]
    return lines


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _gib(value: int | None) -> str:
    return "" if value is None else f"{value / _GIB:.2f}"


def _shuffled(entry: Mapping[str, Any]) -> list[str]:
    read, written = entry["shuffle_read"], entry["shuffle_written"]
    return [str(entry["jobs"]), f"{read / _MIB:.2f}", f"{written / _MIB:.2f}"]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column to the left, numbers to the right."""
    every = [columns, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in every
    ]


# ---------------------------------------------------------------------------------------- flags


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _stop(message)


def _stop(line: str) -> NoReturn:
    print(f"bench.py: error: {line}", file=sys.stderr)
    sys.exit(2)


def _whole(value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} must be a whole number, at least 1")
    return number


def _sizes(value: str) -> list[int]:
    return [_whole(size) for size in value.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bench.py",
        description="Time the main job; every flag of scribe-spark run may be given too.",
        allow_abbrev=False,
    )
    parser.add_argument("--sizes", type=_sizes, metavar="N,N,...", help="one benchmark per N")
    parser.add_argument("--repeat", type=_whole, default=1, metavar="K", help="medians of K runs")
    parser.add_argument("--json", default="bench.json", metavar="FILE", help="[bench.json]")
    parser.add_argument(
        "--no-event-log", action="store_true", help="no shuffled bytes, and one run less"
    )
    parser.add_argument("--folder", help="where runs are written for the time being")
    return parser


def main(arguments: Sequence[str]) -> int:
    given, flags = _parser().parse_known_args(arguments)
    try:
        if any(word.split("=")[0] == "--out" for word in flags):
            raise InputError("flag", "--out", "bench writes to a folder of its own; see --folder")
        path = Path(given.json)
        if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
            raise InputError("json", given.json, "cannot be written")
        if given.folder is not None and not os.path.isdir(given.folder):
            raise InputError("folder", given.folder, "is no folder")
    except InputError as error:
        _stop(str(error))
    chosen = [["--nodes", str(size)] for size in given.sizes or []] or [[]]
    # all of them are looked at before the first one runs
    resolved = [resolve([*flags, *size]) for size in chosen]
    bench: dict[str, Any] = {"machine": machine(), "config": resolved[0], "sizes": []}
    for size, config in zip(chosen, resolved, strict=True):
        result = measure([*flags, *size], given.repeat, not given.no_event_log, given.folder)
        about = {name: config.get(name) for name in ("nodes", "groups", "seed")}
        bench["sizes"].append({**about, **result})
    different = {size["nodes"]: size["seconds"] for size in bench["sizes"]}
    growth = None
    if len(different) > 1:
        growth = round(growth_exponent(list(different), list(different.values())), 3)
    bench["growth_exponent"] = growth
    path.write_text(json.dumps(bench, indent=2) + "\n")
    print(text(bench))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
