"""The generators of events, by name; the events that a config asks for.

A new generator is a function, and one line below; from outside of the package, a call of
:func:`register_generator`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.errors import InputError, named
from scribe_spark.inputs import is_local
from scribe_spark.worlds.churn import churn
from scribe_spark.worlds.events import (
    check_events,
    check_rows,
    events_frame,
    events_table,
    read_events,
)
from scribe_spark.worlds.generators import adjacent_failure, flash_crowd, mass_failure, share_of
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.rows import ARRIVE, RECOVER, EventRows, Extent

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

__all__ = [
    "Generator",
    "check_world",
    "extent_of",
    "generators",
    "register_generator",
    "unregister_generator",
    "world_events",
]


def _all_nodes(config: WorldConfig) -> int:
    return config.overlay.nodes


@dataclass(frozen=True)
class Generator:
    """A generator of events, as ``--generator NAME`` asks for it.

    Attributes
    ----------
    name : str
    generate : callable
        (config, extent) -> EventRows, in any order; where `needs_ids`, (config, extent, nodes),
        `nodes` being `schemas.NODES`.  Every draw is keyed by ``config.seed``, a purpose and a row.
    initial : callable
        config -> how many nodes are alive at the start, if the config does not say it.
    needs_ids : bool
        Whether it depends on the nodes' nodeIds, which only Spark knows.
    sets_initial : bool
        Whether `initial` follows from its parameters, and the config may not say it.
    """

    name: str
    generate: Callable[..., EventRows]
    initial: Callable[[WorldConfig], int] = _all_nodes
    needs_ids: bool = False
    sets_initial: bool = False


def _mass_failure(config: WorldConfig, extent: Extent) -> EventRows:
    return mass_failure(extent, config.world.event_round, config.world.share, config.seed)


def _adjacent_failure(config: WorldConfig, extent: Extent, nodes: DataFrame) -> EventRows:
    count = config.world.adjacent or config.overlay.leaf_set // 2
    return adjacent_failure(extent, config.world.event_round, count, nodes, config.seed)


def _churn(config: WorldConfig, extent: Extent) -> EventRows:
    world = config.world
    shape = world.weibull_shape if world.lifetime_distribution == "weibull" else 1.0
    replacement = RECOVER if world.replacement == "recover" else ARRIVE
    return churn(extent, Lifetimes(world.lifetime, shape), replacement, config.seed)


def _nine_tenths(config: WorldConfig) -> int:
    return max(1, config.overlay.nodes - max(1, config.overlay.nodes // 10))


def _flash_crowd(config: WorldConfig, extent: Extent) -> EventRows:
    return flash_crowd(extent, config.world.event_round)


def _all_but_the_crowd(config: WorldConfig) -> int:
    return config.overlay.nodes - share_of(config.overlay.nodes, config.world.share)


_GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (
        Generator("mass-failure", _mass_failure),
        Generator("adjacent-failure", _adjacent_failure, needs_ids=True),
        Generator("churn", _churn, initial=_nine_tenths),
        Generator("flash-crowd", _flash_crowd, initial=_all_but_the_crowd, sets_initial=True),
    )
}


def generators() -> dict[str, Generator]:
    """Every generator, by its name."""
    return dict(_GENERATORS)


def register_generator(generator: Generator) -> None:
    """Add a generator to this process, or replace the one of that name."""
    _GENERATORS[generator.name] = generator


def unregister_generator(name: str) -> None:
    """Take a generator away again."""
    del _GENERATORS[name]


def _generator(config: WorldConfig) -> Generator | None:
    """The generator that a config names; None if it names none."""
    name = config.world.generator
    return None if name is None else named(_GENERATORS, name, "generator")


def extent_of(config: WorldConfig) -> Extent:
    """Nodes, rounds, and how many nodes are alive at the start: the first ones.

    Raises
    ------
    InputError
        Unknown generator; a number of live nodes that contradicts it.
    """
    generator, initial = _generator(config), config.world.initial
    if initial is not None and generator is not None and generator.sets_initial:
        remedy = f"is what share says where the generator is {generator.name}; leave out this"
        raise InputError("initial", initial, remedy)
    if initial is None:
        initial = config.overlay.nodes if generator is None else generator.initial(config)
    return Extent(config.overlay.nodes, config.world.rounds, initial)


def check_world(config: WorldConfig) -> None:
    """Refuse events that cannot be, as far as it can be found without Spark.

    Raises
    ------
    InputError
    """
    extent, generator, path = extent_of(config), _generator(config), config.world.events
    if path is not None and is_local(path):
        check_events(path, extent)
    if generator is not None and not generator.needs_ids:
        _generated(generator, config, extent)


def _generated(
    generator: Generator, config: WorldConfig, extent: Extent, nodes: DataFrame | None = None
) -> EventRows:
    rows = generator.generate(config, extent, *([nodes] if generator.needs_ids else []))
    check_rows(rows, extent, "generator", generator.name)
    return rows


def world_events(nodes: DataFrame, config: WorldConfig) -> DataFrame:
    """`schemas.EVENTS` of a world, checked.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.

    Raises
    ------
    InputError
        Events that cannot be.
    """
    spark, extent = nodes.sparkSession, extent_of(config)
    generator, path = _generator(config), config.world.events
    if path is not None:
        return read_events(spark, path, extent)
    if generator is None:
        return schemas.local_table(spark, [], schemas.EVENTS)
    return events_table(spark, events_frame(_generated(generator, config, extent, nodes)))
