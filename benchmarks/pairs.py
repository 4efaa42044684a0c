"""``python -m benchmarks.pairs OLD [--new NEW] [--only WORD,...] [--pairs K]``: is NEW slower?

OLD and NEW are checkouts of this repository (by default NEW is this one).  Each case of `CASES` and
`WHOLE` is played by both checkouts in the same minutes, K times in the order old, new, new, old.  A
row of the table is the median over the pairs, of seconds and of processor time.
"""

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_CLI = ("-m", "scribe_spark.cli")
_RUN, _WORLD = (*_CLI, "run"), (*_CLI, "world", "--rounds", "6", "--lookups", "1000")
_FAILS = ("--event-round", "2", "--generator")
_PEERS = ("--nodes", "100000", "--groups", "1500", "--systems")
_SMALL = ("--nodes", "20000", "--groups", "300", "--overlay", "perfect", "--systems")
_PUBLISH = ("--generator", "publications")
_TASKS, _PERFECT = ("--engine", "tasks"), ("--overlay", "perfect")
_MEASURED = ("--measures", "delay,node_stress,link_stress")
_MASS_FAILURE = (*_CLI, "world", "--config", "data/groups_mass_failure.toml")

#: Arguments of Python by the name of a case, and the greatest ratio of new by old.
CASES: dict[str, tuple[tuple[str, ...], float]] = {
    "paper's run 100k": ((*_RUN, "--nodes", "100000"), 1.05),
    "paper's run 1M": ((*_RUN, "--nodes", "1000000", "--overlay", "perfect"), 1.05),
    "world 100k quiet": ((*_WORLD, "--nodes", "100000"), 1.05),
    "world 100k failure": ((*_WORLD, "--nodes", "100000", *_FAILS, "mass-failure"), 1.05),
    "world 1M quiet": ((*_WORLD, "--nodes", "1000000"), 1.05),
    "world 1M failure": ((*_WORLD, "--nodes", "1000000", *_FAILS, "mass-failure"), 1.05),
    "run gossipsub 100k": ((*_RUN, *_PEERS, "gossipsub", "--overlay", "perfect"), 1.05),
    "run bayeux 100k": ((*_RUN, *_PEERS, "bayeux", "--overlay", "perfect"), 1.05),
    "world gossipsub 100k": ((*_WORLD, *_PEERS, "scribe,gossipsub", *_PUBLISH), 1.05),
    "world bayeux 100k": ((*_WORLD, *_PEERS, "scribe,bayeux", *_PUBLISH), 1.05),
    "world gossipsub alone 100k": ((*_WORLD, *_PEERS, "gossipsub", *_PUBLISH), 0.5),
    "clock": (("-m", "benchmarks.bandwidth", "--no-runs"), 1.05),
    "run bayeux 20k": ((*_RUN, *_SMALL, "bayeux"), 1.05),
    "run can 20k": ((*_RUN, *_SMALL, "can"), 1.05),
    "world scribe 20k jobs": (
        (*_WORLD, "--nodes", "20000", "--groups", "300", "--engine", "jobs", *_PUBLISH), 1.05
    ),
}  # fmt: skip

#: The same for whole commands, for whose users the seconds count.
WHOLE: dict[str, tuple[tuple[str, ...], float]] = {
    "whole run 100k tasks perfect": ((*_RUN, *_PERFECT, *_TASKS), 0.65),
    "whole run 100k jobs perfect": ((*_RUN, *_PERFECT), 0.80),
    "whole run 100k tasks": ((*_RUN, *_TASKS), 0.70),
    "whole run 100k jobs": (_RUN, 0.80),
    "whole run 1M tasks": ((*_RUN, "--nodes", "1000000", *_PERFECT, *_TASKS), 0.80),
    "whole run 1M jobs": ((*_RUN, "--nodes", "1000000", *_PERFECT), 0.85),
    "whole world 100k": (
        (*_CLI, "world", "--rounds", "20", "--nodes", "100000", "--groups", "1500", *_MEASURED,
         *_PUBLISH), 0.50
    ),
    "whole world 1M": (
        (*_MASS_FAILURE, "--nodes", "1000000", "--groups", "1500", "--rounds", "6"), 0.65
    ),
    "whole peerdas": ((*_RUN, "--config", "data/peerdas.toml"), 0.65),
    "whole run 2k": ((*_RUN, "--nodes", "2000", "--groups", "50"), 0.80),
    "whole world 2k": (
        (*_CLI, "world", "--nodes", "2000", "--groups", "30", "--rounds", "8"), 0.80
    ),
}  # fmt: skip

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl: the time of Spark's JVM counts here


@dataclass(frozen=True)
class _Cost:
    seconds: float
    cpu: float


def _cost(checkout: Path, arguments: Sequence[str]) -> _Cost:
    """Run a program of a checkout; return the seconds, and the processor time of all processes."""
    with tempfile.TemporaryDirectory(prefix="scribe-pair-") as folder:
        out = ("--out", f"{folder}/out") if _CLI[1] in arguments else ()
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        before, started = _children(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments, *out],
            **{"env": environment, "cwd": checkout, "capture_output": True, "text": True},
        )  # type: ignore[call-overload]
        seconds = time.perf_counter() - started
        _wait_for_orphans()
    if done.returncode:
        sys.exit(f"{checkout}: {' '.join(arguments)}\n{done.stderr[-2000:]}")
    return _Cost(seconds, _children() - before)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_orphans() -> None:
    """Wait for processes whose parents have ended."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _pairs(old: Path, new: Path, arguments: Sequence[str], count: int) -> Iterator[list[_Cost]]:
    """Yield costs of old and new, in the order old, new, new, old, old, ..."""
    for number in range(count):
        order = [old, new] if number % 2 == 0 else [new, old]
        costs = [_cost(one, arguments) for one in order]
        yield costs if order[0] == old else costs[::-1]


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if a ratio is above its bar: of processor time, or of seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", allow_abbrev=False)
    parser.add_argument("old", type=Path, help="a checkout, the slower or faster one")
    parser.add_argument("--new", type=Path, default=Path(__file__).parents[1], help="[this one]")
    parser.add_argument("--only", default="", metavar="WORD,...", help="cases with these words")
    parser.add_argument("--pairs", type=int, default=3, metavar="K", help="pairs of a case [3]")
    given = parser.parse_args(arguments)
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    above = 0
    print("case | seconds old | new | ratio | processor time old | new | ratio | at most")
    for name, (command, most) in (CASES | WHOLE).items():
        if not any(word in name for word in given.only.split(",")):
            continue
        pairs = list(_pairs(given.old.resolve(), given.new.resolve(), command, given.pairs))
        cells, ratios = [], {}
        for unit in ("seconds", "cpu"):
            old, new = zip(*([getattr(cost, unit) for cost in pair] for pair in pairs), strict=True)
            ratios[unit] = median(b / a for a, b in zip(old, new, strict=True))
            cells += [f"{median(old):.1f}", f"{median(new):.1f}", f"{ratios[unit]:.3f}"]
        above += ratios["seconds" if name in WHOLE else "cpu"] > most
        print(" | ".join([name, *cells, f"{most:.2f}"]), flush=True)
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
