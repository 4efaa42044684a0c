"""A router graph from the attributes of a graph file: delays, rates, coordinates, losses.

The delay of an edge is its ``latency`` with a unit (Shadow) or ``delay_ms``.  If no edge has one,
it is the time of light in fibre along the great circle between its ends (``Latitude`` and
``Longitude``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.errors import InputError, listed, shown
from scribe_spark.core.units import MICROSECONDS, canonical, parse_rate
from scribe_spark.topology import checks
from scribe_spark.topology.graph import Graph, Hosts, router_frame
from scribe_spark.topology.kinds import KM_PER_MS
from scribe_spark.topology.links import FIELD, graph_of_links, lossy_links


@dataclass(frozen=True, slots=True)
class Element:
    """A node or an edge of a graph file, with its attributes as texts."""

    ends: tuple[str, ...]  # the id of a node, or the ids of an edge's source and target
    values: dict[str, Any]  # texts by name; a list for an attribute that is no single text
    line: int

    def __str__(self) -> str:
        """Return the name of the element in messages: ``edge 0 to 1 (line 12)``."""
        what = "node" if len(self.ends) == 1 else "edge"
        return f"{what} {' to '.join(listed([end]) for end in self.ends)} (line {self.line})"


@dataclass(frozen=True)
class Elements:
    """The nodes and edges of a graph file, in its order; ids are unique, and edges end at nodes."""

    nodes: list[Element]
    edges: list[Element]
    is_directed: bool

    def __post_init__(self) -> None:
        """Raise a ValueError for two nodes of one id, or an edge without its nodes."""
        known: dict[str, Element] = {}
        for node in self.nodes:
            if (other := known.setdefault(node.ends[0], node)) is not node:
                raise ValueError(f"{node} has the id of the node in line {other.line}; rename one")
        for edge in self.edges:
            for end in edge.ends:
                if end not in known:
                    raise ValueError(f"{edge} needs a node {listed([end])}, which the file lacks")


_EARTH_KM = 6371.0088

#: Names of the rates of a node's hosts: in today's Shadow, then in its first versions.
_RATES = {
    "up": ("host_bandwidth_up", "bandwidth_up"),
    "down": ("host_bandwidth_down", "bandwidth_down"),
}

_PLACE = {"Longitude": checks.LONGITUDE, "Latitude": checks.LATITUDE}

#: A router's id: a whole number that 64 bits hold.
_ID = re.compile(r"[0-9]{1,19}")


def graph_of_elements(elements: Elements, source: str) -> Graph:
    """Return the checked router graph of the elements of a file; errors call the file `source`."""
    if not elements.nodes:
        raise InputError(FIELD, source, "has no nodes; needs at least one router")
    reader = _AttributeReader(elements, source)
    ids, places = reader.ids(), reader.places()
    links = pd.DataFrame(ids[reader.ends], columns=["src", "dst"])
    links = links.assign(delay_ms=reader.delays(places))
    loops = (links["src"] == links["dst"]).to_numpy()
    order = np.argsort(ids)
    hosts = Hosts(
        own_us=reader.own_us(links[loops], ids[order]),
        shares=reader.shares(order),
        up=reader.rates("up", order),
        down=reader.rates("down", order),
    )
    x, y = (np.nan, np.nan) if places is None else places.T
    reader.note_directions(links[~loops])
    losses = reader.losses(links)
    links = links.assign(**reader.link_rates())
    routers, links = router_frame(ids, x=x, y=y), links[~loops].reset_index(drop=True)
    return graph_of_links(routers, links, source, hosts, losses, tuple(reader.notes))


class _AttributeReader:
    """Reads the attributes of all elements one after the other, and notes what it assumes.

    `ends` has the indices of the nodes of each edge, int64 of shape (E, 2).  An undirected edge
    begins at the lower index, so that edges between the same nodes are parallel.
    """

    def __init__(self, elements: Elements, source: str) -> None:
        self._nodes, self._edges, self._source = elements.nodes, elements.edges, source
        self._is_directed = elements.is_directed
        self.notes: list[str] = []
        at = {node.ends[0]: index for index, node in enumerate(self._nodes)}
        ends = np.array([[at[end] for end in edge.ends] for edge in self._edges], dtype=np.int64)
        self.ends = ends.reshape(-1, 2) if self._is_directed else np.sort(ends.reshape(-1, 2))

    def ids(self) -> np.ndarray:
        """Return the ids of routers in the file's order: int64."""
        names = [node.ends[0] for node in self._nodes]
        ids = [int(name) if _ID.fullmatch(name) else -1 for name in names]
        if min(ids) < 0 or max(ids) >= 2**63 or len({*ids}) < len(ids):
            ids = list(range(len(names)))
            self.notes.append(
                "node ids are not all whole numbers from 0 on: routers are numbered as in the file"
            )
        return np.array(ids, dtype=np.int64)

    # --- delays

    def delays(self, places: np.ndarray | None) -> list[float]:
        """Return the delay of each edge in ms, also of edges from a node to itself."""
        for name, read in (("latency", checks.latency_ms), ("delay_ms", checks.DELAY_MS.number)):
            if self._has(name):
                self._refuse_lacking(name, self._edges)
                return self._column(self._edges, name, read)
        if not self._edges:
            return []
        if places is None:
            raise self._refused(
                f"{self._edges[0]} has no latency; each edge needs latency (10 ms) or delay_ms, or "
                "nodes need Latitude and Longitude"
            )
        self.notes.append(
            "no edge has a latency: delays are those of light in fibre along great circles, 5 us a "
            "km"
        )
        one, other = (_on_sphere(places[self.ends[:, side]]) for side in (0, 1))
        across = np.linalg.norm(one - other, axis=1) / 2
        return list(2 * _EARTH_KM * np.arcsin(np.minimum(across, 1.0)) / KM_PER_MS)

    def own_us(self, loops: pd.DataFrame, ids: np.ndarray) -> np.ndarray | None:
        """Return the delay (us) between two hosts of each router, from edges `loops` to itself."""
        if loops.empty:
            return None
        if not self._has("latency", "delay_ms"):
            self.notes.append(f"self-loops without a latency are left out: {len(loops):,}")
            return None
        if self._is_too_large("self-loops are left out"):
            return None
        place = index_sorted(ids, loops["src"].to_numpy())
        own = np.full(len(ids), np.iinfo(np.int64).max)
        # as of parallel links, the quickest one counts
        np.minimum.at(own, place, np.rint(loops["delay_ms"] * MICROSECONDS).astype(np.int64))
        lacking = own == np.iinfo(np.int64).max
        if lacking.any():
            self.notes.append(
                f"routers without a self-loop: {lacking.sum():,}; two nodes of such a router have "
                "LAN links alone between them"
            )
        return np.where(lacking, 0, own)

    def _is_too_large(self, what: str) -> bool:
        too_large = len(self._nodes) > checks.MOST_ROUTERS
        if too_large:
            self.notes.append(f"{what}: there are more than {checks.MOST_ROUTERS:,} routers")
        return too_large

    def link_rates(self) -> dict[str, list[int]]:
        """Return the column ``rate`` of edges (bits per second); no column without rates."""
        if not self._has("bandwidth"):
            return {}
        self._refuse_lacking("bandwidth", (edge for edge in self._edges if len({*edge.ends}) > 1))
        return {"rate": self._column(self._edges, "bandwidth", parse_rate, 0)}

    def _refuse_lacking(self, name: str, edges: Iterable[Element]) -> None:
        for edge in edges:
            if name not in edge.values:
                raise self._refused(f"{edge} has no {name}; other edges have one")

    # --- places

    def places(self) -> np.ndarray | None:
        """Return longitude and latitude (degrees) of each node; None if no node has them."""
        found = np.empty((len(self._nodes), 2))
        for side, (key, bounds) in enumerate(_PLACE.items()):
            found[:, side] = self._column(self._nodes, key, bounds.number, np.nan)
        unknown = np.isnan(found).sum(axis=1) > 0
        if unknown.all():
            return None
        if unknown.any() and not self._has("latency", "delay_ms"):
            self._place_between(found, unknown)
        return found

    def _place_between(self, found: np.ndarray, unknown: np.ndarray) -> None:
        """Give each node without coordinates the mean of its located neighbours, step by step."""
        ends = np.unique(np.concatenate([self.ends, self.ends[:, ::-1]]), axis=0)
        ends = ends[ends[:, 0] != ends[:, 1]]
        known, count = ~unknown, int(unknown.sum())
        while not known.all():
            usable = ends[~known[ends[:, 0]] & known[ends[:, 1]]]
            if not len(usable):
                lost = self._nodes[int(np.flatnonzero(~known)[0])]
                raise self._refused(
                    f"{lost} has no Latitude and Longitude, nor has any node that it is linked "
                    "with; edges without latency need them"
                )
            sums = np.zeros((len(found), 3))
            np.add.at(sums, usable[:, 0], _on_sphere(found[usable[:, 1]]))
            new = np.unique(usable[:, 0])
            found[new] = _degrees_of(sums[new])
            known[new] = True
        self.notes.append(
            f"nodes without Latitude and Longitude: {count:,}; each is put at the mean of its "
            "neighbours"
        )

    # --- hosts

    def rates(self, way: str, order: np.ndarray) -> np.ndarray | None:
        """Return the rate (bit/s) of hosts at each router; None without rates."""
        now, before = (self._column(self._nodes, key, parse_rate, 0) for key in _RATES[way])
        found = np.where(now, now, before)
        if not found.any():
            return None
        some = found[found > 0]
        least, most = (canonical("rate", int(one)) for one in (some.min(), some.max()))
        text = f"{_RATES[way][0]}: {least} to {most}"
        lacking = len(found) - len(some)
        self.notes.append(text + (f"; routers without it: {lacking:,}" if lacking else ""))
        return found[order]

    def shares(self, order: np.ndarray) -> np.ndarray | None:
        """Return the share of the hosts at each router, in `order` of ids; None without shares."""
        if not any("share" in node.values for node in self._nodes):
            self.notes.append("nodes are spread over all routers evenly")
            return None
        return np.array(self._column(self._nodes, "share", checks.SHARE.number, 0.0))[order]

    # --- properties that are not simulated

    def note_directions(self, links: pd.DataFrame) -> None:
        """Note for the user which links are added or ignored, as edges have one direction."""
        if self._is_directed:
            pairs = set(zip(links["src"], links["dst"], strict=True))
            alone = sum((dst, src) not in pairs for src, dst in pairs)
            self.notes.append(
                f"the graph is directed; edges without a reverse: {alone:,}, which get one"
            )
        else:
            self.notes.append("the graph is not directed: each edge is a link both ways")
        for name, why in (
            ("jitter", "is ignored"),
            ("LinkSpeedRaw", "is ignored; bandwidth (10 Mbit/s) gives links rates"),
        ):
            if self._has(name):
                self.notes.append(f"{name} of edges {why}")

    def losses(self, links: pd.DataFrame) -> pd.DataFrame | None:
        """Return the losses of links, both ways: ``src, dst, loss``; None without losses."""
        given = ["packet_loss" in edge.values for edge in self._edges]
        loss = self._column(self._edges, "packet_loss", checks.LOSS.number, 0.0)
        if not any(loss):
            return None
        if self._is_too_large("packet_loss is ignored"):
            return None
        self.notes.append(
            f"packet_loss of {sum(given):,} edges ({min(loss):g} to {max(loss):g}): copies "
            "are lost by it"
        )
        return lossy_links(links.assign(loss=loss))

    def _column(
        self, elements: list[Element], name: str, read: Callable[[Any], Any], default: Any = None
    ) -> list[Any]:
        """Return an attribute of all elements by ``read(text)``; `default` where it is absent."""
        found = []
        for of in elements:
            value = of.values.get(name)
            if isinstance(value, list):
                raise self._refused(f"{of}: {name} must be one value, not several or a block")
            try:
                found.append(default if value is None else read(value))
            except ValueError as error:
                raise self._refused(f"{of}: {name} {shown(value)} {error}") from None
        return found

    def _has(self, *names: str) -> bool:
        return any(name in edge.values for edge in self._edges for name in names)

    def _refused(self, remedy: str) -> InputError:
        return InputError(FIELD, self._source, remedy)


def _on_sphere(places: np.ndarray) -> np.ndarray:
    """Return points of the unit sphere, (n, 3), from longitudes and latitudes in degrees."""
    longitude, latitude = np.radians(places).T
    around = np.cos(latitude)
    return np.stack(
        [around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)], axis=1
    )


def _degrees_of(points: np.ndarray) -> np.ndarray:
    """Return longitudes and latitudes (degrees) of points (n, 3), however far from the centre."""
    x, y, z = points.T
    return np.degrees(np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=1))
