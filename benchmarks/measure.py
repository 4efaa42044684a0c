"""The main job, run as a user runs it and measured from outside."""

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

import numpy as np
import psutil
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from benchmarks.event_log import logging_to, read_event_log, supersteps
from benchmarks.watch import Watched, watch, windows
from scribe_spark.config import RunConfig
from scribe_spark.topology.registry import load


def calibrate() -> float:
    """Seconds of a fixed piece of work, by which figures of machines and hours are compared.

    It is SciPy's `dijkstra` with predecessors, by weight, from all 5,050 routers of the paper's
    network (seed 1), in one thread; drawing the network is not included.
    """
    graph = load(RunConfig(seed=1))
    routers = graph.vertices["id"].to_numpy()
    src, dst = (np.searchsorted(routers, graph.edges[end].to_numpy()) for end in ("src", "dst"))
    shape = (len(routers), len(routers))
    links = csr_array((graph.edges["weight"].to_numpy(), (src, dst)), shape=shape)
    started = time.perf_counter()
    dijkstra(links, directed=True, return_predecessors=True)
    return time.perf_counter() - started


def growth_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log N by least squares: 1 is linear."""
    logs = [[math.log(value) for value in values] for values in (sizes, seconds)]
    return linear_regression(*logs).slope


def job_command(flags: Sequence[str]) -> list[str]:
    """The main job's command."""
    return [sys.executable, "-m", "scribe_spark.cli", "run", *flags]


def resolve(flags: Sequence[str]) -> dict[str, Any]:
    """The config that the flags amount to; bad ones end this program as they would end the job."""
    done = subprocess.run(job_command([*flags, "--dry-run"]), capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    return tomllib.loads(done.stdout)


def measure(flags: Sequence[str], repeat: int, event_log: bool, folder: str | None) -> dict:
    """Run the job `repeat` times, and once more with the event log.

    Returns
    -------
    dict
        An entry of ``sizes`` in the JSON: seconds are medians over the runs, memory and disk are
        the most that any of them had; ``calibration`` is the mean of :func:`calibrate` before and
        after.
    """
    runs, manifest, before = list[Watched](), dict[str, Any](), calibrate()
    parts: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="scribe-bench-", dir=folder) as scratch:
        for number in range(repeat):
            out = Path(scratch, f"run-{number}")
            runs.append(run_job(flags, out))
            manifest = json.loads((out / "manifest.json").read_text())
            for part, seconds in manifest["seconds"].items():
                parts.setdefault(part, []).append(seconds)
        calibration = (before + calibrate()) / 2
        totals = [seen.seconds for seen in runs]
        rows = {entry["name"]: entry["rows"] for entry in manifest["phases"]}
        spans = [{name: ends for name, *ends in windows(seen)} for seen in runs]
        result: dict[str, Any] = {
            "seconds": round(median(totals), 3),
            "calibration": round(calibration, 3),
            "calibrations": round(median(totals) / calibration, 2),
            "each": [round(total, 3) for total in totals],
            **_most([seen.peak() for seen in runs]),
            "peak_disk": max(seen.disk for seen in runs),
            "parts": {part: median(seconds) for part, seconds in parts.items()},
            "phases": [
                {
                    "name": name,
                    "seconds": round(median(of[name][1] - of[name][0] for of in spans), 3),
                    "rows": rows.get(name),
                    **_most([s.peak(*of[name]) for s, of in zip(runs, spans, strict=True)]),
                }
                for name in spans[0]
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


def run_job(
    flags: Sequence[str], out: Path, environment: Mapping[str, str] | None = None
) -> Watched:
    seen = watch(job_command([*flags, "--out", str(out)]), environment)
    if seen.code:
        sys.exit(seen.code)
    return seen


def _add_event_log(result: dict[str, Any], flags: Sequence[str], scratch: Path) -> None:
    logs = scratch / "events"
    logs.mkdir()
    seen = run_job(flags, scratch / "run-logged", logging_to(logs))
    (path,) = logs.iterdir()
    with path.open(encoding="utf-8") as lines:
        jobs, queries = read_event_log(lines)
    spans = {name: (start, end) for name, start, end in windows(seen)}
    for phase in result["phases"]:
        start, end = spans[phase["name"]]
        mine = [job for job in jobs.values() if start <= job["started"] < end]
        phase["jobs"] = len(mine)
        for name in ("shuffle_read", "shuffle_written"):
            phase[name] = sum(job[name] for job in mine)
    result["supersteps"] = supersteps(jobs, queries, (line for _, line in seen.lines))
    result["seconds_with_event_log"] = round(seen.seconds, 3)


def machine() -> dict[str, Any]:
    """Cores, memory (bytes), and how busy others keep them (load average of the last minute)."""
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "load": round(psutil.getloadavg()[0], 2),
    }
