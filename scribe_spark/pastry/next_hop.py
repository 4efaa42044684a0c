"""Closeness of nodes to keys, and Pastry's next hop, around dead nodes.

A node is closer to a key if its distance on the ring (a 128-bit number, as halves) is smaller; ties
go to the smaller nodeId.  A message to a dead node is lost; the sender notices it at once and tries
the next candidate.  Routing does not change tables: dead entries are dropped after all messages of
the round have ended.

JSAC 2002, Section II ("the node with nodeId numerically closest to the key");
NGC 2001, Section 2.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, append
from scribe_spark.pastry.states import (
    NONE,
    BucketNodes,
    IsAlive,
    MessageProgram,
    States,
    covers_ring,
)

# --- closeness to keys


def clockwise(a_hi, a_lo, b_hi, b_lo) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance from a to b clockwise, b - a modulo 2**128, as two halves (uint64)."""
    return b_hi - a_hi - (b_lo < a_lo).astype(np.uint64), b_lo - a_lo


def not_above(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return True where a <= b, for 128-bit numbers as pairs of halves: bool."""
    return ~ids.lt_np(*b, *a)


@dataclass(frozen=True)
class RingDistances:
    """Ring distances of k candidates from each of m keys; of equal ones, smaller positions win."""

    hi: np.ndarray
    lo: np.ndarray
    position: np.ndarray

    def closer_than(self, other: RingDistances) -> np.ndarray:
        """Return True where a candidate is closer to the key than that of `other`: bool, (m, k)."""
        lower = (self.lo < other.lo) | ((self.lo == other.lo) & (self.position < other.position))
        return (self.hi < other.hi) | ((self.hi == other.hi) & lower)

    def closest(self, among: np.ndarray) -> np.ndarray:
        """Return the column of the closest candidate in each row, or :data:`NONE`."""
        if not among.shape[1]:
            return np.full(len(among), NONE)
        left = among
        for part in (self.hi, self.lo, self.position):
            least = np.where(left, part, np.iinfo(part.dtype).max).min(axis=1)
            left = left & (part == least[:, None])
        return np.where(among.any(axis=1), left.argmax(axis=1), NONE)

    def column(self, column: np.ndarray) -> RingDistances:
        """Return the distances of one candidate of each row, in column `column`: shape (m, 1)."""
        parts = (self.hi, self.lo, self.position)
        return RingDistances(*(np.take_along_axis(part, column[:, None], axis=1) for part in parts))


def distances(known: Ring, keys: Keys, candidates: np.ndarray) -> RingDistances:
    """Return the ring distances of candidates (positions, shape (m, k)) from the m keys."""
    at, key = (known.hi[candidates], known.lo[candidates]), (keys.hi[:, None], keys.lo[:, None])
    one, other = clockwise(*key, *at), clockwise(*at, *key)
    is_one = ids.lt_np(*one, *other)
    hi, lo = (np.where(is_one, a, b) for a, b in zip(one, other, strict=True))
    return RingDistances(hi, lo, candidates)


def roots(known: Ring, live: np.ndarray, keys: Keys) -> np.ndarray:
    """Return the root of each key: the numerically closest of the `live` positions (ascending)."""
    low, high = np.zeros(len(keys), dtype=np.int64), np.full(len(keys), len(live))
    # bisect: the first node whose nodeId is not below the key
    while (searching := low < high).any():
        middle = (low + high) // 2
        at = live[np.minimum(middle, len(live) - 1)]
        below = ids.lt_np(known.hi[at], known.lo[at], keys.hi, keys.lo)
        low = np.where(searching & below, middle + 1, low)
        high = np.where(searching & ~below, middle, high)
    beside = live[np.stack([low - 1, low % len(live)], axis=1)]
    column = distances(known, keys, beside).closest(np.ones(beside.shape, dtype=bool))
    return beside[np.arange(len(beside)), column]


# --- the next hop


_MESSAGES = 2**13  # the number of messages that are routed in one step


@dataclass(frozen=True)
class Met:
    """The dead nodes that messages met in one hop: pairs of a message's index and a node."""

    message: np.ndarray
    dead: np.ndarray


def hop(states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys) -> tuple[np.ndarray, Met]:
    """Return the next hops of messages from the positions `at`, and the dead nodes that they met.

    The next hop is the node itself if it delivers the message; :data:`NONE` if no candidate is
    left.  `keys` are those of the messages.
    """
    size, onward, met = len(states.known), [], []
    for start in range(0, max(1, len(at)), _MESSAGES):
        some = np.arange(start, min(start + _MESSAGES, len(at)))
        next_, message, dead = _hop_of_some(states, is_alive, at[some], keys.take(some))
        onward.append(next_)
        met.append((start + message) * size + dead)
    message, dead = np.divmod(distinct(np.concatenate(met)), size)
    return np.concatenate(onward), Met(message, dead)


def _hop_of_some(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    onward = np.full(len(at), NONE, dtype=np.int64)
    # 1. keys in the span of the leaf set: the closest of the leaves and the node itself
    inside = _in_span(states, at, keys)
    near = np.flatnonzero(inside)
    leaves = states.leaves[at[near] - states.first]
    around = np.concatenate([leaves, at[near, None].astype(np.int32)], axis=1)
    onward[near], message, dead = _closest_alive(
        states.known, is_alive, keys.take(near), around, around >= 0
    )
    met = [(near[message], dead)]
    # 2. otherwise the routing table's entry for the key
    far = np.flatnonzero(~inside)
    entry = table_entry(states, at[far], keys.take(far))
    usable = is_alive(entry)
    onward[far[usable]] = entry[usable]
    lost = (entry >= 0) & ~usable
    met.append((far[lost], entry[lost]))
    # 3. otherwise a known node with at least as long a shared prefix that is closer to the key
    rare = far[~usable]
    if len(rare):
        onward[rare], message, dead = _rare_case(states, is_alive, at[rare], keys.take(rare))
        met.append((rare[message], dead))
    message, dead = (np.concatenate(part) for part in zip(*met, strict=True))
    return onward, message, dead.astype(np.int64)


def _in_span(states: States, at: np.ndarray, keys: Keys) -> np.ndarray:
    """Return True for keys on the arc between the farthest leaves of their node."""
    known, (larger_reach, smaller_reach) = states.known, states.reach(at - states.first)
    node, size = known.take(at), len(known)
    larger = known.take((at + larger_reach) % size)
    smaller = known.take((at - smaller_reach) % size)
    after = clockwise(node.hi, node.lo, keys.hi, keys.lo)
    before = clockwise(keys.hi, keys.lo, node.hi, node.lo)
    inside = not_above(after, clockwise(node.hi, node.lo, larger.hi, larger.lo))
    inside |= not_above(before, clockwise(smaller.hi, smaller.lo, node.hi, node.lo))
    return inside | covers_ring(larger_reach, smaller_reach, size)


def table_entry(states: States, at: np.ndarray, keys: Keys) -> np.ndarray:
    """Return the entry for each key in its node's table, or :data:`NONE`."""
    known, b, rows = states.known, states.b, states.cells.shape[1]
    shared = ids.shared_digits_np(known.hi[at], known.lo[at], keys.hi, keys.lo, b)
    row = np.minimum(shared, rows - 1)
    column = ids.digit_at_np(keys.hi, keys.lo, row, b)
    entry = states.cells[at - states.first, row, column].astype(np.int64)
    return np.where(shared < rows, entry, NONE)


def _rare_case(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the closest live known node with a long enough prefix (NONE: none), and dead nodes."""
    message, candidate, (hi, lo) = _candidates(states, at, keys)
    order = np.lexsort((candidate, lo, hi, message))
    return first_alive(is_alive, message[order], candidate[order], len(at))


def first_alive(
    is_alive: IsAlive, message: np.ndarray, candidate: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each message's first live candidate, or NONE, and the dead ones tried before."""
    alive = is_alive(candidate)
    usable = np.flatnonzero(alive)[::-1]
    first = np.full(m, len(candidate))
    first[message[usable]] = usable
    onward = np.r_[candidate, NONE][first]
    tried = ~alive & (np.arange(len(candidate)) < first[message])
    return onward, message[tried], candidate[tried]


def _closest_alive(
    known: Ring, is_alive: IsAlive, keys: Keys, candidates: np.ndarray, among: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each message's closest live candidate (NONE: none), and dead ones that are closer."""
    distance = distances(known, keys, candidates)
    alive = is_alive(candidates)
    best = distance.closest(among & alive)
    onward = np.where(best >= 0, candidates[np.arange(len(best)), best], NONE)
    tried = distance.closer_than(distance.column(np.maximum(best, 0))) | (best < 0)[:, None]
    message, column = np.nonzero(tried & among & ~alive)
    return onward, message, candidates[message, column]


# --- randomised routing: different routes to the same root (JSAC 2002, Section IV.E)


def randomised_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys, seed: int, *drawn_by: np.ndarray
) -> tuple[np.ndarray, Met]:
    """Return next hops that each node draws among all nodes that bring a message closer.

    The candidates are the nodes in the leaf set and routing table that share at least as long a
    prefix with the key as the node itself, and are numerically closer to the key.  The next hop is
    the first live candidate in random order.  If there is none, the usual next hop is used; then
    the node is the root, or the root is a leaf with a shorter prefix.  The columns `drawn_by`, and
    the numbers of node and candidate, are the keys of the draws.
    """
    number, size = states.known.node, len(states.known)
    message, candidate, _ = _candidates(states, at, keys)
    here, there = number[at[message]], number[candidate]
    by = [column[message] for column in drawn_by]
    draw = draws.bits_np(seed, "randomised hop", *by, here, there).view(np.int64)
    order = np.lexsort((there, draw, message))
    onward, message, dead = first_alive(is_alive, message[order], candidate[order], len(at))
    rest = np.flatnonzero(onward < 0)
    onward[rest], met = hop(states, is_alive, at[rest], keys.take(rest))
    pairs = np.r_[message * size + dead, rest[met.message] * size + met.dead]
    return onward, Met(*np.divmod(distinct(pairs), size))


def _candidates(
    states: States, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the known nodes that bring messages closer, with at least as long a shared prefix.

    The result has indices of messages, positions, and ring distances from the keys, as halves.
    """
    ring, b = states.known, states.b
    leaves = states.leaves[at - states.first]
    cells = states.cells[at - states.first].reshape(len(at), -1)
    known = np.concatenate([leaves, cells], axis=1).astype(np.int64)
    known.sort(axis=1)
    known[:, 1:][known[:, 1:] == known[:, :-1]] = -1
    message, column = np.nonzero(known >= 0)
    candidate, here, keys = known[message, column], at[message], keys.take(message)
    other = ids.shared_digits_np(ring.hi[candidate], ring.lo[candidate], keys.hi, keys.lo, b)
    own = ids.shared_digits_np(ring.hi[here], ring.lo[here], keys.hi, keys.lo, b)
    there, mine = (distances(ring, keys, node[:, None]) for node in (candidate, here))
    fits = there.closer_than(mine)[:, 0] & (other >= own)
    return message[fits], candidate[fits], (there.hi[fits, 0], there.lo[fits, 0])


# --- messages, hop by hop, to their end or to the edge of a bucket


#: ``hop_of(messages)`` returns the next node of each message (the node itself delivers; NONE: no
#: candidate is left), and the messages with updated columns.
HopOf = Callable[[Columns], tuple[np.ndarray, Columns]]


def unrouted(messages: Columns) -> dict[str, np.ndarray]:
    """Return new messages for :func:`route_to_edge`: with a column ``path`` that is empty."""
    return {**messages, "path": np.empty((count_rows(messages), 0), dtype=np.int64)}


def route_to_edge(
    moving: Columns, hop_of: HopOf, is_own: Callable[[np.ndarray], np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Route messages to their end, or to the edge of a bucket; ``path`` has the visited nodes.

    ``hop_of(messages)`` returns the next hops, and ``is_own(positions)`` is True for nodes of the
    bucket.  The result has the ended messages without paths, with two more columns: ``delivered``,
    and ``circled``, True if a node was visited twice (then the message is not delivered); and the
    messages that have reached nodes of other buckets.
    """
    ended, leaving = list[Columns](), list[Columns]()
    while count_rows(moving):
        circled = (moving["path"] == moving[AT][:, None]).any(axis=1)
        if circled.any():
            ended.append(_ended(take(moving, circled), delivered=False, circled=True))
            moving = take(moving, ~circled)
        at = moving[AT]
        onward, moved = hop_of(moving)
        goes = (onward >= 0) & (onward != at)
        if not goes.all():
            ended.append(_ended(take(moved, ~goes), delivered=onward[~goes] >= 0, circled=False))
        moving = {**moved, AT: onward, "path": np.c_[moved["path"], at]}
        inside = goes & is_own(onward)
        if np.count_nonzero(inside) < np.count_nonzero(goes):
            leaving.append(take(moving, goes & ~inside))
        moving = take(moving, inside)
    return concatenate(ended) if ended else {}, concatenate(leaving) if leaving else {}


def _ended(
    messages: Columns, *, delivered: np.ndarray | bool, circled: bool
) -> dict[str, np.ndarray]:
    count = count_rows(messages)
    return {
        **{name: column for name, column in messages.items() if name != "path"},
        "delivered": np.broadcast_to(delivered, count).copy(),
        "circled": np.full(count, circled),
    }


def count_hop(
    count: Callable[..., None],
    at: np.ndarray,
    onward: np.ndarray,
    met: Met,
    sizes: np.ndarray | None = None,
) -> None:
    """Count the transmissions of a hop, also those to dead nodes, by ``count`` of `Observer`."""
    goes, lost = (onward >= 0) & (onward != at), len(met.dead)

    def between() -> tuple[np.ndarray, np.ndarray]:
        return np.r_[at[goes], at[met.message]], np.r_[onward[goes], met.dead]

    more = {} if sizes is None else {"sizes": lambda: np.r_[sizes[goes], sizes[met.message]]}
    count(np.count_nonzero(goes) + lost, lost, between=between, **more)


_MESSAGE = "message"


@dataclass(frozen=True)
class LiveRoute(MessageProgram):
    """Route messages hop by hop to the live nodes closest to their keys.

    A message that has ended is a row of the table `ends` in the bucket where it ended: the
    message's columns, ``at`` (the last node), ``start``, ``hops`` (transmissions that arrived),
    ``lost`` (transmissions to dead nodes), ``delivered``, and ``circled`` (True if a node was
    visited twice).  A message that circled, or that has no candidate left, is not delivered.
    """

    kind: str  # is counted; if empty, neither messages nor dead nodes are recorded
    ends: str
    messages: Columns  # ``at`` live nodes with ``key_hi, key_lo``

    def begin(self, nodes: BucketNodes) -> None:
        own = take(self.messages, np.flatnonzero(nodes.is_own(self.messages[AT])))
        none = np.zeros(count_rows(own), dtype=np.int64)
        self._route(nodes, unrouted({**own, "start": own[AT], "hops": none, "lost": none}))

    def _route(self, nodes: BucketNodes, moving: Columns) -> None:
        """Move messages to the edge of the bucket."""
        states = nodes.states()

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            at, keys = messages[AT], Keys(messages["key_hi"], messages["key_lo"])
            onward, met = hop(states, nodes.is_alive, at, keys)
            if self.kind:
                count = self.environment.observer.count
                nodes.meet(at[met.message], met.dead)
                count_hop(functools.partial(count, nodes.tables, self.kind), at, onward, met)
            hops = messages["hops"] + ((onward >= 0) & (onward != at))
            lost = messages["lost"] + np.bincount(met.message, minlength=len(at))
            return onward, {**messages, "hops": hops, "lost": lost}

        ended, leaving = route_to_edge(moving, hop_of, nodes.is_own)
        if count_rows(ended):
            append(nodes.tables, self.ends, ended)
        if leaving:
            nodes.tell(_MESSAGE, leaving.pop(AT), **leaving)

    handlers = ((_MESSAGE, _route),)
