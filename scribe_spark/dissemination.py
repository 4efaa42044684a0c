"""The spread of a message over the edges of a group's overlay: first copies and their times.

A node forwards only the first copy that it gets.  The edges on which it forwards may depend on the
way of that copy.  A *label* of a node is its first copy as it is known so far: time, hops, sender,
and carried values.  There are two clocks.  By *time*, a copy that is sent at t arrives after the
delay D between the two nodes; by *hops*, it arrives in the next round.

The result equals that of a simulation event by event.  It is found by supersteps that correct
labels: a node takes the first of its known copies as its first copy; when that changes, it sends
new copies and cancels copies that it would not have sent.  Delays are not negative and hops are
positive, so the earliest label does not change any more, and this ends.

References
----------
R. Bellman: On a routing problem, 1958 (labels that are corrected).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    flags,
    index_in_run,
    last_of_runs,
    run_starts,
    whole_numbers,
)
from scribe_spark.core.keys import key_of, order_of
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables
from scribe_spark.multicast import TIME
from scribe_spark.underlay.protocol import Kernel, node_delays

# tables of a bucket
EDGES, ARRIVALS, ARRIVED_COPIES = "edges", "arrivals", "arrived copies"
# kinds of messages
START, _COPY = "start", "copy"

#: ``rule(first, edges)`` marks the edges on which nodes forward; the rows of both correspond.
Rule = Callable[[Columns, Columns], np.ndarray]


def first_of_each(key: np.ndarray, ranks: Iterable[np.ndarray]) -> np.ndarray:
    """Return, for each key in ascending order, the row that is least in all `ranks`, in turn.

    `ranks` are columns, the most significant first; of equal rows, any one is returned.
    """
    is_sorted = bool((key[1:] >= key[:-1]).all())
    row = np.arange(len(key)) if is_sorted else np.argsort(key)
    key = key[row]
    for rank in ranks:
        start = run_starts(key)
        if len(start) == len(row):
            return row
        mine = rank[row]
        least = np.minimum.reduceat(mine, start)
        kept = mine == np.repeat(least, np.diff(start, append=len(row)))
        row, key = row[kept], key[kept]
    return row[run_starts(key)]


def to_all(first: Columns, edges: Columns) -> np.ndarray:
    """Return True for each of `edges`: a node forwards its first copy to all its neighbours."""
    return np.ones(len(edges["peer"]), dtype=bool)


def all_but_sender(first: Columns, edges: Columns) -> np.ndarray:
    """Return True for each edge, but not for that to the sender of the node's first copy."""
    return edges["peer"] != first["sender"]


@dataclass(frozen=True)
class Dissemination:
    """The program that sends the message of each group from its source over the group's overlay.

    A bucket has the table :data:`EDGES`, in any order: ``group`` (the index of the group), ``node``
    (a position in the bucket), ``peer`` (any position), and other whole numbers for the rule.  Two
    edges from a node to a peer differ in the values that their copies carry.  The first messages
    are of kind :data:`START`, to the sources: ``at, group``.

    It leaves the tables :data:`ARRIVALS`, the first copy of each node (``group, node, at_us, hops,
    sender`` and the carried columns; at a source the time and the hops are 0, the rest is -1), and
    :data:`ARRIVED_COPIES`, all copies, each at its receiver (the same columns, and ``first``).
    """

    #: (B + 1,): the positions at which the buckets begin, and the number of nodes.
    bounds: np.ndarray
    facts: KnowsRing
    kernel: Kernel  # Delays between routers
    lan_us: int  # the delay of a node's LAN link in each direction, in microseconds
    #: ``rule(first, edges)`` marks the edges on which a node forwards (bool).  `first` is the
    #: node's first copy, as in :data:`ARRIVALS`; `edges` has the columns of :data:`EDGES`.  The
    #: result must depend on nothing else.
    rule: Rule = all_but_sender
    carried: tuple[str, ...] = ()  # Columns of an edge that its copies carry to the receiver
    #: `multicast.TIME`: the first copy has the least ``(at_us, hops)``; `multicast.HOPS`: the least
    #: ``hops``.  Of equal copies, the one from the sender with the least nodeId is first, then the
    #: one with the least carried values.
    clock: str = TIME
    #: The time between a node's first copy and its own copies, in microseconds; 0 at a source.
    processing_us: int = 0
    #: The copies that the network loses, by the index of the group; if there are any,
    #: :data:`ARRIVED_COPIES` has all sent copies, and the column ``lost``.
    lost: Lost | None = None
    late: Late | None = None  # the jitter of copies, by the index of the group

    def delays(self, group: np.ndarray, sender: np.ndarray, receiver: np.ndarray) -> np.ndarray:
        """Return the delays of copies between positions in microseconds: int64."""
        router = self.facts.ring.router
        delay_us = node_delays(self.kernel, self.lan_us, router[sender], router[receiver])
        if self.late is None:
            return delay_us
        return delay_us + self.late(group, {"node": sender, "peer": receiver}, delay_us)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Read copies, find the first ones, and send or cancel copies."""
        if START in inbox:
            started = inbox[START]
            key = distinct(self._key(started["group"], started[AT]))
            first = self._label(key, at_us=0, hops=0)
            tables[ARRIVALS] = self._write(first)
            return self._send(tables, key, None, first)
        if _COPY not in inbox:
            return {}
        # 1. the copies that nodes know now
        copies, touched = self._take(tables, inbox[_COPY])
        # 2. the first of each node; a source has the message
        arrivals = self._arrivals(tables)
        sources = arrivals["key"][arrivals["hops"] == 0]
        first = self._mark_first(copies, touched, sources)
        tables[ARRIVED_COPIES] = copies
        # 3. the nodes whose first copy has changed
        key = touched[find_sorted(sources, touched) < 0]
        old, new = self._named(arrivals, key), self._named(first, key)
        changed = np.any([old[name] != new[name] for name in self._columns], axis=0)
        key, old, new = key[changed], take(old, changed), take(new, changed)
        rest = take(arrivals, find_sorted(key, arrivals["key"]) < 0)
        tables[ARRIVALS] = self._write(concatenate([rest, take(new, new["hops"] >= 0)]))
        return self._send(tables, key, old, new)

    # --- labels: the known first copies of nodes, by key

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("at_us", "hops", "sender", *self.carried)

    def _key(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        return key_of([group, node], len(self.facts.ring))

    def _label(self, key: np.ndarray, **values: int) -> dict[str, np.ndarray]:
        """Return a table of labels (first copies) from some columns; other columns are -1."""
        return {"key": key} | {
            name: np.full(len(key), values.get(name, NONE), dtype=np.int64)
            for name in self._columns
        }

    def _arrivals(self, tables: Tables) -> dict[str, np.ndarray]:
        """Return the labels of a bucket's nodes that have a first copy, in the order of keys."""
        if ARRIVALS not in tables:
            return self._label(whole_numbers())
        found = tables[ARRIVALS]
        key = self._key(found["group"], found["node"])
        return {"key": key, **{name: found[name] for name in self._columns}}

    def _write(self, labels: Columns) -> dict[str, np.ndarray]:
        """Return the table :data:`ARRIVALS`, sorted, from labels in any order."""
        labels = take(labels, np.argsort(labels["key"]))
        group, node = np.divmod(labels["key"], len(self.facts.ring))
        return {"group": group, "node": node, **{name: labels[name] for name in self._columns}}

    def _named(self, labels: Columns, key: np.ndarray) -> dict[str, np.ndarray]:
        """Return the labels of the nodes `key` (group, node); ``hops`` is -1 without a label."""
        at = find_sorted(labels["key"], key)
        found = self._label(key)
        for name in self._columns:
            found[name][at >= 0] = labels[name][at[at >= 0]]
        return found

    # --- copies

    def _take(self, tables: Tables, come: Columns) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return all known copies, in order, and the nodes with new or cancelled copies (keys)."""
        marks = ("first",) if self.lost is None else ("first", "lost")
        names = ("group", "node", *self._columns, "edge", *marks)
        news = {**come, "node": come[AT], "first": np.zeros(len(come[AT]), dtype=bool)}
        none = {name: whole_numbers() if name not in marks else flags() for name in names}
        known = tables.get(ARRIVED_COPIES, none)
        every = {name: np.append(known[name], news[name]) for name in names}
        # the last copy of each edge is valid, unless a node has cancelled the copy
        ends = [every[name] for name in ("group", "node", "sender", "edge")]
        order = order_of(*ends)
        order = order[last_of_runs(*(end[order] for end in ends))]
        order = order[np.append(np.ones(len(known["node"]), dtype=bool), come["sent"])[order]]
        copies = take(every, order)
        return copies, distinct(self._key(news["group"], news["node"]))

    def _mark_first(
        self, copies: dict[str, np.ndarray], touched: np.ndarray, sources: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Mark first copies in `copies`, and return the labels of their nodes, in order."""
        key = self._key(copies["group"], copies["node"])
        begin, end = (np.searchsorted(key, touched, side) for side in ("left", "right"))
        _, row = expand(begin, end)
        copies["first"][row] = False
        row = row[find_sorted(sources, key[row]) < 0]
        if self.lost is not None:
            row = row[~copies["lost"][row]]
        ranks = ("at_us", "hops") if self.clock == TIME else ("hops",)
        names = (*ranks, "sender", *self.carried, "edge")
        row = row[first_of_each(key[row], (copies[name][row] for name in names))]
        copies["first"][row] = True
        return {"key": key[row], **{name: copies[name][row] for name in self._columns}}

    # --- sending

    def _send(
        self, tables: Tables, key: np.ndarray, old: Columns | None, new: Columns
    ) -> dict[str, Columns]:
        """Return the copies, and cancellations of copies, of nodes whose first copy has changed."""
        if EDGES not in tables:
            return {}
        edges = self._edges(tables)
        of_edge = self._key(edges["group"], edges["node"])
        begin, end = (np.searchsorted(of_edge, key, side) for side in ("left", "right"))
        node, edge = expand(begin, end)
        edges = take(edges, edge)
        sends = self._forwards(take(new, node), edges)
        takes_back = np.zeros(len(node), dtype=bool)
        if old is not None:
            sent = self._forwards(take(old, node), edges)
            takes_back = sent & ~sends
            alike = (old["at_us"] == new["at_us"]) & (old["hops"] == new["hops"])
            sends &= ~(sent & alike[node])
        goes = np.flatnonzero(sends | takes_back)
        if not len(goes):
            return {}
        edges, label = take(edges, goes), take(new, node[goes])
        delay_us = self.delays(edges["group"], edges["node"], edges["peer"])
        waits = np.where(label["hops"] > 0, self.processing_us, 0)
        copies = {
            "group": edges["group"],
            AT: edges["peer"],
            "sender": edges["node"],
            "at_us": label["at_us"] + waits + delay_us,
            "hops": label["hops"] + 1,
            "sent": sends[goes],
        }
        if self.lost is not None:
            copies["lost"] = self.lost(edges["group"], edges)
        return {_COPY: copies | {name: edges[name] for name in (*self.carried, "edge")}}

    def _edges(self, tables: Tables) -> Columns:
        """Return the edges in the order of their nodes; parallel edges are numbered."""
        if "edge" not in tables[EDGES]:
            edges = tables[EDGES]
            key = self._key(edges["group"], edges["node"])
            order = np.lexsort((*(edges[n] for n in self.carried[::-1]), edges["peer"], key))
            edges, key = take(edges, order), key[order]
            tables[EDGES] = {**edges, "edge": index_in_run(key, edges["peer"])}
        return tables[EDGES]

    def _forwards(self, label: dict[str, np.ndarray], edges: Columns) -> np.ndarray:
        """Return True for each edge on which its node, with a label, forwards: bool."""
        there = label["hops"] >= 0
        first = {"group": edges["group"], "node": edges["node"], **label}
        chosen = np.zeros(len(there), dtype=bool)
        chosen[there] = self.rule(take(first, there), take(edges, there))
        if self.lost is not None:
            chosen &= ~self.lost.withheld(edges["group"], edges)
        return chosen
