"""Delay, node stress and link stress of a round's multicasts, for every system alike.

The multicasts of a round are one publication of each group.  `SystemTables` reads the tables of a
system; buckets count (:class:`MeasureMulticasts`), the counts are summed over buckets,
and :meth:`MulticastMeasures.measures` computes numbers from the sums, by the formulas of runs.

References
----------
docs/rules.md, S25 to S27, W11; JSAC 2002, Section IV.B to IV.D.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core import arrays
from scribe_spark.core.histogram import Histogram
from scribe_spark.core.keys import key_of
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.exchange import add_rows, distinct_rows
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, SilentProgram, append
from scribe_spark.measures import delay, latency, stress
from scribe_spark.measures.copies import (
    DUPLICATES,
    PARTS,
    duplicate_numbers,
    numbers_of_parts,
    parts_beyond,
)
from scribe_spark.measures.coverage import coverage_metrics, coverage_tables
from scribe_spark.measures.measure import Found, Measure, Metric, Size, metric_values
from scribe_spark.measures.parts import (
    NodeParts,
    count_coverage,
    count_in_parts,
    coverage_rows_of_parts,
    numbers_of_values,
    rows_of_parts,
)
from scribe_spark.measures.within import WEIGHT, Asked, PlacedNodes
from scribe_spark.pastry.states import NodeProgram
from scribe_spark.rounds.player import Counted, Counts
from scribe_spark.rounds.system import CARRIED, DELIVERED, Multicasts, SystemOnBuckets
from scribe_spark.underlay.protocol import Kernel, node_delays

_IP, UNICAST = BASELINES = "ip_multicast", "naive_unicast"

#: The metrics of runs that only runs have: rounds have ``multicasts.reached`` and
#: ``publications.duplicates``.
_OF_RUNS = "reached", "duplicates"


def _metrics_of(*measures: Measure) -> tuple[Metric, ...]:
    """Return the metrics of systems that runs have, and rounds too."""
    every = [metric for measure in measures for metric in measure.metrics if metric.systems]
    return tuple(metric for metric in every if metric.name not in _OF_RUNS)


_PACKETS = _metrics_of(stress.LINK_STRESS)
_METRICS = _metrics_of(
    delay.DELAY, latency.LATENCY_MEASURE, stress.NODE_STRESS, DUPLICATES, PARTS, stress.LINK_STRESS
)

#: The measures of rounds alone.
_REACHED = {"multicasts": "groups", "multicasts.reached": "of members"}


def multicast_units(
    system: str, beside: tuple[str, ...] = (), by_hops: bool = False
) -> dict[str, str]:
    """Return the units of the measures of a system's multicasts, and of the baselines `beside`."""
    units = _REACHED | {metric.name: metric.unit for metric in _METRICS}
    own = {
        f"{system}.{name}": unit
        for name, unit in units.items()
        if by_hops or not name.startswith(latency.latency_names(latency.IN_HOPS))
    }
    return own | {f"{other}.{one.name}": one.unit for other in beside for one in _PACKETS}


@dataclass(frozen=True)
class SystemTables:
    """A system's tables in a bucket, as measures read them; picklable."""

    name: str
    system: SystemOnBuckets
    multicasts: Multicasts
    by_hops: bool = False  # True if copies arrive by the clock of hops
    beside: tuple[str, ...] = ()  # the baselines whose packets on links are counted
    parts: Parts = field(default_factory=Parts)  # each multicast is one part
    tree: np.ndarray | None = None  # the tree of each multicast, if groups have several trees

    @property
    def trees(self) -> tuple[NodeParts, ...]:
        """The division of deliveries by the numbers of trees; none without several trees."""
        names = () if self.tree is None else tuple(map(str, range(1 + self.tree.max(initial=0))))
        return (NodeParts("tree", names, np.asarray),) if names else ()

    def in_trees(self, of: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each tree, and which copies of the multicasts `of` are its stress, by index.

        They are copies of the first multicast of each group in the tree.
        """
        if self.tree is None:
            return
        place = np.column_stack([self.multicasts.group, self.tree])
        is_first = np.zeros(len(self.tree), dtype=bool)
        is_first[np.unique(place, axis=0, return_index=True)[1]] = True
        for tree in arrays.distinct(self.tree).tolist():
            yield tree, np.flatnonzero((is_first & (self.tree == tree))[of])

    @property
    def publications(self) -> int:
        """The number of publications whose multicasts are measured."""
        return len(arrays.distinct(self.first_parts))

    @cached_property
    def first_parts(self) -> np.ndarray:
        """The index, for each multicast, of the first part of its publication: (p,)."""
        if self.parts.sent == 1:  # without a schedule, several multicasts may have one number
            return np.arange(len(self.multicasts))
        publication = self.multicasts.number // self.parts.sent
        _, first, of = np.unique(publication, return_index=True, return_inverse=True)
        return first[of]

    def in_bucket(self, tables: Tables, size: int) -> InBucket:
        """Return the rows of the multicasts in a bucket; `size` is K, the number of nodes."""
        return InBucket(self, tables, size)


@dataclass(frozen=True)
class Reached(arrays.Rows):
    """m deliveries to members other than the node where the multicast starts; shapes (m,)."""

    #: int64: the index of the multicast; of several parts, that of the publication's first one.
    of: np.ndarray
    #: int64: the member, and the hops and delay since the start.
    node: np.ndarray
    hops: np.ndarray
    delay_us: np.ndarray


@dataclass(frozen=True)
class InBucket:
    """The rows of a system's multicasts in a bucket; each property is computed once."""

    of: SystemTables
    tables: Tables
    size: int

    @cached_property
    def members(self) -> np.ndarray:
        """The keys (group, node) of all members among the bucket's nodes, ascending."""
        return self.of.system.members(self.tables)

    @cached_property
    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """All members except the start of each multicast, once for each publication.

        The arrays are the index of the multicast (that of the first part), and the node.
        """
        of, node = self.others
        once = self.of.first_parts[of] == of
        return of[once], node[once]

    @cached_property
    def others(self) -> tuple[np.ndarray, np.ndarray]:
        """As :attr:`expected`, but once for each multicast, also for those of other parts."""
        multicasts = self.of.multicasts
        group, node = np.divmod(self.members, self.size)
        row, of = multicasts.of_groups(group)
        others = multicasts.start[of] != node[row]
        return of[others], node[row[others]]

    @cached_property
    def reached(self) -> Reached:
        """The deliveries (`rounds.system.DELIVERED`) to members, except a multicast's start."""
        came, multicasts = self.delivered, self.of.multicasts
        is_member = (
            arrays.find_sorted(self.members, key_of([came["group"], came["node"]], self.size)) >= 0
        )
        came = take(came, is_member & (came["node"] != multicasts.start[came["of"]]))
        of, node = came["of"], came["node"]
        hops = multicasts.hops[of] + came["hops"]
        delay_us = multicasts.delay_us[of] + came["delay_us"]
        got = {"of": of, "publication": multicasts.number[of], "node": node}
        enough = self.of.parts.complete({**got, "hops": hops, "delay_us": delay_us}, self.size)
        first = self.of.first_parts[enough["of"]]
        return Reached(first, *(enough[name] for name in ("node", "hops", "delay_us")))

    @cached_property
    def delivered(self) -> Columns:
        """The deliveries (`rounds.system.DELIVERED`) to nodes with a first copy, members or not."""
        return self._of_multicasts(DELIVERED, ("group", "publication", "node", "hops", "delay_us"))

    @cached_property
    def copies(self) -> Columns:
        """The copies (`rounds.system.CARRIED`) that the bucket recorded, with lost ones."""
        return self._of_multicasts(CARRIED, ("group", "publication", "sender", "to"))

    def _of_multicasts(self, table: str, names: tuple[str, ...]) -> Columns:
        """Return the rows of a table that belong to the multicasts."""
        rows = self.tables.get(table) or dict.fromkeys(names, arrays.whole_numbers())
        of = self.of.multicasts.find(rows["group"], rows["publication"])
        mine, rows = of >= 0, {**rows, "of": of}
        return rows if mine.all() else take(rows, mine)

    @cached_property
    def links(self) -> Columns:
        """The copies of a round, or with a schedule each link once: ``group, sender, to``."""
        if not self.of.multicasts.are_scheduled:
            return self.copies
        names = "group", "sender", "to"
        _, columns, _ = distinct_rows(*(self.copies[name] for name in names))
        return dict(zip(names, columns, strict=True))

    def by_place(self, copies: Columns, end: str, of: str = "group") -> Columns:
        """Return the number of copies by group (or `of`) and node `end`, as messages."""
        key = key_of([copies[of], copies[end]], self.size)
        place, number = np.unique(key, return_counts=True)
        return {AT: place % self.size, "place": place, "copies": number} if len(place) else {}

    def digest(self, alive: np.ndarray) -> bytes:
        """Return a digest of all rows that :class:`MeasureMulticasts` reads in the bucket.

        Names of publications, which differ in each round, are not read.
        """
        multicasts, children = self.of.multicasts, self.of.system.children(self.tables, self.size)
        parts: list[Columns] = [{"members": self.members, "alive": alive}, multicasts.to_columns()]
        parts += [{} if children is None else {"children": children}, self.delivered, self.copies]
        digest = hashlib.sha1(usedforsecurity=False)
        for columns in parts:
            for name, column in columns.items():
                if name not in _NAMES:
                    digest.update(f"{name} {column.dtype} {len(column)} ".encode())
                    digest.update(np.ascontiguousarray(column).view(np.uint8).data)
        return digest.digest()


@dataclass(frozen=True)
class MulticastMeasures:
    """The measures of publications that a world takes each round, and the world's network."""

    #: Any of ``delay``, ``node_stress``, ``link_stress``; and ``bytes`` where publications have a
    #: size.
    names: tuple[str, ...] = ()
    #: The number of directed links between routers.
    core_links: int = 0
    routers: int = 0
    #: The delay of a node's LAN link, each way, in microseconds.
    lan_us: int = 0
    #: Where multicasts start, see `GroupsConfig`.
    source: str = "root"
    #: The classes and regions by which delays and hops are counted, too.
    parts: tuple[NodeParts, ...] = ()
    #: The size of publications and the rates of nodes, if publications have a size.
    links: RoundLinks | None = None
    #: The questions about coverage.
    asked: Asked | None = None

    @property
    def message_parts(self) -> Parts:
        """The parts into which publications are cut."""
        return Parts() if self.links is None else self.links.parts

    @property
    def of_ways(self) -> bool:
        """True if measures need the delays of payloads since the source."""
        return "delay" in self.names or "link_stress" in self.names

    def base_us(
        self, ring: Ring, kernel: Kernel, multicasts: Multicasts, of: np.ndarray, member: np.ndarray
    ) -> np.ndarray:
        """Return the delays by IP multicast from the starts of multicasts to members: int64.

        With a size, delays include the transmission of each publication alone (rule W11).
        """
        start = multicasts.start[of]
        delay_us = node_delays(kernel, self.lan_us, ring.router[start], ring.router[member])
        if self.links is None:
            return delay_us
        size = multicasts.size[of]
        size = np.where(size < 0, self.links.size, size * self.links.parts.needed)
        return self.links.routed_us(ring, start, member, delay_us, size)

    def measures(
        self, taken: Mapping[str, Columns], of: SystemTables, nodes: int
    ) -> dict[str, float]:
        """Return the values of measures after a round, without those that have no value.

        `taken` has the tables of all buckets, `nodes` is the number of nodes that are or were
        alive.
        """
        counted, size = Counted(taken.get(_COUNTED, {})), Size(nodes, self.routers, self.core_links)
        values: dict[str, float] = {}
        histograms: dict[tuple[str, str], Histogram] = {}
        collected: dict[str, Any] = {}
        if "node_stress" in self.names:
            live, receipts = counted.total(_LIVE), counted.histogram(_DUPLICATES)
            for name in stress.CHILDREN:
                histograms[of.name, name] = counted.histogram(name).with_zeros(live)
            copies = int(receipts.sum) + receipts.total + counted.total(_AT_STARTS)
            collected[DUPLICATES.name] = {of.name: duplicate_numbers(copies, receipts)}
        if _BEYOND in taken:
            collected[PARTS.name] = {of.name: numbers_of_parts(taken[_BEYOND])}
        metrics = _METRICS
        if "delay" in self.names:
            if self.asked is not None:
                metrics += coverage_metrics(self.asked.config, self.asked.several)
            values[f"{of.name}.multicasts"] = of.publications
            if members := counted.total("members"):
                values[f"{of.name}.multicasts.reached"] = counted.total("reached") / members
            histograms |= {(of.name, name): some for name, some in _delays(counted, taken).items()}
            collected[delay.DELAY.name] = {of.name: _of_largest(taken)}
            collected[latency.LATENCY_MEASURE.name] = self.latencies(taken, of)
        systems = (of.name, *of.beside)
        if "link_stress" in self.names and len(of.multicasts):
            for name in systems:
                on_links = counted.histogram(stress.packets_of(name))
                histograms[name, stress.LINK_STRESS.name] = on_links
        found = Found(size, histograms=histograms, collected=collected)
        for system in systems:
            of_system = metric_values(metrics, found, system)
            values |= {f"{system}.{name}": value for name, value in of_system.items()}
        return {name: float(value) for name, value in values.items()}

    def latencies(self, taken: Mapping[str, Columns], of: SystemTables) -> latency.BySystem:
        """Return the latencies of a system, by system and unit."""
        found = {
            (of.name, unit): latency.Latencies.of(rows, taken[_LATENCIES[latency.COUNTS, unit]])
            for unit in latency.UNITS
            if (rows := taken.get(_LATENCIES[latency.PUBLICATIONS, unit], {}))
        }
        for latencies in found.values():
            rows = latencies.publications
            rows[latency.GROUP_OF] = of.multicasts.group[rows["group"]]
        return found

    def by_part(self, taken: Mapping[str, Columns], of: SystemTables) -> list[dict[str, Any]]:
        """Return measures by class, region and tree: rows of `schemas.BY_PART`.

        They are delays, hops and coverage; and RAD, RMD, node stress and link stress of trees.
        """
        counted = Counted(taken.get(_COUNTED, {}))
        units = {"delay_ms": MICROSECONDS, "hops": 1}
        rows = rows_of_parts(counted, (*self.parts, *of.trees), of.name, units)
        for (tree, name), values in self._of_trees(taken, counted, of).items():
            key = {"by": "tree", "part": str(tree), "system": of.name, "measure": name}
            rows += [key | numbers_of_values(values)] if values else []
        if self.asked is not None:
            rows += coverage_rows_of_parts(counted, self.parts, of.name, self.asked)
        return rows

    def _of_trees(
        self, taken: Mapping[str, Columns], counted: Counted, of: SystemTables
    ) -> dict[tuple[int, str], Histogram]:
        """Return RAD, RMD, node stress and link stress of each tree, by tree and measure."""
        found, nodes = dict[tuple[int, str], Histogram](), counted.total(_LIVE)
        sums = dict[str, np.ndarray]()
        if _IN_TREES in taken:
            sums = delay.add_delays(taken[_IN_TREES])
            in_tree = sums["group"] % len(of.trees[0].names)
        for tree, _ in of.in_trees(arrays.whole_numbers()):
            on_links = stress.packets_of(f"{of.name}{_IN_TREE}{tree}")
            found[tree, stress.LINK_STRESS.name] = counted.histogram(on_links)
            if "node_stress" in self.names:
                for one in stress.CHILDREN:
                    values = counted.histogram(f"{one}{_IN_TREE}{tree}")
                    found[tree, one] = values.with_zeros(nodes)
            if sums:
                ratios = delay.ratios_of_groups(take(sums, in_tree == tree))
                found |= {(tree, name): Histogram.of(ratio) for name, ratio in ratios.items()}
        return found

    def coverage_tables(
        self, taken: Mapping[str, Columns], of: SystemTables, number: int, groups: np.ndarray
    ) -> dict[str, pa.Table]:
        """Return the tables of coverage (`schemas.CONTRACTS["coverage"]`) of a round.

        The column ``publication`` has the number of the round or, with a schedule, its own number.
        """
        if self.asked is None:
            return {}
        multicasts = of.multicasts

        def names(rows: Columns) -> tuple[np.ndarray, np.ndarray]:
            row, group = rows["group"], groups[rows[latency.GROUP_OF]]
            scheduled = multicasts.are_scheduled
            return group, multicasts.number[row] if scheduled else np.full_like(row, number)

        return coverage_tables(self.latencies(taken, of), self.asked, names)


# --- counts of a bucket

#: The tables that :class:`MeasureMulticasts` writes: counts (`Counts`), sums of the delays of each
#: multicast, ratios of the delays in the largest group, parts beyond (`parts_beyond`), latencies.
_COUNTED, _DELAYS, _RATIOS = "measured multicasts", "delays of multicasts", "ratios of delays"
_IN_TREES = "delays in trees"
_BEYOND = "parts beyond"
_LATENCIES = {
    (kind, unit): f"latencies in {unit}: {kind}"
    for kind in (latency.PUBLICATIONS, latency.COUNTS)
    for unit in latency.UNITS
}
MULTICASTS_MEASURED = (
    *(_COUNTED, _DELAYS, _IN_TREES, _RATIOS, _BEYOND),
    *_LATENCIES.values(),
)

#: The names of counts: the duplicates of nodes with a first copy, and the copies that reach the
#: starts, which have the message already.
_DUPLICATES, _AT_STARTS = "duplicates of receipts", "copies at starts"

#: The name of the count of live nodes.
_LIVE = "live nodes"

#: Messages: the number of members of each group in a bucket; the number of copies that a node sent
#: to a group, and that it received; of the parts of a publication that are sent to it; deliveries,
#: and the number of expected ones, to the start of the multicast.
_MEMBERS, _SENT, _CAME, _PARTS_SENT, _LATENCY, _EXPECTED = (
    *("members of groups", "copies sent", "copies that came", "parts sent"),
    *("latency", "expected deliveries"),
)


#: Before the number of a tree, in the names of what is counted for the tree alone.
_IN_TREE = " in tree "

#: The columns with names of publications.
_NAMES = "publication", "number"

#: The table of :class:`SeeMulticasts`, with one row per byte.
SEEN = "digest of multicasts"


@dataclass(frozen=True)
class SeeMulticasts(SilentProgram, NodeProgram):
    """Write the table :data:`SEEN`: the digest of the rows that are measured (`InBucket.digest`).

    If the digests of all buckets are those of an earlier round, so are the measured tables.
    """

    of: SystemTables

    def change(self, bucket: int, tables: Tables) -> None:
        """See `engine.program.SilentProgram`."""
        mine = self.of.in_bucket(tables, len(self.environment.facts.ring))
        alive = self.environment.is_alive(np.arange(*self.bounds[bucket : bucket + 2]))
        tables[SEEN] = {"byte": np.frombuffer(mine.digest(alive), np.uint8)}


@dataclass(frozen=True)
class MeasureMulticasts(NodeProgram):
    """Count the multicasts of a round: the tables :data:`MULTICASTS_MEASURED`."""

    measured: MulticastMeasures
    of: SystemTables

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        counts, names, outbox = Counts(), self.measured.names, dict[str, Columns]()
        packets = stress.PacketsOnLinks(self.environment.kernel, self.bounds)
        mine = self.of.in_bucket(tables, len(self.environment.facts.ring))
        if not superstep:
            if "node_stress" in names:
                outbox |= self._count_nodes(bucket, mine, counts)
            if "bytes" in names and self.of.parts.sent > 1:
                outbox[_PARTS_SENT] = self._send_receipts(mine, of_parts=True)
            if "delay" in names and len(self.of.multicasts):
                outbox |= self._count_delays(mine, counts)
            if "link_stress" in names and len(self.of.multicasts):
                self._put_on_links(mine, packets)
        for kind, came in inbox.items():
            if kind.startswith(_SENT):
                self._count_children(bucket, came, counts, kind.removeprefix(_SENT))
        if _CAME in inbox:
            self._count_duplicates(inbox[_CAME], counts)
        if _PARTS_SENT in inbox:
            self._count_beyond(mine, inbox[_PARTS_SENT])
        if _MEMBERS in inbox:
            self._note_ratios(mine, inbox[_MEMBERS])
        if _EXPECTED in inbox:
            self._note_latencies(tables, inbox[_EXPECTED], inbox.get(_LATENCY, {}))
        if superstep and "link_stress" in names:
            for _, system, links in packets.receive(inbox):
                counts.add(stress.packets_of(system), links["packets"])
        if columns := counts.columns():
            append(tables, _COUNTED, columns)
        return {**{kind: sent for kind, sent in outbox.items() if sent}, **packets.outbox()}

    def _base_us(self, found: Reached) -> np.ndarray:
        """Return the delay by IP multicast (us) to the member of each delivery."""
        network = self.environment.facts.ring, self.environment.kernel
        return self.measured.base_us(*network, self.of.multicasts, found.of, found.node)

    def _count_delays(self, mine: InBucket, counts: Counts) -> dict[str, Columns]:
        """Count members and deliveries."""
        found, multicasts, sent = mine.reached, self.of.multicasts, dict[str, Columns]()
        counts.add_total("members", len(mine.expected[0]))
        counts.add_total("reached", len(found))
        counts.add("depth", found.hops)
        number = self.environment.facts.ring.node[found.node]
        for name, values in (("delay_ms", found.delay_us), ("hops", found.hops)):
            count_in_parts(counts, self.measured.parts, name, number, values)
            if self.of.tree is not None:
                count_in_parts(counts, self.of.trees, name, self.of.tree[found.of], values)
        asked, ring = self.measured.asked, self.environment.facts.ring
        if asked is not None:
            everyone = ring.node[mine.expected[1]]
            count_coverage(counts, self.measured.parts, asked, everyone, number, found.delay_us)
        if len(found):
            group, us = multicasts.group[found.of], (found.delay_us, self._base_us(found))
            append(mine.tables, _DELAYS, delay.delay_sums(group, *us))
            if self.of.tree is not None:
                in_tree = group * (1 + self.of.tree.max()) + self.of.tree[found.of]
                append(mine.tables, _IN_TREES, delay.delay_sums(in_tree, *us))
            latencies = {latency.MS: found.delay_us}
            if self.of.by_hops:
                latencies[latency.IN_HOPS] = found.hops * latency.THOUSANDTHS
            start = multicasts.start[found.of]
            if asked is not None:
                nodes, source = self._nodes(found.node), self._nodes(start)
                latencies |= asked.of_deliveries(found.delay_us, nodes, source)
            sent[_LATENCY] = {AT: start, "group": found.of, **latencies}
        expected = np.bincount(mine.expected[0])
        if len(of := np.flatnonzero(expected)):
            due = {AT: multicasts.start[of], "group": of, "expected": expected[of]}
            if asked is not None and asked.weights is not None:
                weights = asked.weights.of(ring.node[mine.expected[1]])
                due[WEIGHT] = arrays.sums_at(mine.expected[0], weights, len(expected))[of]
            sent[_EXPECTED] = due
        in_group = np.bincount(mine.members // mine.size)
        if len(group := np.flatnonzero(in_group)):
            first = self.bounds[:-1][np.diff(self.bounds) > 0]
            told = {"group": group, "members": in_group[group]}
            told = {name: np.tile(column, len(first)) for name, column in told.items()}
            sent[_MEMBERS] = {AT: np.repeat(first, len(group)), **told}
        return sent

    def _note_ratios(self, mine: InBucket, came: Columns) -> None:
        """Record the RDPs in the largest group (ties: the first group), by size in `came`."""
        largest = int(np.argmax(np.bincount(came["group"], came["members"])))
        own = mine.reached.take(self.of.multicasts.group[mine.reached.of] == largest)
        if len(own):
            ratio = delay.rdp_ratios(own.delay_us, self._base_us(own))
            group = self.of.multicasts.group[own.of]
            append(mine.tables, _RATIOS, {"group": group, "ratio": ratio})

    def _note_latencies(self, tables: Tables, due: Columns, came: Columns) -> None:
        """Record the latencies of the multicasts that start in the bucket."""
        due, asked = latency.add_expected(due), self.measured.asked
        if asked is not None:
            due |= asked.of_sources(self._nodes(self.of.multicasts.start[due["group"]]))
        units = latency.UNITS if self.of.by_hops else (latency.MS,)
        for kind, unit, rows in latency.measured_latencies(came, due, units, asked):
            append(tables, _LATENCIES[kind, unit], rows)

    def _nodes(self, position: np.ndarray) -> PlacedNodes:
        ring = self.environment.facts.ring
        return PlacedNodes(ring.node[position], lambda: ring.router[position])

    def _send_receipts(self, mine: InBucket, of_parts: bool = False) -> Columns:
        """Return the numbers of copies by receiver, as messages; those of parts with lost ones."""
        copies = mine.copies
        if self.of.system.merged:
            return {}
        if of_parts:
            copies = {**copies, "of": self.of.first_parts[copies["of"]]}
        elif "lost" in copies:
            copies = take(copies, ~copies["lost"])
        return mine.by_place(copies, "to", "of")

    def _count_beyond(self, mine: InBucket, came: Columns) -> None:
        """Count the parts of publications that nodes got beyond those that they need."""
        place, copies = _added(came)
        of = self.of.first_parts[mine.delivered["of"]]
        has, parts = np.unique(key_of([of, mine.delivered["node"]], mine.size), return_counts=True)
        row = arrays.find_sorted(has, place)
        got = {"publication": place // mine.size, "copies": copies}
        got["first"] = np.where(row >= 0, parts[row], 0) if len(has) else 0 * row
        counted = parts_beyond(self.of.parts, self.of.multicasts.size, got)
        append(mine.tables, _BEYOND, counted)

    def _count_duplicates(self, came: Columns, counts: Counts) -> None:
        """Count live nodes with a first copy by duplicates, and the copies at starts."""
        place, copies = _added(came)
        multicasts = self.of.multicasts
        of, node = arrays.divided(place, len(self.environment.facts.ring))
        at_start = node == multicasts.root[of]
        alive = self.environment.is_alive(node)
        counts.add(_DUPLICATES, copies[alive & ~at_start] - 1)
        counts.add_total(_AT_STARTS, copies[alive & at_start].sum())

    def _put_on_links(self, mine: InBucket, packets: stress.PacketsOnLinks) -> None:
        """Put the bucket's copies on links, and baselines' packets to the bucket's members."""
        router, start, copies = (
            self.environment.facts.ring.router,
            self.of.multicasts.start,
            mine.copies,
        )
        of, member = copies["of"], copies["to"]
        if not self.of.system.merged:
            packets.carry(self.of.name, router, copies["sender"], copies["to"])
            for tree, some in self.of.in_trees(of):
                ends = copies["sender"][some], copies["to"][some]
                packets.carry(f"{self.of.name}{_IN_TREE}{tree}", router, *ends)
            if not self.of.beside:
                return
            of, member = mine.others
            packets.carry(UNICAST, router, start[of], member)
        packets.carry_in_trees(_IP, router, of, start[of], member)

    def _count_nodes(self, bucket: int, mine: InBucket, counts: Counts) -> dict[str, Columns]:
        """Count the bucket's live nodes and their children tables; return messages with copies."""
        nodes = np.arange(*self.bounds[bucket : bucket + 2])
        counts.add_total(_LIVE, np.count_nonzero(self.environment.is_alive(nodes)))
        if self.of.system.merged:
            return {}
        sent = {_CAME: self._send_receipts(mine)}
        place = self.of.system.children(mine.tables, mine.size)
        if place is None:
            sent[_SENT] = mine.by_place(mine.links, "sender")
        else:
            place = place[self.environment.is_alive(place % mine.size)]
            self._count_children(bucket, {"place": place, "copies": np.ones_like(place)}, counts)
        for tree, some in self.of.in_trees(mine.copies["of"]):
            sent[f"{_SENT}{_IN_TREE}{tree}"] = mine.by_place(take(mine.copies, some), "sender")
        return sent

    def _count_children(self, bucket: int, sent: Columns, counts: Counts, of: str = "") -> None:
        """Count nodes by their children tables, and of all entries; counts' names end with `of`."""
        first, last = self.bounds[bucket : bucket + 2].tolist()
        group, node = arrays.divided(sent["place"], len(self.environment.facts.ring))
        of_nodes = stress.count_children(group, node - first, sent["copies"], last - first)
        for name, of_node in of_nodes.items():
            counts.add(name + of, of_node[of_node > 0])


def _added(came: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of copies, ascending, and the number of copies at each."""
    added = add_rows("copies", came, "place")
    return added["place"], added["copies"]


# --- the sums over all buckets


def _delays(counted: Counted, taken: Mapping[str, Columns]) -> dict[str, Histogram]:
    """Return histograms of RAD and RMD over groups, and of the depth of reached members."""
    if _DELAYS not in taken:
        return {}
    of_group = delay.ratios_of_groups(delay.add_delays(taken[_DELAYS]))
    found = {name: Histogram.of(values) for name, values in of_group.items()}
    return found | {"depth": counted.histogram("depth")}


def _of_largest(taken: Mapping[str, Columns]) -> dict[str, float]:
    """Return RAD, RMD and RDP of the largest group, if members of it were reached."""
    if _RATIOS not in taken:
        return {}
    sums, ratios = delay.add_delays(taken[_DELAYS]), taken[_RATIOS]
    return delay.penalties(take(sums, sums["group"] == ratios["group"][0]), ratios["ratio"])
