"""Put faults into every room of the package, one after the other, and see tests fail.

``python -m tools.try_faults [WORD ...]``: all faults, or those with a word in their names.  The
package and its tests are copied into a temporary folder, where one line is changed; the exit code
is 1 if a fault slips through.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

_PATIENCE = 600  # seconds


class Fault(NamedTuple):
    """One line of the package, what it is changed to, and a file of tests that shall notice."""

    file: str
    right: str
    wrong: str
    tests: str


def _faults(text: str) -> Iterator[tuple[str, Fault]]:
    """Yield the names and the faults of a text: see ``faults.txt``."""
    entry = r"^(\w.*?): (\S+), (\S+)\n {4}(.*)$"
    for name, file, tests, change in re.findall(entry, text, re.M):
        line = change.replace("\N{PILCROW SIGN}", "\n")
        right = re.sub(r"\{\+.*?\+\}", "", line).replace("[-", "").replace("-]", "")
        wrong = re.sub(r"\[-.*?-\]", "", line).replace("{+", "").replace("+}", "")
        yield name, Fault(file, right, wrong, f"tests/{tests}")


#: Name -> fault.
FAULTS = dict(_faults(Path(__file__).with_name("faults.txt").read_text("utf-8")))


def main(words: list[str]) -> int:
    """Try faults; say what notices each."""
    names = [name for name in FAULTS if not words or any(word in name.split() for word in words)]
    slipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("scribe_spark", "tests", "tools", "benchmarks", "data", "docs", "jobs"):
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
