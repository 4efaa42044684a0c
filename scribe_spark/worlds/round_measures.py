"""Measures of a round: of nodes' tables and lookups, of packets on links, and of bytes of nodes.

A message is one packet on its sender's LAN up-link, on every core link of the unicast route, and on
its receiver's LAN down-link; a message from a node to itself uses no link and has no bytes.  A
message to a dead node counts on links, but its bytes only at its sender.  All messages that a round
counts are included, except lookups.  Acknowledgements are not messages of the model (W10).

References
----------
JSAC 2002, Section II; docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core import draws, u128
from scribe_spark.core.arrays import distinct_indices, index_sorted, sums_at, whole_numbers
from scribe_spark.core.errors import RunError
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import Columns, Inbox, Outbox, Tables, facts
from scribe_spark.engine.packing import concatenate, count_rows
from scribe_spark.engine.program import AT
from scribe_spark.measures.measure import Found, Size, metric_values
from scribe_spark.measures.message_bytes import NODE_BYTE_METRICS, NODE_BYTES, size_of_control
from scribe_spark.measures.parts import NodeParts, count_in_parts, rows_of_parts
from scribe_spark.measures.stress import PACKET_NUMBERS, PacketsOnLinks, packets_of
from scribe_spark.pastry.round import NEW_LEAFS, LookupResults, RoundResult
from scribe_spark.pastry.states import (
    MESSAGE_KINDS,
    NONE,
    BucketNodes,
    IsAlive,
    NodeProgram,
    SilentNodes,
    States,
    ring_leaves,
    same_leaves,
)
from scribe_spark.rounds.player import TRAFFIC, Counted, Counts, Environment
from scribe_spark.schemas import ROUNDS_BY_PART
from scribe_spark.systems.scribe.scribe import PAYLOAD_KINDS, SCRIBE_KINDS
from scribe_spark.underlay.protocol import Kernel

#: The maximal N in the measures ``hops.N``, more than any lookup takes.
_MOST_HOPS = 64

#: Kinds of messages with other names in measures: ``JOIN`` is a message of Scribe, and Spark
#: ignores case in names.
_NAMES = {"join": "join message", "lost join": "lost join message"}


def message_measure(kind: str) -> str:
    """Return the name of the measure that counts a kind of messages.

    Examples
    --------
    >>> message_measure("lost repair"), message_measure("join"), message_measure("JOIN")
    ('messages.lost repair', 'messages.join message', 'messages.JOIN')
    """
    return f"messages.{_NAMES.get(kind, kind)}"


#: All measures of a round with their units; see :func:`round_measures`.
ROUND_MEASURES: dict[str, str] = {
    "nodes.live": "nodes",
    "leaf_sets.right": "share",
    "leaf_sets.changed": "nodes",
    "cells.filled": "per live node",
    "cells.dead": "per live node",
    "cells.missing": "per live node",
    "cells.delay": "ms",
    "cells.nearest_delay": "ms",
    "lookups": "lookups",
    "lookups.delivered": "share",
    "lookups.right": "share",
    "lookups.hops": "hops",
    "lookups.lost": "per lookup",
    **{f"hops.{hops}": "share" for hops in range(_MOST_HOPS)},
    **{
        message_measure(f"{lost}{kind}"): "messages"
        for kind in MESSAGE_KINDS
        for lost in ("", "lost ")
    },
}

#: The number of nodes, drawn in each round, whose cells are compared with the nearest nodes.
_COMPARED = 50

_NODES = 2**14  # the number of nodes whose tables are read in one step

#: The table of a round's sums, with one row per bucket; see `MeasureNodes`.
MEASURED = "measured"


@dataclass(frozen=True)
class MeasureNodes(SilentNodes):
    """Sum properties of the tables of a bucket's live nodes: the table :data:`MEASURED`.

    ``right``: leaf sets that are correct for the ring.  ``filled``, ``alive``: table entries, and
    those that are live nodes.  ``possible``: cells for which a live node exists.  ``compared``:
    cells of drawn nodes with a live entry; ``delay`` and ``nearest``: the sums of their delays, see
    :func:`cell_delays`.  ``changed``: nodes whose leaf set has changed.
    """

    number: int

    def begin(self, nodes: BucketNodes) -> None:
        environment, states, own = self.environment, nodes.states(), self.live(nodes.bucket)
        live = environment.in_round.live()
        drawn = draws.stream(environment.seed, "compared cells", self.number)
        some = live[np.unique(drawn.random_raw(_COMPARED) % np.uint64(len(live))).astype(np.int64)]
        some = some[(some >= states.first) & (some < states.first + len(states.own))]
        delay, nearest = cell_delays(states, environment.is_alive, live, some, environment.kernel)
        all_alive = len(live) == len(states.known)
        filled, alive = count_entries(states, None if all_alive else environment.is_alive, own)
        sums = {
            "right": right_leaf_sets(states, live, own),
            "filled": filled,
            "alive": alive,
            "possible": cells_with_nodes(states.known.take(live), states.b, *_span(live, own)),
            "compared": len(nearest),
            "delay": delay.sum(),
            "nearest": nearest.sum(),
            "changed": count_rows(nodes.tables.get(NEW_LEAFS, {})),
        }
        nodes.tables[MEASURED] = {
            name: np.array([one], dtype=np.int64) for name, one in sums.items()
        }


def _span(live: np.ndarray, own: np.ndarray) -> tuple[int, int]:
    """Return the indices, among live nodes, of the first of adjacent nodes and after the last."""
    first = int(index_sorted(live, own[:1])[0]) if len(own) else 0
    return first, first + len(own)


def round_measures(live: int, result: RoundResult, measured: Columns) -> dict[str, float]:
    """Return the measures of a round: of nodes (`MeasureNodes`), lookups and messages."""
    sums = {name: int(column.sum()) for name, column in measured.items()}
    filled, alive = sums["filled"], sums["alive"]
    measures = {
        "nodes.live": float(live),
        "leaf_sets.right": sums["right"] / live,
        "leaf_sets.changed": float(sums["changed"]),
        "cells.filled": filled / live,
        "cells.dead": (filled - alive) / live,
        "cells.missing": (sums["possible"] - alive) / live,
    }
    if compared := sums["compared"]:
        measures["cells.delay"] = sums["delay"] / (compared * MICROSECONDS)
        measures["cells.nearest_delay"] = sums["nearest"] / (compared * MICROSECONDS)
    return (
        measures
        | _lookup_measures(result.lookups)
        | {message_measure(kind): float(n) for kind, n in result.messages.items()}
    )


def _lookup_measures(found: LookupResults) -> dict[str, float]:
    count = len(found.hops)
    if not count:
        return {}
    delivered = int(found.delivered.sum())
    measures = {
        "lookups": float(count),
        "lookups.delivered": delivered / count,
        "lookups.right": int(found.right.sum()) / count,
        "lookups.lost": int(found.lost.sum()) / count,
    }
    if delivered:
        hops = np.bincount(found.hops[found.delivered])
        measures["lookups.hops"] = int((hops * np.arange(len(hops))).sum()) / delivered
        measures |= {f"hops.{n}": int(of) / delivered for n, of in enumerate(hops)}
    return measures


def count_entries(states: States, is_alive: IsAlive | None, some: np.ndarray) -> tuple[int, int]:
    """Return the numbers of entries of the nodes `some`, and of live ones (None: all are alive)."""
    filled = alive = 0
    for start in range(0, len(some), _NODES):
        entries = states.cells[some[start : start + _NODES] - states.first]
        filled += int(np.count_nonzero(entries >= 0))
        alive += 0 if is_alive is None else int(np.count_nonzero(is_alive(entries)))
    return filled, filled if is_alive is None else alive


def right_leaf_sets(states: States, live: np.ndarray, some: np.ndarray) -> int:
    """Count the live nodes among adjacent ones with exactly the leaf set of the live ring."""
    first, last = _span(live, some)
    places = ring_leaves(np.arange(first, last), states.half, len(live))
    leaves = np.append(live, NONE).astype(np.int32)[places]
    return int(same_leaves(states.leaves[some - states.first], leaves).sum())


def cell_delays(
    states: States, is_alive: IsAlive, live: np.ndarray, nodes: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray]:
    """Return the delay to each live entry of some nodes, and to the nearest possible entry.

    Delays are in microseconds, from the node's router to the router of its entry, and to the
    nearest router of a live node that fits the cell.  `live` are the ascending positions of all
    live nodes; the tables of `nodes` are in `states`.
    """
    known, nearest = [whole_numbers()], [whole_numbers()]
    if not len(nodes):
        return known[0], nearest[0]
    ring = states.known.take(live)
    index = np.zeros(1 + int(ring.router.max()), dtype=np.int64)
    routers = distinct_indices(len(index), ring.router)
    index[routers] = np.arange(len(routers))
    of_router = np.append(index[ring.router], 0)  # reduceat needs an element after the last node
    for node, place in zip(nodes, index_sorted(live, nodes), strict=True):
        row, column, begin, end = _cells_of(ring, place, states.b, states.cells.shape[1])
        entry = states.cells[node - states.first, row, column].astype(np.int64)
        usable = is_alive(entry)
        if not usable.any():
            continue
        own = states.known.router[node]
        delay = kernel.delays(np.full(len(routers), own), routers)[of_router]
        # minima over cells and the gaps between them; keep those of cells
        ends = np.column_stack([begin[usable], end[usable]]).ravel()
        nearest.append(np.minimum.reduceat(delay, ends)[::2])
        router = states.known.router[entry[usable]]
        known.append(kernel.delays(np.full(len(router), own), router))
    return np.concatenate(known), np.concatenate(nearest)


def _cells_of(
    ring: facts.Ring, place: int, b: int, rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells of a node's routing table for which nodes exist: row, column, begin, end.

    The nodes that fit a cell are adjacent on the ring: they have the indices `begin` to `end` - 1.
    `place` is the index of the node; `rows` is the number of rows of the table.
    """
    found = [np.empty((4, 0), dtype=np.int64)]
    first, last = 0, len(ring)  # the nodes that share `row` digits with the node
    for row in range(rows):
        if last - first < 2:
            break
        at = slice(place, place + 1)
        own = int(u128.digit_np(ring.hi[at], ring.lo[at], row, b)[0])
        # the nodes share all digits before, so one half of their nodeIds is sorted by the digit
        half, bits = divmod(b * row, 64)
        ids, shift = (ring.hi, ring.lo)[half], np.uint64(64 - b - bits)
        begin = ((ids[place] >> shift) - np.uint64(own) + np.arange(2**b, dtype=np.uint64)) << shift
        ends = first + np.append(np.searchsorted(ids[first:last], begin), last - first)
        column = np.flatnonzero(np.diff(ends))
        others = column[column != own]
        found.append(np.stack([np.full(len(others), row), others, ends[others], ends[others + 1]]))
        first, last = int(ends[own]), int(ends[own + 1])
    row, column, begin, end = np.concatenate(found, axis=1)
    return row, column, begin, end


def cells_with_nodes(live: facts.Ring, b: int, first: int = 0, last: int | None = None) -> int:
    """Count the cells of the nodes' routing tables for which a live node exists.

    A node that shares its first `row` digits with other nodes has a possible cell in that row for
    each other next digit that occurs among them. Only the tables of the nodes with the indices
    `first` to `last` - 1 are counted.
    """
    last = len(live) if last is None else last
    if len(live) < 2 or first >= last:
        return 0
    shared = u128.shared_digits_np(live.hi[1:], live.lo[1:], live.hi[:-1], live.lo[:-1], b)
    cells = 0
    for row in range(int(shared.max()) + 1):
        # for classes of nodes that share `row` digits: members, and number of distinct next digits
        begins = np.r_[0, np.flatnonzero(shared < row) + 1]
        ends = np.r_[begins[1:], len(live)]
        members = np.maximum(np.minimum(ends, last) - np.maximum(begins, first), 0)
        digits = np.add.reduceat(np.r_[1, shared <= row], begins)
        cells += int((members * (digits - 1)).sum())
    return cells


# --- packets on links


_NEITHER = ("lookup",)

#: The kinds of payload messages, and the kinds of messages that maintain the overlay and the trees
#: (JOINs, and repairs of dead nodes that payload or lookups found, included).
KINDS: dict[str, tuple[str, ...]] = {
    "payload": PAYLOAD_KINDS,
    "maintenance": tuple(
        kind for kind in MESSAGE_KINDS + SCRIBE_KINDS if kind not in PAYLOAD_KINDS + _NEITHER
    ),
}

_PREFIX = "link_stress."

#: The statistics of `PACKET_NUMBERS` that are reported.
_NUMBERS = ("mean", "mean_existing", "max")


def packet_measures(names: Iterable[str]) -> dict[str, str]:
    """Return the measures of packets on links with their units, for each of `names`."""
    return {f"{_PREFIX}{of}.{name}": PACKET_NUMBERS[name].unit for of in names for name in _NUMBERS}


#: All measures with their units; see :meth:`LinkStress.measures`.
LINK_STRESS_MEASURES: dict[str, str] = packet_measures(KINDS)

#: The table of counts of links that :class:`MeasureLinks` writes; see `Counts`.
LINKS_MEASURED = "measured links"


@dataclass(frozen=True)
class LinkStress:
    """The rounds in which link stress is measured, and the number of core links.

    Link stress is measured in the last of every `period` rounds (0: never); `core_links` is the
    number of directed links between routers.
    """

    period: int
    core_links: int
    routers: int

    def is_measured(self, number: int) -> bool:
        """Return True if link stress is measured in a round."""
        return self.period > 0 and (number + 1) % self.period == 0

    def measures(self, counted: Counted, names: Iterable[str], nodes: int) -> dict[str, float]:
        """Return the values of measures after a round, from counts of links by packets.

        For each name there are ``link_stress.NAME.mean`` over the paper's link slots (left out if
        there are fewer slots than links), ``mean_existing`` over all directed links (with the LAN
        links of all `nodes` that are or were alive), and ``max``.
        """
        size = Size(nodes, self.routers, self.core_links)
        found: dict[str, float] = {}
        for of in names:
            on_links = counted.histogram(packets_of(of))
            for name in _NUMBERS:
                if name != "mean" or size.has_slot_for_each_link:
                    found[f"{_PREFIX}{of}.{name}"] = PACKET_NUMBERS[name].of(on_links, size) or 0.0
        return found


def is_traffic(name: str) -> bool:
    """Return True for names of tables in which messages are recorded, also with a prefix."""
    return re.search(rf"(^|/){TRAFFIC} [0-9]+$", name) is not None


def recorded_messages(
    environment: Environment, tables: Tables, keeps: bool
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield kind, senders, receivers and sizes (or None) of a bucket's recorded messages."""
    for table in [name for name in tables if is_traffic(name)]:
        columns = tables[table]
        if not keeps:
            del tables[table]
        # each table is of one kind
        kind, size = environment.observer.kinds[columns["kind"][0]], columns.get("bytes")
        yield kind, columns["sender"], columns["to"], size


@dataclass(frozen=True)
class MeasureLinks(NodeProgram):
    """Count the links that messages use, for the kinds in `names`: :data:`LINKS_MEASURED`."""

    names: Mapping[str, tuple[str, ...]]
    keeps_messages: bool = False

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        environment, counts = self.environment, Counts()
        packets = PacketsOnLinks(environment.kernel, environment.bounds)
        if not superstep:
            ends: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in self.names}
            for kind, sender, to, _ in recorded_messages(environment, tables, self.keeps_messages):
                for name in [name for name, some in self.names.items() if kind in some]:
                    ends[name].append((sender, to))
            for name, parts in ends.items():
                if parts:
                    sender, to = (np.concatenate(part) for part in zip(*parts, strict=True))
                    packets.carry(name, environment.facts.ring.router, sender, to)
        for _, name, links in packets.receive(inbox):
            counts.add(packets_of(name), links["packets"])
        if columns := counts.columns():
            tables[f"{LINKS_MEASURED} {superstep}"] = columns
        return packets.outbox()


# --- bytes of nodes


#: The table of counts that :class:`MeasureBytes` leaves; see `Counts`.
BYTES_MEASURED = "measured bytes"

_BYTES = "bytes of a node"

#: Fewer bytes of a node in a round are added in 64 bits, from all kinds of messages and buckets.
_MOST_BYTES = 2**62


def byte_units(system: str) -> dict[str, str]:
    """Return the names of a system's measures of bytes, with their units."""
    return {f"{system}.{metric.name}": metric.unit for metric in NODE_BYTE_METRICS}


def bytes_of_kinds(
    payload: tuple[str, ...], control: tuple[str, ...], size: int, other: int
) -> dict[str, tuple[str, int]]:
    """Return kinds -> (``payload`` or ``control``, default size in bytes)."""
    of = {kind: ("payload", size) for kind in payload}
    return of | {kind: ("control", size_of_control(kind, other)) for kind in control}


@dataclass(frozen=True)
class MeasureBytes(NodeProgram):
    """Count a bucket's live nodes by their bytes, in all and in `parts`: :data:`BYTES_MEASURED`."""

    sizes: Mapping[str, tuple[str, int]]
    parts: tuple[NodeParts, ...]
    keeps_messages: bool

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if superstep:
            self._count(bucket, tables, inbox[_BYTES])
            return {}
        first, last = self.bounds[bucket : bucket + 2].tolist()
        if first == last:
            return {}
        nothing = np.zeros(1, dtype=np.int64)
        parts = [{AT: nothing + first, "of": nothing, "bytes": nothing}]
        return {_BYTES: concatenate([*parts, *self._bytes(tables)])}

    def _bytes(self, tables: Tables) -> Iterator[Columns]:
        """Yield the bytes of recorded messages at their senders and at their receivers, by node."""
        found: dict[str, np.ndarray] = {}
        nodes = len(self.environment.facts.ring)
        for kind, sender, to, own in recorded_messages(
            self.environment, tables, self.keeps_messages
        ):
            of, size = self.sizes.get(kind, ("", 0))
            if not of or (own is None and not size):
                continue
            for name, end in ((f"{of}_up", sender), (f"{of}_down", to)):
                away = sender != to
                if own is None:
                    sums = np.bincount(end[away], minlength=nodes)
                    _refuse_many(int(sums.max(initial=0)) * size)
                    sums = sums * size
                else:
                    each = np.where(own < 0, size, own)[away]
                    _refuse_many(np.bincount(end[away], each, minlength=nodes).max(initial=0))
                    sums = sums_at(end[away], each, nodes)
                found[name] = found.get(name, 0) + sums
                _refuse_many(int(found[name].max(initial=0)))
        names = list(NODE_BYTES)
        for name, of_node in found.items():
            node = np.flatnonzero(of_node)
            of_name = np.full(len(node), names.index(name))
            yield {AT: node, "of": of_name, "bytes": of_node[node]}

    def _count(self, bucket: int, tables: Tables, came: Columns) -> None:
        first, last = self.bounds[bucket : bucket + 2].tolist()
        count, counts = last - first, Counts()
        place = came["of"] * count + came[AT] - first
        sums = sums_at(place, came["bytes"], len(NODE_BYTES) * count)
        _refuse_many(np.bincount(place, came["bytes"]).max())
        node = self.live(bucket)
        number = self.environment.facts.ring.node[node]
        for name, of_node in zip(NODE_BYTES, np.split(sums, len(NODE_BYTES)), strict=True):
            values = of_node[node - first]
            counts.add(name, values)
            count_in_parts(counts, self.parts, f"bytes.{name}", number, values)
        if columns := counts.columns():
            tables[BYTES_MEASURED] = columns


def _refuse_many(found: float) -> None:
    """End the run if the bytes of a node in a round, perhaps rounded, do not fit into 64 bits."""
    if found >= _MOST_BYTES:
        remedy = "give a smaller message_size or control_size, or fewer groups"
        raise RunError(f"a node has {found:.3g} bytes in a round, 2**62 or more; {remedy}")


def byte_measures(counted: Counted) -> dict[str, float]:
    """Return the measures ``bytes.up.mean`` and so on over live nodes, by name."""
    histograms = {("", name): counted.histogram(count) for count, name in NODE_BYTES.items()}
    return metric_values(NODE_BYTE_METRICS, Found(Size(0, 0, 0), histograms=histograms), "")


def byte_rows(counted: Counted, parts: tuple[NodeParts, ...], system: str) -> list[dict[str, Any]]:
    """Return counted bytes of nodes by class and region, as rows of `schemas.BY_PART`."""
    return rows_of_parts(counted, parts, system, {f"bytes.{name}": 1 for name in NODE_BYTES})


def part_table(number: int, rows: list[dict[str, Any]]) -> pa.Table:
    """Return the rows of `schemas.BY_PART` of a round as `schemas.ROUNDS_BY_PART`."""
    schema = to_arrow_schema(ROUNDS_BY_PART)
    return pa.Table.from_pylist([{"round": number, **row} for row in rows], schema=schema)
