"""The state of a world: its buckets on a player, its nodes' lives, its groups and systems; one
orchestrator plays a round on every kind of player.

All systems receive the same events, and their messages and publications are counted in the same
way.  A system plays all of its own rounds that begin within the world's round; the first of them
has the round's events, joins, quits and publications.

References
----------
docs/rules.md, "Rounds", "Measures, by round".
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun, RoundLinks, time_round
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core.arrays import NONE, index_sorted, whole_numbers
from scribe_spark.core.errors import InputError
from scribe_spark.core.key_limits import refuse_groups_of_world
from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.engine import Columns, Program, losses, program
from scribe_spark.engine.facts import Keys, KnowsRing, Ring
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import Costs, OnSpark
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    SEEN,
    MeasureMulticasts,
    MulticastMeasures,
    SeeMulticasts,
    SystemTables,
)
from scribe_spark.pastry.round import LookupResults, begin_round, end_round, no_lookups
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.event_rows import (
    EVENT_NAMES,
    PUBLISH,
    TIMES,
    EventRows,
    Extent,
    first_bad_cell,
)
from scribe_spark.rounds.events import Events, ImpossibleRound, Lives, check_events, end_lives
from scribe_spark.rounds.group_events import (
    GroupEvents,
    Groups,
    RoundTimes,
    change_memberships,
    check_group_events,
)
from scribe_spark.rounds.player import Counted, Environment, Observer, RoundPlayer, Tally
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    OF_SYSTEM,
    LivingRound,
    Multicasts,
    OwnRounds,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
)
from scribe_spark.systems.reference_tree.live import LiveTree, find_live_tree, live_tree_measures
from scribe_spark.systems.registry import SCRIBE, find_system
from scribe_spark.systems.scribe.anycast import Anycast, Anycasts, play_anycasts
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds import save
from scribe_spark.worlds.round_measures import (
    BYTES_MEASURED,
    KINDS,
    LINKS_MEASURED,
    MEASURED,
    LinkStress,
    MeasureBytes,
    MeasureLinks,
    MeasureNodes,
    byte_measures,
    byte_rows,
    bytes_of_kinds,
    is_traffic,
    part_table,
    round_measures,
)

if TYPE_CHECKING:
    from scribe_spark.config import OverlayConfig, RoundsConfig

#: Returns the events of a round, by its number.
EventsOf = Callable[[int], Mapping[str, np.ndarray]]

#: The measures of control messages, and their beginnings; of systems that do not simulate these,
#: rounds have none.
_CONTROL = ("control", "control_bytes.", "link_stress.control.")

#: The same in the table `schemas.ROUNDS_BY_PART`.
_CONTROL_BYTES = "bytes.control_"

#: The tables of the measures that every system has.
_MEASURED = (*MULTICASTS_MEASURED, LINKS_MEASURED, BYTES_MEASURED)


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
    link_stress: LinkStress
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

    def groups(self, known: Ring) -> Groups:
        """Return the groups; `known` is all nodes of the world, sorted by nodeId."""
        groups, nodes = len(self.numbers), int(known.node.max()) + 1
        refuse_groups_of_world(groups, nodes, self.deadline, self.rounds)
        return Groups.of(self.numbers, Keys(self.key_hi, self.key_lo), known, self.lists)

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
        self._by_part: list[dict[str, Any]] = []
        self._tables = defaultdict[str, list[pa.Table]](list)

    def tables(self) -> dict[str, pa.Table]:
        """Return all tables of the round for users, by name."""
        if not self._tables:
            return {}
        together = {name: pa.concat_tables(rows) for name, rows in self._tables.items()}
        return {"by_part": part_table(self._now.number, self._by_part), **together}

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
            sizes = bytes_of_kinds(*of_kinds, live.links.size, live.links.control)
            keeps = self._is_by_links or (within and self._keeps_messages)
            programs.append(MeasureBytes(environment, sizes, live.multicasts.parts, keeps))
        if self._is_by_links and not within:
            programs.append(MeasureLinks(environment, kinds))
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
        of_bytes = Counted(taken.get(BYTES_MEASURED, {}))
        own: dict[str, float] = {
            **done.measures,
            **done.counts,
            **byte_measures(of_bytes),
        }
        own["control"] = control / len(lives.live()) / self._systems.seconds
        if not system.shares:
            own |= {f"messages.{kind}": float(count) for kind, count in sent.items()}
            if self._is_by_links and not system.merged:
                on_links = Counted(taken.get(LINKS_MEASURED, {}))
                own |= live.link_stress.measures(on_links, ("payload", "control"), there)
        of = self._tables_of(name, done)
        by_part = live.multicasts.by_part(taken, of)
        by_part += byte_rows(of_bytes, live.multicasts.parts, name)
        if not system.control:
            own = {measure: value for measure, value in own.items() if not _is_control(measure)}
            by_part = [row for row in by_part if not row["measure"].startswith(_CONTROL_BYTES)]
        self.measures |= {f"{name}.{measure}": float(value) for measure, value in own.items()}
        coverage: dict[str, pa.Table] = {}
        if done.multicasts is not None and live.multicasts.names:
            self.multicasts[name] = done.multicasts
            self.measures |= live.multicasts.measures(taken, of, there)
            if now.number == live.rounds - 1 and now.groups is not None:
                numbers = now.number, now.groups.number
                coverage = live.multicasts.coverage_tables(taken, of, *numbers)
        self._by_part += by_part
        sums = done.publications.by_group(now.group, now.number - live.deadline)
        named = pa.repeat(pa.scalar(name), len(sums["round"]))
        due = pa.table({"round": sums.pop("round"), "system": named, **sums})
        for table, rows in {"publications": due, **coverage, **done.tables}.items():
            self._tables[table].append(rows)


def split_events(
    number: int,
    events: Mapping[str, np.ndarray],
    known: Ring,
    groups: Groups | None,
    times: RoundTimes | None = None,
) -> tuple[Events, GroupEvents]:
    """Split events into node events and group events; `times` are those of a schedule.

    Events that are given in Python are unchecked: those of unknown nodes or groups are refused
    (`ImpossibleRound`).
    """
    code, node, group = (events[name] for name in ("event", "node", "group"))
    rows = EventRows(np.full(len(node), number), node, code, group)
    numbers = None if groups is None else groups.number
    bad = first_bad_cell(rows, None, Extent(len(known), number + 1, 0), numbers)
    if bad is not None:
        raise ImpossibleRound(number, bad)
    of_nodes = Events.of(known, node[rows.of_node], code[rows.of_node])
    if groups is None:
        return of_nodes, GroupEvents()
    own: tuple[np.ndarray, ...] = ()
    if times is not None:
        at_us, size = (events.get(name, np.full(len(node), NONE)) for name in TIMES)
        fault = times.first_fault(code == PUBLISH, at_us, size)
        if fault is not None:
            cells = f"round={number}, node={node[fault[0]]}, event={EVENT_NAMES[code[fault[0]]]}"
            raise ImpossibleRound(number, f"row {cells} {fault[1]}")
        own = times.timed(at_us, size)
    of_groups = GroupEvents.of(known, groups, node, code, group, *own)
    if times is not None and of_groups.schedule is not None:
        fault = times.too_many(of_groups.schedule)
        if fault is not None:
            named = groups.number[of_groups.schedule.group[fault[0]]]
            raise ImpossibleRound(number, f"group {named} has {fault[1]}")
        of_groups = of_groups.in_parts(times.parts)
    return of_nodes, of_groups


def _is_control(measure: str) -> bool:
    return measure == _CONTROL[0] or measure.startswith(_CONTROL[1:])


# --- the world


@dataclass(frozen=True)
class Protocols:
    """The protocols and parameters of a world's rounds, the same in each.

    `rules` are those of arrivals; `world` has the number of lookups per round, and the rules of
    detection, repair and maintenance; `systems` need a world with groups.  Without `has_pastry`
    nodes have no leaf sets and no routing tables, and no message of Pastry is sent.
    """

    rules: OverlayConfig
    world: RoundsConfig
    seed: int
    kernel: Kernel
    live_tree: LiveTree | None = None
    groups: LiveGroups | None = None
    systems: LiveSystems = field(default_factory=LiveSystems)
    has_pastry: bool = True

    def of_events(self, columns: Collection[str]) -> Protocols:
        """Return the protocols for events with these columns: perhaps times and sizes."""
        live = self.groups
        if live is None or not set(TIMES).isdisjoint(columns):
            return self
        return replace(self, groups=replace(live, times=None))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of messages of the nodes, and of the systems that play within their round."""
        within = (self.systems.systems[name] for name in self.systems.named(within=True))
        return MESSAGE_KINDS + tuple(kind for one in within for kind in one.payload + one.control)


@dataclass(frozen=True)
class Played:
    """The results of a round that are not tables of the buckets; `tables` are those for users.

    The run time in `seconds` of the first round of a job includes reading the state.  `costs`
    (supersteps, messages and bytes) are known if each superstep is a job.
    """

    measures: dict[str, float]
    lookups: LookupResults = field(default_factory=no_lookups)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    multicasts: dict[str, Multicasts] = field(default_factory=dict)
    seconds: float = 0.0
    costs: Costs | None = None


class WorldState:
    """The nodes of a world on a player, with their groups.

    `incarnation` is the round of each node's last arrival or recovery; rounds change it.
    """

    def __init__(self, player: RoundPlayer, protocols: Protocols, incarnation: np.ndarray) -> None:
        self.player, self._protocols, self._incarnation = player, protocols, incarnation
        self._groups = None if protocols.groups is None else protocols.groups.groups(self.ring)
        # as jobs, another superstep would take longer than most measures
        self._measured: dict[str, tuple[bytes, dict[str, Columns]]] | None = (
            {} if isinstance(player.engine, InTask) else None
        )

    @classmethod
    def of_engine(
        cls, engine: InTask | OnSpark, facts: KnowsRing, bounds: np.ndarray, protocols: Protocols
    ) -> WorldState:
        """Return the world whose saved tables an engine holds."""
        taken = engine.take(save.HEADER, save.LIVES, save.INCARNATIONS)
        lives = Lives(**{name: np.array(column) for name, column in taken[save.LIVES].items()})
        observer = Observer(protocols.kinds)
        environment = Environment(
            *(facts, bounds, protocols.rules, protocols.kernel, observer),
            seed=protocols.seed,
            world=protocols.world,
        )
        player = RoundPlayer(engine, environment, lives)
        return cls(player, protocols, np.array(taken[save.INCARNATIONS]["round"]))

    @property
    def ring(self) -> Ring:
        """The ring of all nodes: those that lived, live, or will arrive."""
        return self.player.environment.facts.ring

    def play_rounds(
        self,
        rounds: range,
        events: EventsOf,
        started: float,
        keeps_messages: bool = False,
    ) -> Iterator[tuple[int, Played]]:
        """Yield the number and the results of rounds, up to one that is impossible.

        The first round is measured from `started` (`time.monotonic`), and refused if it is
        impossible; ``events(number)`` returns the events of a round.
        """
        for number in rounds:
            try:
                done = self.play(number, events(number), keeps_messages)
            except ImpossibleRound as impossible:  # raised before anything is played
                if number == rounds[0]:
                    words = f"cannot be played: {impossible.what}"
                    raise InputError("round", number, words) from None
                return
            measures = {name: float(value) for name, value in done.measures.items()}
            yield number, replace(done, measures=measures, seconds=time.monotonic() - started)
            started = time.monotonic()

    def play(
        self, number: int, events: Mapping[str, np.ndarray], keeps_messages: bool = False
    ) -> Played:
        """Play a round; nothing is played if an event (``node, event, group``) is impossible.

        With `keeps_messages`, senders and receivers of all messages stay in the buckets until the
        next round.
        """
        player, tree, live = self.player, self._protocols.live_tree, self._protocols.groups
        player.begin_round(number)
        player.forget(is_traffic)
        if tree is not None:
            find_live_tree(tree, player)
        times = None if live is None else live.times
        of_nodes, of_groups = split_events(number, events, self.ring, self._groups, times)
        check_events(player.lives, self.ring, number, of_nodes)
        if live is None:
            player.observe(traffic=keeps_messages)
            self._begin(number, of_nodes)
            measures, lookups = self._end(number, of_nodes, Tally(MESSAGE_KINDS))
            done = Played(measures, lookups)
        else:
            done = self._play_groups(live, number, of_nodes, of_groups, keeps_messages)
        if tree is not None:
            done.measures.update(live_tree_measures(tree, player))
        return done

    def _play_groups(
        self,
        live: LiveGroups,
        number: int,
        of_nodes: Events,
        of_groups: GroupEvents,
        keeps_messages: bool,
    ) -> Played:
        """Play round `number` of a world with groups: the events, the nodes, and each system."""
        player, groups, systems = self.player, self._groups, self._protocols.systems
        assert groups is not None
        # 1. events; impossible ones are refused before anything is played
        check_group_events(player, number, groups, of_nodes, of_groups)
        changes = change_memberships(player, groups, of_nodes, of_groups)
        is_within = bool(systems.named(within=True))
        by_links = is_within and live.link_stress.is_measured(number)
        player.observe(traffic=keeps_messages or by_links)
        self._begin(number, of_nodes, changes)
        # 2. the systems whose messages travel by Pastry, then the lookups
        player.observe(traffic=keeps_messages or (is_within and live.records_messages(number)))
        tally, now = Tally(self._protocols.kinds), self._round(live, number, of_nodes, of_groups)
        played = SystemsInRound(systems, live, player, now, tally, keeps_messages, self._measured)
        played.play_systems(within=True)
        player.observe(traffic=keeps_messages or by_links)
        stress = MeasureLinks(player.environment, KINDS, keeps_messages)
        measures, lookups = self._end(number, of_nodes, tally, [stress] if by_links else [])
        # 3. the other systems
        played.play_systems(within=False)
        return Played(measures | played.measures, lookups, played.tables(), played.multicasts)

    def _round(
        self, live: LiveGroups, number: int, of_nodes: Events, of_groups: GroupEvents
    ) -> LivingRound:
        """Return round `number`, with the events of nodes and of groups, for the systems."""
        environment, groups, limits = (
            self.player.environment,
            self._groups,
            self._protocols.systems.limits,
        )
        assert groups is not None
        publish = of_groups.published(0 if live.links is None else live.links.size)
        may_join = groups.allows("join", *of_groups.join)
        return LivingRound(
            number=number,
            rounds=live.rounds,
            ring=self.ring,
            overlay=environment.in_round,
            events=of_nodes,
            group=groups.number,
            key_hi=groups.keys.hi,
            key_lo=groups.keys.lo,
            join=(of_groups.join[0][may_join], of_groups.join[1][may_join]),
            quit=of_groups.quit,
            publish=publish.take(groups.allows("multicast", publish.group, publish.node)),
            kernel=environment.kernel,
            lan_us=live.multicasts.lan_us,
            seed=environment.seed,
            deadline=live.deadline,
            tally=Tally(()),
            incarnation=self._incarnation,
            measures=live.multicasts.names,
            source=live.multicasts.source,
            capacity=None if limits is None else limits[self.ring.node],
            links=live.links,
            scheduled=live.scheduled,
            groups=groups,
            group_events=of_groups,
            watched=index_sorted(groups.number, live.watched),
            environment=environment,
            routers=live.link_stress.routers,
        )

    def anycast(
        self,
        number: int,
        messages: pa.Table,
        application: Callable[[int], ScribeApplication] | None,
    ) -> pa.Table:
        """Send anycasts through the trees that the round `number` left; see `World.anycast`."""
        live, groups, systems = self._protocols.groups, self._groups, self._protocols.systems
        scribe, environment = systems.systems[SCRIBE], self.player.environment
        assert isinstance(scribe, LiveScribe)
        assert live is not None
        assert groups is not None
        tables = f"{SCRIBE}{OF_SYSTEM}", scribe.reads, scribe.shares
        player = SystemPlayer(self.player.engine, environment.facts, environment.bounds, *tables)
        round = scribe.between_rounds(number, groups, live.multicasts.lan_us, application)
        of = Anycasts.of(messages, groups, self.ring)
        found = play_anycasts(player, Anycast(environment, round, of))
        return found.table(of, groups, self.ring)

    # --- the round of the nodes

    def _begin(self, number: int, events: Events, before: Sequence[Program] = ()) -> None:
        """Play the events of nodes, the programs `before` and, with Pastry, its repairs."""
        player = self.player
        if self._protocols.has_pastry:
            begin_round(player, number, events, before)
        else:
            end_lives(player.lives, number, events, player.environment.world_rules.detection)
            player.lives.enter(events.recover)
            player.lives.enter(events.arrive)
            for program in before:
                player.play(program)
        self._incarnation[events.entering] = number

    def _end(
        self, number: int, events: Events, tally: Tally, stress: Sequence[Program] = ()
    ) -> tuple[dict[str, float], LookupResults]:
        """Make the lookups, and measure, also by the programs `stress`; return the results."""
        player, live = self.player, len(self.player.lives.live())
        if not self._protocols.has_pastry:
            return {"nodes.live": float(live)}, no_lookups()
        programs = [MeasureNodes(player.environment, number), *stress]
        lookups, tables = (
            self._protocols.world.lookups,
            (MEASURED, LINKS_MEASURED),
        )
        result, taken = end_round(player, number, events, lookups, tally, programs, tables)
        measures = round_measures(live, result, taken[MEASURED])
        if stress:
            assert self._protocols.groups is not None
            of, there = self._protocols.groups.link_stress, player.lives.count_entered()
            measures |= of.measures(Counted(taken.get(LINKS_MEASURED, {})), KINDS, there)
        return measures, result.lookups

    # --- the tables of a save

    def tables(self, number: int, bucket: int) -> dict[str, Columns]:
        """Return a bucket's tables of a save before round `number` that the player lacks."""
        bounds, lives = self.player.environment.bounds, self.player.lives
        return save.lives_tables(bounds, bucket, lives, self._incarnation, number)

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """Return the tables of :meth:`tables` of all buckets, as rows of the schema `ROWS`."""
        bounds, lives = self.player.environment.bounds, self.player.lives
        return save.lives_rows(bounds, lives, self._incarnation, number)
