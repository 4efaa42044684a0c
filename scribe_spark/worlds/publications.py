"""Publications: their number per group and round, and their sources.

A source publishes at most once per round and group.  Access lists are ignored here; the group
refuses sources that are not on its list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import expand
from scribe_spark.pastry.closeness import roots
from scribe_spark.worlds.churn import refuse_many_events
from scribe_spark.worlds.lengths import publish_rate
from scribe_spark.worlds.rows import PUBLISH, EventRows, Extent
from scribe_spark.worlds.setting import Setting

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

#: The possible sources in a round: the nodes; the number of each group's sources; and the index of
#: its first source; int64 arrays, the last two of shape (G,).
_Sources = tuple[np.ndarray, np.ndarray, np.ndarray]

#: ``pool(round, alive)`` returns the possible sources.
_Pool = Callable[[int, np.ndarray], _Sources]


def publications(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Return the publications of all rounds.

    After r rounds a group has had floor(r * rate + u) publications, where u is drawn in [0, 1) for
    each group.  So with a rate below 1, groups publish in different rounds.  The sources of a group
    take turns if their number is limited; otherwise the first source of a round is drawn.

    Raises
    ------
    InputError
        There are too many events.
    """
    numbers, seed = setting.known_groups.numbers, config.seed
    rate, publishers = publish_rate(config), config.world.publishers
    pool = _POOLS[config.world.publish_source](setting, config)
    refuse_many_events("publish_rate", rate, rate * len(numbers) * extent.rounds, "publications")
    offset = (draws.bits_np(seed, "publication offset", numbers) >> np.uint64(11)) * 2.0**-53
    made = [EventRows.none()]
    for at, alive in enumerate(setting.lifetimes.by_round()):
        before, after = (np.floor(r * rate + offset).astype(np.int64) for r in (at, at + 1))
        sources, counts, begins = pool(at, alive)
        due = np.minimum(after - before, counts)
        first = before
        if not publishers:
            raw = draws.bits_np(seed, "publication source", at, numbers)
            first = (raw >> np.uint64(1)).astype(np.int64)
        place, nth = expand(np.zeros_like(due), due)
        column = (first[place] % counts[place] + nth) % counts[place]
        chosen = sources[begins[place] + column]
        made.append(EventRows.of_groups(at, chosen, PUBLISH, numbers[place]))
    return EventRows.join(*made)


def from_roots(config: WorldConfig) -> bool:
    """Return True if roots publish, so that events depend on nodeIds."""
    return config.world.publish_source == "root"


def _member_sources(setting: Setting, config: WorldConfig) -> _Pool:
    """Return a pool of members.

    With `publishers`, a group has the first of its members of the round in a fixed random order of
    (group, node), so that a source that leaves is replaced.
    """
    numbers, members = setting.known_groups.numbers, setting.memberships
    publishers = config.world.publishers
    place = np.searchsorted(numbers, members.groups)
    drawn = draws.bits_np(config.seed, "publisher", members.groups, members.nodes)
    order = np.lexsort((members.nodes, drawn if publishers else members.nodes, place))
    members, place = members.take(order), place[order]

    def pool(at: int, alive: np.ndarray) -> _Sources:
        there = (members.begins <= at) & (at < members.ends)  # members are alive
        return _first_of_each(place[there], members.nodes[there], len(numbers), publishers)

    return pool


def _any_sources(setting: Setting, config: WorldConfig) -> _Pool:
    """Return a pool of live nodes.

    With `publishers`, a group has the first live nodes of a list that is drawn for the group.
    """
    numbers, publishers = setting.known_groups.numbers, config.world.publishers

    def everybody(at: int, alive: np.ndarray) -> _Sources:
        live = np.flatnonzero(alive)
        return live, np.full(len(numbers), len(live)), np.zeros(len(numbers), dtype=np.int64)

    def pool(at: int, alive: np.ndarray) -> _Sources:
        wanted = min(publishers, int(np.count_nonzero(alive)))
        length = 2 * wanted + 8
        while True:
            place, nodes = _drawn_lists(numbers, length, setting.extent.nodes, config.seed)
            place, nodes = place[alive[nodes]], nodes[alive[nodes]]
            found = _first_of_each(place, nodes, len(numbers), wanted)
            if (found[1] == wanted).all():
                return found
            length *= 2

    return pool if publishers else everybody


def _root_sources(setting: Setting, config: WorldConfig) -> _Pool:
    """Return a pool with the root of each group: the live node closest to the groupId."""
    ring, keys = setting.ring, setting.keys(config)
    place = np.arange(len(keys))

    def pool(at: int, alive: np.ndarray) -> _Sources:
        live = np.flatnonzero(alive[ring.node])
        return ring.node[roots(ring, live, keys)], np.ones_like(place), place

    return pool


_POOLS = {"member": _member_sources, "any": _any_sources, "root": _root_sources}


def _first_of_each(place: np.ndarray, nodes: np.ndarray, groups: int, most: int) -> _Sources:
    """Return the first `most` nodes of each group (0: all) from rows sorted by group."""
    counts = np.bincount(place, minlength=groups)
    begins = np.cumsum(counts) - counts
    return nodes, np.minimum(counts, most) if most else counts, begins


def _drawn_lists(
    numbers: np.ndarray, length: int, nodes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes drawn for each group, without repetitions, by group and order of draws."""
    raw = draws.bits_np(seed, "publisher", numbers[:, None], np.arange(length))
    drawn = (raw % np.uint64(nodes)).astype(np.int64).ravel()
    place = np.repeat(np.arange(len(numbers)), length)
    first = np.sort(np.unique(place * 2**31 + drawn, return_index=True)[1])
    return place[first], drawn[first]
