"""The routers and links of a network as Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scribe_spark.errors import InputError


def write_network(tables: Mapping[str, Any], out: Path) -> None:
    """Write each pandas frame as a Parquet folder in `out`; these folders must not exist yet."""
    for name, frame in tables.items():
        try:
            folder = out / name
            folder.mkdir(parents=True)
            frame.to_parquet(folder / "part-00000.parquet", index=False)
        except FileExistsError:
            raise InputError("out", str(out), f"already holds {name}; name another") from None
        except OSError as error:
            raise InputError("out", str(out), f"cannot be written ({error.strerror})") from None
