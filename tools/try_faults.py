"""Put faults into kernels, one after the other, and see tests fail.

Usage: ``python -m tools.try_faults [WORD ...]``: all faults, or those with a word in their
names.  The package and its tests are copied into a
temporary folder, where one line is changed; exit code 1 if a fault slips through.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FAULTS", "Fault", "main"]

ROOT = Path(__file__).resolve().parent.parent

ARRIVALS = "tests/pastry/test_arrivals_one_task.py"
WORLD = "tests/pastry/test_living_round.py"
TREES = "tests/scribe/test_trees.py"
GROUPS = "tests/scribe_living/test_scribe_round.py"
GOSSIP = "tests/gossipsub/test_world.py"
BAYEUX = "tests/bayeux/test_world.py"
MULTICASTS = "tests/scribe_living/test_multicast_measures.py"


_PATIENCE = 600  # seconds


@dataclass(frozen=True)
class Fault:
    """One line of the package, what it is changed to, and a file of tests that shall notice."""

    file: str
    right: str
    wrong: str
    tests: str


FAULTS = {
    "a tie": Fault(
        "pastry/arrivals/cell_offers.py",
        "((delay == to_beat) & (position < filled))",
        "((delay == to_beat) & (position > filled))",
        ARRIVALS,
    ),
    "a hop to a dead node": Fault(
        "pastry/arrivals/routes.py", "usable = is_alive(entry)", "usable = entry >= 0", WORLD
    ),
    "a digit": Fault(
        "pastry/arrivals/routes.py",
        "column = ids.digit_at_np(keys.hi, keys.lo, row, b)",
        "column = ids.digit_at_np(keys.hi, keys.lo, np.maximum(row - 1, 0), b)",
        ARRIVALS,
    ),
    "a lost message": Fault(
        "engine/program.py",
        "for rows in np.split(order, cuts):",
        "for rows in np.split(order, cuts)[:3]:",
        TREES,
    ),
    "an off-by-one in l/2": Fault(
        "pastry/arrivals/leaf_offers.py", "near = order < half", "near = order < half - 1", ARRIVALS
    ),
    "a stale parent": Fault(
        "scribe/leave.py",
        "entries.parent[rows], entries.cause[rows] = NONE, cause(why)",
        "entries.cause[rows] = cause(why)",
        GROUPS,
    ),
    "a missed replica": Fault(
        "scribe/replicas.py",
        "[:, : scribe.rules.k - 1]\n    at, column",
        "[:, : scribe.rules.k - 2]\n    at, column",
        GROUPS,
    ),
    "a wrong root": Fault(
        "scribe/trees.py",
        'came["group"], came["creator"], came[AT])',
        'came["group"], came["creator"], np.maximum(came[AT] - 1, 0))',
        TREES,
    ),
    "a dropped duplicate": Fault(
        "pastry/arrivals/announcements.py",
        "pairs = distinct(row * size + everybody[row, column])",
        "pairs = np.sort(row * size + everybody[row, column])",
        ARRIVALS,
    ),
    "an unsorted merge": Fault(
        "core/arrays.py",
        "order = slice(None) if (keys[1:] > keys[:-1]).all() else np.argsort(keys)\n",
        "order = slice(None)\n",
        TREES,
    ),
    "a leaf set that is taken for complete": Fault(
        "pastry/arrivals/leaf_offers.py",
        "lacks |= near > ((held >= 0)",
        "lacks |= near > 1 + ((held >= 0)",
        ARRIVALS,
    ),
    "a row that misses a bucket": Fault(
        "engine/program.py",
        "for first, last in itertools.pairwise(bounds.tolist()):\n        greatest",
        "for first, last in itertools.pairwise(bounds.tolist()[:-1]):\n        greatest",
        ARRIVALS,
    ),
    "siblings that take each other in": Fault(
        "scribe/rejoin.py",
        '(mine["turn"][row] < came["turn"])',
        '(mine["turn"][row] > came["turn"])',
        GROUPS,
    ),
    "a cycle of those that wait": Fault(
        "scribe/rejoin.py",
        "waits & (number[at] > number[source])",
        "waits & (number[at] < number[source])",
        GROUPS,
    ),
    "a second JOIN in a wave": Fault(
        "scribe/lazy.py", "& ~np.isin(pairs, sent) & _waits", "& (pairs >= 0) & _waits", GROUPS
    ),
    "the time of a heartbeat": Fault(
        "gossipsub/noted.py", "got.at + self.elapsed_us", "got.at + 0", GOSSIP
    ),
    "the way before a heartbeat": Fault(
        "gossipsub/noted.py",
        'noted["delay_us"][order[row[row >= 0]]]',
        '0 * noted["delay_us"][order[row[row >= 0]]]',
        GOSSIP,
    ),
    "a TREE before a copy": Fault(
        "bayeux/noted.py", 'got["delay_us"], by_tree, place', 'got["delay_us"], place', BAYEUX
    ),
    "the way to a sender of TREEs": Fault(
        "bayeux/repair.py", '"delay_us": heard["at_us"][of]', '"delay_us": 0 * row', BAYEUX
    ),
    "a node that only forwards": Fault(
        "measures/multicasts.py",
        "find_sorted(self.members(tables), place) >= 0",
        "find_sorted(self.members(tables), place) >= -1",
        BAYEUX,
    ),
    "RAD of another group": Fault(
        "measures/multicasts.py", "values[largest] for", "values[0] for", MULTICASTS
    ),
    "the greatest delay by IP multicast": Fault(
        "measures/delay_sums.py", 'name.endswith("most")', 'name == "most"', MULTICASTS
    ),
    "a node without children": Fault(
        "measures/multicasts.py", "values.mean(live)", "values.mean()", MULTICASTS
    ),
}


def main(words: list[str]) -> int:
    """Try faults; say what notices each."""
    names = [name for name in FAULTS if not words or any(word in name.split() for word in words)]
    slipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("scribe_spark", "tests", "tools", "benchmarks", "data", "jobs"):
            shutil.copytree(ROOT / part, Path(folder, part))
        for file in ("setup.cfg", "pyproject.toml", "pytest.ini"):
            if (ROOT / file).exists():
                shutil.copy(ROOT / file, folder)
        for name in names:
            noticed = _try(FAULTS[name], folder)
            slipped += noticed is None
            print(f"{name}: {noticed or 'SLIPS THROUGH'}", flush=True)
    return int(slipped > 0)


def _try(fault: Fault, folder: str) -> str | None:
    """Return the first test that fails with a fault; None if none does."""
    path = Path(folder, "scribe_spark", fault.file)
    right = path.read_text()
    path.write_text(right.replace(fault.right, fault.wrong))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", fault.tests]
    try:
        told = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE,
            env={**os.environ, "PYTHONPATH": folder},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the tests do not end"
    finally:
        path.write_text(right)
    if told.returncode == 0:
        return None
    lines = [line for line in told.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else told.stdout[-200:] + told.stderr[-200:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
