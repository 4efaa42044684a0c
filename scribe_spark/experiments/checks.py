"""Refusing bad input before Spark is started."""

from __future__ import annotations

from scribe_spark.config import Execution, RunConfig
from scribe_spark.experiments.locations import local_contents, probe_local
from scribe_spark.experiments.lock import LOCK, refuse_locked
from scribe_spark.experiments.previous import previous_run_manifest
from scribe_spark.inputs import is_local
from scribe_spark.pastry.registry import check_overlay
from scribe_spark.scribe import check_capacities, check_members
from scribe_spark.topology import check_routable, load, needs_spark

__all__ = ["check", "check_previous", "refuse_local_lock"]


def check(config: RunConfig, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark: topology, members, OUT.

    Raises
    ------
    InputError
    """
    if is_local(execution.out):
        check_previous(config, execution)
        refuse_local_lock(execution.out)
        probe_local(execution.out)
    if not needs_spark(config.topology.kind):
        check_routable(load(config), config.topology.tie)
    check_overlay(config.overlay)
    members, capacities = config.groups.members, config.trees.capacities
    if members is not None and is_local(members):
        check_members(members, config.overlay.nodes)
    if capacities is not None and is_local(capacities):
        check_capacities(capacities, config.overlay.nodes)


def check_previous(config: RunConfig, execution: Execution) -> None:
    """Refuse a local OUT that holds what the run cannot go on with or replace.

    Raises
    ------
    InputError
    """
    previous_run_manifest(*local_contents(execution.out), config, execution)


def refuse_local_lock(out: str) -> None:
    """Refuse a local OUT where a run of this machine is at work.

    Raises
    ------
    InputError
    """
    names, read = local_contents(out)
    if LOCK not in names:
        return
    try:
        text = read(LOCK)
    except (OSError, UnicodeDecodeError):  # it has just been given back, or cannot be read
        return
    refuse_locked(out, text)
