"""Where several buckets are faster than one: the table in docs/performance.md.

``python -m tools.world_crossing OUT [--only NAME ...]`` plays small worlds on this machine's cores
and keeps what they tell; with ``--page docs/performance.md`` the seconds of their rounds are
written there.
"""

from __future__ import annotations

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

SIZES, BUCKETS, ROUNDS = (10_000, 100_000), (1, 2), 5

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
    """Seconds and supersteps of the rounds after the first, in which groups are created.

    Examples
    --------
    >>> rounds_of("round 0: 9 live nodes, 2.0 s\\nround 1: 9 live nodes, 1.5 s, 40 supersteps")
    [(1.5, 40)]
    """
    found = {int(number): rest for number, *rest in _ROUND.findall(told)}
    return [(float(s), int(steps or 0)) for number, (s, steps) in found.items() if number]


def page(out: Path, file: Path) -> str:
    """Return the page with the table of what is in OUT."""
    rows = []
    for nodes in SIZES:
        cells = [f"{nodes:,}"]
        for buckets in BUCKETS:
            log = out / f"{nodes}-{buckets}.log"
            rounds = rounds_of(log.read_text()) if log.exists() else []
            seconds = [s for s, _ in rounds]
            steps = f" ({max(n for _, n in rounds)})" if buckets > 1 and rounds else ""
            cells.append(f"{statistics.median(seconds):.1f}{steps}" if rounds else "")
        rows.append(cells)
    head = ["nodes", *(f"B = {buckets}" for buckets in BUCKETS)]
    return with_lines(file.read_text("utf-8"), MARKS, table(head, rows))


if __name__ == "__main__":
    main(sys.argv[1:], __doc__ or "", COMMANDS, page, play)
