"""Seconds and memory of worlds on buckets: the table in docs/performance.md.

Each world is a process of its own, watched from outside: the proportional set size (PSS) of the
driver, of the largest other Python process, of the JVMs, and of all together.  Its seconds stand
beside a calibration of the same minutes.

    python -m benchmarks.world_buckets --nodes 300000 --buckets 1,2 --engine tasks,jobs --write
"""

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measure import calibrate
from benchmarks.watch import TreeMemory, watch
from scribe_spark.core.paths import replace_file
from tools.pages import lines_of, table, with_lines

DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
NAME = "world_buckets"  # of the marks around the table

#: Of every world here: 25 % of the nodes fail in round 3; reliable delivery, a publication of each
#: group in a round.
FLAGS = (
    "--generator mass-failure+publications --event-round 3 --share 0.25 --delivery reliable "
    "--lookups 0"
)

COLUMNS = (
    *("nodes", "buckets", "engine", "master", "seconds", "calibration, s"),
    *("round 0, s", "a later round, s", "driver, GiB", "largest worker, GiB"),
    *("JVMs, GiB", "all processes, GiB", "disk, GiB"),
)

_ROUND = re.compile(r"round \d+: [\d,]+ live nodes, ([\d.]+) s")


def main() -> None:
    """Play the worlds; print a row for each, and write them into the documentation if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=300_000)
    parser.add_argument("--buckets", default="1,4")
    parser.add_argument("--engine", default="tasks", help="tasks, jobs or tasks,jobs [tasks]")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = [
        row_of(given.nodes, int(buckets), engine, given.rounds, given.master)
        for buckets in given.buckets.split(",")
        for engine in given.engine.split(",")
    ]
    if given.write:
        text = DOCS.read_text("utf-8")
        old = lines_of(text, NAME)[2:]
        mine = {tuple(row.split("|")[1:5]): row for row in (*old, *rows)}
        text = with_lines(text, NAME, [*table(COLUMNS, []), *mine.values()])
        replace_file(DOCS, text.encode())


def row_of(nodes: int, buckets: int, engine: str, rounds: int, master: str) -> str:
    """Play a world; return its row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        flags = (
            f"--nodes {nodes} --rounds {rounds} --master {master} {FLAGS} --buckets {buckets} "
            f"--engine {engine} --groups {min(1500, nodes // 60)}"
        )
        calibration = calibrate()
        command = [sys.executable, "-m", "scribe_spark.cli", "world", *flags.split()]
        seen = watch([*command, "--out", str(Path(folder, "out"))])
        if seen.code:
            raise SystemExit(f"{buckets} buckets in {engine}: exit code {seen.code}")
    most = seen.largest() or TreeMemory()
    gib = [f"{size / 2**30:.2f}" for size in (most.driver, most.worker, most.jvm, most.pss)]
    first, *later = seconds_of_rounds(line for _, line in seen.lines)
    cells = [f"{nodes:,}", str(buckets), engine, f"`{master}`", f"{seen.seconds:.0f}"]
    cells += [f"{calibration:.1f}", f"{first:.1f}", f"{statistics.median(later):.1f}", *gib]
    row = table(COLUMNS, [[*cells, f"{seen.disk / 2**30:.1f}"]])[-1]
    print(row, flush=True)
    return row


def seconds_of_rounds(lines: Iterable[str]) -> list[float]:
    """Return the seconds of each round that a world has told of.

    Examples
    --------
    >>> seconds_of_rounds(["rounds: started", "  round 0: 9 live nodes, 2.5 s, 40 supersteps"])
    [2.5]
    """
    return [float(found[1]) for line in lines if (found := _ROUND.search(line))]


if __name__ == "__main__":
    main()
