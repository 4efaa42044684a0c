"""Perfect routing tables and leaf sets, computed instead of grown by arrivals.

Every entry is the globally nearest node with the required prefix; ties go to the smallest nodeId.
Nodes that share `row` digits form a class: in a small one all pairs are compared, in a large one
nodes on the same router share the result.  Nodes with the same first p digits find the entries of
rows p and deeper among themselves.  Rows 0 to p - 1 are equal for all of them on the same router;
for these rows, parts of the ring exchange summaries: of each prefix, the node nearest to each
router.

JSAC 2002, Section II and Figure 1: "each entry in the routing table refers to one of potentially
many nodes whose nodeIds have the appropriate prefix; among such nodes, the one closest to the
present node (according to a scalar proximity metric) is chosen".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import expand, run_starts
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import KnowsRing, Ring
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.player import Player, Shared
from scribe_spark.engine.program import SilentProgram
from scribe_spark.pastry.states import NONE, States, ring_leaves, table_rows
from scribe_spark.underlay.protocol import Kernel

_PAIRS = 2**21  # pairs of nodes compared at once


def nearest_entries(
    ring: Ring, kernel: Kernel, b: int, begins: Sequence[int] | np.ndarray = ()
) -> np.ndarray:
    """Return the perfect routing tables of a ring: positions, -1 for empty cells.

    The shape of the tables (int32) is (n, rows, 2**b).  If `ring` is several rings one after the
    other, `begins` has the start of each further ring; a node has entries of its own ring only.
    """
    shared = shared_with_next(ring, b, begins)
    rows = 1 + int(shared.max(initial=0))
    cells = np.full((len(ring), rows, 2**b), -1, dtype=np.int32)
    fill_entries(ring, 0, kernel, shared, cells)
    return cells


def shared_with_next(ring: Ring, b: int, begins: Sequence[int] | np.ndarray = ()) -> np.ndarray:
    """Return how many first digits each node shares with the next one, -1 at the end of a ring."""
    shared = ids.shared_digits_np(ring.hi[1:], ring.lo[1:], ring.hi[:-1], ring.lo[:-1], b)
    shared[np.asarray(begins, dtype=np.int64) - 1] = -1
    return shared


def fill_entries(
    ring: Ring,
    first_row: int,
    kernel: Kernel,
    shared: np.ndarray,
    cells: np.ndarray,
    first: int = 0,
) -> None:
    """Write the rows from `first_row` on into empty tables of nodes that share the digits before.

    The tables have the shape (n, rows, 2**b).  `shared` is the result of :func:`shared_with_next`,
    `first` the position of the first node.
    """
    n, b = len(ring), cells.shape[2].bit_length() - 1
    own: list[np.ndarray] = []
    small: list[np.ndarray] = []
    for row in range(first_row, ids.BITS // b):
        # classes are runs of nodes that share `row` digits, two nodes at least
        starts = np.flatnonzero(np.r_[True, shared < row])
        sizes = np.diff(np.r_[starts, n])
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if not len(starts):
            break
        digit = ids.digit_np(ring.hi, ring.lo, row, b)
        few = sizes <= kernel.all_pairs_limit
        small.append(np.stack([starts[few], sizes[few], np.full(few.sum(), row - first_row)]))
        for start, size in zip(starts[~few], sizes[~few], strict=True):
            members = slice(start, start + size)
            _compare_routers(ring, digit, members, kernel, cells[members, row - first_row], first)
        own.append(digit)
    if small:
        _compare_pairs(ring, own, np.concatenate(small, axis=1), kernel, cells, first)


def _compare_pairs(
    ring: Ring,
    own: list[np.ndarray],
    classes: np.ndarray,
    kernel: Kernel,
    cells: np.ndarray,
    first: int,
) -> None:
    """Fill `cells` for many small classes, comparing every pair of nodes in a class."""
    starts, sizes, depths = classes[:, np.argsort(classes[0], kind="stable")]
    if not len(starts):
        return
    digits = np.stack(own, axis=1)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes * sizes) // _PAIRS)) + 1
    blocks = (np.split(part, cuts) for part in (starts, sizes, depths))
    for start, size, depth in zip(*blocks, strict=True):
        which, pair = expand(np.zeros_like(size), size * size)
        i = start[which] + pair // size[which]
        j = start[which] + pair % size[which]
        row = depth[which]
        digit = digits[j, row]
        other = digits[i, row] != digit
        i, j, row, digit = (part[other] for part in (i, j, row, digit))
        if not len(i):
            continue
        # pairs come by class and i, then by j in nodeId order, so equal digits of j are runs
        delay = kernel.delays(ring.router[i], ring.router[j])
        heads = run_starts(i, row, digit)
        best = np.minimum.reduceat(delay << 31 | j, heads) & (2**31 - 1)
        cells[i[heads], row[heads], digit[heads]] = first + best


def _compare_routers(
    ring: Ring, own: np.ndarray, members: slice, kernel: Kernel, cells: np.ndarray, first: int
) -> None:
    """Fill the row `cells` of one large class: `members` on one router share their entries."""
    router, digit = ring.router[members], own[members]
    queries, back = np.unique(router, return_inverse=True)
    # within a digit only the smallest nodeId of each router can be an entry
    _, index = np.unique(digit * (ring.router.max() + 1) + router, return_index=True)
    index.sort()
    heads = np.flatnonzero(np.r_[True, np.diff(digit[index]) != 0])
    found = kernel.nearest(queries, router[index], heads)
    block = np.full((len(queries), cells.shape[1]), -1, dtype=np.int32)
    block[:, digit[index[heads]]] = first + members.start + index[found]
    cells[:] = block[back]
    cells[np.arange(len(back)), digit] = -1


# --- summaries that parts of the ring exchange: the nearest node of each prefix to each router


#: The table with the summaries of prefixes, one in a row: the prefix as a number (``prefix``), the
#: position of its node nearest to each router (``nearest``: int32, shape (k, R)), and the delay to
#: that node in microseconds (``delay_us``: int64, shape (k, R); absent if p is 1).
SUMMARIES = "summaries"

#: The maximal number of cells of the last array of :func:`levels_of`: 16 MiB as INT.
_MOST_CELLS = 2**22
#: The maximal number of nodes in a bucket; a task's tables then take about 100 MB.
_MOST_NODES = 2**16
#: The minimal number of nodes in a bucket that is worth a task of its own.
_FEWEST_NODES = 2**9


def bucket_digits(b: int, nodes: int, routers: int, cores: int) -> int:
    """Return p, the number of first digits that the nodes of a bucket share.

    It is the smallest p that gives four buckets per core and at most :data:`_MOST_NODES` nodes per
    bucket, as long as buckets are worth a task and the summaries (a cell per router and prefix)
    stay small.  If each node has a router of its own, nodes have no results to share, and p is 1.
    """
    p = 1
    if routers >= nodes:
        return p
    while (
        (2 ** (b * p) < 4 * cores or nodes / 2 ** (b * p) > _MOST_NODES)
        and nodes / 2 ** (b * (p + 1)) >= _FEWEST_NODES
        and routers * 2 ** (b * (p + 1)) <= _MOST_CELLS
    ):
        p += 1
    return p


def summarise_bucket(
    prefix: int, first: int, ring: Ring, kernel: Kernel, routers: int, with_delay: bool
) -> dict[str, np.ndarray]:
    """Return the summary of a prefix: of its nodes, the one nearest to each router."""
    _, index = np.unique(ring.router, return_index=True)  # the smallest nodeId on each router
    index.sort()
    everywhere = np.arange(routers)
    near = index[kernel.nearest(everywhere, ring.router[index], np.array([0]))[:, 0]]
    row = {"prefix": np.array([prefix]), "nearest": (first + near)[None].astype(np.int32)}
    if with_delay:
        row["delay_us"] = kernel.delays(everywhere, ring.router[near])[None].astype(np.int64)
    return row


def levels_of(rows: Columns, routers: int, b: int, digits: int) -> list[np.ndarray]:
    """Return the nearest node to each router, by prefix, for prefixes of 1, 2, ... p `digits`.

    `rows` are those of the table `SUMMARIES`.  An array has positions, or -1: int32, shape (2**(b *
    digits), R).
    """
    nearest = np.full((2 ** (b * digits), routers), -1, dtype=np.int32)
    nearest[rows["prefix"]] = rows["nearest"]
    levels = [nearest]
    if digits > 1:
        delay_us = np.full(nearest.shape, _NOWHERE)
        delay_us[rows["prefix"]] = rows["delay_us"]
        while len(levels) < digits:
            merged, delay_us = _nearest_of_shorter(levels[0], delay_us, 2**b)
            levels.insert(0, merged)
    return levels


def siblings(
    levels: Sequence[np.ndarray], b: int, prefix: int, row: int, routers: np.ndarray
) -> np.ndarray:
    """Return the entries of a row before p for nodes of a prefix: int32, (2**b, routers)."""
    base = 2**b
    cell = prefix >> b * (len(levels) - row - 1)
    start = cell // base * base
    found = levels[row][start : start + base, routers]
    found[cell - start] = -1
    return found


_NOWHERE = np.int64(2**62)


def _nearest_of_shorter(
    nearest: np.ndarray, delay_us: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return summaries of prefixes that are one digit shorter, and their delays."""
    shape = (-1, base, nearest.shape[1])
    best = delay_us.reshape(shape).argmin(axis=1)[:, None]
    nearest = np.take_along_axis(nearest.reshape(shape), best, axis=1)[:, 0]
    return nearest, np.take_along_axis(delay_us.reshape(shape), best, axis=1)[:, 0]


# --- tables


@dataclass(frozen=True)
class PerfectTables:
    """The making of perfect tables; a prefix has `digits` digits.

    If `initial` is given, only nodes with smaller numbers exist at the start, and the others have
    empty rows.
    """

    facts: KnowsRing
    bounds: np.ndarray
    kernel: Kernel
    routers: int
    b: int
    leaf_set: int
    digits: int
    initial: int | None = None

    def __call__(self, player: Player) -> None:
        """Write perfect tables, `LEAVES` and `CELLS`, into every bucket."""
        player.play(Summarise(self))
        rows = player.take(SUMMARIES)[SUMMARIES]
        levels = levels_of(rows, self.routers, self.b, self.digits)
        shared = player.share(**{f"{level}": nearest for level, nearest in enumerate(levels)})
        player.play(Fill(self, shared))
        player.free(shared)

    @cached_property
    def live(self) -> tuple[np.ndarray | None, Ring, np.ndarray]:
        """The existing nodes (None: all), their ring, and the start of each bucket in that ring."""
        ring = self.facts.ring
        if self.initial is None:
            return None, ring, self.bounds
        positions = np.flatnonzero(ring.node < self.initial)
        live = ring if len(positions) == len(ring) else ring.take(positions)
        return positions, live, np.searchsorted(positions, self.bounds)

    def prefixes(self, bucket: int) -> list[tuple[int, int, int]]:
        """Return each prefix that a node of a bucket has: (prefix, first position, end)."""
        _, live, first = self.live
        start, stop = first[bucket : bucket + 2]
        if start == stop:
            return []
        bits = self.b * self.digits
        shift = np.uint64(64 - bits)
        least = live.hi[start] >> shift << shift
        most = live.hi[stop - 1] | ~(~np.uint64(0) << shift)
        start, stop = np.searchsorted(live.hi, least), np.searchsorted(live.hi, most, side="right")
        return prefixes(live, int(start), int(stop), bits)


@dataclass(frozen=True)
class _PerfectProgram(SilentProgram):
    """A program that makes perfect tables."""

    plan: PerfectTables

    @property
    def bounds(self) -> np.ndarray:
        return self.plan.bounds


@dataclass(frozen=True)
class Summarise(_PerfectProgram):
    """Summarise each prefix in the bucket of its first node: the table `SUMMARIES`."""

    def change(self, bucket: int, tables: Tables) -> None:
        of, (_, live, first) = self.plan, self.plan.live
        rows = [
            summarise_bucket(
                *(prefix, start, live.take(slice(start, stop)), of.kernel, of.routers),
                with_delay=of.digits > 1,
            )
            for prefix, start, stop in of.prefixes(bucket)
            if start >= first[bucket]
        ]
        if rows:
            tables[SUMMARIES] = concatenate(rows)


@dataclass(frozen=True)
class Fill(_PerfectProgram):
    """Compute the tables `LEAVES` and `CELLS` of each bucket from the summaries of all buckets."""

    nearest: Shared

    def change(self, bucket: int, tables: Tables) -> None:
        of, (positions, live, first) = self.plan, self.plan.live
        levels = [self.nearest[f"{level}"] for level in range(of.digits)]
        everyone = of.initial is not None and len(live) == len(of.facts.ring)
        states = known_of_prefixes(
            *(live, of.prefixes(bucket), levels, of.kernel, of.b, of.leaf_set),
            rows=table_rows(live, of.b) if everyone else 0,  # as empty tables have
        )
        start, stop = (int(place) - states.first for place in first[bucket : bucket + 2])
        states = states.of(slice(start, stop))
        if positions is not None and not everyone:
            own = np.arange(*of.bounds[bucket : bucket + 2])
            empty = States.empty(of.facts.ring, own, of.leaf_set, of.b)
            states = _among_all(states, positions, empty)
        tables.update(states.tables())


def _among_all(live: States, positions: np.ndarray, states: States) -> States:
    """Copy the tables of live nodes (at `positions`) into the empty tables of a bucket's nodes."""
    index = positions[live.own] - states.first
    named = np.append(positions, NONE).astype(np.int32)  # index NONE yields NONE
    states.leaves[index] = named[live.leaves]
    states.cells[index, : live.cells.shape[1]] = named[live.cells]
    return states


def prefixes(ring: Ring, start: int, stop: int, bits: int) -> list[tuple[int, int, int]]:
    """Return the prefixes of nodes `start` to `stop` - 1: prefix, first position, end."""
    prefixes, first = np.unique(ring.hi[start:stop] >> np.uint64(64 - bits), return_index=True)
    ends = np.r_[first[1:], stop - start][: len(first)]
    parts = (prefixes, start + first, start + ends)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def known_of_prefixes(
    ring: Ring,
    prefixes: list[tuple[int, int, int]],
    levels: Sequence[np.ndarray],
    kernel: Kernel,
    b: int,
    leaf_set: int,
    rows: int = 0,
) -> States:
    """Return the perfect tables of the nodes of consecutive prefixes (:func:`prefixes`).

    Routing tables have at least `rows` rows.
    """
    first, last = (prefixes[0][1], prefixes[-1][2]) if prefixes else (0, 0)
    shared = shared_with_next(ring.take(slice(first, last)), b)
    rows = max(rows, len(levels), int(shared.max(initial=0)) + 1)
    cells = np.full((last - first, rows, 2**b), NONE, dtype=np.int32)
    for prefix, start, stop in prefixes:
        part, own = ring.take(slice(start, stop)), cells[start - first : stop - first]
        here, back = np.unique(part.router, return_inverse=True)
        for row in range(len(levels)):
            own[:, row] = siblings(levels, b, prefix, row, here)[:, back].T
        within = shared[start - first : stop - first - 1]
        fill_entries(part, len(levels), kernel, within, own[:, len(levels) :], start)
    leaves = ring_leaves(np.arange(first, last), leaf_set // 2, len(ring))
    return States(ring, np.arange(first, last), leaves, cells)
