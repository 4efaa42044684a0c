"""The members of the groups in a world that does not play Scribe.

Scribe's own state tells who is a member.  In a world without Scribe, buckets keep the pairs
(group, node) of the members, so that impossible joins and quits are refused before a round begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import find_sorted, whole_numbers
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import (
    OF_MEMBERS,
    GroupEvents,
    Pairs,
    check_group_events,
)
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.player import RoundPlayer

#: The table of a bucket with its members: sorted keys ``group * K + node``.
MEMBERS = "members of the world"

_REFUSED = "refused events of members"


def check_memberships(
    player: RoundPlayer, number: int, groups: Groups, events: Events, of_groups: GroupEvents
) -> None:
    """Raise `ImpossibleRound` for impossible events of groups, before anything is played."""
    check = _Check(player.given.bounds, groups.size, of_groups)
    check_group_events(player, number, groups, events, of_groups, check, _REFUSED)


def keep_memberships(
    player: RoundPlayer, groups: Groups, events: Events, of_groups: GroupEvents
) -> None:
    """Play the joins, the quits and the deaths of a round on the table :data:`MEMBERS`.

    A join without the right changes nothing.
    """
    join, gone = of_groups.join, np.sort(np.r_[events.fail, events.leave])
    if len(join[0]) + len(of_groups.quit[0]) + len(gone):
        may = groups.allows("join", *join)
        joins = join[0][may], join[1][may]
        changes = GroupEvents(join=joins, quit=of_groups.quit)
        player.play(_Keep(player.given.bounds, groups.size, changes, gone))


@dataclass(frozen=True)
class _OfMembers:
    """A program on the table :data:`MEMBERS`; `size` is the number of nodes, K."""

    bounds: np.ndarray
    size: int
    events: GroupEvents

    def keys(self, bucket: int, pairs: Pairs) -> np.ndarray:
        """Return the sorted keys of the pairs whose nodes are in a bucket."""
        group, node = pairs
        first, last = self.bounds[bucket : bucket + 2]
        mine = (node >= first) & (node < last)
        return np.sort(group[mine] * self.size + node[mine])

    def members(self, tables: Tables) -> np.ndarray:
        """Return the keys of the members in a bucket."""
        return tables[MEMBERS]["key"] if MEMBERS in tables else whole_numbers()


@dataclass(frozen=True)
class _Check(_OfMembers):
    """Record joins of members and quits of nodes that are no members."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the table of refused events; send nothing."""
        members, wrong = self.members(tables), []
        for index, kind in enumerate(OF_MEMBERS):
            keys = self.keys(bucket, getattr(self.events, kind))
            is_member = find_sorted(members, keys) >= 0
            keys = keys[is_member if kind == "join" else ~is_member]
            wrong.append((np.full(len(keys), index), *np.divmod(keys, self.size)))
        kinds, group, node = (np.concatenate(column) for column in zip(*wrong, strict=True))
        if len(kinds):
            tables[_REFUSED] = {"kind": kinds, "group": group, "node": node}
        return {}


@dataclass(frozen=True)
class _Keep(_OfMembers):
    """Change the members of a bucket; the nodes `gone` have died or left, ascending."""

    gone: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the table :data:`MEMBERS`; send nothing."""
        keys = self.members(tables)
        keys = keys[find_sorted(self.gone, keys % self.size) < 0]
        keys = keys[find_sorted(self.keys(bucket, self.events.quit), keys) < 0]
        tables[MEMBERS] = {"key": np.sort(np.r_[keys, self.keys(bucket, self.events.join)])}
        return {}
