"""Delay, node stress and link stress of a round's multicasts, for every system alike.

The multicasts of a round are one publication of each group.  `SystemTables` reads the tables of a
system; buckets count (:class:`MeasureMulticasts`), the counts are summed over buckets,
and :meth:`MulticastMeasures.measures` computes numbers from the sums, by the formulas of runs.

References
----------
docs/rules.md, S25 to S27, W11; JSAC 2002, Section IV.B to IV.D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.core.arrays import (
    Rows,
    distinct,
    find_sorted,
    index_sorted,
    run_starts,
    sums_at,
    whole_numbers,
)
from scribe_spark.core.histogram import add_counts
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, append
from scribe_spark.engine.ring import Ring
from scribe_spark.measures.formulas import (
    PACKET_NUMBERS,
    RDP_BOUNDS,
    add_delays,
    histogram_of,
    ratio_numbers,
    ratios_of_groups,
    rdp_ratios,
)
from scribe_spark.measures.packets_on_links import PacketsOnLinks, packets_of
from scribe_spark.measures.parts import NodeParts, count_in_parts, rows_of_parts
from scribe_spark.measures.percentiles import (
    ARRIVED,
    COVERAGES,
    IN_HOPS,
    MS,
    OVER_PUBLICATIONS,
    THOUSANDTHS,
    UNITS,
    add_expected,
    coverage_numbers,
    latency_names,
    latency_numbers,
    publication_latencies,
)
from scribe_spark.pastry.states import NodeProgram
from scribe_spark.rounds.counts import Counted, Counts
from scribe_spark.rounds.system import CARRIED, DELIVERED, Multicasts, SystemOnBuckets
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.underlay.protocol import Kernel, node_delays
from scribe_spark.underlay.size import Size

_IP, UNICAST = BASELINES = "ip_multicast", "naive_unicast"

_PACKETS = {
    **{f"link_stress.{name}": number.unit for name, number in PACKET_NUMBERS.items()},
    "messages": "packets",
}

_TABLES, _LIVE = ("children_tables", "children_entries"), "live nodes"


def _latency_units(unit: str) -> dict[str, str]:
    latency, time = latency_names(unit)
    return {f"{latency}.{name}": unit for name in ("mean", *ARRIVED, "max")} | {
        f"{time}_{x}.{name}": unit for x in COVERAGES for name in OVER_PUBLICATIONS
    }


#: For each name that a config can select: the measures of a system, with units.
_BY_NAME: dict[str, dict[str, str]] = {
    "delay": {
        "multicasts": "groups",
        "multicasts.reached": "of members",
        **{f"{ratio}.{of}": "x" for ratio in ("rad", "rmd") for of in ("median", "max", "largest")},
        "rdp.mean": "x",
        "rdp.median": "x",
        **{f"rdp.{name}": "of members" for name in RDP_BOUNDS},
        **{f"depth.{of}": "hops" for of in ("mean", "max")},
        **_latency_units(MS),
    },
    "node_stress": {
        **{f"{name}.{of}": "per node" for name in _TABLES for of in ("mean", "median", "max")},
        **{f"duplicates.{of}": "copies" for of in ("mean", "p95", "max")},
    },
    "link_stress": _PACKETS,
}


def multicast_units(
    system: str, beside: tuple[str, ...] = (), by_hops: bool = False
) -> dict[str, str]:
    """Return the unit of every measure of a system's multicasts, and of the baselines `beside`."""
    kinds = [*_BY_NAME.values()]
    if by_hops:
        kinds.append(_latency_units(IN_HOPS))
    own = {f"{system}.{name}": unit for some in kinds for name, unit in some.items()}
    return own | {f"{other}.{name}": unit for other in beside for name, unit in _PACKETS.items()}


@dataclass(frozen=True)
class SystemTables:
    """A system's tables in a bucket, as measures read them; picklable.

    Attributes
    ----------
    name : str
        The system's name.
    system : SystemOnBuckets
        The system.
    multicasts : Multicasts
        The multicasts of the round.
    by_hops : bool
        True if copies arrive by the clock of hops; then latencies are also given in hops.
    beside : tuple of str
        The baselines whose packets on links are counted for the same multicasts.
    """

    name: str
    system: SystemOnBuckets
    multicasts: Multicasts
    by_hops: bool = False
    beside: tuple[str, ...] = ()

    def deliveries(self, tables: Mapping[str, Columns], size: int) -> Columns:
        """Return deliveries (`rounds.system.DELIVERED`) to members among the bucket's nodes.

        Deliveries to forwarders that are no members are left out.  `size` is K, the number of
        nodes.
        """
        came = tables.get(DELIVERED, {})
        if not came:
            return came
        place = key_of([came["group"], came["node"]], size)
        return take(came, find_sorted(self.system.members(tables), place) >= 0)

    def copies(self, tables: Mapping[str, Columns]) -> Columns:
        """Return the copies that the bucket recorded (`rounds.system.CARRIED`)."""
        return tables.get(CARRIED, {})


def other_members(
    multicasts: Multicasts, members: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return all members (keys of group and node) except starts: index of the multicast, node."""
    group, node = np.divmod(members, size)
    row, of = multicasts.of_groups(group)
    others = multicasts.start[of] != node[row]
    return of[others], node[row[others]]


@dataclass(frozen=True)
class Reached(Rows):
    """m deliveries to members other than the start; arrays of shape (m,)."""

    #: int64: the index of the multicast.
    of: np.ndarray
    #: int64: the member, and the hops and delay since the start.
    node: np.ndarray
    hops: np.ndarray
    delay_us: np.ndarray

    @classmethod
    def by(cls, multicasts: Multicasts, came: Columns) -> Reached:
        """Return the deliveries of the given multicasts among a bucket's deliveries."""
        if not came:
            return cls(*(whole_numbers() for _ in range(4)))
        of, node = multicasts.find(came["group"], came["publication"]), came["node"]
        own = np.flatnonzero(of >= 0)
        own = own[node[own] != multicasts.start[of[own]]]
        of, hops, delay_us = of[own], came["hops"][own], came["delay_us"][own]
        return cls(of, node[own], multicasts.hops[of] + hops, multicasts.delay_us[of] + delay_us)


def copies_of(multicasts: Multicasts, copies: Columns) -> Columns:
    """Return group, sender and receiver (``to``) of the copies of multicasts, with lost ones.

    The column ``of`` has the index of the multicast.
    """
    if not copies:
        return dict.fromkeys(("group", "sender", "to", "of"), whole_numbers())
    of = multicasts.find(copies["group"], copies["publication"])
    own = of >= 0
    return {**{name: copies[name][own] for name in ("group", "sender", "to")}, "of": of[own]}


def links_of(multicasts: Multicasts, copies: Columns) -> Columns:
    """Return group, sender and receiver of copies; with a schedule, each link once per group."""
    sent = copies_of(multicasts, copies)
    if not multicasts.are_scheduled:
        return sent
    sent = take(sent, np.lexsort((sent["to"], sent["sender"], sent["group"])))
    return take(sent, run_starts(*(sent[name] for name in ("group", "sender", "to"))))


@dataclass(frozen=True)
class MulticastMeasures:
    """The selected measures of a world, and its network."""

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

    @property
    def of_ways(self) -> bool:
        """True if payloads must carry the delay since the source."""
        return "delay" in self.names or "link_stress" in self.names

    def base_us(
        self,
        ring: Ring,
        kernel: Kernel,
        multicasts: Multicasts,
        of: np.ndarray,
        member: np.ndarray,
    ) -> np.ndarray:
        """Return the delays by IP multicast from the starts of multicasts to members: int64.

        `of` are indices of multicasts, `member` positions.  With a size, delays include the
        transmission of each publication alone (rule W11).
        """
        start = multicasts.start[of]
        delay_us = node_delays(kernel, self.lan_us, ring.router[start], ring.router[member])
        if self.links is None:
            return delay_us
        size = multicasts.size[of]
        size = np.where(size < 0, self.links.size, size)
        return self.links.routed_us(ring, start, member, delay_us, size)

    def measures(
        self, taken: Mapping[str, Columns], of: SystemTables, nodes: int
    ) -> dict[str, float]:
        """Return the values of measures after a round, without those that have no value.

        `taken` has the tables :data:`MULTICASTS_MEASURED` of all buckets and those of the system;
        `nodes` is the number of nodes that are or were alive.
        """
        counted, multicasts = Counted(taken.get(_COUNTED, {})), of.multicasts
        found: dict[str, float | None] = {}
        if "node_stress" in self.names and (live := counted.total(_LIVE)):
            for name in _TABLES:
                values = counted.histogram(name)
                ends = {"mean": values.mean(live), "median": values.median(live)}
                ends["max"] = values.max or 0
                found |= {f"{name}.{end}": value for end, value in ends.items()}
            again = counted.histogram(_DUPLICATES)
            if first := again.total:
                found["duplicates.mean"] = (again.sum + counted.total(_AT_STARTS)) / first
            found["duplicates.max"], found["duplicates.p95"] = again.max, again.nearest_rank(95)
        if "delay" in self.names:
            found |= {"multicasts": len(multicasts)}
            if members := counted.total("members"):
                found["multicasts.reached"] = counted.total("reached") / members
            found |= _delay_numbers(counted, taken)
            for unit in (MS, IN_HOPS) if of.by_hops else (MS,):
                found |= _latencies(unit, taken)
        found = {f"{of.name}.{name}": value for name, value in found.items()}
        if "link_stress" in self.names and len(multicasts):
            size = Size(nodes, self.routers, self.core_links)
            for system in (of.name, *of.beside):
                found |= _packet_numbers(system, counted, size)
        return {name: float(value) for name, value in found.items() if value is not None}

    def by_part(self, taken: Mapping[str, Columns], system: str) -> list[dict[str, Any]]:
        """Return the rows of `schemas.BY_PART` of delays and hops."""
        counted = Counted(taken.get(_COUNTED, {}))
        return rows_of_parts(counted, self.parts, system, {"delay_ms": MICROSECONDS, "hops": 1})


# --- counts of a bucket

#: The tables that :class:`MeasureMulticasts` writes: counts (`Counts`), sums of the delays of each
#: multicast, ratios of the delays in the largest group, and latencies.
MULTICASTS_MEASURED = _COUNTED, _DELAYS, _RATIOS, *_LATENCY_TABLES = (
    "measured multicasts",
    "delays of multicasts",
    "ratios of delays",
    *(f"{what} in {unit}" for what in ("latencies", "counts of latencies") for unit in UNITS),
)

#: The names of counts: the duplicates of nodes with a first copy, and the copies that reach the
#: starts, which have the message already.
_DUPLICATES, _AT_STARTS = "duplicates of receipts", "copies at starts"

#: Messages: the number of members of each group in a bucket; the number of copies that a node sent
#: to a group, and that it received; deliveries, and the number of expected ones, to the start of
#: the multicast.
_MEMBERS, _SENT, _CAME, _LATENCY, _EXPECTED = (
    *("members of groups", "copies sent", "copies that came", "latency", "expected deliveries"),
)


@dataclass(frozen=True)
class MeasureMulticasts(NodeProgram):
    """Count the multicasts of a round: the tables :data:`MULTICASTS_MEASURED`."""

    measured: MulticastMeasures
    of: SystemTables

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        counts, names, outbox = Counts(), self.measured.names, dict[str, Columns]()
        packets = PacketsOnLinks(self.given.kernel, self.bounds)
        multicasts = self.of.multicasts
        if not superstep and "node_stress" in names:
            outbox[_SENT] = self._count_nodes(bucket, tables, multicasts, counts)
            outbox[_CAME] = self._send_receipts(tables, multicasts)
        if not superstep and len(multicasts):
            if "delay" in names:
                outbox[_MEMBERS] = self._count_delays(tables, multicasts, counts)
                outbox |= self._send_latencies(tables, multicasts)
            if "link_stress" in names:
                self._put_on_links(tables, multicasts, packets)
        if _SENT in inbox:
            came = inbox[_SENT]
            self._count_children(bucket, came["place"], came["copies"], counts)
        if _CAME in inbox:
            self._count_duplicates(inbox[_CAME], multicasts, counts)
        if _MEMBERS in inbox:
            self._note_ratios(tables, multicasts, inbox[_MEMBERS])
        if _EXPECTED in inbox:
            self._note_latencies(tables, inbox[_EXPECTED], inbox.get(_LATENCY, {}))
        if superstep and "link_stress" in names:
            for _, system, links in packets.receive(inbox):
                counts.add(packets_of(system), links["packets"])
        if columns := counts.columns():
            append(tables, _COUNTED, columns)
        return {**{kind: sent for kind, sent in outbox.items() if sent}, **packets.outbox()}

    @property
    def _size(self) -> int:
        return len(self.given.facts.ring)

    def _reached(self, tables: Tables, multicasts: Multicasts) -> Reached:
        """Return the deliveries in the bucket."""
        return Reached.by(multicasts, self.of.deliveries(tables, self._size))

    def _base_us(self, multicasts: Multicasts, found: Reached) -> np.ndarray:
        """Return the delay of each delivery by IP multicast."""
        network = self.given.facts.ring, self.given.kernel
        return self.measured.base_us(*network, multicasts, found.of, found.node)

    @property
    def _router(self) -> np.ndarray:
        return self.given.facts.ring.router

    def _count_delays(self, tables: Tables, multicasts: Multicasts, counts: Counts) -> Columns:
        """Count members and deliveries; return the sizes of groups as messages to all buckets."""
        members = self.of.system.members(tables)
        counts.add_total("members", len(other_members(multicasts, members, self._size)[0]))
        found = self._reached(tables, multicasts)
        counts.add_total("reached", len(found))
        counts.add("depth", found.hops)
        number = self.given.facts.ring.node[found.node]
        for name, values in (("delay_ms", found.delay_us), ("hops", found.hops)):
            count_in_parts(counts, self.measured.parts, name, number, values)
        if len(found):
            base_us = self._base_us(multicasts, found)
            group = multicasts.group[found.of]
            delays = {"group": group, "total": found.delay_us, "most": found.delay_us}
            base = {"base_total": base_us, "base_most": base_us}
            one = np.ones(len(found), dtype=np.int64)
            append(tables, _DELAYS, add_delays({**delays, **base, "reached": one}))
        in_group = np.bincount(members // self._size)
        group = np.flatnonzero(in_group)
        first = self.bounds[:-1][np.diff(self.bounds) > 0]
        told = {AT: np.repeat(first, len(group)), "group": np.tile(group, len(first))}
        return {**told, "members": np.tile(in_group[group], len(first))} if len(group) else {}

    def _note_ratios(self, tables: Tables, multicasts: Multicasts, came: Columns) -> None:
        """Record the delay ratios in the largest group (ties: the first group)."""
        largest = int(np.argmax(np.bincount(came["group"], came["members"])))
        found = self._reached(tables, multicasts)
        own = found.take(multicasts.group[found.of] == largest)
        if len(own):
            ratio = rdp_ratios(own.delay_us, self._base_us(multicasts, own))
            append(tables, _RATIOS, {"group": multicasts.group[own.of], "ratio": ratio})

    def _send_latencies(self, tables: Tables, multicasts: Multicasts) -> dict[str, Columns]:
        """Return deliveries, and numbers of expected ones, as messages to the starts."""
        of, _ = other_members(multicasts, self.of.system.members(tables), self._size)
        expected, found = np.bincount(of), self._reached(tables, multicasts)
        of = np.flatnonzero(expected)
        columns = {"of": of, "expected": expected[of]}
        sent: dict[str, Columns] = {}
        if len(of):
            sent[_EXPECTED] = {AT: multicasts.start[of], **columns}
        if len(found):
            columns = {"of": found.of, MS: found.delay_us}
            if self.of.by_hops:
                columns[IN_HOPS] = found.hops * THOUSANDTHS
            sent[_LATENCY] = {AT: multicasts.start[found.of], **columns}
        return sent

    def _note_latencies(self, tables: Tables, due: Columns, came: Columns) -> None:
        """Record the latencies of the multicasts that start in the bucket."""
        groups, expected = add_expected(due["of"], due["expected"])
        none = whole_numbers()
        for unit in (MS, IN_HOPS) if self.of.by_hops else (MS,):
            of, latency = came.get("of", none), came.get(unit, none)
            rows = publication_latencies(of, latency, groups, expected)
            value, count = np.unique(latency, return_counts=True)
            append(tables, f"latencies in {unit}", rows)
            append(tables, f"counts of latencies in {unit}", {"value": value, "count": count})

    def _send_receipts(self, tables: Tables, multicasts: Multicasts) -> Columns:
        """Return the number of copies as messages to their receivers, without lost copies."""
        copies = self.of.copies(tables)
        if self.of.system.merged or not copies:
            return {}
        if "lost" in copies:
            copies = take(copies, ~copies["lost"])
        sent = copies_of(multicasts, copies)
        place, came = np.unique(key_of([sent["of"], sent["to"]], self._size), return_counts=True)
        return {AT: place % self._size, "place": place, "copies": came} if len(place) else {}

    def _count_duplicates(self, came: Columns, multicasts: Multicasts, counts: Counts) -> None:
        """Count live nodes with a first copy by duplicates, and the copies at starts.

        A start has the message already, unless it sends the message to a root first: then a copy
        that comes back is its first one.
        """
        place, copies = add_expected(came["place"], came["copies"])
        of, node = np.divmod(place, self._size)
        at_start = (node == multicasts.start[of]) & (multicasts.hops[of] == 0)
        alive = self.given.is_alive(node)
        counts.add(_DUPLICATES, copies[alive & ~at_start] - 1)
        counts.add_total(_AT_STARTS, copies[alive & at_start].sum())

    def _put_on_links(
        self, tables: Tables, multicasts: Multicasts, packets: PacketsOnLinks
    ) -> None:
        """Put the bucket's copies on links, and those of baselines to its members."""
        sent, router = copies_of(multicasts, self.of.copies(tables)), self._router
        if self.of.system.merged:
            of, member = sent["of"], sent["to"]
        else:
            packets.carry(self.of.name, router, sent["sender"], sent["to"])
            if not self.of.beside:
                return
            of, member = other_members(multicasts, self.of.system.members(tables), self._size)
            packets.carry(UNICAST, router, multicasts.start[of], member)
        packets.carry_in_trees(_IP, router, of, multicasts.start[of], member)

    def _count_nodes(
        self, bucket: int, tables: Tables, multicasts: Multicasts, counts: Counts
    ) -> Columns:
        """Count the bucket's live nodes and their children tables.

        If nodes keep no children tables, return messages to the senders of copies.
        """
        nodes = np.arange(*self.bounds[bucket : bucket + 2])
        counts.add_total(_LIVE, np.count_nonzero(self.given.is_alive(nodes)))
        if self.of.system.merged:
            return {}
        place = self.of.system.children(tables, self._size)
        if place is not None:
            place = place[self.given.is_alive(place % self._size)]
            self._count_children(bucket, place, np.ones(len(place), dtype=np.int64), counts)
            return {}
        sent = links_of(multicasts, self.of.copies(tables))
        key = key_of([sent["group"], sent["sender"]], self._size)
        place, copies = np.unique(key, return_counts=True)
        return {AT: place % self._size, "place": place, "copies": copies} if len(place) else {}

    def _count_children(
        self, bucket: int, place: np.ndarray, entries: np.ndarray, counts: Counts
    ) -> None:
        """Count nodes by the number of their children tables, and of all entries in them.

        A key (group, node) in `place` may occur several times; it has a number of `entries` each
        time.
        """
        first, last = self.bounds[bucket : bucket + 2].tolist()
        tables = distinct(place)
        for name, places, values in (
            (_TABLES[0], tables, np.ones_like(tables)),
            (_TABLES[1], place, entries),
        ):
            of_node = sums_at(places % self._size - first, values, last - first)
            counts.add(name, of_node[of_node > 0])


# --- statistics over all buckets


def _delay_numbers(counted: Counted, taken: Mapping[str, Columns]) -> dict[str, float | None]:
    """Return RAD and RMD over groups and of the largest group, its RDP, and the depth.

    Only members that were reached are included.
    """
    if _DELAYS not in taken:
        return {}
    sums = add_delays(taken[_DELAYS])
    base = {"total": sums["base_total"], "most": sums["base_most"], "reached": sums["reached"]}
    of_group = ratios_of_groups(sums, base)
    depth, found = counted.histogram("depth"), dict[str, float | None]()
    for name, values in of_group.items():
        over_groups = histogram_of(values)
        found |= {f"{name}.median": over_groups.median(), f"{name}.max": over_groups.max}
    found |= {"depth.mean": depth.mean(), "depth.max": depth.max}
    if _RATIOS in taken:
        ratios = taken[_RATIOS]
        (largest,) = index_sorted(sums["group"], ratios["group"][:1])
        found |= {f"{name}.largest": values[largest] for name, values in of_group.items()}
        numbers = ratio_numbers(ratios["ratio"])
        found |= {f"rdp.{name}": value for name, value in numbers.items()}
    return found


def _latencies(unit: str, taken: Mapping[str, Columns]) -> dict[str, float]:
    """Return percentiles of latencies, and the times until shares of the members are reached."""
    rows = taken.get(f"latencies in {unit}", {})
    if not rows:
        return {}
    (latency, time), counts = latency_names(unit), taken[f"counts of latencies in {unit}"]
    numbers = latency_numbers(add_counts(counts["value"], counts["count"]))
    times = coverage_numbers(rows)
    return {f"{latency}.{name}": value for name, value in numbers.items()} | {
        f"{time}_{name}": value for name, value in times.items()
    }


def _packet_numbers(system: str, counted: Counted, size: Size) -> dict[str, float | None]:
    """Return the statistics of the packets on links."""
    on_links = counted.histogram(packets_of(system))
    found: dict[str, float | None] = {
        f"{system}.link_stress.{name}": number.of(on_links, size)
        for name, number in PACKET_NUMBERS.items()
    }
    return found | {f"{system}.messages": on_links.sum}
