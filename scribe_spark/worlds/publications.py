"""Publications: their number per group and round, and their sources.

A source publishes at most once per round and group.  Access lists are ignored here; the group
refuses sources that are not on its list.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import expand
from scribe_spark.engine.ring import Ring
from scribe_spark.errors import InputError
from scribe_spark.pastry.closeness import Keys, roots
from scribe_spark.worlds.churn import MOST_EVENTS
from scribe_spark.worlds.rows import PUBLISH, EventRows
from scribe_spark.worlds.setting import Setting

#: The possible sources in a round: the nodes; the number of each group's sources; and the index of
#: its first source; int64 arrays, the last two of shape (G,).
Pool = tuple[np.ndarray, np.ndarray, np.ndarray]


def publications(
    setting: Setting, rate: float, pool: Callable[[int, np.ndarray], Pool], turns: bool, seed: int
) -> EventRows:
    """Return the publications of all rounds.

    After r rounds a group has had floor(r * `rate` + u) publications, where u is drawn in [0, 1)
    for each group.  So with a rate below 1, groups publish in different rounds.

    Parameters
    ----------
    pool : callable
        ``pool(round, alive)`` returns :data:`Pool`.
    turns : bool
        If True, the sources of a group take turns; otherwise the first source of a round is drawn.

    Raises
    ------
    InputError
        There are too many events.
    """
    numbers, extent = setting.known_groups.numbers, setting.extent
    expected = rate * len(numbers) * extent.rounds
    if expected > MOST_EVENTS:
        remedy = f"makes about {expected:,.0f} publications; must be at most {MOST_EVENTS:,}"
        raise InputError("publish_rate", rate, remedy)
    offset = (draws.bits_np(seed, "publication offset", numbers) >> np.uint64(11)) * 2.0**-53
    made = [EventRows.none()]
    for at, alive in enumerate(setting.lifetimes.by_round()):
        before, after = (np.floor(r * rate + offset).astype(np.int64) for r in (at, at + 1))
        sources, counts, begins = pool(at, alive)
        due = np.minimum(after - before, counts)
        first = before
        if not turns:
            raw = draws.bits_np(seed, "publication source", at, numbers)
            first = (raw >> np.uint64(1)).astype(np.int64)
        place, nth = expand(np.zeros_like(due), due)
        column = (first[place] % counts[place] + nth) % counts[place]
        chosen = sources[begins[place] + column]
        made.append(EventRows.of_groups(at, chosen, PUBLISH, numbers[place]))
    return EventRows.join(*made)


def member_sources(
    setting: Setting, publishers: int, seed: int
) -> Callable[[int, np.ndarray], Pool]:
    """Return a pool of members as sources.

    Parameters
    ----------
    publishers : int
        The number of sources per group: the first members of the round in a fixed random order of
        (group, node), so that a source that leaves is replaced; 0 for all members.
    """
    numbers, members = setting.known_groups.numbers, setting.memberships
    place = np.searchsorted(numbers, members.groups)
    drawn = draws.bits_np(seed, "publisher", members.groups, members.nodes)
    order = np.lexsort((members.nodes, drawn if publishers else members.nodes, place))
    place, nodes = place[order], members.nodes[order]

    def pool(at: int, alive: np.ndarray) -> Pool:
        del alive  # not needed, because members are alive
        there = members.during(at)[order]
        return _first_of_each(place[there], nodes[there], len(numbers), publishers)

    return pool


def any_sources(setting: Setting, publishers: int, seed: int) -> Callable[[int, np.ndarray], Pool]:
    """Return a pool of live nodes as sources.

    Parameters
    ----------
    publishers : int
        The number of sources per group: the first live nodes in a list drawn for the group; 0 for
        all live nodes.
    """
    numbers, extent = setting.known_groups.numbers, setting.extent

    def everybody(at: int, alive: np.ndarray) -> Pool:
        del at
        live = np.flatnonzero(alive)
        return live, np.full(len(numbers), len(live)), np.zeros(len(numbers), dtype=np.int64)

    def pool(at: int, alive: np.ndarray) -> Pool:
        del at
        wanted = min(publishers, int(np.count_nonzero(alive)))
        length = 2 * wanted + 8
        while True:
            place, nodes = _drawn_lists(numbers, length, extent.nodes, seed)
            place, nodes = place[alive[nodes]], nodes[alive[nodes]]
            found = _first_of_each(place, nodes, len(numbers), wanted)
            if (found[1] == wanted).all():
                return found
            length *= 2

    return pool if publishers else everybody


def root_sources(ring: Ring, keys: Keys) -> Callable[[int, np.ndarray], Pool]:
    """Return a pool with the root of each group: the live node closest to the groupId.

    Parameters
    ----------
    ring : Ring
        All nodes, sorted by nodeId.
    keys : Keys
        The groupIds, sorted by the groups' numbers.
    """
    place = np.arange(len(keys))

    def pool(at: int, alive: np.ndarray) -> Pool:
        del at
        live = np.flatnonzero(alive[ring.node])
        return ring.node[roots(ring, live, keys)], np.ones_like(place), place

    return pool


def _first_of_each(place: np.ndarray, nodes: np.ndarray, groups: int, most: int) -> Pool:
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
