"""The input of a generator: earlier events, groups and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame

from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.memberships import Memberships
from scribe_spark.worlds.rows import EventRows, Extent


@dataclass(frozen=True, eq=False)
class Setting:
    """A world's events so far, and its groups and nodes, for the next generator.

    Attributes
    ----------
    rows : EventRows
        The events so far: node events first, then group events, publications last.
    extent : Extent
    groups : WorldGroups, optional
        None in a world without groups.
    nodes : DataFrame, optional
        `schemas.NODES`, for generators that depend on nodeIds.
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
        """The memberships by the events so far."""
        return Memberships.of(self.rows, self.lifetimes, self.extent, self.known_groups.access)
