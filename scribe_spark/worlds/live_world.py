"""A world in memory: unpacked from tables, played round by round, packed into tables again.

Playing a round knows nothing of Spark, nor of how the state is packed: it is a function of the
state in memory and the events of the round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from scribe_spark.engine.program import Tables
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.node_rows import from_rows, to_rows
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player import InProcess, Player
from scribe_spark.pastry.round import NEW_LEAFS, RoundResult, play_round, see_round
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import Tally
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.group_measures import control_messages
from scribe_spark.worlds.live_groups import LiveGroups, PlayedGroups, split_events
from scribe_spark.worlds.live_systems import LiveSystems
from scribe_spark.worlds.live_tree import LiveTree, find_live_tree, live_tree_measures
from scribe_spark.worlds.round_measures import MEASURED, MeasureNodes, round_measures
from scribe_spark.worlds.state_table import NODES, read_state, state_table

__all__ = ["LiveWorld", "PlayedRound", "Protocols", "play_overlay", "unpack_overlay"]


@dataclass(frozen=True)
class LiveWorld:
    """The state of a world between two rounds; rounds write into it.

    Attributes
    ----------
    overlay : OverlayState
    groups : PlayedGroups, optional
    systems : mapping of str to Tables
        The state of each system that lives beside Scribe.
    tree : Tables
        What live nodes know of the reference tree; empty before the first round that is played.
    """

    overlay: OverlayState
    groups: PlayedGroups | None
    systems: Mapping[str, Tables] = field(default_factory=dict)
    tree: Tables = field(default_factory=Tables)


@dataclass(frozen=True)
class PlayedRound:
    """The results of a round besides the state.

    Attributes
    ----------
    result : RoundResult
        Of Pastry: lookups, and whose leaf sets are others.
    measures : dict of str to float
    of_groups : dict of str to pyarrow.Table
        `LEFT_BY_ROUNDS`, as of `GroupRound`; empty where there are no groups.
    multicasts : callable
        As of `GroupRound`.
    """

    result: RoundResult
    measures: dict[str, float]
    of_groups: dict[str, pa.Table]
    multicasts: Callable[[], dict[str, pa.Table]] = dict


@dataclass(frozen=True)
class Protocols:
    """The protocols and parameters of a world's rounds, the same in each.

    Attributes
    ----------
    lookups : int
        Made in each round, between live nodes and keys that are drawn.
    rules : WorldRules
    kernel : Kernel
        Of the underlay.
    live_tree : LiveTree, optional
        The reference tree that is kept over the live nodes.
    groups : LiveGroups, optional
        The groups of the world.
    systems : LiveSystems
        Those that live beside Scribe; of a world with groups.
    """

    lookups: int
    rules: WorldRules
    kernel: Kernel
    live_tree: LiveTree | None = None
    groups: LiveGroups | None = None
    systems: LiveSystems = field(default_factory=LiveSystems)

    def unpack(self, tables: Mapping[str, pa.Table]) -> LiveWorld:
        """The world that :meth:`pack` made tables of."""
        overlay = unpack_overlay(tables[NODES], self.rules, self.kernel)
        if self.groups is None:
            return LiveWorld(overlay, None)
        groups = self.groups.unpack(tables, overlay.states.known)
        return LiveWorld(overlay, groups, self.systems.unpack(tables))

    def pack(self, world: LiveWorld) -> Iterator[tuple[str, pa.Table]]:
        """Yield all that has to be kept to go on with the next round: tables and their names."""
        yield NODES, state_table(to_rows(world.overlay.states, world.overlay), self.kernel)
        if self.groups is not None and world.groups is not None:
            yield from self.groups.pack(world.groups, world.overlay.states.known)
        yield from self.systems.pack(world.systems).items()

    def play(
        self,
        world: LiveWorld,
        number: int,
        events: Mapping[str, np.ndarray],
        traffic: Traffic | None = None,
    ) -> PlayedRound:
        """Play a round; writes into `world`.

        Parameters
        ----------
        events : mapping of str to ndarray
            ``node, event, group``: all events of the round; `group` is of events of groups.
        traffic : Traffic, optional
            Where senders and receivers of all messages are remembered.

        Raises
        ------
        ImpossibleRound
            An event that cannot be; or no node is left.  The world is of no use any more.
        """
        overlay, rules, kernel = world.overlay, self.rules, self.kernel
        known, tree, of_groups = overlay.states.known, None, None
        if self.live_tree is not None:
            tree = InProcess(InProcess.of(overlay, rules, kernel).given, [world.tree])
            find_live_tree(self.live_tree, tree)
        if self.groups is None or world.groups is None:
            of_nodes = Events.of(known, events["node"], events["event"])
            player = InProcess.of(overlay, rules, kernel)
            result, measures = play_overlay(player, number, of_nodes, self.lookups, traffic)
        else:
            of_groups = self.groups.play(
                overlay, world.groups, number, events, self.lookups, rules, kernel, traffic
            )
            result, measures = of_groups.overlay, of_groups.measures
        if self.live_tree is not None and tree is not None:
            measures |= live_tree_measures(self.live_tree, tree)
        if of_groups is None:
            return PlayedRound(result, measures, {})
        tables = of_groups.tables()
        if self.systems.systems:
            of_systems, due = self._play_systems(world, number, events)
            control = control_messages(measures, self.systems.seconds)
            measures |= of_systems | {"scribe.control": control}
            tables["publications_of_systems"] = due
        return PlayedRound(result, measures, tables, of_groups.multicasts)

    def _play_systems(
        self, world: LiveWorld, number: int, events: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, float], pa.Table]:
        assert world.groups is not None
        groups = world.groups.groups
        of_nodes, of_groups = split_events(events, world.overlay.states.known, groups)
        return self.systems.play(
            *(world.systems, world.overlay, number, of_nodes, of_groups, groups),
            *(world.groups.incarnation, self.rules, self.kernel),
        )


def play_overlay(
    player: Player,
    number: int,
    events: Events,
    lookups: int,
    traffic: Traffic | None,
    tables: tuple[str, ...] = (NEW_LEAFS,),
    keeps_messages: bool = False,
) -> tuple[RoundResult, dict[str, float]]:
    """Play a round of an overlay without groups; what is seen of it, and its measures.

    Parameters
    ----------
    lookups : int
        How many are drawn.
    traffic : Traffic, optional
        Where senders and receivers of all messages are remembered.
    tables : tuple of str
        As of `see_round`.
    keeps_messages : bool
        Whether senders and receivers stay in the buckets, if nobody remembers them.
    """
    player.observe(traffic=keeps_messages or traffic is not None)
    made = play_round(player, number, events, lookups)
    measure = MeasureNodes(player.given, number)
    result, taken = see_round(
        player,
        number,
        events.entering,
        made,
        Tally(traffic=traffic),
        [measure],
        (MEASURED, *tables),
    )
    live = int(np.count_nonzero(player.lives.alive))
    return result, round_measures(live, result, taken[MEASURED])


def unpack_overlay(nodes: pa.Table, rules: WorldRules, kernel: Kernel) -> OverlayState:
    """Return the overlay in the table of nodes of a packed world."""
    return from_rows(read_state(nodes, rules.leaf_set, kernel), rules.b)
