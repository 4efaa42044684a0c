"""The groups of a world, and the measures that every system has.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scribe_spark.bandwidth.rounds import Begun, RoundLinks, replay_round, route_round
from scribe_spark.core.arrays import without
from scribe_spark.core.key_limits import refuse_groups_of_world
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.ring import Keys, Ring
from scribe_spark.measures.counts import Counted
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    MeasureMulticasts,
    MulticastMeasures,
    MulticastTables,
)
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.event_rows import EVENT_NAMES, NODE_EVENTS, EventRows, Extent, event_codes
from scribe_spark.rounds.events import Events, ImpossibleRound
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.legality import first_bad_cell
from scribe_spark.worlds.link_stress import LINKS_MEASURED, LinkStress, MeasureLinks
from scribe_spark.worlds.round_bytes import (
    BYTES_MEASURED,
    MeasureBytes,
    byte_measures,
    byte_rows,
    bytes_of_kinds,
)

#: The kinds of messages that are counted on links under each name.
_Kinds = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class LiveGroups:
    """The groups of a world, and the measures of their publications, for every system.

    The groups have `numbers` (G,) and groupIds (the halves are uint64), and access `lists` (see
    `Groups.of`).  `rounds` is the number of rounds of the world; a publication that is not
    delivered after `deadline` rounds is lost.
    """

    numbers: np.ndarray
    key_hi: np.ndarray
    key_lo: np.ndarray
    lists: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    deadline: int
    rounds: int
    link_stress: LinkStress
    multicasts: MulticastMeasures = field(default_factory=MulticastMeasures)

    @property
    def links(self) -> RoundLinks | None:
        """The links of nodes, if publications have a size."""
        return self.multicasts.links

    def groups(self, known: Ring) -> Groups:
        """Return the groups; `known` is all nodes of the world, sorted by nodeId."""
        groups, nodes = len(self.numbers), int(known.node.max()) + 1
        refuse_groups_of_world(groups, nodes, self.deadline, self.rounds)
        return Groups.of(self.numbers, Keys(self.key_hi, self.key_lo), known, self.lists)

    # --- measures that every system has

    def replay(
        self, player: PlaysPrograms, given: Environment, begun: Begun, copies: str, came: str
    ) -> None:
        """Replace the times of deliveries (table `came`) by those with bandwidth, if used."""
        if self.links is not None and len(begun):
            of_copies = given.facts, given.bounds, given.kernel, begun, copies, came
            replay_round(player, self.links, *of_copies)

    def route(self, player: PlaysPrograms, given: Environment, begun: Begun, came: str) -> None:
        """Add times of transmission to deliveries whose copies routers duplicate, if used."""
        if self.links is not None and len(begun):
            route_round(player, self.links, given.facts, given.bounds, begun, came)

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


#: The tables of the measures that every system has.
COMMON_TABLES = (*MULTICASTS_MEASURED, LINKS_MEASURED, BYTES_MEASURED)


def split_events(
    number: int, events: Mapping[str, np.ndarray], known: Ring, groups: Groups
) -> tuple[Events, GroupEvents]:
    """Split events into node events and group events.

    Events that are given in Python are unchecked: those of unknown nodes or groups are refused
    (`ImpossibleRound`).
    """
    node, event, group = (events[name] for name in ("node", "event", "group"))
    of_node = np.isin(event, EVENT_NAMES[:NODE_EVENTS])
    unknown = without(node, known.node), without(group[~of_node], groups.number)
    if not any(map(len, unknown)):
        of_nodes = Events.of(known, node[of_node], event[of_node])
        rest = node[~of_node], event[~of_node], group[~of_node]
        of_groups = GroupEvents.of(known, groups, *rest)
        if sum(len(nodes) for _, nodes in of_groups.by_kind().values()) == len(rest[0]):
            return of_nodes, of_groups
    rows = EventRows(np.full(len(node), number), node, event_codes(event), group)
    what = first_bad_cell(rows, event, Extent(len(known), number + 1, 0), groups.number)
    assert what is not None
    raise ImpossibleRound(number, what)
