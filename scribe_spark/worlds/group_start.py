"""The start of a world's groups: all are created and joined in round 0.

A world has no other start than its events; these follow the node events of round 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.errors import InputError
from scribe_spark.worlds.access import MAY_CREATE
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.rows import CREATE, JOIN, EventRows, Extent


@dataclass(frozen=True)
class GroupStart:
    """The groups of a world, which are created and joined in round 0.

    `path` is the path of the access lists, for error messages.
    """

    groups: WorldGroups
    extent: Extent
    seed: int
    path: str | None = None

    def rows(self, of_nodes: EventRows) -> EventRows:
        """Return the creations and joins of round 0, given its node events.

        Members at the start join if they are alive after the node events.
        """
        lifetimes = Lifetimes(of_nodes, self.extent)
        of_start, nodes = self.groups.members
        alive, _ = lifetimes.at(nodes, 0)
        joins = EventRows.of_groups(0, nodes[alive], JOIN, of_start[alive])
        return EventRows.join(self._creates(lifetimes), joins)

    def _creates(self, lifetimes: Lifetimes) -> EventRows:
        """Create every group by the node that a run would draw, whose name is in the groupId.

        If that node is dead after the events of the round, or the access list refuses it, another
        node is drawn (see `scribe.groups.make_groups` for the first draw).
        """
        numbers, access = self.groups.numbers, self.groups.access
        signed = draws.bits_np(self.seed, "creator", numbers).view(np.int64)
        creators = np.mod(signed, self.extent.initial)
        alive, _ = lifetimes.at(creators, 0)
        may, live = access.permits(MAY_CREATE, numbers, creators), lifetimes.live(0)
        listed = access.listed(MAY_CREATE)
        # a round after which no node is alive is refused later
        for place in np.flatnonzero(~(alive & may) & (len(live) > 0)):
            group, among = numbers[place], live
            if group in listed:
                among = np.intersect1d(live, access.permitted(MAY_CREATE, group))
            if not len(among):
                remedy = f"allows no node that is alive in round 0 to create group {group}"
                raise InputError("access", self.path, remedy)
            drawn = draws.bits_np(self.seed, "creator instead", numbers[place : place + 1])
            creators[place] = among[int(drawn[0] % np.uint64(len(among)))]
        return EventRows.of_groups(0, creators, CREATE, numbers)
