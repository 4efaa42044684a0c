"""Jobs, shuffled bytes and supersteps of a run, from Spark's event log."""

import json
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.watch import ROUND_LINE

#: Jobs by id: ``started`` (epoch seconds), ``query``, and the bytes ``shuffle_read`` and
#: ``shuffle_written``.
Jobs = dict[int, dict[str, Any]]

#: Queries by id: description, start and end (epoch seconds).
Queries = dict[int, list[Any]]


def read_event_log(lines: Iterable[str]) -> tuple[Jobs, Queries]:
    """Return what Spark's event log says of jobs and queries."""
    jobs, queries, job_of_stage = Jobs(), Queries(), dict[int, int]()
    for event in map(json.loads, lines):
        match event["Event"].rpartition(".")[2]:
            case "SparkListenerSQLExecutionStart":
                start = event["time"] / 1000
                queries[event["executionId"]] = [event["description"], start, start]
            case "SparkListenerSQLExecutionEnd" if event["executionId"] in queries:
                queries[event["executionId"]][2] = event["time"] / 1000
            case "SparkListenerJobStart":
                query = (event.get("Properties") or {}).get("spark.sql.execution.id", -1)
                job = {"started": event["Submission Time"] / 1000, "query": int(query)}
                jobs[event["Job ID"]] = job | {"shuffle_read": 0, "shuffle_written": 0}
                for stage in event["Stage IDs"]:
                    # a stage that later jobs share has run for the first of them
                    job_of_stage.setdefault(stage, event["Job ID"])
            case "SparkListenerTaskEnd" if event["Stage ID"] in job_of_stage:
                job, metrics = (
                    jobs[job_of_stage[event["Stage ID"]]],
                    event.get("Task Metrics") or {},
                )
                read = metrics.get("Shuffle Read Metrics", {})
                for place in ("Local", "Remote"):
                    job["shuffle_read"] += read.get(f"{place} Bytes Read", 0)
                written = metrics.get("Shuffle Write Metrics", {})
                job["shuffle_written"] += written.get("Shuffle Bytes Written", 0)
    return jobs, queries


def supersteps(jobs: Jobs, queries: Queries, progress: Iterable[str]) -> list[dict[str, Any]]:
    """Return the supersteps of a run, in order; the last of a loop has no message.

    Parameters
    ----------
    jobs, queries : dict
        What a superstep did: `engine.on_spark` describes its jobs as ``LOOP superstep N``.
    progress : iterable of str
        Lines of the run's stderr, which say how many messages each round had.

    Returns
    -------
    list of dict
        ``loop``, ``round``, ``rows`` (messages), ``seconds`` (to the start of the loop's next
        round), ``jobs``, ``shuffle_read`` and ``shuffle_written`` (bytes).
    """
    told = [found for found in map(ROUND_LINE.fullmatch, progress) if found]
    steps, ends = list[dict[str, Any]](), list[list[float]]()
    for query, (description, start, end) in sorted(queries.items()):
        named = re.fullmatch(r"(.+) superstep (\d+)", description)
        if not named:
            continue
        mine = {"loop": named[1], "round": int(named[2])}
        # a round may take several queries, the last of them beside the first of the next round
        recent = [at for at in range(len(steps))[-2:] if mine.items() <= steps[at].items()]
        if recent:
            at = recent[0]
            ends[at][1] = max(ends[at][1], end)
        else:
            at, rows = len(steps), 0
            if told and (told[0][1], int(told[0][2])) == tuple(mine.values()):
                rows = int(told.pop(0)[3].replace(",", ""))
            none = dict.fromkeys(("jobs", "shuffle_read", "shuffle_written"), 0)
            steps.append({**mine, "rows": rows, "seconds": 0.0, **none})
            ends.append([start, end])
        for job in (job for job in jobs.values() if job["query"] == query):
            steps[at]["jobs"] += 1
            for name in ("shuffle_read", "shuffle_written"):
                steps[at][name] += job[name]
    for at, step in enumerate(steps):
        after = {"loop": step["loop"], "round": step["round"] + 1}
        follows = at + 1 < len(steps) and after.items() <= steps[at + 1].items()
        step["seconds"] = round((ends[at + 1][0] if follows else ends[at][1]) - ends[at][0], 3)
    return steps


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
