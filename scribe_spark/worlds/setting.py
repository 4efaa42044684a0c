"""The data from which generators make events: lengths of rounds, earlier events, groups, nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.config.rounds import MOST_PUBLISHED
from scribe_spark.core.arrays import Rows
from scribe_spark.core.errors import InputError, exact
from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.rounds.event_rows import JOIN, QUIT, EventRows, Extent, Lifetimes
from scribe_spark.rounds.system import OwnRounds
from scribe_spark.systems.registry import System, played_systems, plays_pastry
from scribe_spark.worlds.groups import MAY_JOIN, WorldGroups, group_keys

if TYPE_CHECKING:
    from scribe_spark.config import WorldConfig


# --- lengths of rounds


#: The maximal number of a system's own rounds in a round of the world.
MOST_OWN_ROUNDS = 10_000

_MICROSECONDS = 1_000_000  # of a second


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)


# --- rounds


def round_seconds(config: WorldConfig) -> float:
    """Return the length of a round of the config's world, in seconds.

    Without `round_seconds`, it is the longest round of the config's systems, or `NOMINAL_SECONDS`
    if the config names no system.
    """
    given = config.world.round_seconds
    if given is not None:
        return given
    systems = played_systems(config)
    return max(
        (_own_seconds(system, config) or NOMINAL_SECONDS for system in systems),
        default=NOMINAL_SECONDS,
    )


def round_us(config: WorldConfig) -> int:
    """Return the length of a round of the config's world, in whole microseconds."""
    return _microseconds(round_seconds(config))


def _own_seconds(system: System, config: WorldConfig) -> float | None:
    """Return the length of a system's own rounds in seconds; None if it equals the world's."""
    own = system.round_seconds
    return own(config) if callable(own) else own


def own_rounds(config: WorldConfig) -> dict[str, OwnRounds]:
    """Return the own rounds of each system of a config's world that sets their length.

    A world's round may not be shorter than an own round, nor contain too many of them.
    """
    seconds, found = round_seconds(config), {}
    world_us = _microseconds(seconds)
    for system in played_systems(config):
        own = _own_seconds(system, config)
        if own is None:
            continue
        own_us = max(1, _microseconds(own))
        if own_us > world_us:
            remedy = f"is less than a round of {system.name}, which lasts {exact(own)} s; give more"
            raise InputError("round_seconds", seconds, remedy)
        if world_us > own_us * MOST_OWN_ROUNDS:
            remedy = (
                f"has {world_us // own_us:,} rounds of {system.name}, each of {exact(own)} s; give "
                f"at most {exact(own_us * MOST_OWN_ROUNDS / _MICROSECONDS)}"
            )
            raise InputError("round_seconds", seconds, remedy)
        found[system.name] = OwnRounds(world_us, own_us)
    return found


def rounds_in_words(config: WorldConfig) -> str:
    """Describe the contents of a round of a config's world."""
    own = own_rounds(config)
    labels = ["Pastry"] if plays_pastry(config) else []
    parts: list[str] = []
    for system in played_systems(config):
        if system.name not in own:
            labels.append(system.label)
            continue
        one = own[system.name]
        rounds, left = divmod(one.world_us, one.own_us)
        nearest = rounds + (2 * left >= one.own_us)
        counted = f"{'about ' if left else ''}{nearest:,} round{'s' if nearest > 1 else ''}"
        parts.append(f"{counted} of {system.label}, each of {one.own_us / _MICROSECONDS:g} s")
    if labels:
        names = " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))
        parts.insert(0, f"one round of {names}")
    return f"{round_seconds(config):g} s: {'; '.join(parts)}"


# --- parameters of generators


def mean_rounds(config: WorldConfig, name: str) -> float:
    """Return the mean ``lifetime`` of nodes or the mean ``membership`` of members, in rounds."""
    seconds = getattr(config.world, f"{name}_seconds")
    if seconds is None:
        return float(getattr(config.world, name))
    least = round_seconds(config)
    if seconds < least:
        raise InputError(f"{name}_seconds", seconds, f"must be at least a round, {exact(least)} s")
    return float(seconds / least)


def event_round(config: WorldConfig) -> int:
    """Return the round of the event that a generator makes, by its number or a time in seconds."""
    seconds, at, rounds = config.world.event_seconds, config.world.event_round, config.world.rounds
    there = f"rounds are 0 to {rounds - 1}"
    if seconds is None:
        if at >= rounds:
            raise InputError("event_round", at, f"is not a round; {there}")
        return at
    at = _microseconds(seconds) // _microseconds(round_seconds(config))
    if at >= rounds:
        remedy = f"is in round {at:,}, after the last one; {there}"
        raise InputError("event_seconds", seconds, remedy)
    return at


def publish_rate(config: WorldConfig) -> float:
    """Return the number of publications of a group per round."""
    world = config.world
    if world.publish_seconds is None:
        return world.publish_rate
    length = round_seconds(config)
    rate, most = length / world.publish_seconds, world.sources or MOST_PUBLISHED
    if rate > most:
        least = length / most
        while length / least > most:
            least = math.nextafter(least, math.inf)
        remedy = f"is more than {most} in a round; give at least {exact(least)}"
        raise InputError("publish_seconds", world.publish_seconds, remedy)
    return rate


# --- the input of a generator


@dataclass(frozen=True)
class Memberships(Rows):
    """J memberships, sorted by group, node and round: int64 arrays of shape (J,).

    A node is a member in the rounds `begins` to `ends` - 1.
    """

    groups: np.ndarray
    nodes: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True, eq=False)
class Setting:
    """A world's events so far, and its groups and nodes, for the next generator.

    `rows` are the events so far: node events first, then group events, publications last.
    `nodes` (`schemas.NODES`) are for generators that depend on nodeIds.
    """

    rows: EventRows
    extent: Extent
    groups: WorldGroups | None = None
    nodes: DataFrame | None = None

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """The lifetimes of nodes by the events so far."""
        return Lifetimes(self.rows, self.extent)

    @property
    def known_groups(self) -> WorldGroups:
        """The groups; an error if the world has none."""
        if self.groups is None:
            raise ValueError("the world has no groups")
        return self.groups

    @cached_property
    def memberships(self) -> Memberships:
        """The memberships by the events so far, without joins that an access list refuses."""
        rows = self.rows.take((self.rows.events == JOIN) | (self.rows.events == QUIT))
        rows = rows.take(self.known_groups.access.permits(MAY_JOIN, rows.groups, rows.nodes))
        rows = rows.take(np.lexsort((rows.rounds, rows.nodes, rows.groups)))
        following = np.full(len(rows), self.extent.rounds, dtype=np.int64)
        same = (rows.groups[1:] == rows.groups[:-1]) & (rows.nodes[1:] == rows.nodes[:-1])
        following[:-1][same] = rows.rounds[1:][same]
        ends = np.minimum(following, self.lifetimes.ends(rows.nodes, rows.rounds))
        made = Memberships(rows.groups, rows.nodes, rows.rounds, ends)
        return made.take(rows.events == JOIN)

    @cached_property
    def ring(self) -> Ring:
        """All nodes, sorted by nodeId; an error without nodeIds."""
        if self.nodes is None:
            raise ValueError("nodeIds are not known without Spark")
        return node_ring(self.nodes)

    def keys(self, config: WorldConfig) -> Keys:
        """Return the groupIds, sorted by the groups' numbers."""
        rows = group_keys(self._rows_of_nodes, self.known_groups, config, self.extent)
        halves = (rows.column(name).to_numpy() for name in ("key_hi", "key_lo"))
        return Keys(*(half.view(np.uint64) for half in halves))

    def _rows_of_nodes(self, node: np.ndarray) -> dict[str, np.ndarray]:
        at = self.ring.positions(node)
        return {"id_hi": self.ring.hi[at].view(np.int64), "router": self.ring.router[at]}


def node_ring(nodes: DataFrame) -> Ring:
    """Return nodes (`schemas.NODES`) as a ring on the driver, sorted by nodeId."""
    rows = nodes.select("id_hi", "id_lo", "node", "router").toArrow()
    hi, lo, node, router = (rows.column(name).to_numpy() for name in rows.column_names)
    return Ring(hi.view(np.uint64), lo.view(np.uint64), node, router).in_order()
