"""The flag ``--dry-run``: make all checks before Spark starts, and print the settings."""

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
    """Make the checks of a command, then print its settings as TOML."""
    check_master(execution.master)
    check_where(execution)
    undecided = not (execution.resume or execution.overwrite) and _is_there(execution.out)
    check(execution.replace(overwrite=True) if undecided else execution)
    if undecided:
        there = f"{shown(execution.out)} exists"
        tell(f"{there}: without --dry-run, --resume or --overwrite is needed", err=True)
    tell_toml(resolved)


def _is_there(out: str) -> bool:
    """Return True if a local folder has files other than hidden or incomplete ones."""
    names = local_contents(out)[0] if is_local(out) else []
    return any(not name.startswith(".") and not name.endswith(".tmp") for name in names)
