"""The registry of event generators, by name.

A new generator is a function and an entry below; outside of the package, call
:func:`register_generator`.  :mod:`.combined` combines the events of several generators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.registry import Registry
from scribe_spark.pastry.closeness import Keys
from scribe_spark.worlds import lengths
from scribe_spark.worlds.churn import churn
from scribe_spark.worlds.group_churn import group_churn
from scribe_spark.worlds.group_events import group_crowd
from scribe_spark.worlds.groups import group_keys
from scribe_spark.worlds.lifetime_distributions import Lifetimes
from scribe_spark.worlds.node_generators import (
    adjacent_failure,
    flash_crowd,
    mass_failure,
    node_ring,
    refuse_no_round,
    refuse_none_left,
    root_failure,
    share_of,
)
from scribe_spark.worlds.publications import (
    any_sources,
    member_sources,
    publications,
    root_sources,
)
from scribe_spark.worlds.rows import ARRIVE, RECOVER, EventRows, Extent
from scribe_spark.worlds.setting import Setting

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

#: The order in which generators run, whatever the order of their names in a config.
STEPS = ("nodes", "failures", "members", "publications")


@dataclass(frozen=True)
class Generator:
    """A generator of events, selected by ``--generator NAME``.

    Attributes
    ----------
    name : str
    generate : callable
        ``generate(config, extent)`` returns EventRows in any order; if `needs_ids`,
        ``generate(config, extent, nodes)`` with `schemas.NODES`; if `needs_setting`,
        ``generate(config, extent, setting)``.  The key of every random draw is ``config.seed``, a
        purpose and a row.
    initial : callable, optional
        ``initial(config)`` returns the number of nodes alive at the start, unless the config sets
        it; by default all.  At most one of the chosen generators may have it.
    needs_ids : bool or callable
        True if the events depend on nodeIds, which only Spark knows; or a function of the config.
    sets_initial : bool
        True if `initial` follows from the generator's parameters; then the config must not set it.
    needs_setting : bool
        True if the events depend on those of earlier generators, or on groups.
    needs_groups : bool
        True for group events, which need a world with groups.
    step : str
        The step in which the generator runs: one of :data:`STEPS`.
    check : callable, optional
        ``check(config, extent)`` refuses invalid parameters before nodeIds are known.
    """

    name: str
    generate: Callable[..., EventRows]
    initial: Callable[[WorldConfig], int] | None = None
    needs_ids: bool | Callable[[WorldConfig], bool] = False
    sets_initial: bool = False
    needs_setting: bool = False
    needs_groups: bool = False
    step: Literal["nodes", "failures", "members", "publications"] = "nodes"
    check: Callable[[WorldConfig, Extent], None] | None = None

    def needs_spark(self, config: WorldConfig) -> bool:
        """Return True if the events depend on data that only Spark knows."""
        return self.needs_ids(config) if callable(self.needs_ids) else self.needs_ids

    def events(self, config: WorldConfig, setting: Setting) -> EventRows:
        """Return the events of the generator."""
        if self.needs_setting:
            return self.generate(config, setting.extent, setting)
        if self.needs_spark(config):
            return self.generate(config, setting.extent, setting.nodes)
        return self.generate(config, setting.extent)


# --- nodes


def _churn(config: WorldConfig, extent: Extent) -> EventRows:
    world = config.world
    shape = world.weibull_shape if world.lifetime_distribution == "weibull" else 1.0
    replacement = RECOVER if world.replacement == "recover" else ARRIVE
    return churn(extent, Lifetimes(lengths.lifetime(config), shape), replacement, config.seed)


def _nine_tenths(config: WorldConfig) -> int:
    return max(1, config.overlay.nodes - max(1, config.overlay.nodes // 10))


def _flash_crowd(config: WorldConfig, extent: Extent) -> EventRows:
    return flash_crowd(extent, lengths.event_round(config))


def _all_but_the_crowd(config: WorldConfig) -> int:
    return config.overlay.nodes - share_of(config.overlay.nodes, config.world.share)


# --- failures


def _before(setting: Setting | None) -> EventRows | None:
    return None if setting is None else setting.rows


def _mass_failure(config: WorldConfig, extent: Extent, setting: Setting | None = None) -> EventRows:
    at, share = lengths.event_round(config), config.world.share
    return mass_failure(extent, at, share, config.seed, _before(setting))


def _adjacent(config: WorldConfig) -> int:
    return config.world.adjacent or config.overlay.leaf_set // 2


def _check_adjacent(config: WorldConfig, extent: Extent) -> None:
    refuse_no_round(lengths.event_round(config), extent)
    refuse_none_left("adjacent", _adjacent(config), extent.initial)


def _check_roots(config: WorldConfig, extent: Extent) -> None:
    refuse_no_round(lengths.event_round(config), extent)
    refuse_none_left("holders", config.world.holders, extent.initial)


def _adjacent_failure(
    config: WorldConfig, extent: Extent, setting: Setting | None = None
) -> EventRows:
    at, count = lengths.event_round(config), _adjacent(config)
    nodes = None if setting is None else setting.nodes
    return adjacent_failure(extent, at, count, nodes, config.seed, _before(setting))


def _root_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    world, groups, nodes = config.world, setting.known_groups, _nodes(setting)
    largest = groups.largest(extent.initial)[: world.roots]
    keys = _keys(config, setting).take(largest)
    at = lengths.event_round(config)
    return root_failure(extent, at, keys, world.holders, nodes, setting.rows)


def _nodes(setting: Setting) -> DataFrame:
    if setting.nodes is None:
        raise ValueError("nodeIds are not known without Spark")
    return setting.nodes


def _keys(config: WorldConfig, setting: Setting) -> Keys:
    """Return the groupIds, sorted by the groups' numbers."""
    found = group_keys(_nodes(setting), setting.known_groups, config, setting.extent)
    rows = found.select("group", "key_hi", "key_lo").toArrow().sort_by("group")
    return Keys(*(rows.column(name).to_numpy().view(np.uint64) for name in ("key_hi", "key_lo")))


# --- groups


def _group_crowd(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    del extent
    world = config.world
    at = lengths.event_round(config)
    return group_crowd(setting, at, world.crowd_group, world.crowd, config.seed)


def _group_churn(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    del extent
    return group_churn(setting, Lifetimes(lengths.membership(config)), config.seed)


def _by_root(config: WorldConfig) -> bool:
    return config.world.publish_source == "root"


def _publications(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    del extent
    world, seed = config.world, config.seed
    if _by_root(config):
        pool = root_sources(node_ring(_nodes(setting)), _keys(config, setting))
    else:
        sources = {"member": member_sources, "any": any_sources}[world.publish_source]
        pool = sources(setting, world.publishers, seed)
    rate = lengths.publish_rate(config)
    return publications(setting, rate, pool, world.publishers > 0, seed)


_GENERATORS: Registry[Generator] = Registry(
    "generator of events",
    Generator("mass-failure", _mass_failure, needs_setting=True, step="failures"),
    Generator(
        "adjacent-failure", _adjacent_failure, needs_ids=True, needs_setting=True,
        step="failures", check=_check_adjacent,
    ),
    Generator("churn", _churn, initial=_nine_tenths),
    Generator("flash-crowd", _flash_crowd, initial=_all_but_the_crowd, sets_initial=True),
    Generator(
        "root-failure", _root_failure, needs_ids=True, needs_setting=True, needs_groups=True,
        step="failures", check=_check_roots,
    ),
    Generator(
        "group-crowd", _group_crowd, needs_setting=True, needs_groups=True, step="members"
    ),
    Generator(
        "group-churn", _group_churn, needs_setting=True, needs_groups=True, step="members"
    ),
    Generator(
        "publications", _publications, needs_ids=_by_root, needs_setting=True,
        needs_groups=True, step="publications",
    ),
)  # fmt: skip


def generators() -> Mapping[str, Generator]:
    """Return all generators by name."""
    return _GENERATORS


#: Register a generator in this process, and remove a user's generator: see `Registry`.
register_generator, unregister_generator = _GENERATORS.register, _GENERATORS.unregister
