"""The members of the groups in a world, so that impossible events are refused before a round.

Buckets keep the pairs (group, node) of the members, whatever systems a world plays.

References
----------
docs/rules.md, "Rounds".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import distinct, find_sorted, whole_numbers
from scribe_spark.engine import Inbox, Outbox, Program, Tables
from scribe_spark.engine.program import in_bucket
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import (
    JOINING,
    OF_MEMBERS,
    QUITTING,
    GroupEvents,
    Groups,
    Pairs,
    keys_sent,
    refuse_impossible,
)
from scribe_spark.rounds.player import RoundPlayer

#: The table of a bucket with its members: sorted keys ``group * K + node``.
MEMBERS = "members of the world"

#: The table of impossible events: ``kind`` (an index of `OF_MEMBERS`), ``group``, ``node``.
_REFUSED = "refused events of members"


def check_group_events(
    player: RoundPlayer, number: int, groups: Groups, events: Events, of_groups: GroupEvents
) -> None:
    """Raise `ImpossibleRound` for impossible events of groups, before anything is played."""
    check = _CheckMembers(player.given.bounds, groups, of_groups)
    refuse_impossible(player, number, groups, events, of_groups, check, _REFUSED)


def change_memberships(
    player: RoundPlayer,
    groups: Groups,
    events: Events,
    of_groups: GroupEvents,
    by_messages: bool = False,
) -> list[Program]:
    """Return the program of a round's joins, quits and deaths on :data:`MEMBERS`, if needed.

    A join without the right changes nothing.  With `by_messages`, more joins and quits come as
    messages.
    """
    gone = np.sort(np.r_[events.fail, events.leave])
    if not len(of_groups.join[0]) + len(of_groups.quit[0]) + len(gone) + by_messages:
        return []
    return [ChangeMembers(player.given.bounds, groups, of_groups, gone)]


@dataclass(frozen=True)
class _OfMembers:
    """A program on the table :data:`MEMBERS`."""

    bounds: np.ndarray
    groups: Groups
    events: GroupEvents
    silent: ClassVar[bool] = True

    def keys(self, bucket: int, pairs: Pairs) -> np.ndarray:
        """Return the sorted keys of the pairs whose nodes are in a bucket."""
        group, node = pairs
        mine = in_bucket(self.bounds, bucket, node)
        return np.sort(group[mine] * self.groups.size + node[mine])

    def members(self, tables: Tables) -> np.ndarray:
        """Return the keys of the members in a bucket."""
        return tables[MEMBERS]["key"] if MEMBERS in tables else whole_numbers()


@dataclass(frozen=True)
class _CheckMembers(_OfMembers):
    """Record joins of members and quits of nodes that are no members."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the table of refused events; send nothing."""
        members, wrong = self.members(tables), []
        for index, kind in enumerate(OF_MEMBERS):
            keys = self.keys(bucket, getattr(self.events, kind))
            is_member = find_sorted(members, keys) >= 0
            keys = keys[is_member if kind == "join" else ~is_member]
            wrong.append((np.full(len(keys), index), *np.divmod(keys, self.groups.size)))
        kinds, group, node = (np.concatenate(column) for column in zip(*wrong, strict=True))
        if len(kinds):
            tables[_REFUSED] = {"kind": kinds, "group": group, "node": node}
        return {}


@dataclass(frozen=True)
class ChangeMembers(_OfMembers):
    """Change the members of a bucket; the nodes `gone` have died or left, ascending.

    Joins and quits may also come as messages.
    """

    gone: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the table :data:`MEMBERS`; send nothing."""
        keys = self.members(tables)
        keys = keys[find_sorted(self.gone, keys % self.groups.size) < 0]
        quits = self._changed(bucket, self.events.quit, inbox, QUITTING)
        keys = keys[find_sorted(quits, keys) < 0]
        joins = self._changed(bucket, self.events.join, inbox, JOINING)
        joins = joins[self.groups.allows("join", *np.divmod(joins, self.groups.size))]
        tables[MEMBERS] = {"key": distinct(np.r_[keys, joins])}
        return {}

    def _changed(self, bucket: int, pairs: Pairs, inbox: Inbox, kind: str) -> np.ndarray:
        """Return the sorted keys of events, and of messages of a kind."""
        keys = self.keys(bucket, pairs)
        return np.sort(np.r_[keys, keys_sent(inbox, kind, self.groups.size)])
