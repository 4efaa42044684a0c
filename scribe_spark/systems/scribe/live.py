"""Scribe as a system of a world: a round of its nodes, its publications and its measures.

JSAC 2002, Section III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.core.arrays import NONE, whole_numbers
from scribe_spark.engine import Columns, Tables, facts, program
from scribe_spark.engine.buckets import Names, arrow_schema
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds import system
from scribe_spark.rounds.applications import NOTICED, Applications
from scribe_spark.rounds.group_events import SOURCE_BITS, Groups, publication_ids
from scribe_spark.rounds.player import FOUND, MESSAGES, RoundPlayer
from scribe_spark.systems.scribe import measures, reliable, scribe, sources, state, upcalls
from scribe_spark.systems.scribe.bottleneck import EXTRA_JOINS, EXTRA_JOINS_COLUMNS
from scribe_spark.systems.scribe.end_of_round import (
    DUE,
    OUTCOMES,
    EndOfRound,
    PublicationResults,
)
from scribe_spark.systems.scribe.heartbeat import HERE
from scribe_spark.systems.scribe.round import play_groups
from scribe_spark.systems.scribe.sources import key_in_round, node_numbers

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig
    from scribe_spark.config.groups import TreesConfig
    from scribe_spark.config.scribe import ScribeConfig
    from scribe_spark.engine.player import Player
    from scribe_spark.rounds.player import Environment

#: The tables that a round is counted from.
_COUNTS = (MESSAGES, HERE, OUTCOMES, DUE, EXTRA_JOINS, measures.GROUPS_MEASURED)


@dataclass(frozen=True)
class LiveScribe(system.SystemOnBuckets):
    """Scribe as a system of worlds; ``application(nodes)`` makes a user's application."""

    rules: ScribeConfig
    trees: TreesConfig
    application: Callable[[int], upcalls.ScribeApplication] | None = None

    kept_in_buckets: ClassVar[Mapping[str, int]] = {}
    kept: ClassVar[tuple[str, ...]] = ()
    shares: ClassVar[tuple[str, ...]] = (LEAVES, CELLS, FOUND)
    beside: ClassVar[tuple[str, ...]] = ("ip_multicast", "naive_unicast")
    member_table: ClassVar[str] = state.table_of("entries")
    notes_failures: ClassVar[bool] = True
    payload: ClassVar[tuple[str, ...]] = scribe.PAYLOAD_KINDS
    control: ClassVar[tuple[str, ...]] = scribe.CONTROL_KINDS

    # --- tables of a bucket

    def stays(self, name: str) -> bool:
        """Return True for the state, watched trees, and all tables that are not Scribe's."""
        of_scribe = name.startswith(state.PREFIX) or name in (MESSAGES, NOTICED)
        return not of_scribe or name in state.STATE_TABLES or name == measures.TREES

    def members(self, tables: Mapping[str, Columns]) -> np.ndarray:
        entries = tables.get(state.table_of("entries"), {})
        return entries["key"][entries["member"]] if entries else whole_numbers()

    def children(self, tables: Mapping[str, Columns], size: int) -> np.ndarray:
        return tables.get(state.table_of("children"), {}).get("key", whole_numbers()) // size

    # --- rounds

    def play_round(
        self, player: system.SystemPlayer, kept: Tables, now: system.LivingRound
    ) -> system.SystemRound:
        """Play Scribe's part of a round, which is within Pastry's round; see `pastry.round`."""
        environment, round = _environment(now), self._round(player, now)
        nodes = RoundPlayer(cast("Player", player), environment)
        play_groups(nodes, round, now.events, now.group_events)
        programs = (
            EndOfRound(environment, round, now.is_last),
            measures.MeasureGroups(environment, round),
            measures.SeeTrees(environment, round, now.watched),
        )
        player.play(program.Together(programs))
        taken = player.gather(*_COUNTS, *_TREES)
        now.tally.take(taken)
        sent = sources.SentPublications.of_buckets(taken.get(OUTCOMES, {}), round.nodes).taken()
        multicasts = self.multicasts(sent, now.source, several=now.scheduled)
        begun = self._begun(sent, now.source)
        if now.scheduled:
            multicasts, begun = _with_times(now, multicasts, begun)
        return system.SystemRound(
            measures.group_measures(taken, len(round.groups), round.limits is not None),
            _publications(taken),
            multicasts=multicasts if now.measures else None,
            begun=begun,
            tables=self._tables(taken, round, now),
        )

    def _round(self, player: system.SystemPlayer, now: system.LivingRound) -> scribe.RoundOfGroups:
        """Return the parameters of the round `now` that the programs of groups need."""
        assert now.groups is not None
        make = self.application
        if self.rules.reliable:
            make = partial(reliable.Reliable, self.rules.buffer)
        applications = None if make is None else Applications(make, len(now.ring))
        timed = not {"delay", "link_stress"}.isdisjoint(now.measures)
        incarnation = player.share("incarnations", lambda: {"round": now.incarnation})
        of_round = now.number, now.groups, self.rules, self.trees, incarnation
        timing = timed, now.lan_us if timed else 0
        made = scribe.RoundOfGroups(
            *of_round, applications, *timing, self._limits(now), source=now.source
        )
        if not now.scheduled:
            return made
        sizes = player.share("sizes of publications", lambda: _sizes(now))
        return replace(made, nodes=node_numbers(now.ring), sizes=sizes, parts=now.parts)

    def _limits(self, now: system.LivingRound) -> scribe.ChildLimits | None:
        """Return the limits of the bottleneck remover and of lazy growth, if they are used."""
        if {"bottleneck", "lazy"}.isdisjoint(self.trees.variants):
            return None
        capacities = None
        if now.capacity is not None:
            capacities = np.zeros(now.ring.node.max() + 1, dtype=np.int64)
            capacities[now.ring.node] = now.capacity
        return scribe.ChildLimits(self.trees.limit, capacities)

    def between_rounds(
        self,
        number: int,
        groups: Groups,
        lan_us: int,
        application: Callable[[int], upcalls.ScribeApplication] | None = None,
    ) -> scribe.RoundOfGroups:
        """Return parameters for programs that change nothing after a round."""
        make = application or self.application
        applications = None if make is None else Applications(make, groups.size)
        of_round = number, groups, self.rules, self.trees, whole_numbers(), applications
        return scribe.RoundOfGroups(*of_round, lan_us=lan_us, settled=True)

    # --- publications

    def multicasts(
        self, taken: sources.SentPublications, source: str, *, several: bool = False
    ) -> system.Multicasts:
        """Return the first publication of each group that a root accepted in the round: rule S25.

        With `several`, all accepted publications are returned.  With the `source` ``root``, they
        begin at the roots.
        """
        if several:
            rows = taken.take(np.lexsort((taken.publication, taken.group)))
        else:
            rows = taken.take(np.unique(taken.group, return_index=True)[1])
        if source == "root":
            return system.Multicasts.from_start(rows.group, rows.publication, rows.root)
        way = rows.hops, rows.delay_us
        return system.Multicasts(rows.group, rows.publication, rows.source, *way)

    def _begun(self, taken: sources.SentPublications, source: str) -> Begun:
        """Return all publications that roots accepted in the round, as `Begun`."""
        of = taken.group, taken.publication
        if source == "root":
            zero = np.zeros(len(taken), dtype=np.int64)
            return Begun(*of, taken.root, taken.root, zero, zero)
        return Begun(*of, taken.source, taken.root, taken.hops, taken.delay_us)

    def _tables(
        self, taken: Mapping[str, Columns], round: scribe.RoundOfGroups, now: system.LivingRound
    ) -> dict[str, pa.Table]:
        """Return the tables `schemas.WATCHED_TREES` and `schemas.EXTRA_JOINS` of a round."""
        before, after = (taken.get(name, {}) for name in _TREES)
        trees = before, after, now.group, now.ring, now.alive
        names = Names(facts.RingInMemory(now.ring), now.kernel, now.group)
        return {
            "watched_trees": measures.tree_rows(now.number, *trees),
            "extra_joins": _extra_joins(taken.get(EXTRA_JOINS, {}), names),
        }


_TREES = measures.TREES_BEFORE, measures.TREES


# --- times and sizes of publications of a schedule


def _names(now: system.LivingRound) -> np.ndarray:
    """Return the ids of the publications of a round, in the order of ``now.publish``."""
    publish, ring = now.publish, now.ring
    return publication_ids(now.number, ring.node[publish.node], publish.turn, node_numbers(ring))


def _sizes(now: system.LivingRound) -> dict[str, np.ndarray]:
    """Return the field `RoundOfGroups.sizes`: the sizes of the publications of the round."""
    key = key_in_round(now.publish.group, _names(now))
    order = np.argsort(key)
    return {"key": key[order], "size": now.publish.size[order]}


def _with_times(
    now: system.LivingRound, found: system.Multicasts, begun: Begun
) -> tuple[system.Multicasts, Begun]:
    """Return measured publications, and those that begin, with numbers, times and sizes."""
    publish, names = now.publish, _names(now)
    order = np.lexsort((names, publish.group))
    of_round = system.Multicasts.from_start(publish.group[order], names[order], publish.node[order])
    usual = 0 if now.links is None else now.links.size
    at_us, size = np.r_[publish.at_us[order], 0], np.r_[publish.size[order], usual]

    def row_of(one: system.Multicasts | Begun) -> np.ndarray:
        row = of_round.find(one.group, one.publication)
        return np.where(one.publication >> SOURCE_BITS == now.number, row, NONE)

    def number_of(row: np.ndarray) -> np.ndarray:
        number = np.r_[order, NONE][row]
        number[row < 0] = len(order) + np.arange(np.count_nonzero(row < 0))
        return number

    row = row_of(found)
    if now.links is not None and now.links.parts.sent > 1:  # parts that are sent again are alone
        found, row = found.take(row >= 0), row[row >= 0]
    found = replace(found, number=number_of(row), size=size[row])
    row = row_of(begun)
    begun = replace(begun, at_us=at_us[row], size=size[row])
    return found, begun.take(np.lexsort((number_of(row), begun.at_us)))


def live_scribe(config: WorldConfig) -> LiveScribe:
    """Return Scribe in the world of a config."""
    return LiveScribe(config.scribe.for_tasks(), config.trees.for_tasks())


def _environment(now: system.LivingRound) -> Environment:
    assert now.environment is not None, "Scribe needs the nodes of Pastry"
    return now.environment


def _publications(taken: Mapping[str, Columns]) -> system.Publications:
    """Return the outcomes of publications whose deadline is now."""

    found = PublicationResults.sum_of(taken.get(DUE, {}))
    counts = ("expected", "in_time", "late", "first_copies", "duplicates")
    columns: dict[str, Any] = {name: getattr(found, name) for name in counts}
    return system.Publications(found.publication >> SOURCE_BITS, found.group, **columns)


def _extra_joins(taken: Columns, names: Names) -> pa.Table:
    """Return the JOINs that the bottleneck remover caused (`schemas.EXTRA_JOINS`), sorted."""
    rows = taken or dict.fromkeys(("group", program.AT, "child", "probes"), whole_numbers())
    batch = names.batch({**rows, "parent": rows[program.AT]}, arrow_schema(EXTRA_JOINS_COLUMNS))
    table = pa.Table.from_batches([batch])
    return table.sort_by([(name, "ascending") for name in ("group", "child", "parent", "probes")])
