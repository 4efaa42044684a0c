"""Memberships with their first and last rounds, computed from a table of events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.worlds.access import MAY_JOIN, AccessLists
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.rows import JOIN, QUIT, EventRows, Extent


@dataclass(frozen=True)
class Memberships:
    """J memberships, sorted by group, node and round.

    Attributes
    ----------
    groups, nodes : ndarray of int64, shape (J,)
    begins, ends : ndarray of int64, shape (J,)
        The node is a member in the rounds `begins` to `ends` - 1.
    """

    groups: np.ndarray
    nodes: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(
        cls, rows: EventRows, lifetimes: Lifetimes, extent: Extent, access: AccessLists
    ) -> Memberships:
        """Return all memberships; a join that the access list refuses makes none.

        Parameters
        ----------
        rows : EventRows
            Possible events.
        lifetimes : Lifetimes
            The lifetimes of nodes by the same events.
        """
        rows = rows.take((rows.events == JOIN) | (rows.events == QUIT))
        rows = rows.take(access.permits(MAY_JOIN, rows.groups, rows.nodes))
        rows = rows.take(np.lexsort((rows.rounds, rows.nodes, rows.groups)))
        following = np.full(len(rows), extent.rounds, dtype=np.int64)
        same = (rows.groups[1:] == rows.groups[:-1]) & (rows.nodes[1:] == rows.nodes[:-1])
        following[:-1][same] = rows.rounds[1:][same]
        ends = np.minimum(following, lifetimes.ends(rows.nodes, rows.rounds))
        joins = rows.events == JOIN
        return cls(rows.groups[joins], rows.nodes[joins], rows.rounds[joins], ends[joins])

    def during(self, at: int) -> np.ndarray:
        """Return True for memberships that include a round: bool, shape (J,)."""
        return (self.begins <= at) & (at < self.ends)
