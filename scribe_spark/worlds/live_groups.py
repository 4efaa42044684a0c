"""The groups of a world in a task: Scribe's state out of tables, rounds, and into tables again.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe alive".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.events import Events, ImpossibleRound
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.round import RoundResult
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.scribe.duplicates import SOURCE_BITS
from scribe_spark.scribe.events import GroupEvents
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.outcomes import PublicationResults, publications_due
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.round import ScribeResult, play_round
from scribe_spark.scribe.rows import from_tables, to_tables
from scribe_spark.scribe.rules import ScribeRules
from scribe_spark.scribe.state import ScribeState
from scribe_spark.scribe.upcalls import Application
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.group_measures import group_measures
from scribe_spark.worlds.link_stress import LinkStress
from scribe_spark.worlds.multicast_measures import MulticastMeasures
from scribe_spark.worlds.watched_trees import Tree, told_trees, tree_of

__all__ = ["GroupRound", "LiveGroups", "PlayedGroups", "split_events"]


@dataclass(frozen=True)
class PlayedGroups:
    """The groups of a world in memory; rounds write into it.

    Attributes
    ----------
    groups : Groups
    state : ScribeState
    application : Application, optional
        Without one delivery is best effort.
    """

    groups: Groups
    state: ScribeState
    application: Application | None


@dataclass(frozen=True)
class GroupRound:
    """What a round leaves besides the groups.

    Attributes
    ----------
    overlay : RoundResult
        Of Pastry.
    measures : dict of str to float
        Of the groups; see :mod:`.group_measures`, :mod:`.link_stress`, :mod:`.multicast_measures`.
    publications : pyarrow.Table
        ``round, group, expected, in_time, late, lost, duplicates``: of the publications whose
        deadline is this round, or of all that are left after the last round.
    watched_trees : pyarrow.Table
        `schemas.WATCHED_TREES` of this round.
    multicasts : callable
        Makes ``tree_edges`` and ``deliveries`` of the round's multicasts, until the next round is
        played; none where these are not measured.
    """

    overlay: RoundResult
    measures: dict[str, float]
    publications: pa.Table
    watched_trees: pa.Table
    multicasts: Callable[[], dict[str, pa.Table]]


@dataclass(frozen=True)
class LiveGroups:
    """The groups of a world, and how Scribe maintains their trees.

    Attributes
    ----------
    numbers : ndarray of int64, shape (G,)
    key_hi, key_lo : ndarray of uint64, shape (G,)
        The groupIds.
    lists : mapping of str to (ndarray, ndarray, ndarray)
        Access lists, as of `Groups.of`.
    rules : ScribeRules
    rounds : int
        Of the world.
    link_stress : LinkStress
        In which rounds it is measured.
    watched : ndarray of int64
        Numbers of the groups whose trees are watched.
    multicasts : MulticastMeasures
        What is measured of the multicasts of each round.
    application : callable, optional
        Makes an application of the user's on the upcalls, given how many nodes there are; without
        it delivery is that of the rules.
    """

    numbers: np.ndarray
    key_hi: np.ndarray
    key_lo: np.ndarray
    lists: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    rules: ScribeRules
    rounds: int
    link_stress: LinkStress
    watched: np.ndarray = field(default_factory=whole_numbers)
    multicasts: MulticastMeasures = field(default_factory=MulticastMeasures)
    application: Callable[[int], Application] | None = None

    def groups(self, known: Ring) -> Groups:
        """Return the groups; `known` are all nodes of the world, in the order of nodeIds."""
        return Groups.of(self.numbers, Keys(self.key_hi, self.key_lo), known, self.lists)

    @property
    def make_application(self) -> Callable[[int], Application] | None:
        """What makes the application, given how many nodes there are; None: best effort."""
        if self.application is not None:
            return self.application
        return partial(Reliable, self.rules.buffer) if self.rules.reliable else None

    def unpack(self, tables: Mapping[str, pa.Table], known: Ring) -> PlayedGroups:
        """The groups between two rounds; without tables before the first one.

        Parameters
        ----------
        tables : mapping of str to pyarrow.Table
            What :meth:`pack` made.
        known : Ring
            All nodes of the world, in the order of nodeIds.
        """
        groups, make = self.groups(known), self.make_application
        application = None if make is None else make(len(known))
        if tables:
            state = from_tables(tables, groups, known, application)
        else:
            state = ScribeState.empty(len(known), len(groups))
        return PlayedGroups(groups, state, application)

    def pack(self, held: PlayedGroups, known: Ring) -> dict[str, pa.Table]:
        """All that has to be kept of the groups, as `rows.to_tables` writes it."""
        return to_tables(held.state, held.groups, known, held.application)

    def play(
        self,
        overlay: OverlayState,
        held: PlayedGroups,
        number: int,
        events: Mapping[str, np.ndarray],
        lookups: int,
        rules: WorldRules,
        kernel: Kernel,
        traffic: Traffic | None = None,
    ) -> GroupRound:
        """Play a round of Pastry and Scribe; writes into `overlay` and `held`.

        Parameters
        ----------
        events : mapping of str to ndarray
            ``node, event, group``: all events of the round; `group` is of events of groups.
        traffic : Traffic, optional
            Where senders and receivers of all messages are remembered; without it they are in
            rounds in which link stress is measured.

        Raises
        ------
        ImpossibleRound
            An event that cannot be; or no node is left.
        """
        known, groups, state = overlay.states.known, held.groups, held.state
        refuse_unknown(number, events, known, groups)
        of_nodes, of_groups = split_events(events, known, groups)
        traffic = self.traffic(number, traffic)
        before = self.watched_trees(state, groups)
        of_overlay, result = play_round(
            *(overlay, state, number, of_nodes, of_groups, groups, rules, self.rules, kernel),
            *(lookups, held.application, traffic),
            self.multicasts.lan_us if self.multicasts.of_ways else None,
        )
        trees = told_trees(number, before, state, groups, overlay)
        return self.see(number, of_overlay, result, state, groups, overlay, kernel, traffic, trees)

    def traffic(self, number: int, traffic: Traffic | None) -> Traffic | None:
        """Return where senders and receivers of a round are remembered, if somebody wants them."""
        return Traffic() if self.link_stress.is_measured(number) and traffic is None else traffic

    def watched_trees(self, state: ScribeState, groups: Groups) -> dict[int, Tree]:
        """Return the trees that are watched, by the groups' indices."""
        watched = np.searchsorted(groups.number, self.watched).tolist()
        return {group: tree_of(state, group) for group in watched}

    def see(
        self,
        number: int,
        of_overlay: RoundResult,
        result: ScribeResult,
        state: ScribeState,
        groups: Groups,
        overlay: OverlayState,
        kernel: Kernel,
        traffic: Traffic | None,
        trees: pa.Table,
    ) -> GroupRound:
        """Return what a round leaves besides the groups.

        Parameters
        ----------
        state : ScribeState
            Of all nodes, after the round.
        trees : pyarrow.Table
            `schemas.WATCHED_TREES`.
        """
        measures = group_measures(state, result, self.rules.remover is not None)
        if traffic is not None and self.link_stress.is_measured(number):
            measures |= self.link_stress.measures(traffic, overlay, kernel)
        measures |= self.multicasts.measures(state, result, overlay, kernel)
        due = [result.publications]
        if number == self.rounds - 1:
            left = result.left  # in several buckets these have been counted by each
            if not len(left.group):
                left = publications_due(state, number, self.rules.deadline, everything=True)
            due.append(left)

        def multicasts() -> dict[str, pa.Table]:
            if not self.multicasts.of_ways:
                return {}
            return self.multicasts.tables(state, result, overlay, groups, kernel)

        return GroupRound(of_overlay, measures, _by_group(due, groups), trees, multicasts)


def refuse_unknown(
    number: int, events: Mapping[str, np.ndarray], known: Ring, groups: Groups
) -> None:
    """Events given in Python have not been checked before.

    Raises
    ------
    ImpossibleRound
    """
    group = events["group"][events["group"] >= 0]
    for what, named, there in (
        ("node", events["node"], known.node),
        ("group", group, groups.number),
    ):
        unknown = np.setdiff1d(named, there)
        if len(unknown):
            raise ImpossibleRound(number, f"there is no {what} {unknown[0]}")


def split_events(
    events: Mapping[str, np.ndarray], known: Ring, groups: Groups
) -> tuple[Events, GroupEvents]:
    """Events of nodes, and those of groups."""
    node, event, group = (events[name] for name in ("node", "event", "group"))
    of_node = group < 0
    of_nodes = Events.of(known, node[of_node], event[of_node])
    return of_nodes, GroupEvents.of(known, groups, node[~of_node], event[~of_node], group[~of_node])


def _by_group(due: list[PublicationResults], groups: Groups) -> pa.Table:
    """Publications by round and group, summed over their sources."""
    names = ("group", "publication", "expected", "in_time", "late", "lost", "duplicates")
    group, publication, *counts = (
        np.concatenate([getattr(one, name) for one in due]) for name in names
    )
    keys = (publication >> SOURCE_BITS) * len(groups) + group
    key, which = np.unique(keys, return_inverse=True)
    sums = [np.bincount(which, count, len(key)).astype(np.int64) for count in counts]
    published, place = np.divmod(key, len(groups))
    columns = [published, groups.number[place], *sums]
    return pa.table(dict(zip(("round", *names[:1], *names[2:]), columns, strict=True)))
