"""The input of a generator: earlier events, lifetimes, groups, memberships and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import Rows
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.rounds.event_rows import JOIN, QUIT, EventRows, Extent, Lifetimes
from scribe_spark.worlds.groups import MAY_JOIN, WorldGroups, group_keys

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


@dataclass(frozen=True)
class Memberships(Rows):
    """J memberships, sorted by group, node and round: int64 arrays of shape (J,).

    A node is a member in the rounds `begins` to `ends` - 1.
    """

    groups: np.ndarray
    nodes: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True, eq=False)
class Setting:
    """A world's events so far, and its groups and nodes, for the next generator.

    `rows` are the events so far: node events first, then group events, publications last.
    `nodes` (`schemas.NODES`) are for generators that depend on nodeIds.
    """

    rows: EventRows
    extent: Extent
    groups: WorldGroups | None = None
    nodes: DataFrame | None = None

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """The lifetimes of nodes by the events so far."""
        return Lifetimes(self.rows, self.extent)

    @property
    def known_groups(self) -> WorldGroups:
        """The groups; an error if the world has none."""
        if self.groups is None:
            raise ValueError("the world has no groups")
        return self.groups

    @cached_property
    def memberships(self) -> Memberships:
        """The memberships by the events so far, without joins that an access list refuses."""
        rows = self.rows.take((self.rows.events == JOIN) | (self.rows.events == QUIT))
        rows = rows.take(self.known_groups.access.permits(MAY_JOIN, rows.groups, rows.nodes))
        rows = rows.take(np.lexsort((rows.rounds, rows.nodes, rows.groups)))
        following = np.full(len(rows), self.extent.rounds, dtype=np.int64)
        same = (rows.groups[1:] == rows.groups[:-1]) & (rows.nodes[1:] == rows.nodes[:-1])
        following[:-1][same] = rows.rounds[1:][same]
        ends = np.minimum(following, self.lifetimes.ends(rows.nodes, rows.rounds))
        made = Memberships(rows.groups, rows.nodes, rows.rounds, ends)
        return made.take(rows.events == JOIN)

    @cached_property
    def ring(self) -> Ring:
        """All nodes, sorted by nodeId; an error without nodeIds."""
        if self.nodes is None:
            raise ValueError("nodeIds are not known without Spark")
        return node_ring(self.nodes)

    def keys(self, config: WorldConfig) -> Keys:
        """Return the groupIds, sorted by the groups' numbers."""
        rows = group_keys(self._rows_of_nodes, self.known_groups, config, self.extent)
        halves = (rows.column(name).to_numpy() for name in ("key_hi", "key_lo"))
        return Keys(*(half.view(np.uint64) for half in halves))

    def _rows_of_nodes(self, node: np.ndarray) -> dict[str, np.ndarray]:
        at = self.ring.positions(node)
        return {"id_hi": self.ring.hi[at].view(np.int64), "router": self.ring.router[at]}


def node_ring(nodes: DataFrame) -> Ring:
    """Return nodes (`schemas.NODES`) as a ring on the driver, sorted by nodeId."""
    rows = nodes.select("id_hi", "id_lo", "node", "router").toArrow()
    hi, lo, node, router = (rows.column(name).to_numpy() for name in rows.column_names)
    return Ring(hi.view(np.uint64), lo.view(np.uint64), node, router).in_order()
