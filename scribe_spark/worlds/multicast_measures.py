"""Delay, node stress and link stress of a round's multicasts, beside IP multicast and unicast.

The multicasts of a round are one publication of each group: the first that a root takes in the
round, if it takes any.  Each goes from the root (or from its source by the root) to the group's
other members, by Scribe as its payloads went, and by IP multicast and naive unicast to all of them.
The formulas are those of a run.

References
----------
docs/rules.md, S25 to S27; JSAC 2002, Section IV.B to IV.D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark.core.arrays import NONE, distinct, find_sorted
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.measures.formulas import (
    PACKET_NUMBERS,
    RDP_BOUNDS,
    histogram_of,
    rad,
    ratio_numbers,
    rdp_ratios,
    rmd,
)
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.sources import Sent
from scribe_spark.scribe.state import Entries
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.underlay.size import Size
from scribe_spark.worlds.counts import Counted, Counts
from scribe_spark.worlds.packets_on_links import DOWN, UP, PacketsOnLinks, packets_of

__all__ = [
    "MULTICASTS_MEASURED",
    "MULTICAST_MEASURES",
    "MeasureMulticasts",
    "MulticastMeasures",
    "system_of",
]

_SCRIBE, _IP, _UNICAST = "scribe", "ip_multicast", "naive_unicast"

_PACKETS = {
    **{f"link_stress.{name}": number.unit for name, number in PACKET_NUMBERS.items()},
    "messages": "packets",
}

#: The names that a config may ask for -> the measures that each brings -> their units.
_BY_NAME: dict[str, dict[str, str]] = {
    "delay": {
        f"{_SCRIBE}.{name}": unit
        for name, unit in (
            ("multicasts", "groups"),
            ("multicasts.reached", "of members"),
            *((f"{ratio}.{of}", "x") for ratio in ("rad", "rmd") for of in ("median", "max")),
            ("rdp.mean", "x"),
            ("rdp.median", "x"),
            *((f"rdp.{name}", "of members") for name in RDP_BOUNDS),
            *((f"depth.{of}", "hops") for of in ("mean", "max")),
        )
    },
    "node_stress": {
        f"{_SCRIBE}.{name}.{of}": "per node"
        for name in ("children_tables", "children_entries")
        for of in ("mean", "median", "max")
    },
    "link_stress": {
        f"{system}.{name}": unit
        for system in (_SCRIBE, _IP, _UNICAST)
        for name, unit in _PACKETS.items()
    },
}

#: Every measure -> its unit.
MULTICAST_MEASURES: dict[str, str] = {
    name: unit for measures in _BY_NAME.values() for name, unit in measures.items()
}


def system_of(measure: str) -> str:
    """Return the system that a measure is of.

    Examples
    --------
    >>> system_of("ip_multicast.link_stress.max")
    'ip_multicast'
    """
    return measure.partition(".")[0]


@dataclass(frozen=True)
class _Multicasts:
    """The multicasts of a round, one a group, in the order of the groups.

    Attributes
    ----------
    group, publication, start : ndarray of int64, shape (p,)
        `group` is ascending; `start` is the node where each begins.
    hops, delay_us : ndarray of int64, shape (p,)
        Of the way from there to the root.
    """

    group: np.ndarray
    publication: np.ndarray
    start: np.ndarray
    hops: np.ndarray
    delay_us: np.ndarray

    @classmethod
    def of(cls, outcomes: Columns, from_root: bool) -> _Multicasts:
        """Return the first publication of each group that a root has taken.

        Parameters
        ----------
        outcomes : Columns
            The table `OUTCOMES`.
        """
        taken = Sent.of_buckets(outcomes).taken()
        group, first = np.unique(taken.group, return_index=True)
        mine = taken.take(first)
        if from_root:
            none = np.zeros(len(group), dtype=np.int64)
            return cls(group, mine.publication, mine.root, none, none)
        return cls(group, mine.publication, mine.source, mine.hops, mine.delay_us)

    def find(self, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
        """Return the multicast that each message is of, NONE where it is of none."""
        of = find_sorted(self.group, group)
        of[of >= 0] = np.where(
            self.publication[of[of >= 0]] == publication[of >= 0], of[of >= 0], NONE
        )
        return of

    def members(self, entries: Entries, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return other members of the groups: of which multicast, and which node.

        Parameters
        ----------
        entries : Entries
            Of some nodes.
        size : int
            K.
        """
        group, node = np.divmod(entries.key[entries.member], size)
        of = find_sorted(self.group, group)
        others = (of >= 0) & (self.start[of] != node) if len(self.group) else of >= 0
        return of[others], node[others]

    def deliveries(self, came: Columns) -> tuple[np.ndarray, ...]:
        """Return multicast, node, hops, delay of deliveries; but those where multicasts begin.

        Parameters
        ----------
        came : Columns
            The table `DELIVERIES` of some nodes.
        """
        if not came:
            none = np.empty(0, dtype=np.int64)
            return none, none, none, none
        of, node = self.find(came["group"], came["publication"]), came["node"]
        mine = np.flatnonzero(of >= 0)
        mine = mine[node[mine] != self.start[of[mine]]]
        of, hops, delay_us = of[mine], came["hops"][mine], came["delay_us"][mine]
        return of, node[mine], self.hops[of] + hops, self.delay_us[of] + delay_us

    def carried(self, payloads: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return group, sender and receiver of the payloads of the multicasts, lost ones too.

        Parameters
        ----------
        payloads : Columns
            The table `PAYLOADS` of some senders.
        """
        if not payloads:
            none = np.empty(0, dtype=np.int64)
            return none, none, none
        mine = self.find(payloads["group"], payloads["publication"]) >= 0
        return payloads["group"][mine], payloads["sender"][mine], payloads["to"][mine]


@dataclass(frozen=True)
class MulticastMeasures:
    """The measures that a world has, and its network.

    Attributes
    ----------
    names : tuple of str
        ``delay``, ``node_stress``, ``link_stress``: any of them.
    core_links : int
        Directed links between routers.
    routers : int
    lan_us : int
        Delay of a node's LAN link, each way.
    source : str
        Where multicasts begin, see `ScribeConfig`.
    """

    names: tuple[str, ...] = ()
    core_links: int = 0
    routers: int = 0
    lan_us: int = 0
    source: str = "root"

    @property
    def of_ways(self) -> bool:
        """Whether the ways of payloads have to be known."""
        return "delay" in self.names or "link_stress" in self.names

    def multicasts(self, outcomes: Columns) -> _Multicasts:
        """Return the multicasts of a round; `outcomes` is the table `OUTCOMES`."""
        return _Multicasts.of(outcomes, self.source == "root")

    def measures(self, taken: Mapping[str, Columns], nodes: int) -> dict[str, float]:
        """Return measure -> value, after a round; those of no multicast are left out.

        Parameters
        ----------
        taken : mapping of str to Columns
            What the buckets have left: :data:`MULTICASTS_MEASURED`, `OUTCOMES`.
        nodes : int
            How many are or were alive.
        """
        counted = Counted(taken.get(_COUNTED, {}))
        found: dict[str, float | None] = {}
        if "node_stress" in self.names:
            for name in _TABLES:
                values = counted.histogram(name)
                ends = {"mean": values.mean(), "median": values.median(), "max": values.max}
                found |= {f"{name}.{end}": value for end, value in ends.items()}
        multicasts = self.multicasts(taken.get(OUTCOMES, {})) if self.of_ways else None
        if "delay" in self.names and multicasts is not None:
            found |= {"multicasts": len(multicasts.group)}
            if members := counted.total("members"):
                found["multicasts.reached"] = counted.total("reached") / members
            found |= _delay_numbers(counted, taken)
        found = {f"{_SCRIBE}.{name}": value for name, value in found.items()}
        if "link_stress" in self.names and multicasts is not None and len(multicasts.group):
            size = Size(nodes, self.routers, self.core_links)
            for system in _SYSTEMS:
                found |= _packet_numbers(system, counted, size)
        return {name: float(value) for name, value in found.items() if value is not None}

    def tables(
        self,
        multicasts: _Multicasts,
        entries: Entries,
        deliveries: Columns,
        payloads: Columns,
        ring: Ring,
        groups: Groups,
        kernel: Kernel,
    ) -> dict[str, pa.Table]:
        """Return the tables of a run of a round's multicasts: ``tree_edges, deliveries``.

        With the columns that `schemas.WRITTEN` has of them; of what some nodes have sent and got.

        Parameters
        ----------
        entries, deliveries, payloads
            Of these nodes, see `_Multicasts`.
        """
        of, member = multicasts.members(entries, len(ring))
        start = multicasts.start[of]
        base_us = kernel.delays(ring.router[start], ring.router[member]) + 2 * self.lan_us
        star = multicasts.group[of], start, member
        direct = multicasts.group[of], member, np.ones(len(of), dtype=np.int64), base_us
        at, node, hops, delay_us = multicasts.deliveries(deliveries)
        edges = {_SCRIBE: multicasts.carried(payloads), _IP: star, _UNICAST: star}
        delivered = {
            _SCRIBE: (multicasts.group[at], node, hops, delay_us),
            _IP: direct,
            _UNICAST: direct,
        }

        def table(
            names: tuple[str, ...], columns: Mapping[str, tuple[np.ndarray, ...]]
        ) -> pa.Table:
            length = {system: len(parts[0]) for system, parts in columns.items()}
            systems = pa.array(np.repeat(list(length), list(length.values())), pa.string())
            joined = [np.concatenate(part) for part in zip(*columns.values(), strict=True)]
            return pa.table([systems, *joined], names=["system", *names])

        called = {
            "tree_edges": table(("group", "parent", "child"), edges),
            "deliveries": table(("group", "node", "hops", "delay_us"), delivered),
        }
        return {name: _numbered(one, groups, ring, kernel) for name, one in called.items()}


def _numbered(table: pa.Table, groups: Groups, ring: Ring, kernel: Kernel) -> pa.Table:
    """Groups, nodes and routers by their numbers, delays in milliseconds; hops are INT."""
    columns = {name: table.column(name) for name in table.column_names}
    columns["group"] = groups.number[columns["group"].to_numpy()]
    for name in [name for name in ("parent", "child", "node") if name in columns]:
        at = columns[name].to_numpy()
        columns[name] = ring.node[at]
        if name != "node":
            columns[f"{name}_router"] = kernel.ids(ring.router[at])
    if "parent" in columns:
        columns["merged"] = pc.equal(columns["system"], _IP)
    else:
        columns["hops"] = columns["hops"].to_numpy().astype(np.int32)
        columns["delay_ms"] = columns.pop("delay_us").to_numpy() / MICROSECONDS
    return pa.table(columns)


# --- what the buckets count

#: The tables that :class:`MeasureMulticasts` leaves: counts (`Counts`); deliveries and delays of
#: each multicast; ratios of the delays in the largest group.
MULTICASTS_MEASURED = _COUNTED, _DELAYS, _RATIOS = (
    "scribe measured multicasts",
    "scribe delays of multicasts",
    "scribe ratios of delays",
)

_TABLES = ("children_tables", "children_entries")

_SYSTEMS = (_SCRIBE, _IP, _UNICAST)

#: Messages: members of groups in a bucket; a router with members of the multicast that begins at a
#: node.
_MEMBERS, _ROUTER = "members of groups", "router of members"


@dataclass(frozen=True)
class MeasureMulticasts(RoundProgram):
    """Counts of the multicasts of a round: the tables :data:`MULTICASTS_MEASURED`.

    Attributes
    ----------
    measured : MulticastMeasures
    """

    measured: MulticastMeasures

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        counts, names = Counts(), self.measured.names
        packets = PacketsOnLinks(_SYSTEMS, scribe.ring.router, scribe.kernel, scribe.bounds)
        multicasts = self.measured.multicasts(tables.get(OUTCOMES, {}))
        if not superstep and "node_stress" in names:
            _count_children(scribe, counts)
        if not superstep and len(multicasts.group):
            if "delay" in names:
                self._count_delays(scribe, tables, multicasts, counts)
            if "link_stress" in names:
                self._put_on_links(scribe, tables, multicasts, packets)
        if _MEMBERS in inbox:
            self._note_ratios(scribe, tables, multicasts, inbox[_MEMBERS])
        if superstep and "link_stress" in names:
            packets.receive(scribe.bucket, inbox, counts)
            _merge_routes(scribe, inbox, packets)
        for kind, columns in packets.outbox().items():
            scribe.tell(kind, **columns)
        scribe.note(_COUNTED, **counts.columns())

    def _delays(
        self, scribe: Scribe, tables: Tables, multicasts: _Multicasts
    ) -> tuple[np.ndarray, ...]:
        """Return multicast, hops, delay, and delay by IP multicast, of the bucket's deliveries."""
        of, node, hops, delay_us = multicasts.deliveries(tables.get(DELIVERIES, {}))
        router = scribe.ring.router
        base_us = scribe.kernel.delays(router[multicasts.start[of]], router[node])
        return of, hops, delay_us, base_us + 2 * self.measured.lan_us

    def _count_delays(
        self, scribe: Scribe, tables: Tables, multicasts: _Multicasts, counts: Counts
    ) -> None:
        entries, size = scribe.state.entries, scribe.state.size
        counts.add_total("members", len(multicasts.members(entries, size)[0]))
        of, hops, delay_us, base_us = self._delays(scribe, tables, multicasts)
        counts.add_total("reached", len(of))
        counts.add("depth", hops)
        if len(of):
            which, reached, total, most = _sums(of, delay_us)
            _, _, base_total, base_most = _sums(of, base_us)
            sums = {"total": total, "most": most, "base_total": base_total, "base_most": base_most}
            scribe.note(_DELAYS, multicast=which, reached=reached, **sums)
        members = np.bincount(entries.key[entries.member] // size)
        there = np.flatnonzero(members)
        scribe.tell_all(_MEMBERS, group=there, members=members[there])

    def _note_ratios(
        self, scribe: Scribe, tables: Tables, multicasts: _Multicasts, came: Columns
    ) -> None:
        """Ratios of delays in the group with most members now, of equal ones the first."""
        largest = int(np.argmax(np.bincount(came["group"], came["members"])))
        of, _, delay_us, base_us = self._delays(scribe, tables, multicasts)
        mine = multicasts.group[of] == largest
        scribe.note(_RATIOS, ratio=rdp_ratios(delay_us[mine], base_us[mine]))

    def _put_on_links(
        self, scribe: Scribe, tables: Tables, multicasts: _Multicasts, packets: PacketsOnLinks
    ) -> None:
        """Packets of the bucket's payloads, and of those that its members would get."""
        router = scribe.ring.router
        of, member = multicasts.members(scribe.state.entries, scribe.state.size)
        start = multicasts.start[of]
        _, sender, to = multicasts.carried(tables.get(PAYLOADS, {}))
        packets.carry(_SCRIBE, sender, to)
        packets.carry(_UNICAST, start, member)
        packets.put_on_lan(_IP, DOWN, member)
        of, at = np.divmod(distinct(of * packets.routers + router[member]), packets.routers)
        scribe.tell(_ROUTER, multicasts.start[of], multicast=of, router=at)


def _merge_routes(scribe: Scribe, inbox: Inbox, packets: PacketsOnLinks) -> None:
    """Packets by IP multicast, of multicasts that begin at nodes of the bucket.

    Routers merge the routes of such a multicast, so that its up-link carries one packet.
    """
    if _ROUTER not in inbox:
        return
    came, router, routers = inbox[_ROUTER], scribe.ring.router, packets.routers
    tree, first = np.unique(came["multicast"], return_index=True)
    start = came[AT][first]
    packets.put_on_lan(_IP, UP, start)
    of, b = np.divmod(distinct(came["multicast"] * routers + came["router"]), routers)
    a = router[start][np.searchsorted(tree, of)]
    away = a != b
    packets.put_on_core(_IP, *scribe.kernel.merged_packets(of[away], a[away], b[away]))


def _count_children(scribe: Scribe, counts: Counts) -> None:
    """Children tables and their entries, of all live nodes of the bucket."""
    place = scribe.state.children.key // scribe.state.size
    live = scribe.is_alive(np.arange(scribe.first, scribe.last))
    for name, places in zip(_TABLES, (distinct(place), place), strict=True):
        node = places % scribe.state.size - scribe.first
        counts.add(name, np.bincount(node, minlength=len(live))[live])


def _sums(of: np.ndarray, delay_us: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the multicasts that have reached somebody: how many, sum and maximum of delays."""
    order = np.argsort(of, kind="stable")
    which, first, reached = np.unique(of[order], return_index=True, return_counts=True)
    sorted_us = delay_us[order]
    return which, reached, np.add.reduceat(sorted_us, first), np.maximum.reduceat(sorted_us, first)


# --- numbers of all buckets


def _delay_numbers(counted: Counted, taken: Mapping[str, Columns]) -> dict[str, float | None]:
    """RAD and RMD over the groups, RDP in the largest, depth; of the members reached."""
    if _DELAYS not in taken:
        return {}
    columns = taken[_DELAYS]
    of, which = np.unique(columns["multicast"], return_inverse=True)
    sums = {
        name: np.bincount(which, columns[name], len(of)).astype(np.int64)
        for name in ("reached", "total", "base_total")
    }
    most = {name: np.zeros(len(of), dtype=np.int64) for name in ("most", "base_most")}
    for name, greatest in most.items():
        np.maximum.at(greatest, which, columns[name])
    reached = sums["reached"]
    rads = histogram_of(rad(sums["total"], reached, sums["base_total"], reached))
    rmds, depth = histogram_of(rmd(most["most"], most["base_most"])), counted.histogram("depth")
    found = {"rad.median": rads.median(), "rad.max": rads.max}
    found |= {"rmd.median": rmds.median(), "rmd.max": rmds.max}
    found |= {"depth.mean": depth.mean(), "depth.max": depth.max}
    if _RATIOS in taken:
        numbers = ratio_numbers(taken[_RATIOS]["ratio"])
        found |= {f"rdp.{name}": value for name, value in numbers.items()}
    return found


def _packet_numbers(system: str, counted: Counted, size: Size) -> dict[str, float | None]:
    """Numbers of the packets on all links that have some."""
    on_links = counted.histogram(packets_of(system))
    found: dict[str, float | None] = {
        f"{system}.link_stress.{name}": number.of(on_links, size)
        for name, number in PACKET_NUMBERS.items()
    }
    return found | {f"{system}.messages": on_links.sum}
