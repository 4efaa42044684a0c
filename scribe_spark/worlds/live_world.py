"""A world in memory: unpacked from tables, played round by round, packed into tables again.

Playing a round knows nothing of Spark, nor of how the state is packed: it is a function of the
state in memory and the events of the round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.pastry.events import Events
from scribe_spark.pastry.node_rows import from_rows, to_rows
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.round import RoundResult, play_round
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.live_groups import LiveGroups, PlayedGroups
from scribe_spark.worlds.live_tree import LiveTree, live_tree_measures
from scribe_spark.worlds.round_measures import round_measures
from scribe_spark.worlds.state_table import NODES, read_state, state_table

__all__ = ["LiveWorld", "PlayedRound", "Protocols", "unpack_overlay"]


@dataclass(frozen=True)
class LiveWorld:
    """The state of a world between two rounds; rounds write into it.

    Attributes
    ----------
    overlay : OverlayState
    groups : PlayedGroups, optional
    """

    overlay: OverlayState
    groups: PlayedGroups | None


@dataclass(frozen=True)
class PlayedRound:
    """What a round leaves besides the state.

    Attributes
    ----------
    result : RoundResult
        Of Pastry: lookups, and whose leaf sets are others.
    measures : dict of str to float
    of_groups : dict of str to pyarrow.Table
        ``publications`` and ``watched_trees``, as of `GroupRound`; empty where there are no groups.
    multicasts : callable
        As of `GroupRound`.
    """

    result: RoundResult
    measures: dict[str, float]
    of_groups: dict[str, pa.Table]
    multicasts: Callable[[], dict[str, pa.Table]] = dict


@dataclass(frozen=True)
class Protocols:
    """What the rounds of a world are played by, the same in each.

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
    """

    lookups: int
    rules: WorldRules
    kernel: Kernel
    live_tree: LiveTree | None = None
    groups: LiveGroups | None = None

    def unpack(self, tables: Mapping[str, pa.Table]) -> LiveWorld:
        """The world that :meth:`pack` made tables of."""
        overlay = unpack_overlay(tables[NODES], self.rules, self.kernel)
        if self.groups is None:
            return LiveWorld(overlay, None)
        of_groups = {name: table for name, table in tables.items() if name != NODES}
        return LiveWorld(overlay, self.groups.unpack(of_groups, overlay.states.known))

    def pack(self, world: LiveWorld) -> dict[str, pa.Table]:
        """Tables of all that has to be kept to go on with the next round."""
        tables = {NODES: state_table(to_rows(world.overlay), self.kernel)}
        if self.groups is not None and world.groups is not None:
            tables |= self.groups.pack(world.groups, world.overlay.states.known)
        return tables

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
            ``node, event, group``: all events of the round; `group` is -1 for events of nodes.
        traffic : Traffic, optional
            Where senders and receivers of all messages are remembered.

        Raises
        ------
        ImpossibleRound
            An event that cannot be; or no node is left.  The world is of no use any more.
        """
        overlay, rules, kernel = world.overlay, self.rules, self.kernel
        known, was_alive = overlay.states.known, overlay.alive.copy()
        of_groups = None
        if self.groups is None or world.groups is None:
            of_nodes = Events.of(known, events["node"], events["event"])
            result = play_round(overlay, number, of_nodes, self.lookups, rules, kernel, traffic)
        else:
            of_groups = self.groups.play(
                overlay, world.groups, number, events, self.lookups, rules, kernel, traffic
            )
            result = of_groups.overlay
        measures = round_measures(overlay, result, rules.seed, kernel)
        if self.live_tree is not None:
            measures |= live_tree_measures(self.live_tree, known, was_alive, overlay.alive)
        if of_groups is None:
            return PlayedRound(result, measures, {})
        tables = {name: getattr(of_groups, name) for name in ("publications", "watched_trees")}
        return PlayedRound(result, measures | of_groups.measures, tables, of_groups.multicasts)


def unpack_overlay(nodes: pa.Table, rules: WorldRules, kernel: Kernel) -> OverlayState:
    """Return the overlay in the table of nodes of a packed world."""
    return from_rows(read_state(nodes, rules.leaf_set, kernel), rules.b)
