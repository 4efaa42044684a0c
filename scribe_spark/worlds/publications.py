"""Publications: how many a group has in a round, and who publishes them.

A source publishes once at most in a round and group.  Whether an access list permits it is for the
group to say.
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

#: Who may publish in a round: sources, and for each group how many of them are its own, and where
#: these begin: int64; the last two of shape (G,).
Pool = tuple[np.ndarray, np.ndarray, np.ndarray]


def publications(
    setting: Setting, rate: float, pool: Callable[[int, np.ndarray], Pool], turns: bool, seed: int
) -> EventRows:
    """The publications of all rounds.

    A group has as many as are due: after r rounds floor(r * `rate` + u), u drawn for each group in
    [0, 1), so that with a rate below 1 not all groups publish in the same rounds.

    Parameters
    ----------
    pool : callable
        (round, who is alive) -> :data:`Pool`.
    turns : bool
        Whether the sources of a group take turns; else the first of a round is drawn.

    Raises
    ------
    InputError
        More events than memory takes.
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
    """Members publish.

    Parameters
    ----------
    publishers : int
        How many of each group do: those that a draw for group and node puts first among the members
        of the round, so that one that is gone is replaced by another; 0: all.
    """
    numbers, members = setting.known_groups.numbers, setting.memberships
    place = np.searchsorted(numbers, members.groups)
    drawn = draws.bits_np(seed, "publisher", members.groups, members.nodes)
    order = np.lexsort((members.nodes, drawn if publishers else members.nodes, place))
    place, nodes = place[order], members.nodes[order]

    def pool(at: int, alive: np.ndarray) -> Pool:
        del alive  # a member is
        there = members.during(at)[order]
        return _first_of_each(place[there], nodes[there], len(numbers), publishers)

    return pool


def any_sources(setting: Setting, publishers: int, seed: int) -> Callable[[int, np.ndarray], Pool]:
    """Any live nodes publish.

    Parameters
    ----------
    publishers : int
        How many of each group: the first of a list of nodes drawn for the group that are alive; 0:
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
    """The root publishes: the live node that is numerically closest to the groupId.

    Parameters
    ----------
    ring : Ring
        All nodes, in the order of nodeIds.
    keys : Keys
        The groupIds, in the order of the groups' numbers.
    """
    place = np.arange(len(keys))

    def pool(at: int, alive: np.ndarray) -> Pool:
        del at
        live = np.flatnonzero(alive[ring.node])
        return ring.node[roots(ring, live, keys)], np.ones_like(place), place

    return pool


def _first_of_each(place: np.ndarray, nodes: np.ndarray, groups: int, most: int) -> Pool:
    """The first `most` nodes of each group (0: all), where rows are in the order of groups."""
    counts = np.bincount(place, minlength=groups)
    begins = np.cumsum(counts) - counts
    return nodes, np.minimum(counts, most) if most else counts, begins


def _drawn_lists(
    numbers: np.ndarray, length: int, nodes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes drawn for each group, each once, in the order of groups and draws."""
    raw = draws.bits_np(seed, "publisher", numbers[:, None], np.arange(length))
    drawn = (raw % np.uint64(nodes)).astype(np.int64).ravel()
    place = np.repeat(np.arange(len(numbers)), length)
    first = np.sort(np.unique(place * 2**31 + drawn, return_index=True)[1])
    return place[first], drawn[first]
