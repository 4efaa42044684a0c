"""The start of a world's groups: all are created and joined in round 0.

A world has no other start than its events; these follow the node events of round 0.
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.errors import InputError
from scribe_spark.worlds.access import MAY_CREATE
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.rows import CREATE, JOIN, EventRows, Extent


class GroupStart:
    """The groups of a world, which are created and joined in round 0.

    Parameters
    ----------
    groups : WorldGroups
    extent : Extent
    seed : int
        The seed of random draws.
    path : str, optional
        The path of the access lists, for error messages.
    """

    def __init__(
        self, groups: WorldGroups, extent: Extent, seed: int, path: str | None = None
    ) -> None:
        self.groups = groups
        self._extent, self._seed, self._path = extent, seed, path

    def rows(self, of_nodes: EventRows) -> EventRows:
        """Return the creations and joins of round 0.

        Parameters
        ----------
        of_nodes : EventRows
            The node events of round 0, and any other events.

        Raises
        ------
        InputError
            No live node may create some group.
        """
        lifetimes = Lifetimes(of_nodes, self._extent)
        creates = _creates(self.groups, lifetimes, self._extent, self._seed, self._path)
        return EventRows.join(creates, _joins(self.groups, lifetimes))


def _joins(groups: WorldGroups, lifetimes: Lifetimes) -> EventRows:
    """Let the members at the start join in round 0, if they are alive after its node events."""
    of_start, nodes = groups.members.pairs
    alive, _ = lifetimes.at(nodes, 0)
    return EventRows.of_groups(0, nodes[alive], JOIN, of_start[alive])


def _creates(
    groups: WorldGroups, lifetimes: Lifetimes, extent: Extent, seed: int, path: str | None
) -> EventRows:
    """Create every group in round 0, by the same node that a run would draw.

    If that node is dead after the events of the round, or the access list refuses it, another node
    is drawn.

    Parameters
    ----------
    path : str, optional
        The path of the access lists, for error messages.

    Raises
    ------
    InputError
        No live node may create some group.
    """
    creators = _creators(groups.numbers, extent.initial, seed)
    alive, _ = lifetimes.at(creators, 0)
    may = groups.access.permits(MAY_CREATE, groups.numbers, creators)
    live = lifetimes.live(0)
    if not len(live):
        return EventRows.of_groups(0, creators, CREATE, groups.numbers)  # refused later
    listed = groups.access.listed(MAY_CREATE)
    for place in np.flatnonzero(~(alive & may)):
        group = groups.numbers[place]
        among = live
        if group in listed:
            among = np.intersect1d(live, groups.access.permitted(MAY_CREATE, group))
        if not len(among):
            remedy = f"allows no node that is alive in round 0 to create group {group}"
            raise InputError("access", path, remedy)
        drawn = draws.bits_np(seed, "creator instead", groups.numbers[place : place + 1])
        creators[place] = among[int(drawn[0] % np.uint64(len(among)))]
    return EventRows.of_groups(0, creators, CREATE, groups.numbers)


def _creators(numbers: np.ndarray, initial: int, seed: int) -> np.ndarray:
    """Return the creators whose names are in the groupIds (see `scribe.groups.make_groups`)."""
    signed = draws.bits_np(seed, "creator", numbers).view(np.int64)
    return np.mod(signed, initial)
