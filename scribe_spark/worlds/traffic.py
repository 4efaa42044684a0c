"""The messages of a round: packets on each directed link, and bytes of each live node (W10).

A message is one packet on its sender's LAN up-link, on every core link of the unicast route, and on
its receiver's LAN down-link; a message from a node to itself uses no link and has no bytes.  A
message to a dead node counts on links, but its bytes only at its sender.  All messages that a round
counts are included, except lookups.  Acknowledgements are not messages of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.arrays import sums_at
from scribe_spark.core.errors import RunError
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT
from scribe_spark.measures.measure import Found, Size, metric_values
from scribe_spark.measures.message_bytes import NODE_BYTE_METRICS, NODE_BYTES, size_of_control
from scribe_spark.measures.parts import NodeParts, count_in_parts, rows_of_parts
from scribe_spark.measures.stress import PACKET_NUMBERS, PacketsOnLinks, packets_of
from scribe_spark.pastry.states import MESSAGE_KINDS, NodeProgram
from scribe_spark.rounds.player import TRAFFIC, Counted, Counts, Environment
from scribe_spark.schemas import ROUNDS_BY_PART
from scribe_spark.systems.scribe.scribe import PAYLOAD_KINDS, SCRIBE_KINDS

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
