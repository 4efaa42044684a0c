"""Jobs, shuffled bytes and supersteps of a run, from Spark's event log."""

import json
import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.watch import ROUND_LINE


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


_DESCRIPTION = re.compile(r"(.+) superstep (\d+)")


def supersteps(log: EventLog, progress: Iterable[str]) -> list[Superstep]:
    """The supersteps of a run, in order.

    Parameters
    ----------
    log : EventLog
        Says what a superstep did: `engine.on_spark` describes its jobs as ``LOOP superstep N``.
    progress : iterable of str
        Lines of the run's stderr, which say how many messages each round had.
    """
    progressed = [m for m in map(ROUND_LINE.fullmatch, progress) if m]
    found: list[tuple[Superstep, float, float]] = []
    of_query: dict[int, Superstep] = {}
    for query, (description, start, end) in sorted(log.queries.items()):
        named = _DESCRIPTION.fullmatch(description)
        if not named:
            continue
        loop, number = named[1], int(named[2])
        # a round may take several queries, the last of them beside the first of the next round
        recent = range(max(0, len(found) - 2), len(found))
        places = [at for at in recent if (found[at][0].loop, found[at][0].round) == (loop, number)]
        if places:
            step, first, last = found[places[0]]
            found[places[0]] = (step, first, max(last, end))
        else:
            step = Superstep(loop, number)
            if progressed and (progressed[0][1], int(progressed[0][2])) == (loop, number):
                step.rows = int(progressed.pop(0)[3].replace(",", ""))
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
