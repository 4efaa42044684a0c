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

from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.engine.ring import Ring
from scribe_spark.measures.formulas import (
    PACKET_NUMBERS,
    RDP_BOUNDS,
    histogram_of,
    rad,
    rdp_numbers,
    rmd,
)
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.round import ScribeResult
from scribe_spark.scribe.state import ScribeState
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.underlay.size import Size
from scribe_spark.worlds.link_stress import packets_between, size_of

__all__ = ["MULTICAST_MEASURES", "MulticastMeasures", "system_of"]

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
class _Sent:
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
    def of(cls, result: ScribeResult, from_root: bool) -> _Sent:
        """Return the first publication of each group that a root has taken."""
        taken = result.sent.taken()
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

    def members(self, state: ScribeState) -> tuple[np.ndarray, np.ndarray]:
        """Return the other members of the groups: of which multicast, and which node."""
        entries = state.entries
        group, node = np.divmod(entries.key[entries.member], state.size)
        of = find_sorted(self.group, group)
        others = (of >= 0) & (self.start[of] != node) if len(self.group) else of >= 0
        return of[others], node[others]


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
        Where multicasts begin, see `ScribeRules`.
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

    def measures(
        self, state: ScribeState, result: ScribeResult, overlay: OverlayState, kernel: Kernel
    ) -> dict[str, float]:
        """Return measure -> value, after a round; those of no multicast are left out."""
        found: dict[str, float | None] = {}
        if "node_stress" in self.names:
            found |= _node_stress(state, overlay)
        if self.of_ways:
            sent, router = _Sent.of(result, self.source == "root"), overlay.states.known.router
            of, member = sent.members(state)
            if "delay" in self.names:
                found |= _reached(state, result, sent, len(of))
                found |= self._delay(state, result, router, kernel, sent)
            if "link_stress" in self.names and len(sent.group):
                size = size_of(overlay, self.routers, self.core_links)
                start = sent.start[of]
                _, sender, to = _carried(result, sent)
                links = {
                    _SCRIBE: packets_between(sender, to, router, kernel),
                    _UNICAST: packets_between(start, member, router, kernel),
                    _IP: _merged(of, start, member, router, kernel),
                }
                for system, packets in links.items():
                    found |= _packet_numbers(system, packets, size)
        return {name: float(value) for name, value in found.items() if value is not None}

    def tables(
        self,
        state: ScribeState,
        result: ScribeResult,
        overlay: OverlayState,
        groups: Groups,
        kernel: Kernel,
    ) -> dict[str, pa.Table]:
        """Return the tables of a run of a round's multicasts: ``tree_edges, deliveries``.

        With the columns that `schemas.WRITTEN` has of them.
        """
        sent, ring = _Sent.of(result, self.source == "root"), overlay.states.known
        of, member = sent.members(state)
        start = sent.start[of]
        base_us = kernel.delays(ring.router[start], ring.router[member]) + 2 * self.lan_us
        star = sent.group[of], start, member
        direct = sent.group[of], member, np.ones(len(of), dtype=np.int64), base_us
        at, node, hops, delay_us = _deliveries(result, sent)
        edges = {_SCRIBE: _carried(result, sent), _IP: star, _UNICAST: star}
        delivered = {_SCRIBE: (sent.group[at], node, hops, delay_us), _IP: direct, _UNICAST: direct}

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

    def _delay(
        self,
        state: ScribeState,
        result: ScribeResult,
        router: np.ndarray,
        kernel: Kernel,
        sent: _Sent,
    ) -> dict[str, float | None]:
        """RAD and RMD over the groups, RDP in the largest, depth; of the members reached."""
        of, node, hops, delay_us = _deliveries(result, sent)
        if not len(of):
            return {}
        base_us = kernel.delays(router[sent.start[of]], router[node]) + 2 * self.lan_us
        reached, totals, most = _sums(of, delay_us)
        _, base_totals, base_most = _sums(of, base_us)
        rads = histogram_of(rad(totals, reached, base_totals, reached))
        rmds, depth = histogram_of(rmd(most, base_most)), histogram_of(hops)
        found = {"rad.median": rads.median(), "rad.max": rads.max}
        found |= {"rmd.median": rmds.median(), "rmd.max": rmds.max}
        found |= {"depth.mean": depth.mean(), "depth.max": depth.max}
        mine = sent.group[of] == _largest_group(state)
        if mine.any():
            rdp = rdp_numbers(delay_us[mine], base_us[mine])
            found |= {f"rdp.{name}": value for name, value in rdp.items()}
        return {f"{_SCRIBE}.{name}": value for name, value in found.items()}


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


# --- delay


def _deliveries(result: ScribeResult, sent: _Sent) -> tuple[np.ndarray, ...]:
    """Return multicast, node, hops, delay of deliveries; but those where multicasts begin."""
    group, publication, node = result.deliveries
    of = sent.find(group, publication)
    mine = np.flatnonzero(of >= 0)
    mine = mine[node[mine] != sent.start[of[mine]]]
    hops, delay_us = (column[mine] for column in result.ways)
    of = of[mine]
    return of, node[mine], sent.hops[of] + hops, sent.delay_us[of] + delay_us


def _reached(
    state: ScribeState, result: ScribeResult, sent: _Sent, members: int
) -> dict[str, float | None]:
    """How many multicasts there were, and the share of the `members` whom they have reached."""
    found: dict[str, float | None] = {f"{_SCRIBE}.multicasts": len(sent.group)}
    if members:
        found[f"{_SCRIBE}.multicasts.reached"] = len(_deliveries(result, sent)[0]) / members
    return found


def _sums(of: np.ndarray, delay_us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each multicast that has reached somebody: how many, sum and maximum of their delays."""
    order = np.argsort(of, kind="stable")
    _, first, reached = np.unique(of[order], return_index=True, return_counts=True)
    sorted_us = delay_us[order]
    return reached, np.add.reduceat(sorted_us, first), np.maximum.reduceat(sorted_us, first)


def _largest_group(state: ScribeState) -> int:
    """The group with most members now, of equal ones the first."""
    entries = state.entries
    return int(np.argmax(np.bincount(entries.key[entries.member] // state.size)))


# --- node stress


def _node_stress(state: ScribeState, overlay: OverlayState) -> dict[str, float | None]:
    """Children tables and their entries, over all live nodes."""
    place, live = state.children.key // state.size, overlay.live()
    counted = {"children_tables": np.unique(place), "children_entries": place}
    found: dict[str, float | None] = {}
    for name, places in counted.items():
        values = histogram_of(np.bincount(places % state.size, minlength=state.size)[live])
        ends = {"mean": values.mean(), "median": values.median(), "max": values.max}
        found |= {f"{_SCRIBE}.{name}.{end}": value for end, value in ends.items()}
    return found


# --- link stress


def _carried(result: ScribeResult, sent: _Sent) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, sender and receiver of the payloads of the multicasts, lost ones too."""
    parts = [
        [payloads[at] for payloads in result.payloads] or [np.empty(0, dtype=np.int64)]
        for at in range(4)
    ]
    group, publication, sender, to = (np.concatenate(part) for part in parts)
    mine = sent.find(group, publication) >= 0
    return group[mine], sender[mine], to[mine]


def _merged(
    of: np.ndarray, start: np.ndarray, member: np.ndarray, router: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packets on up-links, down-links and core links, where routers merge a multicast's routes."""
    _, first = np.unique(of, return_index=True)
    up, down = (np.bincount(node, minlength=len(router)) for node in (start[first], member))
    a, b = router[start], router[member]
    away = a != b
    _, _, core = kernel.merged_packets(of[away], a[away], b[away])
    return up, down, core


def _packet_numbers(
    system: str, packets: tuple[np.ndarray, ...], size: Size
) -> dict[str, float | None]:
    on_links = histogram_of(np.concatenate([part[part > 0] for part in packets]))
    found: dict[str, float | None] = {
        f"{system}.link_stress.{name}": number.of(on_links, size)
        for name, number in PACKET_NUMBERS.items()
    }
    return found | {f"{system}.messages": on_links.sum}
