"""Where several buckets are faster than one: the table in docs/performance.md.

``python -m tools.world_crossing OUT [--only NAME ...]`` plays small worlds on this machine's cores
and keeps what they tell; with ``--page docs/performance.md`` the seconds of their rounds are
written there.
"""

from __future__ import annotations

import itertools
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tools import world_buckets
from tools.pages import main, table, with_lines

MARKS = (
    "<!-- crossing: written by `python -m tools.world_crossing` -->\n",
    "<!-- end of crossing -->\n",
)

SIZES, BUCKETS, ROUNDS = (10_000, 100_000, 300_000, 1_000_000), (1, 4), 5

#: 25 % of the nodes fail in round 2; reliable delivery, a publication of each group in a round.
FLAGS = {
    **{name: value for name, value in world_buckets.FLAGS.items() if name != "--groups"},
    "--event-round": "2",
    "--rounds": str(ROUNDS),
}

COMMANDS = {
    f"{nodes}-{buckets}": [
        *("world", "--nodes", str(nodes), "--groups", str(min(1500, nodes // 60))),
        *(word for flag in FLAGS.items() for word in flag),
        *("--buckets", str(buckets)),
    ]
    for nodes in SIZES
    for buckets in BUCKETS
}

_ROUND = re.compile(r"round (\d+): [\d,]+ live nodes, ([\d.]+) s(?:, (\d+) supersteps)?")


def play(out: Path, names: Iterable[str]) -> None:
    """Play worlds that have not been played; what they tell is in files of their names."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        log = out / f"{name}.log"
        if log.exists():
            continue
        command = [sys.executable, "-m", "scribe_spark.cli", *COMMANDS[name]]
        done = subprocess.run(
            [*command, "--out", str(out / name), "--overwrite"],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        log.write_text(done.stdout + done.stderr)


def rounds_of(told: str) -> list[tuple[float, int]]:
    """Seconds and supersteps of the rounds.

    Examples
    --------
    >>> rounds_of("round 0: 9 live nodes, 2.0 s\\nround 1: 9 live nodes, 1.5 s, 40 supersteps")
    [(2.0, 0), (1.5, 40)]
    """
    found = _ROUND.findall(told)
    return [(float(seconds), int(steps or 0)) for _, seconds, steps in found]


def page(out: Path, file: Path) -> str:
    """Return the page with the table of what is in OUT."""
    rows = []
    for nodes in SIZES:
        logs = [out / f"{nodes}-{buckets}.log" for buckets in BUCKETS]
        cells = [_cells(rounds_of(log.read_text())) if log.exists() else ["", ""] for log in logs]
        rows.append([f"{nodes:,}", *itertools.chain(*cells)])
    head = [(f"B = {buckets}: a round", "all") for buckets in BUCKETS]
    lines = table(["nodes", *itertools.chain(*head)], rows)
    return with_lines(file.read_text("utf-8"), MARKS, lines)


def _cells(rounds: list[tuple[float, int]]) -> list[str]:
    """Return the median of the rounds after the first, with the most supersteps; and the sum."""
    seconds, most = [s for s, _ in rounds], max(steps for _, steps in rounds)
    later = f"{statistics.median(seconds[1:]):.1f}" + (f" ({most})" if most else "")
    return [later, f"{sum(seconds):.0f}"]


if __name__ == "__main__":
    main(sys.argv[1:], __doc__ or "", COMMANDS, page, play)
