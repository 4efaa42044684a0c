"""A router graph from the attributes of a graph file: delays, rates, coordinates, losses.

The delay of an edge is its ``latency`` with a unit (Shadow) or ``delay_ms``.  If no edge has one,
it is the time of light in fibre along the great circle between its ends (``Latitude`` and
``Longitude``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.units import canonical, parse_rate, parse_time
from scribe_spark.errors import InputError, shown
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.topology.checks import MOST_ROUTERS
from scribe_spark.topology.graph import Graph, router_frame
from scribe_spark.topology.hosts import Hosts
from scribe_spark.topology.links import FIELD, graph_of_links
from scribe_spark.topology.topohub import KM_PER_MS

_EARTH_KM = 6371.0088

#: Names of the rates of a node's hosts: in today's Shadow, then in its first versions.
_RATES = {
    "up": ("host_bandwidth_up", "bandwidth_up"),
    "down": ("host_bandwidth_down", "bandwidth_down"),
}

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Elements:
    """The nodes and edges of a file."""

    nodes: list[tuple[Any, dict[str, Any]]]
    edges: list[tuple[Any, Any, dict[str, Any]]]
    is_directed: bool
    line_of: Callable[..., int | None]

    def name(self, *ends: Any) -> str:
        """Return the name of an element for messages: ``edge 0 to 1 (line 12)``."""
        words = f"node {ends[0]}" if len(ends) == 1 else f"edge {ends[0]} to {ends[1]}"
        line = self.line_of(*ends)
        return words if line is None else f"{words} (line {line})"


def graph_of_elements(elements: Elements, source: str) -> Graph:
    """Return the checked router graph of the elements of a file, which messages call `source`."""
    if not elements.nodes:
        raise InputError(FIELD, source, "has no nodes; needs at least one router")
    reader = _Reader(elements, source)
    ids, number = reader.ids()
    places = reader.places()
    delay_ms = reader.delays(places)
    ends = [(number[one], number[other]) for one, other, _ in elements.edges]
    links = pd.DataFrame(ends, columns=["src", "dst"], dtype="int64")
    links["delay_ms"] = np.array(delay_ms, dtype=np.float64)
    loops = (links["src"] == links["dst"]).to_numpy()
    own_us = reader.own_us(links[loops], np.sort(ids))
    x, y = (np.nan, np.nan) if places is None else places.T
    order = np.argsort(ids)
    hosts = Hosts(
        shares=reader.shares(order),
        own_us=own_us,
        up=reader.rates("up", order),
        down=reader.rates("down", order),
    )
    graph = graph_of_links(
        router_frame(ids, x=x, y=y), links[~loops].reset_index(drop=True), source
    )
    reader.note_directions(links[~loops])
    losses = reader.losses(links)
    return Graph(graph.vertices, graph.edges, source, hosts, losses, tuple(reader.notes))


class _Reader:
    """Reads the properties of all elements one after the other, and notes its assumptions."""

    def __init__(self, elements: Elements, source: str) -> None:
        self._elements, self._source = elements, source
        self.notes: list[str] = []

    def ids(self) -> tuple[np.ndarray, dict[Any, int]]:
        """Return the ids of routers in the file's order, and the id of each node."""
        names = [name for name, _ in self._elements.nodes]
        ids = [int(name) if str(name).isascii() and str(name).isdigit() else -1 for name in names]
        if min(ids) < 0 or max(ids) >= 2**63 or len({*ids}) < len(ids):
            ids = list(range(len(names)))
            self.notes.append(
                "node ids are not all whole numbers from 0 on: routers are numbered as in the file"
            )
        return np.array(ids, dtype=np.int64), dict(zip(names, ids, strict=True))

    # --- delays

    def delays(self, places: np.ndarray | None) -> list[float]:
        """Return the delay of each edge in ms."""
        edges = self._elements.edges
        for name, read in (("latency", self._latency), ("delay_ms", self._delay)):
            if any(name in values for _, _, values in edges):
                return [self._of_edge(edge, name, read) for edge in edges]
        if not edges:
            return []
        if places is None:
            where = self._elements.name(*edges[0][:2])
            raise self._refused(
                f"{where} has no latency; each edge needs latency (10 ms) or delay_ms, or nodes "
                "need Latitude and Longitude"
            )
        self.notes.append(
            "no edge has a latency: delays are those of light in fibre along great circles, 5 us a "
            "km"
        )
        return self._great_circles(places)

    def _of_edge(self, edge: Any, name: str, read: Callable[[Any], float]) -> float:
        one, other, values = edge
        if name not in values:
            raise self._refused(
                f"{self._elements.name(one, other)} has no {name}; other edges have one"
            )
        try:
            return read(values[name])
        except (TypeError, ValueError) as error:
            found = f"{self._elements.name(one, other)}: {name} {shown(values[name])}"
            raise self._refused(f"{found} {error}") from None

    @staticmethod
    def _latency(value: Any) -> float:
        return parse_time(value) / MICROSECONDS

    @staticmethod
    def _delay(value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError("must be a number of milliseconds") from None

    def _great_circles(self, places: np.ndarray) -> list[float]:
        at = {name: place for place, (name, _) in enumerate(self._elements.nodes)}
        ends = np.array([(at[a], at[b]) for a, b, _ in self._elements.edges])
        one, other = (_on_sphere(places[ends[:, side]]) for side in (0, 1))
        across = np.linalg.norm(one - other, axis=1) / 2
        km = 2 * _EARTH_KM * np.arcsin(np.minimum(across, 1.0))
        return list(km / KM_PER_MS)

    def own_us(self, loops: pd.DataFrame, ids: np.ndarray) -> np.ndarray | None:
        """Return the delay between two nodes of a router, from self-loops; None without them."""
        if loops.empty or not any(self._has("latency", "delay_ms")):
            if len(loops):
                self.notes.append(f"self-loops without a latency are left out: {len(loops):,}")
            return None
        if len(ids) > MOST_ROUTERS:
            self.notes.append(
                f"self-loops are left out: there are more than {MOST_ROUTERS:,} routers"
            )
            return None
        own = np.zeros(len(ids), dtype=np.int64)
        place = index_sorted(ids, loops["src"].to_numpy())
        own[place] = np.rint(loops["delay_ms"].to_numpy() * MICROSECONDS).astype(np.int64)
        lacking = len(ids) - len({*place.tolist()})
        if lacking:
            self.notes.append(
                f"routers without a self-loop: {lacking:,}; two nodes of such a router have LAN "
                "links alone between them"
            )
        return own

    # --- places

    def places(self) -> np.ndarray | None:
        """Return longitude and latitude of each node in order; None if no node has them."""
        nodes = self._elements.nodes
        found = np.full((len(nodes), 2), np.nan)
        for row, (name, values) in enumerate(nodes):
            for side, (key, most) in enumerate((("Longitude", 180.0), ("Latitude", 90.0))):
                if key in values:
                    found[row, side] = self._degrees(name, key, values[key], most)
        unknown = np.isnan(found).any(axis=1)
        if unknown.all():
            return None
        if unknown.any() and not any(self._has("latency", "delay_ms")):
            self._place_between(found, unknown)
        return found

    def _degrees(self, name: Any, key: str, value: Any, most: float) -> float:
        try:
            degrees = float(value)
        except (TypeError, ValueError):
            degrees = np.nan
        if not abs(degrees) <= most:
            where = self._elements.name(name)
            raise self._refused(f"{where}: {key} {shown(value)} must be from -{most:g} to {most:g}")
        return degrees

    def _place_between(self, found: np.ndarray, unknown: np.ndarray) -> None:
        """Place nodes without coordinates at the mean of their located neighbours, in steps."""
        at = {name: row for row, (name, _) in enumerate(self._elements.nodes)}
        ends = np.array([(at[a], at[b]) for a, b, _ in self._elements.edges], dtype=np.int64)
        ends = np.unique(np.concatenate([ends, ends[:, ::-1]]).reshape(-1, 2), axis=0)
        ends = ends[ends[:, 0] != ends[:, 1]]
        known, count = ~unknown, int(unknown.sum())
        while not known.all():
            usable = ends[~known[ends[:, 0]] & known[ends[:, 1]]]
            if not len(usable):
                lost = self._elements.nodes[int(np.flatnonzero(~known)[0])][0]
                raise self._refused(
                    f"{self._elements.name(lost)} has no Latitude and Longitude, nor has any node "
                    "that it is linked with; edges without latency need them"
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
        """Return the rate of hosts at each router in bits per second, by id; None without rates."""
        found = np.zeros(len(order), dtype=np.int64)
        for row, (name, values) in enumerate(self._elements.nodes):
            for key in _RATES[way]:
                if key in values:
                    found[row] = self._rate(name, key, values[key])
                    break
        if not found.any():
            return None
        some = found[found > 0]
        least, most = (canonical("rate", int(one)) for one in (some.min(), some.max()))
        text = f"{_RATES[way][0]}: {least} to {most}"
        lacking = len(found) - len(some)
        self.notes.append(text + (f"; routers without it: {lacking:,}" if lacking else ""))
        return found[order]

    def _rate(self, name: Any, key: str, value: Any) -> int:
        try:
            return parse_rate(value)
        except ValueError as error:
            where = self._elements.name(name)
            raise self._refused(f"{where}: {key} {shown(value)} {error}") from None

    def shares(self, order: np.ndarray) -> np.ndarray | None:
        """Return the share of nodes at each router, by id; None without shares."""
        nodes = self._elements.nodes
        if not any("share" in values for _, values in nodes):
            self.notes.append("nodes are spread over all routers evenly")
            return None
        try:
            found = np.array([float(values.get("share", 0)) for _, values in nodes])
        except (TypeError, ValueError):
            raise self._refused("share of a node must be a number from 0 to 1") from None
        if not (found >= 0).all() or abs(found.sum() - 1) > _TOLERANCE:
            raise self._refused(f"shares of nodes must sum to 1, but sum to {found.sum():.6g}")
        return found[order]

    # --- properties that are not simulated

    def note_directions(self, links: pd.DataFrame) -> None:
        """Note the links that are added or ignored."""
        if self._elements.is_directed:
            pairs = set(zip(links["src"], links["dst"], strict=True))
            alone = sum((dst, src) not in pairs for src, dst in pairs)
            self.notes.append(
                f"the graph is directed; edges without a reverse: {alone:,}, which get one"
            )
        else:
            self.notes.append("the graph is not directed: each edge is a link both ways")
        for name, why in (
            ("jitter", "is ignored"),
            ("LinkSpeedRaw", "is ignored: links between routers have no rates here"),
        ):
            if any(self._has(name)):
                self.notes.append(f"{name} of edges {why}")

    def losses(self, links: pd.DataFrame) -> pd.DataFrame | None:
        """Return the losses of links (of parallel links, the quickest one's); None
        without losses.
        """
        given = ["packet_loss" in values for *_, values in self._elements.edges]
        loss = [self._loss(edge) for edge in self._elements.edges]
        if not any(loss):
            return None
        if len(self._elements.nodes) > MOST_ROUTERS:
            self.notes.append(
                f"packet_loss is ignored: there are more than {MOST_ROUTERS:,} routers"
            )
            return None
        self.notes.append(
            f"packet_loss of {sum(given):,} edges ({min(loss):g} to {max(loss):g}): GossipSub's "
            "copies are lost by it, without --message-size; other systems lose none"
        )
        there = links.assign(loss=loss, given=0)
        back = there.rename(columns={"src": "dst", "dst": "src"}).assign(given=1)
        every = pd.concat([there, back]).sort_values(["src", "dst", "given", "delay_ms", "loss"])
        kept = every.drop_duplicates(["src", "dst"])
        return kept.loc[kept["loss"] > 0, ["src", "dst", "loss"]].reset_index(drop=True)

    def _loss(self, edge: Any) -> float:
        one, other, values = edge
        try:
            loss = float(values.get("packet_loss", 0))
        except (TypeError, ValueError):
            loss = np.nan
        if not 0 <= loss <= 1:
            found = f"{self._elements.name(one, other)}: packet_loss {shown(values['packet_loss'])}"
            raise self._refused(f"{found} must be a number from 0 to 1")
        return loss

    def _has(self, *names: str) -> Iterable[bool]:
        return (name in values for _, _, values in self._elements.edges for name in names)

    def _refused(self, remedy: str) -> InputError:
        return InputError(FIELD, self._source, remedy)


def _on_sphere(places: np.ndarray) -> np.ndarray:
    """Return longitudes and latitudes in degrees as points of the unit sphere."""
    longitude, latitude = np.radians(places).T
    around = np.cos(latitude)
    return np.stack(
        [around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)], axis=1
    )


def _degrees_of(points: np.ndarray) -> np.ndarray:
    """Return the longitudes and latitudes of points at any distance from the centre."""
    x, y, z = points.T
    return np.degrees(np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=1))
