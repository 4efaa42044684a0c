"""Locations of folders in OUT."""

from __future__ import annotations

from scribe_spark.config import Execution
from scribe_spark.core.errors import InputError


def join(out: str, name: str) -> str:
    """Return the location `name` in `out`."""
    return f"{out.rstrip('/')}/{name}"


def inner_name(name: object) -> str:
    """Return a name from a manifest of a table, a text or a folder beside it."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0"):
        remedy = "must be the name of one file or folder beside it"
        raise InputError("a name in manifest.json", name, remedy)
    return name


def run_folder(experiment: str, seed: int | str) -> str:
    """Return the folder of one run of the paper, in OUT."""
    return f"{experiment}/seed={seed}"


def inside(execution: Execution, name: str) -> Execution:
    """Return the execution of one of several runs, in the folder `name` of OUT; it resumes."""
    return execution.replace(out=join(execution.out, name), resume=True, overwrite=False)
