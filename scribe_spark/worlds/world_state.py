"""The state of a world: its buckets on a player, and the lives of its nodes; one orchestrator plays
a round on every kind of player.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from scribe_spark.core.errors import InputError
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.facts import KnowsRing, Ring
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import Costs
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.pastry.round import LookupResults, begin_round, end_round, no_lookups
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.event_rows import TIMES
from scribe_spark.rounds.events import Events, ImpossibleRound, Lives, check_events, end_lives
from scribe_spark.rounds.group_events import change_memberships, check_group_events
from scribe_spark.rounds.player import Counted, Environment, Observer, RoundPlayer, Tally
from scribe_spark.rounds.system import Multicasts, SystemPlayer
from scribe_spark.systems.reference_tree.live import LiveTree, find_live_tree, live_tree_measures
from scribe_spark.systems.registry import SCRIBE
from scribe_spark.systems.scribe.anycast import Anycast, Anycasts, play_anycasts
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds import live_systems, save
from scribe_spark.worlds.round_measures import (
    KINDS,
    LINKS_MEASURED,
    MEASURED,
    MeasureLinks,
    MeasureNodes,
    is_traffic,
    round_measures,
)

if TYPE_CHECKING:
    from scribe_spark.config import OverlayConfig, RoundsConfig


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
    groups: live_systems.LiveGroups | None = None
    systems: live_systems.LiveSystems = field(default_factory=live_systems.LiveSystems)
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
        return MESSAGE_KINDS + self.systems.kinds_within()


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
        events: Callable[[int], Mapping[str, np.ndarray]],
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
        if live is None:
            of_nodes = Events.of(self.ring, events["node"], events["event"])
            check_events(player.lives, self.ring, number, of_nodes)
            player.observe(traffic=keeps_messages)
            self._begin(number, of_nodes)
            measures, lookups = self._end(number, of_nodes, Tally(MESSAGE_KINDS))
            done = Played(measures, lookups)
        else:
            done = self._play_groups(live, number, events, keeps_messages)
        if tree is not None:
            done.measures.update(live_tree_measures(tree, player))
        return done

    def _play_groups(
        self,
        live: live_systems.LiveGroups,
        number: int,
        events: Mapping[str, np.ndarray],
        keeps_messages: bool,
    ) -> Played:
        """Play round `number` of a world with groups: the events, the nodes, and each system."""
        player, groups, systems = self.player, self._groups, self._protocols.systems
        assert groups is not None
        of_nodes, of_groups = live_systems.split_events(
            number, events, self.ring, groups, live.times
        )
        # 1. events; impossible ones are refused before anything is played
        check_events(player.lives, self.ring, number, of_nodes)
        check_group_events(player, number, groups, of_nodes, of_groups)
        changes = change_memberships(player, groups, of_nodes, of_groups)
        is_within = bool(systems.named(within=True))
        by_links = is_within and live.link_stress.is_measured(number)
        player.observe(traffic=keeps_messages or by_links)
        self._begin(number, of_nodes, changes)
        # 2. the systems whose messages travel by Pastry, then the lookups
        player.observe(traffic=keeps_messages or (is_within and live.records_messages(number)))
        tally, events_of = Tally(self._protocols.kinds), (of_nodes, of_groups)
        now = live_systems.round_of_systems(
            *(systems, live, player.environment, number, events_of, groups, self._incarnation)
        )
        played = live_systems.SystemsInRound(
            systems, live, player, now, tally, keeps_messages, self._measured
        )
        played.play_systems(within=True)
        player.observe(traffic=keeps_messages or by_links)
        stress = MeasureLinks(player.environment, KINDS, keeps_messages)
        measures, lookups = self._end(number, of_nodes, tally, [stress] if by_links else [])
        # 3. the other systems
        played.play_systems(within=False)
        return Played(measures | played.measures, lookups, played.tables(), played.multicasts)

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
        tables = f"{SCRIBE}{live_systems.OF_SYSTEM}", scribe.reads, scribe.shares
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
