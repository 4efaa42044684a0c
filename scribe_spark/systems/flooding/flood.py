"""Flooding over Pastry: each entry of a routing table receives a copy with the number of its row.

The overlay of all nodes has the tables that Pastry keeps.  A group's ring has perfect tables, which
are built anew in each round; a run also counts what this takes (F6, F7).

The groups may have Pastry rings of their own, stored one after the other.  A *place* is a node in
the ring of a group.  Places are numbered by group, and within a group in the order of nodeIds.  So
code for the nodes of one ring, given by position, also works for the places of all rings.

Rules: docs/rules.md, F1 to F7, O1 to O9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import NONE, expand, find_sorted, row_numbers, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import KnowsRing, Ring
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, SilentProgram, take_tables
from scribe_spark.pastry.perfect_tables import nearest_entries, shared_with_next
from scribe_spark.pastry.states import CELLS, LEAVES, States, ring_leaves
from scribe_spark.rounds.group_overlays import (
    Built,
    GroupOverlays,
    Network,
    OverlayProgram,
    OverlayRound,
    Overlays,
)
from scribe_spark.rounds.system import LivingRound, SystemPlayer
from scribe_spark.underlay.protocol import Kernel, node_delays


def known_of_places(ring: Ring, begins: np.ndarray, kernel: Kernel, b: int, half: int) -> States:
    """Return perfect leaf sets and routing tables of all places: rule F1.

    `ring` has the nodes of the places, ``begins[g]`` the first place of group g; the last element
    is the number of places.  A place knows places of its group only; half a leaf set has `half`.
    """
    own = begins[(begins > 0) & (begins < len(ring))]
    cells = nearest_entries(ring, kernel, b, own)
    of_group = row_numbers(begins)
    leaves = ring_leaves(np.arange(len(ring)), half, np.diff(begins)[of_group], begins[of_group])
    return States(ring, np.arange(len(ring)), leaves, cells)


def kept_of(states: States) -> dict[str, np.ndarray]:
    """Return the numbers of entries that each place keeps, by table: int64."""
    larger, smaller = states.leaves[:, : states.half], states.leaves[:, states.half :]
    # in a small ring, a leaf may be on both sides
    again = (smaller[:, :, None] == larger[:, None]).any(axis=2)
    return {
        "routing table": (states.cells >= 0).sum(axis=(1, 2)),
        "leaf set": (larger >= 0).sum(axis=1) + ((smaller >= 0) & ~again).sum(axis=1),
    }


def told(states: States) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of places of which the first announces itself to the second, each once.

    A place announces itself to the places that it knows.
    """
    cells = states.cells
    entries = cells.reshape(len(cells), cells.shape[1] * cells.shape[2])
    both = np.concatenate([entries, states.leaves], axis=1)
    both.sort(axis=1)
    fresh = both >= 0
    fresh[:, 1:] &= both[:, 1:] != both[:, :-1]
    teller, column = np.nonzero(fresh)
    return states.own[teller], both[teller, column].astype(np.int64)


# --- flood

# kinds of messages; received copies are stored in tables with the prefix COPIES
COPY, _RANGE = "copy", "range"
COPIES = "copies"

_COPIES_AT_ONCE = 2**13  # the number of copies that are processed in one step


@dataclass(frozen=True)
class Flood:
    """The program by which nodes send copies to entries of their routing tables: rule F2.

    A node that is in row r of its sender's table sends to the entries of rows r + 1, r + 2, ...
    """

    bounds: np.ndarray  # (B + 1,)
    facts: KnowsRing  # the nodes; routers are indices
    kernel: Kernel
    lan_us: int
    alive: np.ndarray | None = None  # (K,): True for the nodes that live; None: all
    lost: Lost | None = None  # the copies that the network loses, by the index of the group
    late: Late | None = None  # the jitter of copies, likewise

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Store the received copies, and send further copies."""
        if COPY not in inbox:
            return {}
        came, size = inbox[COPY], len(self.facts.ring)
        arrives = np.ones(count_rows(came), dtype=bool)
        if self.alive is not None:
            arrives = self.alive[came[AT]]
        kept = ["group", AT, "sender", "hops", "sent_us", "at_us"]
        if self.lost is not None:
            own = {"node": came[AT], "peer": came[AT]}
            came, kept = {**came, "lost": self._are_lost(self.lost, came)}, [*kept, "lost"]
            arrives = arrives & ~(came["lost"] | self.lost.withheld(came["group"], own))
        tables[f"{COPIES} {superstep}"] = {name: came[name] for name in kept}
        came = take(came, arrives)
        # the ranges that copies carried, of the nodes that forward
        carried = inbox.get(_RANGE) or dict.fromkeys(("group", AT, "row", "digit"), whole_numbers())
        place = key_of([came["group"], came[AT]], size)
        order = np.argsort(place)
        of = find_sorted(place[order], key_of([carried["group"], carried[AT]], size))
        row, digit = (carried[name][of >= 0] for name in ("row", "digit"))
        of, sent, ranges = order[of[of >= 0]], [], []
        first, cells = int(self.bounds[bucket]), tables[CELLS]["cells"]
        fits = _fitting(self.facts.ring, first, cells)
        for start in range(0, len(place), _COPIES_AT_ONCE):
            some = slice(start, start + _COPIES_AT_ONCE)
            here = (of >= start) & (of < some.stop)
            brought = {"message": of[here] - start, "row": row[here], "digit": digit[here]}
            index = came[AT][some] - first
            copies, passed = self._send(cells[index], fits[index], take(came, some), brought)
            sent.append(copies)
            ranges.append(passed)
        return {COPY: concatenate(sent), _RANGE: concatenate(ranges)} if sent else {}

    @staticmethod
    def _are_lost(lost: Lost, came: Columns) -> np.ndarray:
        """Return True for copies that are lost; the first message of a source is no copy."""
        found = came["row"] >= 0
        sent = take({"group": came["group"], "node": came["sender"], "peer": came[AT]}, found)
        found[found] = lost(sent["group"], sent)
        return found

    def _send(
        self, own: np.ndarray, fits: np.ndarray, came: Columns, brought: Columns
    ) -> tuple[Columns, Columns]:
        """Return the copies that receivers send, and the ranges that these copies carry.

        A *range* is a cell (row and digit) whose nodes still need a copy although the sender has no
        entry for it.  `own` has the routing table of each receiver, `fits` its cells for which the
        ring has nodes, and `brought` the ranges that copies carried: ``message`` (the copy), ``row,
        digit``.
        """
        at = came[AT]
        deeper = np.arange(own.shape[1]) > came["row"][:, None]
        # 1. send a copy to each range with an entry
        every = dict(zip(brought, np.nonzero(fits & deeper[:, :, None]), strict=True))
        every = concatenate([every, brought])
        own = _with_rows(own, 1 + int(brought["row"].max(initial=0)))
        has = own[*every.values()] >= 0
        missed = take(every, ~has)
        message, row, digit = take(every, has).values()
        to = own[message, row, digit].astype(np.int64)
        router = self.facts.ring.router
        delay_us = node_delays(self.kernel, self.lan_us, router[at[message]], router[to])
        if self.late is not None:
            ends = {"node": at[message], "peer": to}
            delay_us = delay_us + self.late(came["group"][message], ends, delay_us)
        copies = {
            "group": came["group"][message],
            AT: to,
            "row": row,
            "sender": at[message],
            "hops": came["hops"][message] + 1,
            "sent_us": came["at_us"][message],
            "at_us": came["at_us"][message] + delay_us,
        }
        # 2. pass ranges without an entry on, with one of these copies
        along = self._along(message, row, digit, missed, own.shape[1:])
        goes = along >= 0
        passed = {
            "group": came["group"][missed["message"][goes]],
            AT: to[along[goes]],
            "row": missed["row"][goes],
            "digit": missed["digit"][goes],
        }
        return copies, passed

    @staticmethod
    def _along(
        message: np.ndarray,
        row: np.ndarray,
        digit: np.ndarray,
        missed: Columns,
        shape: tuple[int, ...],
    ) -> np.ndarray:
        """Return the index of the copy on which each range of ids travels on, -1 for none: F3.

        `message`, `row` and `digit` name the cells of routing tables to which copies are sent;
        `missed` has ranges (see :meth:`_send`); `shape` is that of a routing table.
        """
        rows, base = shape
        place = (message * rows + row) * base + digit
        order = np.argsort(place)
        wanted = (missed["message"] * rows + missed["row"]) * base
        found = np.searchsorted(place[order], wanted)
        found = np.r_[order, -1][found]
        same = np.r_[message, -1][found] == missed["message"]
        return np.where(same, found, -1)


def _fitting(ring: Ring, first: int, cells: np.ndarray) -> np.ndarray:
    """Return the cells of tables (n, rows, 2**b) for which the ring has nodes: bool.

    The tables are those of the nodes from the position `first` on.
    """
    (n, rows, base), fits = cells.shape, np.zeros(cells.shape, dtype=bool)
    b, at = base.bit_length() - 1, slice(first, first + n)
    if not n:
        return fits
    # 1. the first digits, and the part of the ring with the first digits of these nodes
    begin = np.searchsorted(ring.hi, np.arange(base, dtype=np.uint64) << np.uint64(64 - b))
    begin = np.append(begin, len(ring))
    digit = ids.digit_np(ring.hi[at], ring.lo[at], 0, b)
    fits[:, 0] = begin[1:] > begin[:-1]
    fits[np.arange(n), 0, digit] = False
    ring, first = ring.take(slice(begin[digit[0]], begin[digit[-1] + 1])), first - begin[digit[0]]
    # 2. the further digits: nodes that share `row` digits form a run
    shared, at = shared_with_next(ring, b), slice(first, first + n)
    for row in range(1, rows):
        run, digit = np.cumsum(np.r_[0, shared < row]), ids.digit_np(ring.hi, ring.lo, row, b)
        there = np.zeros((run[-1] + 1, base), dtype=bool)
        there[run, digit] = True
        fits[:, row] = there[run[at]]
        fits[np.arange(n), row, digit[at]] = False
    return fits


def _with_rows(cells: np.ndarray, rows: int) -> np.ndarray:
    """Return routing tables (n, rows, digits) padded to at least `rows` rows.

    Tables of other buckets may have more rows.
    """
    more = max(0, rows - cells.shape[1])
    return np.pad(cells, ((0, 0), (0, more), (0, 0)), constant_values=-1) if more else cells


#: The message by which a node announces itself to the nodes in its tables.
ANNOUNCEMENT = "announcement"

#: The kinds of entries that nodes keep -> their tables.
_KEPT = {kind: f"entries of {kind}s" for kind in ("routing table", "leaf set")}


@dataclass(frozen=True)
class LiveFlooding(GroupOverlays):
    """Each group has a ring with perfect tables; publications are flooded, each along a tree."""

    b: int
    leaf_set: int

    state: ClassVar[Mapping[str, str]] = _KEPT
    building: ClassVar[tuple[str, ...]] = (ANNOUNCEMENT,)

    def build(self, overlays: Overlays, network: Network) -> Built:
        """Return the copies of publications and, in a run, the costs of the rings: F1 to F7.

        The costs are stored entries, and announcements.
        """
        group, node = overlays.group, overlays.node
        known, begins = network.ring.take(node), np.arange(len(overlays.number) + 1)
        ring = Ring(known.hi, known.lo, np.arange(len(node)), known.router)
        begins = np.searchsorted(group, begins)
        states = known_of_places(ring, begins, network.kernel, self.b, self.leaf_set // 2)
        edges = _copies(states.cells, overlays, len(network.ring))
        if not network.in_run:
            return Built(edges)
        ends = {"group": group, "node": node}
        kept = {kind: {**ends, "entries": count} for kind, count in kept_of(states).items()}
        teller, place = told(states)
        sent = {"group": group[place], "sender": node[teller], "to": node[place]}
        return Built(edges, kept, {ANNOUNCEMENT: sent})


def _copies(cells: np.ndarray, overlays: Overlays, nodes: int) -> Columns:
    """Return the copies of publications in the rings of their groups, level by level: rule F2.

    `cells` are the routing tables by place, an index in `overlays`; K is `nodes`.
    """
    place, row, digit = np.nonzero(cells >= 0)
    entry, rows = cells[place, row, digit].astype(np.int64), cells.shape[1]
    row_of_place = place * rows + row
    members = key_of([overlays.group, overlays.node], nodes)
    publication = np.arange(len(overlays.of))
    at = np.searchsorted(members, key_of([overlays.of, overlays.source], nodes))
    came = np.full(len(at), NONE)
    levels = []
    while len(at):
        # the entries of rows after the one by which the copy arrived
        begin = np.searchsorted(row_of_place, at * rows + came + 1)
        which, chosen = expand(begin, np.searchsorted(row_of_place, (at + 1) * rows))
        publication, sender = publication[which], at[which]
        at, came = entry[chosen], row[chosen]
        ends = {"node": overlays.node[sender], "peer": overlays.node[at]}
        levels.append({"publication": publication, **ends})
    return concatenate(levels)


# --- over the overlay of all nodes


@dataclass(frozen=True)
class FloodedOverlay(GroupOverlays):
    """Publications go to all nodes, along the routing tables of Pastry: rule F5."""

    recodes: ClassVar[tuple[str, ...]] = ("run",)
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)
    state: ClassVar[Mapping[str, str]] = _KEPT

    @property
    def begun(self) -> None:
        """None: the clock with bandwidth replays the copies of all publications."""
        return None

    def spread(self, player: SystemPlayer, round: OverlayRound, now: LivingRound) -> None:
        """Flood publications, and write the copies in the tables that `Dissemination` writes."""
        none = np.full(len(now.publish), -1, dtype=np.int64)
        start = {AT: now.publish.node, "group": np.arange(len(none)), "row": none, "sender": none}
        start |= dict.fromkeys(("hops", "sent_us", "at_us"), none + 1)
        flood = Flood(
            *(round.bounds, round.facts, now.kernel, now.lan_us),
            alive=None if now.in_run else now.alive,
            lost=now.lost_copies(round.facts),
            late=now.late_copies(round.facts),
        )
        player.play(flood, {COPY: start})  # the sources' own first copies
        player.play(_Write(round, now.in_run))


@dataclass(frozen=True)
class _Write(SilentProgram, OverlayProgram):
    """Write the copies of :class:`Flood` in the form of dissemination; in a run, count entries.

    These are the entries that nodes have in their tables.
    """

    in_run: bool

    def change(self, bucket: int, tables: Tables) -> None:
        """Write `dissemination.ARRIVALS` and `ARRIVED_COPIES`."""
        if parts := take_tables(tables, COPIES):
            came = dict(concatenate(parts))
            came |= {"node": came.pop(AT), "publication": came["group"]}
            first = ~came["lost"] if "lost" in came else np.ones(len(came["node"]), dtype=bool)
            names = ("publication", "node", "sender", "hops", "at_us")
            tables[ARRIVALS] = take({name: came[name] for name in names}, first)
            tables[ARRIVED_COPIES] = take({**came, "first": first}, came["sender"] >= 0)
        if self.in_run:
            self._count_entries(bucket, tables)

    def _count_entries(self, bucket: int, tables: Tables) -> None:
        first, last = self.round.bounds[bucket : bucket + 2]
        if first == last:
            return
        states = States.of_tables(self.round.facts.ring, int(first), tables)
        for kind, entries in kept_of(states).items():
            # the group NONE: the key is negative, and its last part is the node
            key = states.own - self.round.size
            tables[_KEPT[kind]] = {"key": key, "entries": entries}
