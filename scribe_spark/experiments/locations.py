"""Locations of folders, and what is known of a local one without Spark."""

from __future__ import annotations

from scribe_spark.config import Execution
from scribe_spark.core.paths import local_contents, probe_local, refuse_long_names

__all__ = ["inside", "join", "local_contents", "probe_local", "refuse_long_names"]


def join(out: str, name: str) -> str:
    """The location `name` in `out`."""
    return f"{out.rstrip('/')}/{name}"


def inside(execution: Execution, name: str) -> Execution:
    """How one run of several is made: in OUT's folder `name`, gone on with where it stopped."""
    return execution.replace(out=join(execution.out, name), resume=True, overwrite=False)
