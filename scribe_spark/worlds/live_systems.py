"""The systems of a world beside Scribe, played round by round on the buckets.

All systems receive the same events, and their messages and publications are counted in the same
way.  A system plays all of its own rounds that begin within the world's round; the first of them
has the round's events, joins, quits and publications.

References
----------
docs/rules.md, "Rounds", "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun, RoundLinks, replay_round
from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.living import (
    CARRIED,
    DELIVERED,
    LivingRound,
    OwnRounds,
    Pairs,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
)
from scribe_spark.measures.counts import Counted
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    MeasureMulticasts,
    MulticastMeasures,
    SystemTables,
    multicast_units,
)
from scribe_spark.measures.parts import NodeParts
from scribe_spark.pastry.arrivals.wave import Environment
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.tally import Tally
from scribe_spark.scribe.events import GroupEvents
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.worlds.link_stress import (
    LINKS_MEASURED,
    LinkStress,
    MeasureLinks,
    packet_measures,
)
from scribe_spark.worlds.round_bytes import (
    BYTES_MEASURED,
    MeasureBytes,
    byte_measures,
    byte_rows,
    byte_units,
    bytes_of_kinds,
    part_table,
)

if TYPE_CHECKING:
    from scribe_spark.systems import System

#: The separator between the name of a system and the name of one of its tables.
OF_SYSTEM = "/"

#: Measures of every system by round, with units.
_COMMON = {
    "control": "messages per live node and second",
    **packet_measures(("payload", "control")),
    **{
        f"publications.{count}": "deliveries"
        for count in ("expected", "in_time", "late", "lost", "duplicates")
    },
}


def system_measures(system: System) -> dict[str, str]:
    """Return all measures of a system in a world's rounds with units, except messages by kind."""
    own = {**_COMMON, **system.world_measures}
    named = {f"{system.name}.{name}": unit for name, unit in own.items()}
    named |= byte_units(system.name)
    return named | multicast_units(system.name, by_hops=system.may_go_by_hops)


@dataclass(frozen=True)
class LiveSystems:
    """The systems of a world, and the parameters of their measures.

    Attributes
    ----------
    systems : mapping of str to SystemOnBuckets
        The systems by name.
    link_stress : LinkStress
        The rounds in which link stress is measured.
    lan_us : int
        The delay of a node's LAN link, each way, in microseconds.
    rounds : int
        The number of rounds of the world.
    deadline : int
        The number of rounds after which an undelivered publication counts as lost.
    own : mapping of str to OwnRounds
        The own rounds of systems that set their length; the other systems have one round per round
        of the world.
    seconds : float
        The length of a round of the world in seconds.
    multicasts : MulticastMeasures
        The selected measures of each round's multicasts.
    limits : ndarray of int64, optional
        The user's limits of children, by node number.
    by_hops : frozenset of str
        The systems whose copies arrive by the clock of hops.
    links : RoundLinks, optional
        The links and sizes of publications, if these have a size.
    """

    systems: Mapping[str, SystemOnBuckets] = field(default_factory=dict)
    link_stress: LinkStress = field(default_factory=lambda: LinkStress(0, 0, 0))
    lan_us: int = 0
    rounds: int = 0
    deadline: int = 0
    own: Mapping[str, OwnRounds] = field(default_factory=dict)
    seconds: float = NOMINAL_SECONDS
    multicasts: MulticastMeasures = field(default_factory=MulticastMeasures)
    limits: np.ndarray | None = None
    by_hops: frozenset[str] = frozenset()
    links: RoundLinks | None = None

    def play(
        self,
        player: Player,
        number: int,
        events: Events,
        group_events: GroupEvents,
        groups: Groups,
        incarnation: np.ndarray,
    ) -> tuple[dict[str, float], pa.Table, pa.Table]:
        """Play a round of every system after Pastry's, on the player's tables.

        Parameters
        ----------
        incarnation : ndarray of int64, shape (K,)
            See `LivingRound`.

        Returns
        -------
        measures : dict of str to float
            Measures by name; names begin with the name of the system.
        publications : pyarrow.Table
            The outcomes of the publications that are due: `schemas.PUBLICATIONS`.
        by_part : pyarrow.Table
            Measures by class and region, if publications have a size: `schemas.ROUNDS_BY_PART`.
        """
        measures: dict[str, float] = {}
        split: list[dict[str, Any]] = []
        due: list[pa.Table] = []
        joins = _allowed(groups, "join", group_events.join)
        publishes = _allowed(groups, "multicast", group_events.publish)
        nodes = player.given.facts.ring.node
        capacity = None if self.limits is None else self.limits[nodes]
        for name, system in self.systems.items():
            is_measured = self.link_stress.is_measured(number) and not system.merged
            links = None if system.merged else self.links
            in_buckets = is_measured or links is not None
            tally = Tally((*system.payload, *system.control), in_buckets=in_buckets)
            now = LivingRound(
                number=number,
                rounds=self.rounds,
                ring=player.given.facts.ring,
                overlay=player.given.in_round,
                events=events,
                group=groups.number,
                key_hi=groups.keys.hi,
                key_lo=groups.keys.lo,
                join=joins,
                quit=group_events.quit,
                publish=publishes,
                kernel=player.given.kernel,
                lan_us=self.lan_us,
                seed=player.given.seed,
                deadline=self.deadline,
                tally=tally,
                incarnation=incarnation,
                own=self.own.get(name, OwnRounds()),
                measures=self.multicasts.names,
                source=self.multicasts.source,
                capacity=capacity,
                links=self.links,
            )
            of = {"payload": system.payload, "control": system.control} if is_measured else {}
            measure = partial(self._measure_multicasts, measures, split, name, system, player)
            done, packets, sent_bytes = _play(
                *(system, f"{name}{OF_SYSTEM}", player, now, of, measure),
                *(links, self.multicasts.parts),
            )
            sent = tally.by_kind()
            control = sum(sent.get(kind, 0) for kind in system.control)
            own: dict[str, float] = {**done.measures, **done.counts}
            own["control"] = control / len(player.lives.live()) / self.seconds
            own |= {f"messages.{kind}": float(count) for kind, count in sent.items()}
            own |= self.link_stress.measures(packets, of, player.lives.count_entered())
            own |= byte_measures(sent_bytes)
            split += byte_rows(sent_bytes, self.multicasts.parts, name)
            measures |= {f"{name}.{measure}": float(value) for measure, value in own.items()}
            sums = done.publications.by_group(groups.number)
            names = pa.repeat(pa.scalar(name), len(sums["round"]))
            due.append(pa.table({"round": sums.pop("round"), "system": names, **sums}))
        return measures, pa.concat_tables(due), part_table(number, split)

    def _measure_multicasts(
        self,
        measures: dict[str, float],
        split: list[dict[str, Any]],
        name: str,
        system: SystemOnBuckets,
        player: Player,
        done: SystemRound,
    ) -> None:
        """Add the measures of the multicasts of a system, those by class and region too."""
        if done.multicasts is None or not self.multicasts.names:
            return
        by_hops = name in self.by_hops
        of = SystemTables(name, done.multicasts, system.member_table, system.merged, by_hops)
        given, there = player.given, player.lives.count_entered()
        buckets = SystemPlayer(player.engine, given.facts, given.bounds, f"{name}{OF_SYSTEM}")
        self._play_clock(buckets, given, done)
        buckets.play(MeasureMulticasts(given, self.multicasts, of))
        taken = buckets.take(*MULTICASTS_MEASURED)
        measures.update(self.multicasts.measures(taken, of, there))
        split += self.multicasts.by_part(taken, name)

    def _play_clock(self, buckets: SystemPlayer, given: Environment, done: SystemRound) -> None:
        """Write the times of a round's deliveries by the clock with bandwidth, if there is one."""
        if self.links is None or done.multicasts is None:
            return
        begun = done.begun
        if begun is None:
            of, none = done.multicasts, np.zeros(len(done.multicasts), dtype=np.int64)
            begun = Begun(of.group, of.publication, of.start, of.start, none, none)
        if len(begun):
            of_copies = given.facts, given.bounds, given.kernel, begun, CARRIED, DELIVERED
            replay_round(buckets, self.links, *of_copies)


#: The kinds of messages that are counted on links under each name.
_Kinds = Mapping[str, tuple[str, ...]]


def _play(
    system: SystemOnBuckets,
    prefix: str,
    player: Player,
    now: LivingRound,
    of: _Kinds,
    measure: Callable[[SystemRound], None],
    links: RoundLinks | None,
    parts: tuple[NodeParts, ...],
) -> tuple[SystemRound, Counted, Counted]:
    """Play the own rounds of a system, and count packets on links and the bytes of nodes.

    Parameters
    ----------
    prefix : str
        The prefix of the names of the system's tables.
    measure : callable
        See `SystemOnBuckets.play_on`.
    links : RoundLinks, optional
        The links of publications that have a size; None counts no bytes.
    parts : tuple of NodeParts
        See `MeasureBytes`.
    """
    given = replace(player.given, observer=now.tally.observer)
    of_system = SystemPlayer(player.engine, given.facts, given.bounds, prefix, system.reads)
    done = system.play_on(of_system, now, measure)
    if links is not None:
        sizes = bytes_of_kinds(system.payload, system.control, links.size, links.control)
        of_system.play(MeasureBytes(given, sizes, parts, keeps_messages=bool(of)))
    if of:
        of_system.play(MeasureLinks(given, of, keeps_messages=False))
    names = LINKS_MEASURED, BYTES_MEASURED
    taken = of_system.take(*names) if of or links is not None else {}
    packets, sent = (Counted(taken.get(name, {})) for name in names)
    return done, packets, sent


def _allowed(groups: Groups, operation: str, pairs: Pairs) -> Pairs:
    group, node = pairs
    may = groups.allows(operation, group, node)
    return group[may], node[may]
