"""Subscribers of topics, as discovery knows them, and the nodes that each subscriber dials.

Discovery is outside of GossipSub's specification: a directory lists the subscribers of each topic.
All buckets share it, as they share the list of nodes.

References
----------
docs/rules.md, G1 to G3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import (
    SortedTable,
    distinct,
    divided,
    find_sorted,
    offsets_of,
    whole_numbers,
)
from scribe_spark.gossipsub.choosing import Names
from scribe_spark.runtime.distribute import open_array

#: The table of a bucket with the subscribers among its nodes.
SUBSCRIBERS = "members"


@dataclass
class Subscribers(SortedTable):
    """Live subscribers, by topic and node."""

    #: When the subscriber JOINs: its wave in a run, its round in a world.
    joined: np.ndarray = field(default_factory=whole_numbers)


class KnowsSubscribers(Protocol):
    """An object with the directory of subscribers."""

    @property
    def directory(self) -> Directory: ...


@dataclass(frozen=True)
class Directory:
    """The subscribers of all topics."""

    place: np.ndarray  # the sorted keys ``topic * size + node``
    offsets: np.ndarray  # (T + 1,): the index of the first key of each topic
    size: int

    @classmethod
    def of(cls, place: np.ndarray, topics: int, size: int) -> Directory:
        """Build a directory from keys in any order; repetitions are allowed."""
        place = distinct(place)
        counts = np.bincount(place // size, minlength=topics)
        return cls(place, offsets_of(counts), size)

    @property
    def directory(self) -> Directory:
        """This directory."""
        return self

    def others(self, place: np.ndarray) -> np.ndarray:
        """Return the number of other subscribers of each place's topic: int64."""
        return np.diff(self.offsets)[place // self.size] - 1

    def between(self, first: int, last: int) -> np.ndarray:
        """Return the places of nodes in a range of positions: int64, ascending."""
        node = self.place % self.size
        return self.place[(node >= first) & (node < last)]

    def has(self, place: np.ndarray) -> np.ndarray:
        """Return True for places in the directory."""
        return find_sorted(self.place, place) >= 0


@dataclass(frozen=True)
class SharedDirectory:
    """A directory in arrays that all tasks of a machine share; picklable."""

    names: tuple[str, str]  # the names of the shared arrays: places and offsets
    size: int

    @property
    def directory(self) -> Directory:
        """The directory."""
        return Directory(open_array(self.names[0]), open_array(self.names[1]), self.size)


@dataclass(frozen=True)
class DirectoryOfRound:
    """The directory of a world's round, in arrays that the player shares."""

    shared: Mapping[str, np.ndarray]  # ``place`` and ``offsets``, see `Directory`
    size: int

    @property
    def directory(self) -> Directory:
        """The directory."""
        return Directory(self.shared["place"], self.shared["offsets"], self.size)


def dialled(
    names: Names, directory: Directory, place: np.ndarray, count: int, heartbeat: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the other subscribers of the same topics that subscribers dial (rule G2).

    Each dials `count` others, if there are so many.  The result has the row in `place`, ascending,
    and the position of the peer.
    """
    topic, node = divided(place, directory.size)
    first = directory.offsets[topic]
    own = find_sorted(directory.place, place) - first
    others = directory.offsets[topic + 1] - first - 1
    shared = names.bits("gossipsub dial", heartbeat, topic, node)
    of, chosen = draws.sample_others(shared, others, count)
    chosen = chosen + (chosen >= own[of])
    return of, directory.place[first[of] + chosen] % directory.size
