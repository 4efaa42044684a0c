"""What ``--dry-run`` looks at: paths of inputs, OUT, the form of the master; no table, no Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from scribe_spark.cli.output import tell
from scribe_spark.cli.sessions import check_where
from scribe_spark.config import Execution
from scribe_spark.core.paths import (
    exists,
    is_local,
    local_contents,
    local_path,
    probe_local,
)
from scribe_spark.errors import InputError
from scribe_spark.runtime.master import check_master

__all__ = ["check_paths"]

#: Fields that name a table of the user's.
_TABLES = ("members", "capacities", "events", "access")

#: Networks that are drawn, or come with a package, by how their names begin; another name may be a
#: path, or one that was registered.
_NETWORKS = ("transit-stub", "power-law", "topohub:")

_MANIFEST = "manifest.json"


def check_paths(configs: Iterable[Any], execution: Execution) -> None:
    """Refuse inputs that are not there, an OUT that cannot be one, and what is no master.

    That OUT exists is told, for it is no fault of the config's: with ``--resume`` or
    ``--overwrite`` it would do.

    Parameters
    ----------
    configs : iterable of Sectioned
        All that would be run.

    Raises
    ------
    InputError
    """
    check_master(execution.master)
    check_where(execution)
    there = _check_out(execution)
    for field, path in {(n, v): None for config in configs for n, v in _inputs(config.flat())}:
        if is_local(path):
            _check_input(field, path)
    if there and not (execution.resume or execution.overwrite):
        line = f"{execution.out} exists: without --dry-run this takes --resume or --overwrite"
        tell(line, err=True)


def _inputs(fields: dict[str, Any]) -> list[tuple[str, str]]:
    names = [*_TABLES, "knowledge"]
    network = fields.get("topology")
    if isinstance(network, str) and not network.startswith(_NETWORKS):
        names.append("topology")
    return [(name, fields[name]) for name in names if fields.get(name) is not None]


def _check_input(field: str, path: str) -> None:
    if field == "topology":
        _check_topology(path)
    if field == "knowledge" and not exists(f"{path}/{_MANIFEST}", field):
        raise InputError(field, path, f"has no {_MANIFEST} of a run that can be read")
    if field in _TABLES and not exists(path, field):
        raise InputError(field, path, "does not exist; give a CSV or Parquet table")
    if exists(path, field) and not os.access(local_path(path), os.R_OK):
        raise InputError(field, path, "cannot be read (Permission denied)")


def _check_topology(name: str) -> None:
    if exists(name, "topology"):
        return
    from scribe_spark.config import RunConfig  # what is registered, only Spark's modules know
    from scribe_spark.topology import is_path, load

    if is_path(name):
        load(RunConfig(topology=name))  # which refuses it, naming what there is


def _check_out(execution: Execution) -> bool:
    """Whether there is something in a local OUT that can be one."""
    out = execution.out
    if not is_local(out):
        return False
    names, _ = local_contents(out)
    visible = [name for name in names if not name.startswith(".") and not name.endswith(".tmp")]
    if visible and _MANIFEST not in visible:
        raise InputError("out", out, f"holds other things ({visible[0]}); name a new folder")
    probe_local(out)
    return bool(visible)
