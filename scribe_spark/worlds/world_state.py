"""A world between two rounds: the tables of its buckets on a player, and the lives of its nodes.

One orchestrator plays a round on every kind of player: :meth:`WorldState.play`.

References
----------
JSAC 2002, Sections II and III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine import Columns
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark_player import OnSpark, SharedInFiles
from scribe_spark.engine.program import Forget
from scribe_spark.engine.ring import Ring
from scribe_spark.errors import InputError
from scribe_spark.pastry.kinds import MESSAGE_KINDS
from scribe_spark.pastry.lookups import no_lookups
from scribe_spark.pastry.round import RoundResult, play_round, see_round
from scribe_spark.reference_tree.live import LiveTree, find_live_tree, live_tree_measures
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.events import Events, ImpossibleRound, check_events, end_lives
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.lives import Lives
from scribe_spark.rounds.memberships import check_memberships, keep_memberships
from scribe_spark.rounds.observer import TRAFFIC, Observer
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.rounds.tally import Tally
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.events import PlayEvents
from scribe_spark.scribe.program import RoundOfGroups
from scribe_spark.scribe.rejoin import EXTRA_JOINS
from scribe_spark.scribe.round import COUNTS, play_groups
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.scribe.state import table_of
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.group_measures import control_messages
from scribe_spark.worlds.live_groups import LiveGroups, split_events
from scribe_spark.worlds.live_scribe import MEASURE_TABLES, LiveScribe
from scribe_spark.worlds.live_systems import LiveSystems
from scribe_spark.worlds.played import EventsByRound, Played
from scribe_spark.worlds.round_measures import MEASURED, MeasureNodes, round_measures
from scribe_spark.worlds.save import HEADER, INCARNATIONS, LIVES, lives_rows, lives_tables
from scribe_spark.worlds.watched_trees import TREES_SEEN, SeeTrees, Tree, trees_of

if TYPE_CHECKING:
    from scribe_spark.config import OverlayConfig, RoundsConfig


@dataclass(frozen=True)
class Protocols:
    """The protocols and parameters of a world's rounds, the same in each.

    `rules` are those of arrivals; `world` has the number of lookups per round, and the rules of
    detection, repair and maintenance; `scribe` and `systems` need a world with groups.  Without
    `has_pastry` nodes have no leaf sets and no routing tables, and no message of Pastry is sent.
    """

    rules: OverlayConfig
    world: RoundsConfig
    seed: int
    kernel: Kernel
    live_tree: LiveTree | None = None
    groups: LiveGroups | None = None
    systems: LiveSystems = field(default_factory=LiveSystems)
    scribe: LiveScribe | None = None
    has_pastry: bool = True


def kinds_of(protocols: Protocols) -> tuple[str, ...]:
    """Return the kinds of messages that are counted in a world."""
    return MESSAGE_KINDS if protocols.scribe is None else MESSAGE_KINDS + SCRIBE_KINDS


@dataclass(frozen=True)
class PlayedRound:
    """The results of a round except the tables of the buckets.

    `result` has messages and lookups; `tables` are `LEFT_BY_ROUNDS` and
    ``publications_of_systems``, in a world with groups; `outcomes` is the table `OUTCOMES` of all
    buckets: the round's publications with their fates.
    """

    result: RoundResult
    measures: dict[str, float]
    tables: dict[str, pa.Table] = field(default_factory=dict)
    outcomes: Columns = field(default_factory=dict)


class WorldState:
    """The nodes of a world on a player, with their groups.

    `incarnation` is the round of each node's last arrival or recovery; rounds change it.
    """

    def __init__(self, player: RoundPlayer, protocols: Protocols, incarnation: np.ndarray) -> None:
        self.player, self._protocols, self._incarnation = player, protocols, incarnation
        self._groups = None if protocols.groups is None else protocols.groups.groups(self.ring)
        self._before: Mapping[int, Tree] | None = None
        self._shared: SharedInFiles | None = None

    @classmethod
    def of_engine(
        cls, engine: InTask | OnSpark, facts: KnowsRing, bounds: np.ndarray, protocols: Protocols
    ) -> WorldState:
        """Return the world whose saved tables an engine holds."""
        taken = engine.take(HEADER, LIVES, INCARNATIONS)
        lives = Lives(**{name: np.array(column) for name, column in taken[LIVES].items()})
        observer = Observer(kinds_of(protocols))
        given = Environment(
            *(facts, bounds, protocols.rules, protocols.kernel, observer),
            seed=protocols.seed,
            world=protocols.world,
        )
        player = RoundPlayer(engine, given, lives)
        return cls(player, protocols, np.array(taken[INCARNATIONS]["round"]))

    @property
    def ring(self) -> Ring:
        """All nodes: past, present and future ones."""
        return self.player.given.facts.ring

    def play_rounds(
        self,
        rounds: range,
        events: EventsByRound,
        started: float,
        keeps_messages: bool = False,
        memberships: Callable[[int], DataFrame | None] | None = None,
    ) -> Iterator[tuple[int, PlayedRound, Played]]:
        """Yield the number and the results of rounds, up to one that is impossible.

        The first round is measured from `started` (`time.monotonic`), and refused if it is
        impossible; ``memberships(number)`` returns the argument of :meth:`play`.
        """
        for number in rounds:
            more = None if memberships is None else memberships(number)
            try:
                done = self.play(number, events.take(number), keeps_messages, more)
            except ImpossibleRound as impossible:  # raised before anything is played
                if number == rounds[0]:
                    words = f"cannot be played: {impossible.what}"
                    raise InputError("round", number, words) from None
                return
            measures = {name: float(value) for name, value in done.measures.items()}
            yield number, done, Played(measures, time.monotonic() - started)
            started = time.monotonic()

    def play(
        self,
        number: int,
        events: Mapping[str, np.ndarray],
        keeps_messages: bool = False,
        memberships: DataFrame | None = None,
    ) -> PlayedRound:
        """Play a round; nothing is played if an event is impossible (`ImpossibleRound`).

        Parameters
        ----------
        events : mapping of str to ndarray
            ``node, event, group``: all events of the round except `memberships`.
        keeps_messages : bool
            True if senders and receivers of all messages stay in the buckets until the next round.
        memberships : DataFrame, optional
            Checked joins and quits as messages to their nodes (`ROWS`), for a player on Spark; they
            are not collected on the driver.
        """
        player, tree, live = self.player, self._protocols.live_tree, self._protocols.groups
        scribe = self._protocols.scribe
        player.begin_round(number)
        if player.has(f"{TRAFFIC} 0"):
            player.play(Forget(player.given.bounds, _is_traffic))
        if tree is not None:
            find_live_tree(tree, player)
        if live is None:
            of_nodes = Events.of(self.ring, events["node"], events["event"])
            done = self._play_nodes(number, of_nodes, keeps_messages)
        else:
            assert self._groups is not None
            split = split_events(number, events, self.ring, self._groups)
            if scribe is None:
                check_events(player.lives, self.ring, number, split[0])
                check_memberships(player, number, self._groups, *split)
                done = self._play_nodes(number, split[0], keeps_messages)
                keep_memberships(player, self._groups, *split)
            else:
                done = self._play_scribe(scribe, number, *split, keeps_messages, memberships)
        if tree is not None:
            done.measures.update(live_tree_measures(tree, player))
        if live is None or not self._protocols.systems.systems:
            return done
        return self._play_systems(live, number, *split, done)

    def _play_nodes(self, number: int, events: Events, keeps_messages: bool) -> PlayedRound:
        """Play a round of Pastry, or only the lives of nodes in a world without Pastry."""
        player = self.player
        if self._protocols.has_pastry:
            lookups = self._protocols.world.lookups
            played = play_overlay(player, number, events, lookups, (), keeps_messages)
        else:
            played = play_lives(player, number, events)
        self._incarnation[events.entering] = number
        return PlayedRound(*played)

    def _play_scribe(
        self,
        live: LiveScribe,
        number: int,
        events: Events,
        group_events: GroupEvents,
        keeps_messages: bool,
        memberships: DataFrame | None,
    ) -> PlayedRound:
        """Play a round of Pastry and Scribe."""
        player, groups = self.player, self._groups
        assert groups is not None
        of_round = vars(live.round(number, groups, self._incarnation))
        round = _SharedRound(**of_round, share=self._share_incarnation)
        before = self._trees(live, round)
        traffic = keeps_messages or live.common.links is not None
        traffic = traffic or live.common.link_stress.is_measured(number)
        player.observe(traffic=traffic)
        tally = Tally(kinds_of(self._protocols))
        if memberships is not None:
            assert isinstance(player.engine, OnSpark)
            player.engine.send_first(PlayEvents, memberships)
        lookups, is_last = self._protocols.world.lookups, number == live.common.rounds - 1
        result, taken = play_groups(
            *(player, round, events, group_events, lookups, tally, is_last),
            measures=partial(live.programs, keeps_messages=keeps_messages),
            tables=(*COUNTS, EXTRA_JOINS, *MEASURE_TABLES),
            play_clock=live.play_clock,
        )
        measures, tables, self._before = live.see(result, taken, groups, player, before)
        measures["scribe.control"] = control_messages(measures, self._protocols.systems.seconds)
        return PlayedRound(result, measures, tables, taken.get(OUTCOMES, {}))

    def _trees(self, live: LiveScribe, round: RoundOfGroups) -> Mapping[int, Tree]:
        """Return the watched trees as they are now."""
        if self._before is not None:
            return self._before
        player, watched = self.player, live.watched_indices(round.groups)
        taken: dict[str, dict[str, np.ndarray]] = {}
        if player.has(table_of("entries")):
            player.play(SeeTrees(player.given, round, watched))
            taken = player.take(*TREES_SEEN)
        return trees_of(taken, watched, len(self.ring))

    def _play_systems(
        self,
        live: LiveGroups,
        number: int,
        events: Events,
        group_events: GroupEvents,
        done: PlayedRound,
    ) -> PlayedRound:
        """Play a round of the systems other than Scribe; return all results of the round."""
        assert self._groups is not None
        systems, of = self._protocols.systems, (number, events, group_events, self._groups)
        of_systems, due, by_part = systems.play(live, self.player, *of, self._incarnation)
        # drop a baseline's numbers beside Scribe if the baseline is also played as a system
        alone = systems.systems.keys()
        kept = {n: v for n, v in done.measures.items() if n.partition(".")[0] not in alone}
        measures = kept | of_systems
        if "by_part" in done.tables:
            by_part = pa.concat_tables([done.tables["by_part"], by_part])
        tables = done.tables | {"publications_of_systems": due, "by_part": by_part}
        return replace(done, measures=measures, tables=tables)

    def tables(self, number: int, bucket: int) -> dict[str, Columns]:
        """Return the tables of a bucket that the player does not hold, before round `number`."""
        bounds, lives = self.player.given.bounds, self.player.lives
        return lives_tables(bounds, bucket, lives, self._incarnation, number)

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """Return these tables of all buckets: `ROWS`."""
        bounds, lives = self.player.given.bounds, self.player.lives
        return lives_rows(bounds, lives, self._incarnation, number)

    def _share_incarnation(self) -> SharedInFiles:
        """Write the incarnations to a file that tasks map into memory, if they have changed."""
        engine, before = self.player.engine, self._shared
        assert isinstance(engine, OnSpark)
        if before is None or not np.array_equal(before["round"], self._incarnation):
            self._shared = engine.share(round=self._incarnation)
            if before is not None:
                engine.free(before)
        assert self._shared is not None
        return self._shared


@dataclass(frozen=True)
class _SharedRound(RoundOfGroups):
    """A round whose incarnations are in a file that tasks map, so only the file's name is sent."""

    share: Any = None

    def __getstate__(self) -> dict[str, Any]:
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        return state | {"incarnation": self.share(), "share": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"incarnation": state["incarnation"]["round"]})


def _is_traffic(name: str) -> bool:
    return name.startswith(f"{TRAFFIC} ")


def play_overlay(
    player: RoundPlayer,
    number: int,
    events: Events,
    lookups: int,
    tables: tuple[str, ...] = (),
    keeps_messages: bool = False,
) -> tuple[RoundResult, dict[str, float]]:
    """Play a round of an overlay without groups; return its result and measures.

    `lookups` is the number of lookups to draw; see `see_round` for `tables`.
    """
    player.observe(traffic=keeps_messages)
    made = play_round(player, number, events, lookups)
    measure = MeasureNodes(player.given, number)
    result, taken = see_round(
        player, number, events.entering, made, Tally(MESSAGE_KINDS), [measure], (MEASURED, *tables)
    )
    live = int(np.count_nonzero(player.lives.alive))
    return result, round_measures(live, result, taken[MEASURED])


def play_lives(
    player: RoundPlayer, number: int, events: Events
) -> tuple[RoundResult, dict[str, float]]:
    """Play the events of nodes in a world without Pastry; return the result and the measures.

    The events have been checked.  A node that arrives or recovers lives at once.
    """
    end_lives(player.lives, number, events, player.given.world_rules.detection)
    player.lives.enter(events.recover)
    player.lives.enter(events.arrive)
    nobody = np.empty(0, dtype=np.int64)
    live = float(np.count_nonzero(player.lives.alive))
    return RoundResult(number, {}, nobody, no_lookups()), {"nodes.live": live}
