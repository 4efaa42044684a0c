"""The cycle rule in a round of a world: refused JOINs are routed with randomisation.

References
----------
JSAC 2002, Section IV.E: "if a node receives a JOIN message from a node in its path to the root, it
rejects the join and informs the joining node that it should join using a randomized route".
docs/rules.md, S29.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.pastry.randomised import randomised_hop
from scribe_spark.scribe.figures import deliver_join, forward
from scribe_spark.scribe.join import answer_here, own_joins, remember
from scribe_spark.scribe.paths_to_root import on_chain
from scribe_spark.scribe.root import become_root
from scribe_spark.scribe.scribe import Joins, Scribe

__all__ = ["ATTEMPTS", "rejoin"]

#: All nodes that a child can route by may be descendants of the child.  After this many randomised
#: routes it sends its JOIN to the root, which it knows from the path that it has received.
ATTEMPTS = 8


def rejoin(scribe: Scribe, joins: Joins, top: np.ndarray) -> None:
    """Refused JOINs take randomised routes, and are answered in the order of (group, child).

    The first node of the tree on the way takes the child in, and those before it become forwarders;
    unless the child is on that node's path: then it refuses the JOIN again.  All that were refused
    route anew together, and at last send their JOINs to the tops of their trees.

    Parameters
    ----------
    top : ndarray of int64
        The end of the path to the root that the source of each knows, or NONE.
    """
    number = scribe.ring.node
    order = np.lexsort((number[joins.source], scribe.groups.number[joins.group]))
    joins, top = joins.take(order), top[order]
    for attempt in range(ATTEMPTS):
        if not len(joins):
            return
        routes = _Routes.of(scribe, joins, scribe.number * ATTEMPTS + attempt)
        taken = [_answer(scribe, routes, at) for at in range(len(joins))]
        accepted, hops, tries = (np.array(column) for column in zip(*taken, strict=True))
        routes.count(scribe, hops, tries)
        joins, top = joins.take(~accepted), top[~accepted]
    for at in range(len(joins)):
        one, to = joins.take(np.array([at])), top[at : at + 1]
        row = scribe.entry(one.group, to)
        if to[0] >= 0 and row[0] >= 0 and not len(on_chain(scribe, row, one.source)):
            scribe.send("JOIN", one.source, to)
            deliver_join(scribe, to, one)
            answer_here(scribe)


@dataclass(frozen=True)
class _Routes:
    """Randomised routes of JOINs to the roots, by the tables as they are.

    Attributes
    ----------
    joins : Joins
    path : ndarray of int64, shape (longest path, m)
        The nodes that each is at; NONE after the end.
    delivered : ndarray of bool, shape (m,)
        Whether Pastry delivers at the end; else no candidate is left there, or it was there before.
    circled : ndarray of bool, shape (m,)
        The latter.
    met : list of (ndarray of int64, ndarray of int64)
        Of each node of the paths: JOINs, and dead nodes that they meet there.
    """

    joins: Joins
    path: np.ndarray
    delivered: np.ndarray
    circled: np.ndarray
    met: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, scribe: Scribe, joins: Joins, attempt: int) -> _Routes:
        """Route JOINs from their sources."""
        keys, number, m = scribe.groups.keys.take(joins.group), scribe.ring.node, len(joins)
        by = (scribe.groups.number[joins.group], number[joins.source], np.full(m, attempt))
        delivered, circled = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
        path, met, moving = [joins.source], [], np.arange(m)
        while len(moving):
            at = path[-1][moving]
            onward, found = randomised_hop(
                *(scribe.states, scribe.is_alive, at, keys.take(moving), scribe.seed),
                *[column[moving] for column in by],
            )
            met.append((moving[found.message], found.dead))
            delivered[moving] = onward == at
            goes = (onward >= 0) & (onward != at)
            moving, onward = moving[goes], onward[goes]
            circled[moving] = (np.stack(path)[:, moving] == onward).any(axis=0)
            path.append(np.full(m, NONE, dtype=np.int64))
            path[-1][moving] = onward
            moving = moving[~circled[moving]]
        return cls(joins, np.stack(path), delivered, circled, met)

    def count(self, scribe: Scribe, hops: np.ndarray, tries: np.ndarray) -> None:
        """Count the hops that JOINs make, and the dead nodes that they meet.

        Parameters
        ----------
        hops, tries : ndarray of int64, shape (m,)
            How many hops each makes, and at how many nodes it is sent on.
        """
        for hop, (message, dead) in enumerate(self.met):
            tried = tries[message] > hop
            message, dead = message[tried], dead[tried]
            went = np.flatnonzero(hops > hop)
            sender = np.r_[self.path[hop][went], self.path[hop][message]]
            to = np.r_[self.path[hop + 1][went], dead]
            scribe.send("JOIN", sender, to)
            scribe.counter.meet(sender[len(went) :], dead)


def _answer(scribe: Scribe, routes: _Routes, at: int) -> tuple[bool, int, int]:
    """Whoever the JOIN `at` comes to answers it.

    Returns
    -------
    bool
        False if it is refused.
    int, int
        How many hops it makes, and at how many nodes it is sent on.
    """
    join, path = routes.joins.take(np.array([at])), routes.path[:, at]
    path = path[path >= 0]
    rows = scribe.entry(np.repeat(join.group, len(path)), path)
    inside = np.flatnonzero(rows[1 : len(path) - routes.circled[at]] >= 0) + 1
    hops = int(inside[0]) if len(inside) else len(path) - 1
    last = path[hops : hops + 1]
    place = scribe.key(join.group, last)
    if len(inside):
        if len(on_chain(scribe, rows[inside[:1]], join.source)):
            return False, hops, hops
    elif not routes.delivered[at]:
        return True, hops, hops + (not routes.circled[at])  # lost: the child waits
    elif not scribe.state.copies.has(place)[0]:
        scribe.refuse("no group", 1)
        return True, hops, hops + 1
    else:
        become_root(scribe, place)
    below = join
    for node in path[1:hops]:
        entering = scribe.key(join.group, node)
        own = own_joins(scribe, entering, np.zeros(1, dtype=np.int64), below)
        forward(scribe, node[None], below, lambda _: None)
        remember(scribe, own)
        below = own
    if hops:
        deliver_join(scribe, last, below)
    answer_here(scribe)
    return True, hops, hops + (not len(inside))
