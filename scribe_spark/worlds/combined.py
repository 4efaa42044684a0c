"""The events of all generators of a config, combined.

Events are generated in steps: nodes, failures, the start of groups, members, publications.  A
generator sees the events of the earlier steps, so the order of the names in a config has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.errors import InputError, named
from scribe_spark.worlds.events import check_rows
from scribe_spark.worlds.group_events import joined_again
from scribe_spark.worlds.group_start import GroupStart
from scribe_spark.worlds.groups import WorldGroups, rejoins
from scribe_spark.worlds.registry import STEPS, Generator, generators
from scribe_spark.worlds.rows import ALIVE_AFTER, FAIL, EventRows, Extent
from scribe_spark.worlds.setting import Setting

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


def chosen_generators(config: WorldConfig) -> list[Generator]:
    """Return the generators that a config names, in the order in which they run.

    Raises
    ------
    InputError
        A generator is unknown or named twice, two of them set the live nodes at the start, or one
        of them needs groups and the world has none.
    """
    known, names, given = generators(), config.world.generators, config.world.generator
    chosen = [named(known, name, "generator") for name in names]
    for name in names:
        if names.count(name) > 1:
            raise InputError("generator", given, f"names {name} twice; name it once")
    saying = [generator.name for generator in chosen if generator.initial is not None]
    if len(saying) > 1:
        remedy = f"{saying[0]} and {saying[1]} both decide which nodes live at the start; name one"
        raise InputError("generator", given, remedy)
    of_groups = [generator.name for generator in chosen if generator.needs_groups]
    if of_groups and not config.scribe.has_groups:
        remedy = f"{of_groups[0]} needs groups; give groups or members"
        raise InputError("generator", given, remedy)
    order = list(known)
    return sorted(chosen, key=lambda one: (STEPS.index(one.step), order.index(one.name)))


def extent_of(config: WorldConfig) -> Extent:
    """Return the numbers of nodes and rounds, and of nodes that are alive at the start.

    Raises
    ------
    InputError
        See :func:`chosen_generators`; or the number of live nodes contradicts a generator.
    """
    initial = config.world.initial
    saying = [one for one in chosen_generators(config) if one.initial is not None]
    if initial is not None and saying and saying[0].sets_initial:
        remedy = f"contradicts share of {saying[0].name}, which decides it; leave it out"
        raise InputError("initial", initial, remedy)
    if initial is None:
        initial = config.overlay.nodes
        if saying and saying[0].initial is not None:
            initial = saying[0].initial(config)
    return Extent(config.overlay.nodes, config.world.rounds, initial)


def start_of(config: WorldConfig, extent: Extent, groups: WorldGroups | None) -> GroupStart | None:
    """Return the start of a world's groups, None without groups."""
    if groups is None:
        return None
    return GroupStart(groups, extent, config.seed, config.scribe.access)


def generated(
    config: WorldConfig,
    extent: Extent,
    groups: WorldGroups | None,
    nodes: DataFrame | None = None,
) -> EventRows:
    """Return all events of a world without a table of events, checked.

    Parameters
    ----------
    groups : WorldGroups, optional
        None in a world without groups; then generators that need groups are skipped.
    nodes : DataFrame, optional
        `schemas.NODES`.  Without it, generators that need nodeIds are skipped.

    Raises
    ------
    InputError
        A generator's parameters are invalid, or an event is impossible.
    """
    asked = chosen_generators(config)
    for one in asked:
        if one.check is not None:
            one.check(config, extent)
    chosen = [
        one
        for one in asked
        if (nodes is not None or not one.needs_spark(config))
        and (groups is not None or not one.needs_groups)
    ]
    rows, starts = EventRows.none(), EventRows.none()
    for step in STEPS:
        if step == "members" and groups is not None:
            _check(config, rows.take(rows.of_node), extent, None)
            start = start_of(config, extent, groups)
            starts = EventRows.none() if start is None else start.rows(rows)
            rows = EventRows.join(rows, starts)
        for generator in (one for one in chosen if one.step == step):
            made = generator.events(config, Setting(rows, extent, groups, nodes))
            rows = _with(rows, made)
        if step == "members" and groups is not None and rejoins(config):
            again = joined_again(Setting(rows, extent, groups))
            rows = EventRows.join(rows, again)
    _check(config, rows, extent, groups)
    return rows


def _check(
    config: WorldConfig, rows: EventRows, extent: Extent, groups: WorldGroups | None
) -> None:
    check_rows(rows, extent, "generator", config.world.generator, groups=groups)


def _with(rows: EventRows, more: EventRows) -> EventRows:
    """Combine events with the failures of another generator, so that no node dies twice.

    If the next event of a failing node in `rows` is a death, it is removed.
    """
    fails = more.take(more.events == FAIL)
    of_node = rows.take(rows.of_node)
    if not len(fails) or not len(of_node):
        return EventRows.join(rows, more)
    places = np.flatnonzero(rows.of_node)
    most = int(max(of_node.rounds.max(), fails.rounds.max())) + 1
    keys = of_node.nodes * np.int64(most) + of_node.rounds
    order = np.argsort(keys, kind="stable")
    after = np.searchsorted(keys[order], fails.nodes * np.int64(most) + fails.rounds, "right")
    there = after < len(order)
    following = order[after[there]]
    is_death = (of_node.nodes[following] == fails.nodes[there]) & ~ALIVE_AFTER[
        of_node.events[following]
    ]
    kept = np.ones(len(rows), dtype=bool)
    kept[places[following[is_death]]] = False
    return EventRows.join(rows.take(kept), more)
