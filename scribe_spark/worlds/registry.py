"""The registry of event generators, by name.

A new generator is a function and an entry below; outside of the package, call
:func:`register_generator`.  :mod:`.events` combines the events of several generators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scribe_spark.core.registry import Registry
from scribe_spark.rounds.event_rows import ARRIVE, RECOVER, EventRows, Extent
from scribe_spark.worlds.group_generators import (
    from_roots,
    group_churn,
    group_crowd,
    publications,
)
from scribe_spark.worlds.lengths import mean_rounds
from scribe_spark.worlds.node_generators import (
    Weibull,
    adjacent_failure,
    check_adjacent,
    check_roots,
    churn,
    flash_crowd,
    mass_failure,
    root_failure,
    share_of,
)
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
        """Return the generator's events for a config, given the earlier events in `setting`."""
        if self.needs_setting:
            return self.generate(config, setting.extent, setting)
        if self.needs_spark(config):
            return self.generate(config, setting.extent, setting.nodes)
        return self.generate(config, setting.extent)


def _churn(config: WorldConfig, extent: Extent) -> EventRows:
    world = config.world
    shape = world.weibull_shape if world.lifetime_distribution == "weibull" else 1.0
    replacement = RECOVER if world.replacement == "recover" else ARRIVE
    return churn(extent, Weibull(mean_rounds(config, "lifetime"), shape), replacement, config.seed)


def _nine_tenths(config: WorldConfig) -> int:
    return max(1, config.overlay.nodes - max(1, config.overlay.nodes // 10))


def _all_but_the_crowd(config: WorldConfig) -> int:
    return config.overlay.nodes - share_of(config.overlay.nodes, config.world.share)


_GENERATORS: Registry[Generator] = Registry(
    "generator of events",
    Generator("mass-failure", mass_failure, needs_setting=True, step="failures"),
    Generator(
        "adjacent-failure", adjacent_failure, needs_ids=True, needs_setting=True,
        step="failures", check=check_adjacent,
    ),
    Generator("churn", _churn, initial=_nine_tenths),
    Generator("flash-crowd", flash_crowd, initial=_all_but_the_crowd, sets_initial=True),
    Generator(
        "root-failure", root_failure, needs_ids=True, needs_setting=True, needs_groups=True,
        step="failures", check=check_roots,
    ),
    Generator("group-crowd", group_crowd, needs_setting=True, needs_groups=True, step="members"),
    Generator("group-churn", group_churn, needs_setting=True, needs_groups=True, step="members"),
    Generator(
        "publications", publications, needs_ids=from_roots, needs_setting=True,
        needs_groups=True, step="publications",
    ),
)  # fmt: skip


def generators() -> Mapping[str, Generator]:
    """Return all generators by name."""
    return _GENERATORS


#: Register a generator in this process, and remove a user's generator: see `Registry`.
register_generator, unregister_generator = _GENERATORS.register, _GENERATORS.unregister
