"""The files of recorded results: read, written, and what was mended since."""

import importlib.metadata
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import Columns, Difference

#: Packages whose versions can change results.
VERSIONS = ("pyspark", "numpy", "scipy", "pandas", "pyarrow", "topohub")


@dataclass(frozen=True)
class Recorded:
    """Recorded results."""

    columns: Columns  # the digested columns: table -> column -> Arrow type
    results: dict[str, dict[str, Any]]  # run -> `flags` (None for the paper's), tables, metrics


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def read_recorded(path: Path, mended: Path) -> Recorded:
    """Read recorded results, with what was mended since in the place of what was recorded."""
    recorded = _read(path)
    found = Recorded(recorded.get("columns", {}), recorded.get("results", {}))
    for name, parts in _read(mended).items():
        for part, changes in parts.items() if name in found.results else ():
            found.results[name][part] |= {what: noted["now"] for what, noted in changes.items()}
    return found


def write_recorded(path: Path, new: Recorded, names: Iterable[str], package: Path) -> None:
    """Write results, in the order of `names`, over those in `path` of the same names.

    The folder `package` has the code that made them; uncommitted changes there are refused.
    """
    both = _read(path).get("results", {}) | new.results
    about = {
        "commit": _commit(package),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
    }
    results = {name: both[name] for name in names if name in both}
    _write(path, {**about, "columns": new.columns, "results": results})


def _commit(package: Path) -> str:
    git = ("git", "-C", str(package))
    if subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "."]).returncode:
        raise ValueError(f"{package} has changes that are not committed")
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


def write_mended(path: Path, name: str, changes: Iterable[Difference], reason: str) -> None:
    """Note in `path` that results of the run `name` are others now, on purpose."""
    mended = _read(path)
    parts = mended.setdefault(name, {})
    for change in changes:
        parts.setdefault(change.part, {})[change.name] = {"because": reason, "now": change.found}
    _write(path, mended)
