"""The groups of a world: how Scribe maintains their trees, and the results of a round.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import RoundLinks, replay_round
from scribe_spark.core.arrays import NO_GROUP, whole_numbers, without
from scribe_spark.core.key_limits import refuse_groups_of_world
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.buckets import arrow_schema
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.engine.views import Names
from scribe_spark.living import Publications
from scribe_spark.measures.counts import Counted
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    MeasureMulticasts,
    MulticastMeasures,
)
from scribe_spark.measures.parts import NodeParts
from scribe_spark.pastry.arrivals.wave import Environment
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.events import Events, ImpossibleRound
from scribe_spark.pastry.lives import KnowsLives
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.round import RoundResult
from scribe_spark.scribe.duplicates import SOURCE_BITS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.events import GroupEvents
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.scribe.outcomes import LEFT, PublicationResults
from scribe_spark.scribe.program import Applications
from scribe_spark.scribe.program import GroupRound as RoundOfGroups
from scribe_spark.scribe.rejoin import EXTRA_JOINS, EXTRA_JOINS_COLUMNS
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.round import publication_results
from scribe_spark.scribe.upcalls import Application
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.group_measures import (
    CONTROL_KINDS,
    GROUPS_MEASURED,
    SCRIBE,
    MeasureGroups,
    group_measures,
)
from scribe_spark.worlds.link_stress import KINDS, LINKS_MEASURED, LinkStress, MeasureLinks
from scribe_spark.worlds.round_bytes import (
    BYTES_MEASURED,
    MeasureBytes,
    byte_measures,
    byte_rows,
    bytes_of_kinds,
    part_table,
)
from scribe_spark.worlds.round_measures import MEASURED, MeasureNodes, round_measures
from scribe_spark.worlds.rows import EVENT_NAMES, NODE_EVENTS
from scribe_spark.worlds.scribe_multicasts import ScribeTables
from scribe_spark.worlds.watched_trees import TREES_SEEN, SeeTrees, Tree, tree_rows, trees_of

if TYPE_CHECKING:
    from scribe_spark.config import ScribeConfig
    from scribe_spark.config.trees import LiveTreesConfig

#: The names of a round's result tables: see `GroupRound`.
LEFT_BY_ROUNDS = ("publications", "watched_trees", "extra_joins", "by_part")


@dataclass(frozen=True)
class GroupRound:
    """The results of a round with groups.

    Attributes
    ----------
    overlay : RoundResult
        The results of Pastry.
    measures : dict of str to float
        The measures of :mod:`.round_measures`, :mod:`.group_measures`, :mod:`.link_stress` and
        `measures.multicasts`.
    publications : pyarrow.Table
        ``round, group, expected, in_time, late, lost, duplicates`` of the publications whose
        deadline is this round; after the last round, of all open ones.
    watched_trees : pyarrow.Table
        The watched trees in this round: `schemas.WATCHED_TREES`.
    extra_joins : pyarrow.Table
        The JOINs that the bottleneck remover caused: ``group, parent, child, parent_router,
        child_router, probes``, see `schemas.EXTRA_JOINS`.
    by_part : pyarrow.Table
        Measures by class and region, where publications have a size: `schemas.ROUNDS_BY_PART`.
    trees : dict of int to Tree
        The watched trees after the round, by the index of the group.
    outcomes : Columns
        The table `OUTCOMES` of all buckets: the round's publications with their fates.
    """

    overlay: RoundResult
    measures: dict[str, float]
    publications: pa.Table
    watched_trees: pa.Table
    extra_joins: pa.Table
    by_part: pa.Table
    trees: dict[int, Tree]
    outcomes: Columns

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables :data:`LEFT_BY_ROUNDS`."""
        return {name: getattr(self, name) for name in LEFT_BY_ROUNDS}


@dataclass(frozen=True)
class LiveGroups:
    """The groups of a world, and the parameters of Scribe.

    Attributes
    ----------
    numbers : ndarray of int64, shape (G,)
    key_hi, key_lo : ndarray of uint64, shape (G,)
        The groupIds.
    lists : mapping of str to (ndarray, ndarray, ndarray)
        The access lists, see `Groups.of`.
    rules : ScribeConfig
    trees : LiveTreesConfig
    rounds : int
        The number of rounds of the world.
    link_stress : LinkStress
        The rounds in which link stress is measured.
    watched : ndarray of int64
        The numbers of the groups whose trees are watched.
    multicasts : MulticastMeasures
        The selected measures of each round's multicasts.
    application : callable, optional
        ``application(nodes)`` returns a user's application on the upcalls; None for the delivery of
        the rules.
    limits : ChildLimits, optional
        The limits of children, for the bottleneck remover and lazy growth.
    links : RoundLinks, optional
        The links of nodes, for publications that have a size.
    """

    numbers: np.ndarray
    key_hi: np.ndarray
    key_lo: np.ndarray
    lists: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    rules: ScribeConfig
    trees: LiveTreesConfig
    rounds: int
    link_stress: LinkStress
    watched: np.ndarray = field(default_factory=whole_numbers)
    multicasts: MulticastMeasures = field(default_factory=MulticastMeasures)
    application: Callable[[int], Application] | None = None
    limits: ChildLimits | None = None
    links: RoundLinks | None = None

    def groups(self, known: Ring) -> Groups:
        """Return the groups; `known` is all nodes of the world, sorted by nodeId.

        Raises
        ------
        InputError
            There are too many groups for int64 keys.
        """
        groups, nodes = len(self.numbers), int(known.node.max()) + 1
        refuse_groups_of_world(groups, nodes, self.rules.deadline, self.rounds)
        return Groups.of(self.numbers, Keys(self.key_hi, self.key_lo), known, self.lists)

    @property
    def make_application(self) -> Callable[[int], Application] | None:
        """Returns an application for a number of nodes; None for best effort."""
        if self.application is not None:
            return self.application
        return partial(Reliable, self.rules.buffer) if self.rules.reliable else None

    def round(self, number: int, groups: Groups, incarnation: np.ndarray) -> RoundOfGroups:
        """Return the parameters of a round for its programs.

        Parameters
        ----------
        incarnation : ndarray of int64
            The round of each node's last arrival or recovery.
        """
        ways, make = self.multicasts, self.make_application
        applications = None if make is None else Applications(make, len(incarnation))
        timed = ways.of_ways, ways.lan_us if ways.of_ways else 0
        of = number, groups, self.rules, self.trees, incarnation
        return RoundOfGroups(*of, applications, *timed, self.limits)

    @property
    def _handed_over(self) -> ScribeTables:
        """The tables that the measures of multicasts read."""
        return ScribeTables(self.multicasts.source == "root")

    def play_clock(self, player: Player) -> None:
        """Replace the times of a round's deliveries by those with bandwidth, if used."""
        if self.links is None:
            return
        begun = self._handed_over.begun(player.gather(OUTCOMES).get(OUTCOMES, {}))
        if len(begun):
            given = player.given
            of_copies = given.facts, given.bounds, given.kernel, begun, PAYLOADS, DELIVERIES
            replay_round(player.engine, self.links, *of_copies)

    def watched_indices(self, groups: Groups) -> np.ndarray:
        """Return the indices of the groups whose trees are watched."""
        return np.searchsorted(groups.number, self.watched)

    def programs(
        self, given: Environment, round: RoundOfGroups, *, keeps_messages: bool
    ) -> list[Program]:
        """Return the programs of a round's measures; they write :data:`MEASURE_TABLES`.

        Parameters
        ----------
        keeps_messages : bool
            True if senders and receivers of messages are needed after the measures.
        """
        programs: list[Program] = [
            MeasureNodes(given, round.number),
            MeasureGroups(given, round),
            SeeTrees(given, round, self.watched_indices(round.groups)),
        ]
        if self.multicasts.names:
            programs.append(MeasureMulticasts(given, self.multicasts, self._handed_over))
        by_links = self.link_stress.is_measured(round.number)
        if self.links is not None:
            kinds = KINDS["payload"], CONTROL_KINDS, self.links.size, self.links.control
            keeps = keeps_messages or by_links
            programs.append(MeasureBytes(given, bytes_of_kinds(*kinds), self.parts, keeps))
        if by_links:
            programs.append(MeasureLinks(given, KINDS, keeps_messages))
        return programs

    @property
    def parts(self) -> tuple[NodeParts, ...]:
        """The classes and regions by which measures are split; empty without sizes."""
        return self.multicasts.parts

    def see(
        self,
        number: int,
        of_overlay: RoundResult,
        taken: Mapping[str, Columns],
        groups: Groups,
        known: Ring,
        lives: KnowsLives,
        kernel: Kernel,
        before: Mapping[int, Tree],
    ) -> GroupRound:
        """Return the results of a round.

        Parameters
        ----------
        taken : mapping of str to Columns
            The tables `scribe.round.COUNTS`, `EXTRA_JOINS` and :data:`MEASURE_TABLES` of all
            buckets.
        before : mapping of int to Tree
            The watched trees before the round.
        """
        live, there = int(np.count_nonzero(lives.alive)), lives.count_entered()
        measures = round_measures(live, of_overlay, taken[MEASURED])
        measures |= group_measures(taken, len(groups), self.limits is not None)
        if self.link_stress.is_measured(number):
            measures |= self.link_stress.measures(
                Counted(taken.get(LINKS_MEASURED, {})), KINDS, there
            )
        measures |= self.multicasts.measures(taken, self._handed_over, there)
        sent = Counted(taken.get(BYTES_MEASURED, {}))
        measures |= {f"{SCRIBE}.{name}": value for name, value in byte_measures(sent).items()}
        split = [*self.multicasts.by_part(taken, SCRIBE), *byte_rows(sent, self.parts, SCRIBE)]
        due = [publication_results(taken), publication_results(taken, LEFT)]
        after = trees_of(taken, self.watched_indices(groups), len(known))
        trees = tree_rows(number, before, after, groups, known, lives.alive)
        joins = _extra_joins(taken.get(EXTRA_JOINS, {}), groups, known, kernel)
        outcomes = taken.get(OUTCOMES, {})
        return GroupRound(
            *(of_overlay, measures, _by_group(due, groups), trees, joins),
            *(part_table(number, split), after, outcomes),
        )


#: The tables of measures of every round.
MEASURE_TABLES = (
    *(MEASURED, GROUPS_MEASURED, *TREES_SEEN, *MULTICASTS_MEASURED, LINKS_MEASURED),
    BYTES_MEASURED,
)


def refuse_unknown(
    number: int, events: Mapping[str, np.ndarray], known: Ring, groups: Groups
) -> None:
    """Refuse events of unknown nodes or groups, as events given in Python are unchecked.

    Raises
    ------
    ImpossibleRound
    """
    group = events["group"][~_of_nodes(events)]
    if (group == NO_GROUP).any():
        raise ImpossibleRound(number, "an event of a group has no group")
    for what, named, there in (
        ("node", events["node"], known.node),
        ("group", group, groups.number),
    ):
        unknown = without(named, there)
        if len(unknown):
            raise ImpossibleRound(number, f"there is no {what} {unknown[0]}")


def split_events(
    events: Mapping[str, np.ndarray], known: Ring, groups: Groups
) -> tuple[Events, GroupEvents]:
    """Split events into node events and group events."""
    node, event, group = (events[name] for name in ("node", "event", "group"))
    of_node = _of_nodes(events)
    of_nodes = Events.of(known, node[of_node], event[of_node])
    return of_nodes, GroupEvents.of(known, groups, node[~of_node], event[~of_node], group[~of_node])


def _of_nodes(events: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return True for node events."""
    return np.isin(events["event"], EVENT_NAMES[:NODE_EVENTS])


def _by_group(due: list[PublicationResults], groups: Groups) -> pa.Table:
    """Sum the outcomes of publications over sources, by round and group."""
    published = [
        Publications(
            *(one.publication >> SOURCE_BITS, one.group, one.expected),
            *(one.in_time, one.late, one.lost, one.duplicates),
        )
        for one in due
    ]
    return pa.table(Publications.join(*published).by_group(groups.number))


def _extra_joins(taken: Columns, groups: Groups, known: Ring, kernel: Kernel) -> pa.Table:
    """Return JOINs with the numbers of groups and nodes and the ids of routers, sorted."""
    rows = taken or dict.fromkeys(("group", AT, "child", "probes"), whole_numbers())
    names = Names(RingInMemory(known), kernel, groups.number)
    batch = names.batch({**rows, "parent": rows[AT]}, arrow_schema(EXTRA_JOINS_COLUMNS))
    table = pa.Table.from_batches([batch])
    return table.sort_by([(name, "ascending") for name in ("group", "child", "parent", "probes")])
