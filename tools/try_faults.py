"""Put faults into every room of the package, one after the other, and see tests fail.

``python -m tools.try_faults [WORD ...]``: all faults, or those with a word in their names.  The
package and its tests are copied into a temporary folder, where one line is changed; the exit code
is 1 if a fault slips through.  The tests of a fault run in a fork of this process, so that
libraries are loaded once.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

_PATIENCE = 600  # seconds

#: What tests load besides the package.
_LIBRARIES = (
    *("hypothesis", "matplotlib.figure", "pandas", "pyarrow.dataset", "pyspark.sql", "pytest"),
)


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
    for library in _LIBRARIES:
        import_module(library)
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
    path, told = Path(folder, "scribe_spark", fault.file), Path(folder, "told.txt")
    right = path.read_text()
    path.write_text(right.replace(fault.right, fault.wrong))
    tests = get_context("fork").Process(target=_test, args=(folder, fault.tests, told))
    tests.start()
    tests.join(_PATIENCE)
    path.write_text(right)
    if tests.exitcode is None:
        os.killpg(tests.ident or 0, signal.SIGKILL)
        return "the tests do not end"
    if tests.exitcode == 0:
        return None
    found = re.search(r"^(FAILED|ERROR).*", told.read_text(), re.M)
    return found[0] if found else told.read_text()[-200:]


def _test(folder: str, tests: str, told: Path) -> None:
    """Run tests of the copied package in this process; write what they print into a file."""
    os.setsid()
    with told.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tools"]:
        del sys.modules[name]
    os.chdir(folder)
    os.environ["PYTHONPATH"] = folder  # of Python workers, too
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # two changes in a second have one time stamp
    sys.exit(import_module("pytest").main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", tests]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
