"""A world between two rounds: the tables of its buckets on a player, and the lives of its nodes.

One orchestrator plays a round on every kind of player: :meth:`WorldState.play`.

References
----------
JSAC 2002, Sections II and III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
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
from scribe_spark.pastry.arrivals.observer import TRAFFIC, Observer
from scribe_spark.pastry.arrivals.wave import Environment
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.lives import Lives
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.round import RoundResult, play_round, see_round
from scribe_spark.pastry.tally import MESSAGE_KINDS, Tally
from scribe_spark.scribe.events import PlayEvents
from scribe_spark.scribe.program import GroupRound as RoundOfGroups
from scribe_spark.scribe.rejoin import EXTRA_JOINS
from scribe_spark.scribe.round import COUNTS, play_groups
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.scribe.state import table_of
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.group_measures import control_messages
from scribe_spark.worlds.live_groups import (
    MEASURE_TABLES,
    GroupRound,
    LiveGroups,
    refuse_unknown,
    split_events,
)
from scribe_spark.worlds.live_systems import LiveSystems
from scribe_spark.worlds.live_tree import LiveTree, find_live_tree, live_tree_measures
from scribe_spark.worlds.round_measures import MEASURED, MeasureNodes, round_measures
from scribe_spark.worlds.save import HEADER, INCARNATIONS, LIVES, lives_rows, lives_tables
from scribe_spark.worlds.watched_trees import TREES_SEEN, SeeTrees, Tree, trees_of

if TYPE_CHECKING:
    from scribe_spark.config import OverlayConfig, RoundsConfig


@dataclass(frozen=True)
class Protocols:
    """The protocols and parameters of a world's rounds, the same in each.

    Attributes
    ----------
    rules : OverlayConfig
        The rules of arrivals.
    world : RoundsConfig
        The number of lookups per round, and the rules of detection, repair and maintenance.
    seed : int
        The seed of random draws.
    kernel : Kernel
        The kernel of the underlay.
    live_tree : LiveTree, optional
        The reference tree over the live nodes.
    groups : LiveGroups, optional
        The groups of the world.
    systems : LiveSystems
        The systems beside Scribe, in a world with groups.
    """

    rules: OverlayConfig
    world: RoundsConfig
    seed: int
    kernel: Kernel
    live_tree: LiveTree | None = None
    groups: LiveGroups | None = None
    systems: LiveSystems = field(default_factory=LiveSystems)


def kinds_of(protocols: Protocols) -> tuple[str, ...]:
    """Return the kinds of messages that are counted in a world."""
    return MESSAGE_KINDS if protocols.groups is None else MESSAGE_KINDS + SCRIBE_KINDS


@dataclass(frozen=True)
class PlayedRound:
    """The results of a round except the tables of the buckets.

    Attributes
    ----------
    result : RoundResult
        The results of Pastry: messages and lookups.
    measures : dict of str to float
    of_groups : dict of str to pyarrow.Table
        The tables `LEFT_BY_ROUNDS`, see `GroupRound`; empty without groups.
    outcomes : Columns
        See `GroupRound`.
    """

    result: RoundResult
    measures: dict[str, float]
    of_groups: dict[str, pa.Table]
    outcomes: Columns = field(default_factory=dict)


class WorldState:
    """The nodes of a world on a player, with their groups.

    Parameters
    ----------
    player : Player
    protocols : Protocols
    incarnation : ndarray of int64, shape (K,)
        The round of each node's last arrival or recovery; rounds change it.
    """

    def __init__(self, player: Player, protocols: Protocols, incarnation: np.ndarray) -> None:
        self.player, self._protocols = player, protocols
        self._incarnation = _Incarnation(player, incarnation)
        self._groups = None if protocols.groups is None else protocols.groups.groups(self.ring)
        self._before: Mapping[int, Tree] | None = None

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
        player = Player(engine, given, lives)
        return cls(player, protocols, np.array(taken[INCARNATIONS]["round"]))

    @property
    def ring(self) -> Ring:
        """All nodes: past, present and future ones."""
        return self.player.given.facts.ring

    def play(
        self,
        number: int,
        events: Mapping[str, np.ndarray],
        keeps_messages: bool = False,
        memberships: DataFrame | None = None,
    ) -> PlayedRound:
        """Play a round.

        Parameters
        ----------
        events : mapping of str to ndarray
            ``node, event, group``: all events of the round except `memberships`; `group` applies to
            group events.
        keeps_messages : bool
            True if senders and receivers of all messages stay in the buckets until the next round.
        memberships : DataFrame, optional
            Checked joins and quits as messages to their nodes (`ROWS`), for a player on Spark; they
            are not collected on the driver.

        Raises
        ------
        ImpossibleRound
            An event is impossible, or no node is left; then nothing has been played.
        """
        player, protocols, of_groups = self.player, self._protocols, None
        player.begin_round(number)
        if player.has(f"{TRAFFIC} 0"):
            player.play(Forget(player.given.bounds, _is_traffic))
        if protocols.live_tree is not None:
            find_live_tree(protocols.live_tree, player)
        if protocols.groups is None:
            of_nodes = Events.of(self.ring, events["node"], events["event"])
            result, measures = play_overlay(
                player, number, of_nodes, protocols.world.lookups, (), keeps_messages
            )
        else:
            of_groups = self._play_groups(
                protocols.groups, number, events, keeps_messages, memberships
            )
            result, measures = of_groups.overlay, of_groups.measures
        if protocols.live_tree is not None:
            measures |= live_tree_measures(protocols.live_tree, player)
        if of_groups is None:
            return PlayedRound(result, measures, {})
        left = of_groups.tables()
        if protocols.systems.systems:
            of_systems, due, by_part = self._play_systems(number, events)
            control = control_messages(measures, protocols.systems.seconds)
            # drop a baseline's numbers beside Scribe if the baseline is also played as a system
            alone = protocols.systems.systems.keys()
            measures = {n: v for n, v in measures.items() if n.partition(".")[0] not in alone}
            measures |= of_systems | {"scribe.control": control}
            left["publications_of_systems"] = due
            left["by_part"] = pa.concat_tables([left["by_part"], by_part])
        return PlayedRound(result, measures, left, of_groups.outcomes)

    def _play_groups(
        self,
        live: LiveGroups,
        number: int,
        events: Mapping[str, np.ndarray],
        keeps_messages: bool,
        memberships: DataFrame | None,
    ) -> GroupRound:
        """Play a round of Pastry and Scribe."""
        player, groups, known = self.player, self._groups, self.ring
        assert groups is not None
        refuse_unknown(number, events, known, groups)
        of_nodes, of_groups = split_events(events, known, groups)
        round = self._incarnation.of(live.round(number, groups, self._incarnation.rounds))
        before = self._trees(live, round)
        traffic = keeps_messages or live.links is not None or live.link_stress.is_measured(number)
        player.observe(traffic=traffic)
        tally = Tally(kinds_of(self._protocols))
        if memberships is not None:
            assert isinstance(player.engine, OnSpark)
            player.engine.send_first(PlayEvents, memberships)
        lookups, is_last = self._protocols.world.lookups, number == live.rounds - 1
        of_overlay, taken = play_groups(
            *(player, round, of_nodes, of_groups, lookups, tally, is_last),
            measures=partial(live.programs, keeps_messages=keeps_messages),
            tables=(*COUNTS, EXTRA_JOINS, *MEASURE_TABLES),
            play_clock=live.play_clock,
        )
        kernel = self._protocols.kernel
        seen = live.see(number, of_overlay, taken, groups, known, player.lives, kernel, before)
        self._before = seen.trees
        return seen

    def _trees(self, live: LiveGroups, round: RoundOfGroups) -> Mapping[int, Tree]:
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
        self, number: int, events: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, float], pa.Table, pa.Table]:
        """Play a round of the systems beside Scribe."""
        assert self._groups is not None
        of_nodes, of_groups = split_events(events, self.ring, self._groups)
        return self._protocols.systems.play(
            *(self.player, number, of_nodes, of_groups, self._groups, self._incarnation.rounds)
        )

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """Return the tables that the player does not hold, for all buckets: `ROWS`.

        Parameters
        ----------
        number : int
            The number of the next round.
        """
        player = self.player
        return lives_rows(player.given.bounds, player.lives, self._incarnation.rounds, number)

    def tables(self, number: int, bucket: int) -> dict[str, Columns]:
        """Return the tables of a bucket that the player does not hold, as in :meth:`rows`."""
        bounds, lives = self.player.given.bounds, self.player.lives
        return lives_tables(bounds, bucket, lives, self._incarnation.rounds, number)

    def release(self) -> None:
        """Free the player's tables."""
        self.player.release()


class _Incarnation:
    """The round of each node's last arrival or recovery, shared with programs."""

    def __init__(self, player: Player, rounds: np.ndarray) -> None:
        self.rounds, self._player = rounds, player
        self._shared: SharedInFiles | None = None

    def of(self, round: RoundOfGroups) -> _SharedRound:
        """Return a round whose incarnations are shared."""
        return _SharedRound(**vars(round), share=self._share)

    def _share(self) -> SharedInFiles:
        """Write the rounds to a file that tasks map into memory, if they have changed."""
        engine, before = self._player.engine, self._shared
        assert isinstance(engine, OnSpark)
        if before is None or not np.array_equal(before["round"], self.rounds):
            self._shared = engine.share(round=self.rounds)
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
    player: Player,
    number: int,
    events: Events,
    lookups: int,
    tables: tuple[str, ...] = (),
    keeps_messages: bool = False,
) -> tuple[RoundResult, dict[str, float]]:
    """Play a round of an overlay without groups; return its result and measures.

    Parameters
    ----------
    lookups : int
        The number of lookups to draw.
    tables : tuple of str
        See `see_round`.
    keeps_messages : bool
        True if senders and receivers of messages stay in the buckets.
    """
    player.observe(traffic=keeps_messages)
    made = play_round(player, number, events, lookups)
    measure = MeasureNodes(player.given, number)
    result, taken = see_round(
        player, number, events.entering, made, Tally(), [measure], (MEASURED, *tables)
    )
    live = int(np.count_nonzero(player.lives.alive))
    return result, round_measures(live, result, taken[MEASURED])
