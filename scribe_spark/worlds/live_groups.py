"""The groups of a world: how Scribe maintains their trees, and the results of a round.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun, RoundLinks, replay_round
from scribe_spark.core.arrays import NO_GROUP, index_sorted, whole_numbers, without
from scribe_spark.core.key_limits import refuse_groups_of_world
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.buckets import arrow_schema
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.engine.views import Names
from scribe_spark.living import Publications
from scribe_spark.measures.counts import Counted
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    MeasureMulticasts,
    MulticastMeasures,
    MulticastTables,
)
from scribe_spark.pastry.arrivals.wave import Environment
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.events import Events, ImpossibleRound
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.round import RoundResult
from scribe_spark.scribe.duplicates import SOURCE_BITS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.events import GroupEvents
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.scribe.outcomes import LEFT, PublicationResults
from scribe_spark.scribe.program import Applications, RoundOfGroups
from scribe_spark.scribe.rejoin import EXTRA_JOINS, EXTRA_JOINS_COLUMNS
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.round import publication_results
from scribe_spark.scribe.upcalls import Application
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

#: The names of a round's result tables: ``publications``, the outcomes by round and group of the
#: publications whose deadline is this round (after the last round, of all open ones);
#: `schemas.WATCHED_TREES`; `schemas.EXTRA_JOINS`, the JOINs that the bottleneck remover caused; and
#: `schemas.ROUNDS_BY_PART`, if publications have a size.
LEFT_BY_ROUNDS = ("publications", "watched_trees", "extra_joins", "by_part")

#: The kinds of messages that are counted on links under each name.
_Kinds = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class LiveGroups:
    """The groups of a world, the parameters of Scribe, and the measures of all systems.

    The groups have `numbers` (G,) and groupIds (the halves are uint64), and access `lists` (see
    `Groups.of`); the trees of the groups `watched`, by number, are recorded.  `rounds` is the
    number of rounds of the world; ``application(nodes)`` returns a user's application on the
    upcalls; `limits` are for the bottleneck remover and lazy growth; `links` are those of nodes, if
    publications have a size.
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
        """Return the groups; `known` is all nodes of the world, sorted by nodeId."""
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
        """Return the parameters of a round, given the round of each node's last arrival."""
        ways, make = self.multicasts, self.make_application
        applications = None if make is None else Applications(make, len(incarnation))
        timed = ways.of_ways, ways.lan_us if ways.of_ways else 0
        of = number, groups, self.rules, self.trees, incarnation
        return RoundOfGroups(*of, applications, *timed, self.limits)

    def watched_indices(self, groups: Groups) -> np.ndarray:
        """Return the indices of the groups whose trees are watched."""
        return index_sorted(groups.number, self.watched)

    # --- measures that every system has

    def replay(
        self, player: PlaysPrograms, given: Environment, begun: Begun, copies: str, came: str
    ) -> None:
        """Replace the times of deliveries (table `came`) by those with bandwidth, if used."""
        if self.links is not None and len(begun):
            of_copies = given.facts, given.bounds, given.kernel, begun, copies, came
            replay_round(player, self.links, *of_copies)

    def common_programs(
        self,
        given: Environment,
        number: int,
        of: MulticastTables | None,
        packets: _Kinds,
        control: tuple[str, ...],
        keeps_messages: bool = False,
    ) -> list[Program]:
        """Return the programs of the measures that every system has.

        Parameters
        ----------
        of : MulticastTables, optional
            The tables of the measured multicasts.
        packets : mapping of str to tuple of str
            The kinds of messages that are counted on links under each name; empty if neither
            packets nor bytes are counted.
        control : tuple of str
            The kinds of control messages, whose bytes are counted.
        """
        programs: list[Program] = []
        if self.multicasts.names and of is not None:
            programs.append(MeasureMulticasts(given, self.multicasts, of))
        by_links = bool(packets) and self.link_stress.is_measured(number)
        if packets and self.links is not None:
            kinds = packets["payload"], control, self.links.size, self.links.control
            keeps = keeps_messages or by_links
            sizes = bytes_of_kinds(*kinds)
            programs.append(MeasureBytes(given, sizes, self.multicasts.parts, keeps))
        if by_links:
            programs.append(MeasureLinks(given, packets, keeps_messages))
        return programs

    def common_measures(
        self, number: int, taken: Mapping[str, Columns], packets: _Kinds, nodes: int
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return the measures of packets on links and of bytes, without the name of the system.

        `taken` has the tables :data:`COMMON_TABLES` of all buckets; `nodes` is the number of nodes
        that are or were alive.
        """
        of_links: dict[str, float] = {}
        if packets and self.link_stress.is_measured(number):
            counted = Counted(taken.get(LINKS_MEASURED, {}))
            of_links = self.link_stress.measures(counted, packets, nodes)
        return of_links, byte_measures(Counted(taken.get(BYTES_MEASURED, {})))

    def by_part(self, taken: Mapping[str, Columns], system: str) -> list[dict[str, Any]]:
        """Return the measures of a system by class and region: rows of `schemas.BY_PART`."""
        sent = Counted(taken.get(BYTES_MEASURED, {}))
        of_bytes = byte_rows(sent, self.multicasts.parts, system)
        return [*self.multicasts.by_part(taken, system), *of_bytes]

    # --- measures of Scribe

    @property
    def _scribe(self) -> ScribeTables:
        return ScribeTables(self.multicasts.source == "root")

    def play_clock(self, player: Player) -> None:
        """Replace the times of a round's deliveries by those with bandwidth, if used."""
        if self.links is not None:
            begun = self._scribe.begun(player.gather(OUTCOMES).get(OUTCOMES, {}))
            self.replay(player.engine, player.given, begun, PAYLOADS, DELIVERIES)

    def programs(
        self, given: Environment, round: RoundOfGroups, *, keeps_messages: bool
    ) -> list[Program]:
        """Return the programs of a round's measures; they write :data:`MEASURE_TABLES`."""
        number, watched = round.number, self.watched_indices(round.groups)
        kinds = KINDS, CONTROL_KINDS, keeps_messages
        return [
            MeasureNodes(given, number),
            MeasureGroups(given, round),
            SeeTrees(given, round, watched),
            *self.common_programs(given, number, self._scribe, *kinds),
        ]

    def see(
        self,
        result: RoundResult,
        taken: Mapping[str, Columns],
        groups: Groups,
        player: Player,
        before: Mapping[int, Tree],
    ) -> tuple[dict[str, float], dict[str, pa.Table], dict[int, Tree]]:
        """Return the measures of a round, the tables :data:`LEFT_BY_ROUNDS`, and watched trees.

        `taken` has the tables `scribe.round.COUNTS`, `EXTRA_JOINS` and :data:`MEASURE_TABLES` of
        all buckets; `before` are the watched trees before the round.
        """
        number, lives, known = result.number, player.lives, player.given.facts.ring
        there = lives.count_entered()
        measures = round_measures(int(np.count_nonzero(lives.alive)), result, taken[MEASURED])
        measures |= group_measures(taken, len(groups), self.limits is not None)
        of_links, sent = self.common_measures(number, taken, KINDS, there)
        measures |= of_links | self.multicasts.measures(taken, self._scribe, there)
        measures |= {f"{SCRIBE}.{name}": value for name, value in sent.items()}
        due = [publication_results(taken), publication_results(taken, LEFT)]
        after = trees_of(taken, self.watched_indices(groups), len(known))
        names = Names(RingInMemory(known), player.given.kernel, groups.number)
        tables = {
            "publications": _by_group(due, groups),
            "watched_trees": tree_rows(number, before, after, groups, known, lives.alive),
            "extra_joins": _extra_joins(taken.get(EXTRA_JOINS, {}), names),
            "by_part": part_table(number, self.by_part(taken, SCRIBE)),
        }
        return measures, tables, after


#: The tables of the measures that every system has.
COMMON_TABLES = (*MULTICASTS_MEASURED, LINKS_MEASURED, BYTES_MEASURED)

#: The tables of measures of every round.
MEASURE_TABLES = (MEASURED, GROUPS_MEASURED, *TREES_SEEN, *COMMON_TABLES)


def split_events(
    number: int, events: Mapping[str, np.ndarray], known: Ring, groups: Groups
) -> tuple[Events, GroupEvents]:
    """Split events into node events and group events.

    Events that are given in Python are unchecked: those of unknown nodes or groups are refused
    (`ImpossibleRound`).
    """
    node, event, group = (events[name] for name in ("node", "event", "group"))
    of_node = np.isin(event, EVENT_NAMES[:NODE_EVENTS])
    if (group[~of_node] == NO_GROUP).any():
        raise ImpossibleRound(number, "an event of a group has no group")
    for what, named, there in (
        ("node", node, known.node),
        ("group", group[~of_node], groups.number),
    ):
        unknown = without(named, there)
        if len(unknown):
            raise ImpossibleRound(number, f"there is no {what} {unknown[0]}")
    of_nodes = Events.of(known, node[of_node], event[of_node])
    return of_nodes, GroupEvents.of(known, groups, node[~of_node], event[~of_node], group[~of_node])


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


def _extra_joins(taken: Columns, names: Names) -> pa.Table:
    """Return JOINs with the numbers of groups and nodes and the ids of routers, sorted."""
    rows = taken or dict.fromkeys(("group", AT, "child", "probes"), whole_numbers())
    batch = names.batch({**rows, "parent": rows[AT]}, arrow_schema(EXTRA_JOINS_COLUMNS))
    table = pa.Table.from_batches([batch])
    return table.sort_by([(name, "ascending") for name in ("group", "child", "parent", "probes")])
