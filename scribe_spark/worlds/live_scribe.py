"""Scribe in a world: the rules of a round, and the measures of its trees.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import index_sorted, whole_numbers
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.buckets import arrow_schema
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.program import AT
from scribe_spark.engine.views import Names
from scribe_spark.pastry.round import RoundResult
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.rounds.system import Publications
from scribe_spark.scribe.duplicates import SOURCE_BITS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.scribe.outcomes import LEFT, PublicationResults
from scribe_spark.scribe.program import Applications, RoundOfGroups
from scribe_spark.scribe.rejoin import EXTRA_JOINS, EXTRA_JOINS_COLUMNS
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.round import publication_results
from scribe_spark.scribe.upcalls import Application
from scribe_spark.worlds.group_measures import (
    CONTROL_KINDS,
    GROUPS_MEASURED,
    SCRIBE,
    MeasureGroups,
    group_measures,
)
from scribe_spark.worlds.link_stress import KINDS
from scribe_spark.worlds.live_groups import COMMON_TABLES, LiveGroups
from scribe_spark.worlds.round_bytes import (
    part_table,
)
from scribe_spark.worlds.round_measures import MEASURED, MeasureNodes, round_measures
from scribe_spark.worlds.scribe_multicasts import ScribeTables
from scribe_spark.worlds.watched_trees import TREES_SEEN, SeeTrees, Tree, tree_rows, trees_of

if TYPE_CHECKING:
    from scribe_spark.config import ScribeConfig
    from scribe_spark.config.trees import TreesConfig

#: The names of a round's result tables: ``publications``, the account by round and group of the
#: publications whose deadline is this round (after the last round, also of all open ones);
#: `schemas.WATCHED_TREES`; `schemas.EXTRA_JOINS`, the JOINs that the bottleneck remover caused; and
#: `schemas.ROUNDS_BY_PART`, if publications have a size.
LEFT_BY_ROUNDS = ("publications", "watched_trees", "extra_joins", "by_part")

#: The tables of measures of every round.
MEASURE_TABLES = (MEASURED, GROUPS_MEASURED, *TREES_SEEN, *COMMON_TABLES)


@dataclass(frozen=True)
class LiveScribe:
    """Scribe's parameters in a world, and the measures of its trees.

    The trees of the groups `watched`, by number, are recorded; ``application(nodes)`` returns a
    user's application on the upcalls; `limits` are for the bottleneck remover and lazy growth.
    `common` has the groups and the measures of all systems.
    """

    common: LiveGroups
    rules: ScribeConfig
    trees: TreesConfig
    watched: np.ndarray = field(default_factory=whole_numbers)
    application: Callable[[int], Application] | None = None
    limits: ChildLimits | None = None

    @property
    def make_application(self) -> Callable[[int], Application] | None:
        """Returns an application for a number of nodes; None for best effort."""
        if self.application is not None:
            return self.application
        return partial(Reliable, self.rules.buffer) if self.rules.reliable else None

    def round(self, number: int, groups: Groups, incarnation: np.ndarray) -> RoundOfGroups:
        """Return the parameters of a round, given the round of each node's last arrival."""
        ways, make = self.common.multicasts, self.make_application
        applications = None if make is None else Applications(make, len(incarnation))
        timed = ways.of_ways, ways.lan_us if ways.of_ways else 0
        of = number, groups, self.rules, self.trees, incarnation
        return RoundOfGroups(*of, applications, *timed, self.limits, source=ways.source)

    def watched_indices(self, groups: Groups) -> np.ndarray:
        """Return the indices of the groups whose trees are watched."""
        return index_sorted(groups.number, self.watched)

    # --- measures

    @property
    def _scribe(self) -> ScribeTables:
        return ScribeTables(self.common.multicasts.source == "root")

    def play_clock(self, player: RoundPlayer) -> None:
        """Replace the times of a round's deliveries by those with bandwidth, if used."""
        if self.common.links is not None:
            begun = self._scribe.begun(player.gather(OUTCOMES).get(OUTCOMES, {}))
            self.common.replay(player.engine, player.given, begun, PAYLOADS, DELIVERIES)

    def programs(
        self, given: Environment, round: RoundOfGroups, *, keeps_messages: bool
    ) -> list[Program]:
        """Return the programs of a round's measures; they write :data:`MEASURE_TABLES`."""
        number, watched = round.number, self.watched_indices(round.groups)
        kinds = KINDS, CONTROL_KINDS, keeps_messages
        return [
            MeasureNodes(given, number),
            MeasureGroups(given, round),
            SeeTrees(given, round, watched),
            *self.common.common_programs(given, number, self._scribe, *kinds),
        ]

    def see(
        self,
        result: RoundResult,
        taken: Mapping[str, Columns],
        groups: Groups,
        player: RoundPlayer,
        before: Mapping[int, Tree],
    ) -> tuple[dict[str, float], dict[str, pa.Table], dict[int, Tree]]:
        """Return the measures of a round, the tables :data:`LEFT_BY_ROUNDS`, and watched trees.

        `taken` has the tables `scribe.round.COUNTS`, `EXTRA_JOINS` and :data:`MEASURE_TABLES` of
        all buckets; `before` are the watched trees before the round.
        """
        number, lives, known = result.number, player.lives, player.given.facts.ring
        there = lives.count_entered()
        measures = round_measures(int(np.count_nonzero(lives.alive)), result, taken[MEASURED])
        measures |= group_measures(taken, len(groups), self.limits is not None)
        of_links, sent = self.common.common_measures(number, taken, KINDS, there)
        measures |= of_links | self.common.multicasts.measures(taken, self._scribe, there)
        measures |= {f"{SCRIBE}.{name}": value for name, value in sent.items()}
        due = [publication_results(taken), publication_results(taken, LEFT)]
        after = trees_of(taken, self.watched_indices(groups), len(known))
        names = Names(RingInMemory(known), player.given.kernel, groups.number)
        tables = {
            "publications": _by_group(due, groups, number - self.rules.deadline),
            "watched_trees": tree_rows(number, before, after, groups, known, lives.alive),
            "extra_joins": _extra_joins(taken.get(EXTRA_JOINS, {}), names),
            "by_part": part_table(number, self.common.by_part(taken, SCRIBE)),
        }
        return measures, tables, after


def _by_group(counted: list[PublicationResults], groups: Groups, last_due: int) -> pa.Table:
    """Return the account of publications by round and group; see `Publications.by_group`."""
    published = [
        Publications(
            *(one.publication >> SOURCE_BITS, one.group, one.expected),
            *(one.in_time, one.late, one.first_copies, one.duplicates),
        )
        for one in counted
    ]
    return pa.table(Publications.join(*published).by_group(groups.number, last_due))


def _extra_joins(taken: Columns, names: Names) -> pa.Table:
    """Return JOINs with the numbers of groups and nodes and the ids of routers, sorted."""
    rows = taken or dict.fromkeys(("group", AT, "child", "probes"), whole_numbers())
    batch = names.batch({**rows, "parent": rows[AT]}, arrow_schema(EXTRA_JOINS_COLUMNS))
    table = pa.Table.from_batches([batch])
    return table.sort_by([(name, "ascending") for name in ("group", "child", "parent", "probes")])
