"""The flag ``--dry-run``: all that a command does before it starts Spark, and the config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scribe_spark.cli.output import tell, tell_toml
from scribe_spark.cli.sessions import check_where
from scribe_spark.config import Execution
from scribe_spark.core.paths import is_local, local_contents
from scribe_spark.errors import shown
from scribe_spark.runtime.master import check_master


def dry_run(
    check: Callable[[Execution], None], execution: Execution, resolved: Mapping[str, Any]
) -> None:
    """Check as the command does, then print what it would be run with.

    A folder that a former run of the command has left is no fault: a line says which flag it takes.

    Parameters
    ----------
    check : callable
        The command's own check, of what it is to do, in a folder.
    resolved : mapping
        What is printed: the config's fields, and others.

    Raises
    ------
    InputError
        What the command refuses before it starts Spark.
    """
    check_master(execution.master)
    check_where(execution)
    undecided = not (execution.resume or execution.overwrite) and _is_there(execution.out)
    check(execution.replace(overwrite=True) if undecided else execution)
    if undecided:
        there = f"{shown(execution.out)} exists"
        tell(f"{there}: without --dry-run this takes --resume or --overwrite", err=True)
    tell_toml(resolved)


def _is_there(out: str) -> bool:
    """Return True if a folder of this machine has files that are not hidden or half-written."""
    names = local_contents(out)[0] if is_local(out) else []
    return any(not name.startswith(".") and not name.endswith(".tmp") for name in names)
