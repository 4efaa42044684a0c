"""The systems of a world other than Scribe, played round by round on the buckets.

All systems receive the same events, and their messages and publications are counted in the same
way.  A system plays all of its own rounds that begin within the world's round; the first of them
has the round's events, joins, quits and publications.

References
----------
docs/rules.md, "Rounds", "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.engine import Columns
from scribe_spark.engine.program import Together
from scribe_spark.measures.multicasts import SystemTables, multicast_units
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    OwnRounds,
    Pairs,
    Publishing,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
)
from scribe_spark.rounds.tally import Tally
from scribe_spark.worlds.group_measures import PUBLICATION_MEASURES
from scribe_spark.worlds.link_stress import packet_measures
from scribe_spark.worlds.live_groups import COMMON_TABLES, LiveGroups
from scribe_spark.worlds.round_bytes import byte_units, part_table

if TYPE_CHECKING:
    from scribe_spark.systems import System

#: The separator between the name of a system and the name of one of its tables.
OF_SYSTEM = "/"

#: Measures of every system by round, with units.
_COMMON = {
    "control": "messages per live node and second",
    **packet_measures(("payload", "control")),
    **PUBLICATION_MEASURES,
}

#: The measures of control messages, and their beginnings; of systems that do not simulate these,
#: rounds have none.
_CONTROL = ("control", "control_bytes.", "link_stress.control.")

#: The same in the table `schemas.ROUNDS_BY_PART`.
_CONTROL_BYTES = "bytes.control_"


def system_measures(system: System) -> dict[str, str]:
    """Return all measures of a system in a world's rounds with units, except messages by kind."""
    own = {**_COMMON, **system.world_measures}
    named = {f"{system.name}.{name}": unit for name, unit in own.items()}
    named |= byte_units(system.name)
    return named | multicast_units(system.name, by_hops=system.may_go_by_hops)


@dataclass(frozen=True)
class LiveSystems:
    """The systems of a world other than Scribe, by name; all else is in its `LiveGroups`.

    `own` has the own rounds of systems that set their length; the others have one round per round
    of the world, which lasts `seconds`.  `limits` are the user's limits of children, by node
    number; the copies of the systems `by_hops` arrive by the clock of hops.
    """

    systems: Mapping[str, SystemOnBuckets] = field(default_factory=dict)
    own: Mapping[str, OwnRounds] = field(default_factory=dict)
    seconds: float = NOMINAL_SECONDS
    limits: np.ndarray | None = None
    by_hops: frozenset[str] = frozenset()

    def play(
        self,
        live: LiveGroups,
        player: RoundPlayer,
        number: int,
        events: Events,
        group_events: GroupEvents,
        groups: Groups,
        incarnation: np.ndarray,
    ) -> tuple[dict[str, float], pa.Table, pa.Table]:
        """Play a round of every system after that of the overlay, on the player's tables.

        Return measures, whose names begin with the name of the system; `schemas.PUBLICATIONS` of
        the counted publications; and, if publications have a size, `schemas.ROUNDS_BY_PART`.
        """
        measures: dict[str, float] = {}
        split: list[dict[str, Any]] = []
        due: list[pa.Table] = []
        given, there = player.given, player.lives.count_entered()
        ring = given.facts.ring
        now = LivingRound(
            number=number,
            rounds=live.rounds,
            ring=ring,
            overlay=given.in_round,
            events=events,
            group=groups.number,
            key_hi=groups.keys.hi,
            key_lo=groups.keys.lo,
            join=_allowed(groups, "join", group_events.join),
            quit=group_events.quit,
            publish=Publishing.at_begin(
                _allowed(groups, "multicast", group_events.publish),
                0 if live.links is None else live.links.size,
            ),
            kernel=given.kernel,
            lan_us=live.multicasts.lan_us,
            seed=given.seed,
            deadline=live.deadline,
            tally=Tally(()),
            incarnation=incarnation,
            measures=live.multicasts.names,
            source=live.multicasts.source,
            capacity=None if self.limits is None else self.limits[ring.node],
            links=live.links,
        )
        usual = OwnRounds(*[round(self.seconds * 1_000_000)] * 2)
        for name, system in self.systems.items():
            # routers duplicate packets of merged systems, so no message is counted on links
            kinds = {} if system.merged else {"payload": system.payload, "control": system.control}
            in_buckets = live.links is not None or live.link_stress.is_measured(number)
            tally = Tally(
                (*system.payload, *system.control), in_buckets=in_buckets and not system.merged
            )
            own_rounds = replace(now, tally=tally, own=self.own.get(name, usual))
            done, taken, of_multicasts = self._play(live, player, name, system, kinds, own_rounds)
            measures |= of_multicasts
            sent = tally.by_kind()
            control = sum(sent.get(kind, 0) for kind in system.control)
            own: dict[str, float] = {**done.measures, **done.counts}
            own["control"] = control / len(player.lives.live()) / self.seconds
            own |= {f"messages.{kind}": float(count) for kind, count in sent.items()}
            for common in live.common_measures(number, taken, kinds, there):
                own |= common
            by_part = live.by_part(taken, name)
            if not system.control:
                own = {measure: value for measure, value in own.items() if not _is_control(measure)}
                by_part = [row for row in by_part if not row["measure"].startswith(_CONTROL_BYTES)]
            measures |= {f"{name}.{measure}": float(value) for measure, value in own.items()}
            split += by_part
            sums = done.publications.by_group(groups.number, number - live.deadline)
            names = pa.repeat(pa.scalar(name), len(sums["round"]))
            due.append(pa.table({"round": sums.pop("round"), "system": names, **sums}))
        return measures, pa.concat_tables(due), part_table(number, split)

    def _play(
        self,
        live: LiveGroups,
        player: RoundPlayer,
        name: str,
        system: SystemOnBuckets,
        kinds: Mapping[str, tuple[str, ...]],
        now: LivingRound,
    ) -> tuple[SystemRound, dict[str, Columns], dict[str, float]]:
        """Play the own rounds of a system.

        Return the result, the tables `COMMON_TABLES`, and the measures of the multicasts.
        """
        given, there = replace(player.given, observer=now.tally.observer), player.lives
        prefix = f"{name}{OF_SYSTEM}"
        buckets = SystemPlayer(player.engine, given.facts, given.bounds, prefix, system.reads)
        taken: dict[str, Columns] = {}
        found: dict[str, float] = {}

        def measure(done: SystemRound) -> None:
            of = None
            if done.multicasts is not None and live.multicasts.names:
                by_hops = name in self.by_hops
                measured = done.multicasts, system.member_table, system.merged, by_hops
                of = SystemTables(name, *measured)
                begun = _from_starts(done.multicasts) if done.begun is None else done.begun
                if system.merged:
                    live.route(buckets, given, _from_starts(done.multicasts), DELIVERED)
                else:
                    live.replay(buckets, given, begun, CARRIED, DELIVERED)
            programs = live.common_programs(given, now.number, of, kinds, system.control)
            if programs:
                buckets.play(Together(tuple(programs)))
                taken.update(buckets.take(*COMMON_TABLES))
            if of is not None:
                found.update(live.multicasts.measures(taken, of, there.count_entered()))

        return system.play_on(buckets, now, measure), taken, found


def _is_control(measure: str) -> bool:
    return measure == _CONTROL[0] or measure.startswith(_CONTROL[1:])


def _from_starts(of: Multicasts) -> Begun:
    """Return multicasts as publications that begin at their starts."""
    none = np.zeros(len(of), dtype=np.int64)
    return Begun(of.group, of.publication, of.start, of.start, none, none)


def _allowed(groups: Groups, operation: str, pairs: Pairs) -> Pairs:
    group, node = pairs
    may = groups.allows(operation, group, node)
    return group[may], node[may]
