"""Put faults into every room of the package, one after the other, and see tests fail.

``python -m tools.try_faults [WORD ...]``: all faults, or those with a word in their names.  The
package and its tests are copied into a temporary folder, where one line is changed; the exit code
is 1 if a fault slips through.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

_PATIENCE = 600  # seconds
_PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]


class Fault(NamedTuple):
    """One line of the package, what it is changed to, and a file of tests that shall notice."""

    file: str
    right: str
    wrong: str
    tests: str


def _faults(text: str) -> Iterator[tuple[str, Fault]]:
    """Yield the names and the faults of a text: see ``faults.txt``."""
    for entry in text.partition("\n\n")[2].splitlines():
        file, tests, name, change = entry.split(" | ", 3)
        line = change.replace("\N{PILCROW SIGN}", "\n")
        right = re.sub(r"\{\+.*?\+\}", "", line).replace("[-", "").replace("-]", "")
        wrong = re.sub(r"\[-.*?-\]", "", line).replace("{+", "").replace("+}", "")
        yield name, Fault(file, right, wrong, f"tests/{tests}.py")


#: Name -> fault.
FAULTS = dict(_faults(Path(__file__).with_name("faults.txt").read_text("utf-8")))


def main(words: list[str]) -> int:
    """Try faults; say what notices each."""
    names = [name for name in FAULTS if not words or any(word in name.split() for word in words)]
    slipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("scribe_spark", "tests", "tools", "benchmarks", "data", "docs", "jobs"):
            shutil.copytree(ROOT / part, Path(folder, part))
        for file in ("setup.cfg", "pyproject.toml"):
            shutil.copy(ROOT / file, folder)
        for name in names:
            noticed = _try(FAULTS[name], Path(folder))
            slipped += noticed is None
            print(f"{name}: {noticed or 'SLIPS THROUGH'}", flush=True)
    return int(slipped > 0)


def _try(fault: Fault, folder: Path) -> str | None:
    """Return the first test that fails with a fault; None if none does."""
    path, told = folder / "scribe_spark" / fault.file, folder / "told.txt"
    right = path.read_text()
    path.write_text(right.replace(fault.right, fault.wrong))
    # two changes in a second have one time stamp
    given = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with told.open("w") as file:
        tests = subprocess.Popen([*_PYTEST, fault.tests], cwd=folder, env=given, stdout=file,
                                 stderr=file, start_new_session=True)  # fmt: skip
    try:
        code = tests.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(tests.pid, signal.SIGKILL)
        return "the tests do not end"
    finally:
        path.write_text(right)
    found = re.search(r"^(FAILED|ERROR).*", told.read_text(), re.M)
    return None if code == 0 else found[0] if found else told.read_text()[-200:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
