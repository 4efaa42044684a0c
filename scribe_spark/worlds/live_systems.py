"""The groups and the systems of a world, played round by round on the buckets.

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
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun, RoundLinks, time_round
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core.arrays import NONE, index_sorted, whole_numbers, without
from scribe_spark.core.key_limits import refuse_groups_of_world
from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.engine import Columns, Program, facts, losses, program
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    SEEN,
    MeasureMulticasts,
    MulticastMeasures,
    SeeMulticasts,
    SystemTables,
)
from scribe_spark.rounds import event_rows
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.events import Events, ImpossibleRound
from scribe_spark.rounds.group_events import GroupEvents, Groups, RoundTimes
from scribe_spark.rounds.player import Counted, Environment, RoundPlayer, Tally
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    OwnRounds,
    Pairs,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
)
from scribe_spark.systems.registry import find_system
from scribe_spark.worlds import traffic

#: The separator between the name of a system and the name of one of its tables.
OF_SYSTEM = "/"

#: The measures of control messages, and their beginnings; of systems that do not simulate these,
#: rounds have none.
_CONTROL = ("control", "control_bytes.", "link_stress.control.")

#: The same in the table `schemas.ROUNDS_BY_PART`.
_CONTROL_BYTES = "bytes.control_"

#: The tables of the measures that every system has.
_MEASURED = (*MULTICASTS_MEASURED, traffic.LINKS_MEASURED, traffic.BYTES_MEASURED)


@dataclass(frozen=True)
class LiveGroups:
    """The groups of a world, and the measures of their publications, for every system.

    The groups have `numbers` (G,) and groupIds (the halves are uint64), and access `lists` (see
    `Groups.of`).  `rounds` is the number of rounds of the world; a publication that is not
    delivered after `deadline` rounds is lost.  The trees of the groups `watched`, by number, are
    recorded.  With `times`, there is a schedule: publications have times and sizes of their own,
    and all of them are measured.
    """

    numbers: np.ndarray
    key_hi: np.ndarray
    key_lo: np.ndarray
    lists: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    deadline: int
    rounds: int
    link_stress: traffic.LinkStress
    multicasts: MulticastMeasures = field(default_factory=MulticastMeasures)
    watched: np.ndarray = field(default_factory=whole_numbers)
    times: RoundTimes | None = None

    @property
    def scheduled(self) -> bool:
        """True if publications have times and sizes of their own."""
        return self.times is not None

    @property
    def links(self) -> RoundLinks | None:
        """The links of nodes, if publications have a size."""
        return self.multicasts.links

    def groups(self, known: facts.Ring) -> Groups:
        """Return the groups; `known` is all nodes of the world, sorted by nodeId."""
        groups, nodes = len(self.numbers), int(known.node.max()) + 1
        refuse_groups_of_world(groups, nodes, self.deadline, self.rounds)
        return Groups.of(self.numbers, facts.Keys(self.key_hi, self.key_lo), known, self.lists)

    @property
    def has_bytes(self) -> bool:
        """True if the bytes of messages are measured."""
        return "bytes" in self.multicasts.names

    def records_messages(self, number: int) -> bool:
        """Return True if senders and receivers of a round's messages are recorded for measures."""
        return self.has_bytes or self.link_stress.is_measured(number)


@dataclass(frozen=True)
class LiveSystems:
    """The systems of a world, by name; what they have in common is in `LiveGroups`.

    `own` has the own rounds of systems that set their length; the others have one round per round
    of the world, which lasts `seconds`. `limits` are the user's limits of children, by node number;
    the copies of the systems `by_hops` arrive by the clock of hops.  ``application(nodes)`` returns
    the user's application.
    """

    systems: Mapping[str, SystemOnBuckets] = field(default_factory=dict)
    own: Mapping[str, OwnRounds] = field(default_factory=dict)
    seconds: float = NOMINAL_SECONDS
    limits: np.ndarray | None = None
    by_hops: frozenset[str] = frozenset()
    application: Callable[[int], Any] | None = None

    def named(self, *, within: bool) -> tuple[str, ...]:
        """Return the systems that play within Pastry's round (`within`), or all other systems.

        A system plays within Pastry's round, as Scribe does, if it shares tables of the nodes.
        """
        return tuple(name for name, one in self.systems.items() if bool(one.shares) == within)

    def kinds_within(self) -> tuple[str, ...]:
        """Return the kinds of messages of the systems that play within Pastry's round (`named`)."""
        within = [self.systems[name] for name in self.named(within=True)]
        return tuple(kind for one in within for kind in (*one.payload, *one.control))

    def own_rounds(self, name: str) -> OwnRounds:
        """Return the own rounds of a system."""
        return self.own.get(name, OwnRounds(*[round(self.seconds * 1_000_000)] * 2))

    def tables(self, name: str, multicasts: Multicasts, parts: Parts) -> SystemTables:
        """Return the access of measures to a system's publications, or to their parts.

        The packets of a baseline are counted for the publications of another system only if the
        world does not play the baseline itself.
        """
        system = self.systems[name]
        beside = tuple(one for one in system.beside if one not in self.systems)
        return SystemTables(name, system, multicasts, name in self.by_hops, beside, parts)


class SystemsInRound:
    """The systems of a world in a round, whose events of nodes have been played.

    `tally` counts the messages of the nodes, and of the systems that play within their round.
    `remembered` has the digest (`SeeMulticasts`) and the measured tables of each system's last
    measured round; None: tables are measured in each round.  `measures` and `multicasts` are those
    of the systems that have played.
    """

    def __init__(
        self,
        systems: LiveSystems,
        live: LiveGroups,
        player: RoundPlayer,
        now: LivingRound,
        tally: Tally,
        keeps_messages: bool,
        remembered: dict[str, tuple[bytes, dict[str, Columns]]] | None = None,
    ) -> None:
        self._remembered = remembered
        self._systems, self._live, self._player, self._now = systems, live, player, now
        self._tally, self._keeps_messages = tally, keeps_messages
        self._is_by_links = live.link_stress.is_measured(now.number)
        self.measures: dict[str, float] = {}
        self.multicasts: dict[str, Multicasts] = {}
        self._publications: list[pa.Table] = []
        self._by_part: list[dict[str, Any]] = []
        self._tables: dict[str, pa.Table] = {}
        self._coverage: list[dict[str, pa.Table]] = []

    def tables(self) -> dict[str, pa.Table]:
        """Return all tables of the round for users, by name."""
        if not self._publications:
            return {}
        publications = pa.concat_tables(self._publications)
        by_part = traffic.part_table(self._now.number, self._by_part)
        coverage = {
            name: pa.concat_tables([tables[name] for tables in self._coverage])
            for name in (self._coverage[0] if self._coverage else ())
        }
        return {"publications": publications, "by_part": by_part, **coverage, **self._tables}

    def play_systems(self, *, within: bool) -> None:
        """Play the systems that play `within` the round of the nodes, or all others."""
        for name in self._systems.named(within=within):
            self._play(name, self._systems.systems[name], within)

    def _play(self, name: str, system: SystemOnBuckets, within: bool) -> None:
        live, now, tally, environment = self._live, self._now, self._tally, self._player.environment
        if not within:
            in_buckets = live.records_messages(now.number) and not system.merged
            kinds = *system.payload, *system.control
            tally = Tally(kinds, recorded=kinds if in_buckets else ())
            environment = replace(environment, observer=tally.observer)
        make = self._systems.application
        told = None if make is None else Applications(make, len(now.ring), name)
        now = replace(now, tally=tally, own=self._systems.own_rounds(name), applications=told)
        tables = f"{name}{OF_SYSTEM}", system.reads, system.shares
        buckets = SystemPlayer(self._player.engine, environment.facts, environment.bounds, *tables)
        taken: dict[str, Columns] = {}

        def measure(done: SystemRound) -> None:
            multicasts = self._measure_multicasts(name, environment, buckets, done)
            programs = self._measure_messages(system, environment)
            seen = None if multicasts is None else self._digest(buckets, multicasts)
            before, known = (self._remembered or {}).get(name, (None, {}))
            if seen is not None and seen == before:
                taken.update(known)
            elif multicasts is not None:
                programs.insert(0, multicasts)
            if programs:
                buckets.play(program.Together(tuple(programs)))
                taken.update(buckets.take(*_MEASURED))
            if seen is not None and self._remembered is not None:
                measured = {one: taken[one] for one in MULTICASTS_MEASURED if one in taken}
                self._remembered[name] = seen, measured

        done = system.play_on(buckets, now, measure)
        self._add(name, system, done, tally, taken)

    def _digest(self, buckets: SystemPlayer, measure: MeasureMulticasts) -> bytes | None:
        """Return the digest of the tables that are measured; None if results cannot be reused."""
        if self._remembered is None or self._live.scheduled or self._live.links is not None:
            return None
        buckets.play(SeeMulticasts(measure.environment, measure.of))
        return bytes(buckets.take(SEEN)[SEEN]["byte"])

    def _measure_multicasts(
        self, name: str, environment: Environment, buckets: SystemPlayer, done: SystemRound
    ) -> MeasureMulticasts | None:
        """Set the times of a system's multicasts; return the program that measures them."""
        live, system = self._live, self._systems.systems[name]
        if done.multicasts is None or not live.multicasts.names:
            return None
        begun = done.without_times(system.merged)
        if live.scheduled:
            begun = begun.with_times(self._now.publish.at_us, self._now.publish.size)
        self._set_times(buckets, environment, begun, system.merged)
        return MeasureMulticasts(environment, live.multicasts, self._tables_of(name, done))

    def _tables_of(self, name: str, done: SystemRound) -> SystemTables:
        """Return the access of measures to a system's publications, which may go down trees."""
        parts, now = self._live.multicasts.message_parts, self._now
        of = self._systems.tables(name, done.multicasts or Multicasts(), parts)
        declared = find_system(name)
        if not now.scheduled or parts.sent > 1 or declared is None or not declared.several_trees:
            return of
        tree = of.system.trees_of(now.number, now.publish.group, now.publish.node)
        return replace(of, tree=tree[of.multicasts.number])

    def _set_times(
        self, player: SystemPlayer, environment: Environment, begun: Begun, merged: bool
    ) -> None:
        """Let the clock set the times of the deliveries of publications, if links have rates."""
        live, kernel = self._live, environment.kernel
        if live.links is None:
            return
        name = live.numbers[begun.group], begun.publication, self._now.number
        late = losses.late_copies(environment.facts, kernel, kernel.seed, *name)
        network = environment.facts, environment.bounds, kernel
        time_round(player, live.links, *network, begun, (CARRIED, DELIVERED), merged, late=late)

    def _measure_messages(self, system: SystemOnBuckets, environment: Environment) -> list[Program]:
        """Return the programs that measure the bytes of a system's messages, and their packets."""
        live, within, programs = self._live, bool(system.shares), list[Program]()
        if system.merged:  # routers duplicate packets, so no message is counted on links
            return programs
        kinds = {"payload": system.payload, "control": system.control}
        if live.links is not None and live.has_bytes:
            of_kinds = system.payload, system.control
            sizes = traffic.bytes_of_kinds(*of_kinds, live.links.size, live.links.control)
            keeps = self._is_by_links or (within and self._keeps_messages)
            programs.append(traffic.MeasureBytes(environment, sizes, live.multicasts.parts, keeps))
        if self._is_by_links and not within:
            programs.append(traffic.MeasureLinks(environment, kinds))
        return programs

    def _add(
        self,
        name: str,
        system: SystemOnBuckets,
        done: SystemRound,
        tally: Tally,
        taken: Mapping[str, Columns],
    ) -> None:
        """Add the measures and tables of a system, also those `taken` from the buckets."""
        live, lives, now = self._live, self._player.lives, self._now
        there, sent = lives.count_entered(), tally.by_kind()
        control = sum(sent.get(kind, 0) for kind in system.control)
        of_bytes = Counted(taken.get(traffic.BYTES_MEASURED, {}))
        own: dict[str, float] = {**done.measures, **done.counts, **traffic.byte_measures(of_bytes)}
        own["control"] = control / len(lives.live()) / self._systems.seconds
        if not system.shares:
            own |= {f"messages.{kind}": float(count) for kind, count in sent.items()}
            if self._is_by_links and not system.merged:
                on_links = Counted(taken.get(traffic.LINKS_MEASURED, {}))
                own |= live.link_stress.measures(on_links, ("payload", "control"), there)
        of = self._tables_of(name, done)
        by_part = live.multicasts.by_part(taken, of)
        by_part += traffic.byte_rows(of_bytes, live.multicasts.parts, name)
        if not system.control:
            own = {measure: value for measure, value in own.items() if not _is_control(measure)}
            by_part = [row for row in by_part if not row["measure"].startswith(_CONTROL_BYTES)]
        self.measures |= {f"{name}.{measure}": float(value) for measure, value in own.items()}
        if done.multicasts is not None and live.multicasts.names:
            self.multicasts[name] = done.multicasts
            self.measures |= live.multicasts.measures(taken, of, there)
            if now.number == live.rounds - 1 and now.groups is not None:
                numbers = now.number, now.groups.number
                self._coverage.append(live.multicasts.coverage_tables(taken, of, *numbers))
        self._by_part += by_part
        sums = done.publications.by_group(now.group, now.number - live.deadline)
        named = pa.repeat(pa.scalar(name), len(sums["round"]))
        due = pa.table({"round": sums.pop("round"), "system": named, **sums})
        self._publications.append(due)
        self._tables |= done.tables


def round_of_systems(
    systems: LiveSystems,
    live: LiveGroups,
    environment: Environment,
    number: int,
    events: tuple[Events, GroupEvents],
    groups: Groups,
    incarnation: np.ndarray,
) -> LivingRound:
    """Return round `number`, with the events of nodes and of groups, for a world's systems."""
    of_nodes, of_groups = events
    ring = environment.facts.ring
    publish = of_groups.published(0 if live.links is None else live.links.size)
    return LivingRound(
        number=number,
        rounds=live.rounds,
        ring=ring,
        overlay=environment.in_round,
        events=of_nodes,
        group=groups.number,
        key_hi=groups.keys.hi,
        key_lo=groups.keys.lo,
        join=_allowed(groups, "join", of_groups.join),
        quit=of_groups.quit,
        publish=publish.take(groups.allows("multicast", publish.group, publish.node)),
        kernel=environment.kernel,
        lan_us=live.multicasts.lan_us,
        seed=environment.seed,
        deadline=live.deadline,
        tally=Tally(()),
        incarnation=incarnation,
        measures=live.multicasts.names,
        source=live.multicasts.source,
        capacity=None if systems.limits is None else systems.limits[ring.node],
        links=live.links,
        scheduled=live.scheduled,
        groups=groups,
        group_events=of_groups,
        watched=index_sorted(groups.number, live.watched),
        environment=environment,
        routers=live.link_stress.routers,
    )


def split_events(
    number: int,
    events: Mapping[str, np.ndarray],
    known: facts.Ring,
    groups: Groups,
    times: RoundTimes | None = None,
) -> tuple[Events, GroupEvents]:
    """Split events into node events and group events; `times` are those of a schedule.

    Events that are given in Python are unchecked: those of unknown nodes or groups are refused
    (`ImpossibleRound`).
    """
    node, event, group = (events[name] for name in ("node", "event", "group"))
    of_node = np.isin(event, event_rows.EVENT_NAMES[: event_rows.NODE_EVENTS])
    unknown = without(node, known.node), without(group[~of_node], groups.number)
    if not any(map(len, unknown)):
        of_nodes = Events.of(known, node[of_node], event[of_node])
        rest = node[~of_node], event[~of_node], group[~of_node]
        if np.isin(rest[1], event_rows.EVENT_NAMES[event_rows.NODE_EVENTS :]).all():
            own = () if times is None else _times_of(number, events, times, ~of_node)
            of_groups = GroupEvents.of(known, groups, *rest, *own)
            if times is not None and of_groups.schedule is not None:
                fault = times.too_many(of_groups.schedule)
                if fault is not None:
                    group = groups.number[of_groups.schedule.group[fault[0]]]
                    raise ImpossibleRound(number, f"group {group} has {fault[1]}")
                of_groups = of_groups.in_parts(times.parts)
            return of_nodes, of_groups
    rows = event_rows.EventRows(
        np.full(len(node), number), node, event_rows.event_codes(event), group
    )
    what = event_rows.first_bad_cell(
        rows, event, event_rows.Extent(len(known), number + 1, 0), groups.number
    )
    assert what is not None
    raise ImpossibleRound(number, what)


def _times_of(
    number: int, events: Mapping[str, np.ndarray], times: RoundTimes, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return times (us) and sizes (bytes) of the events in `mask`; refuse impossible ones."""
    at_us, size = (
        events[name] if name in events else np.full(len(mask), NONE, dtype=np.int64)
        for name in event_rows.TIMES
    )
    publishes = events["event"] == event_rows.EVENT_NAMES[event_rows.PUBLISH]
    fault = times.first_fault(publishes, at_us, size)
    if fault is not None:
        row, words = fault
        cells = f"round={number}, node={events['node'][row]}, event={events['event'][row]}"
        raise ImpossibleRound(number, f"row {cells} {words}")
    return times.timed(at_us[mask], size[mask])


def _is_control(measure: str) -> bool:
    return measure == _CONTROL[0] or measure.startswith(_CONTROL[1:])


def _allowed(groups: Groups, operation: str, pairs: Pairs) -> Pairs:
    group, node = pairs
    may = groups.allows(operation, group, node)
    return group[may], node[may]
