"""What a run left, wherever it is, in a form that can be compared."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from .storage import Storage

#: What only exists while something is being written.
PASSING = (".tmp", "_temporary", ".writable", "lock", "unfinished", ".pending", "__magic")


@dataclass(frozen=True)
class Outcome:
    """A run's folder: its names, its tables' digests, and files that should be gone by the end."""

    names: list[str]
    tables: dict[str, str]
    metrics: list[dict[str, Any]]
    passing: list[str]


def outcome(folder: Path) -> Outcome:
    """What is in a run's folder on this machine."""
    paths = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    return Outcome(
        names=sorted(path.name for path in folder.iterdir()),
        tables={table.name: table_digest(table) for table in sorted((folder / "tables").iterdir())},
        metrics=json.loads((folder / "metrics.json").read_text("utf-8")),
        passing=[path for path in paths if any(word in path for word in PASSING)],
    )


def table_digest(folder: Path) -> str:
    """Names and types of a table's columns and its rows in any order, as a short text."""
    # not the folder at once: parts of it would be read as partition columns if named `a=b`
    parts = [pq.read_table(part) for part in sorted(folder.glob("*.parquet"))]
    columns = {f"{field.name} {field.type}" for part in parts for field in part.schema}
    rows = sorted(repr(sorted(row.items())) for part in parts for row in part.to_pylist())
    text = "\n".join([*sorted(columns), *rows])
    return f"{len(rows)} rows, {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def phases(manifest: bytes) -> list[str]:
    """The phases that a manifest says are complete."""
    return [entry["name"] for entry in json.loads(manifest)["phases"]]


def download(storage: Storage, path: str, into: Path) -> Path:
    """Copy all files of a folder of a storage; `into`."""
    into.mkdir(parents=True)
    for name in storage.files(path):
        copy = into / name
        if name.endswith("/"):
            copy.mkdir(parents=True, exist_ok=True)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(storage.read(f"{path}/{name}"))
    return into
