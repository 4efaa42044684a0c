"""The section ``topology``: routers, links and the choice of routes (JSAC 2002, Section IV.A)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, InstanceOf, model_validator

from scribe_spark.config import section
from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.core.pair_delay import PairDelay, jitter_in_words, parse_jitter
from scribe_spark.core.units import parse_rate

#: The greatest transit-stub network.  Its links have different weights, so its routes need matrices
#: of all pairs of routers: 6 bytes per pair, 600 MB for this number.
MOST_TRANSIT_STUB_ROUTERS = 10_000

#: The greatest number of pairs of routers in a domain; links are drawn pair by pair until the
#: domain is connected.
MOST_PAIRS = 1_000_000

#: Limits of domains and extra links; each link between domains takes some 20 microseconds.
MOST_DOMAINS = 500
MOST_EXTRA_LINKS = 100_000

#: The greatest power-law network, which takes about 200 bytes per link on the driver.
MOST_POWER_LAW_ROUTERS = 10_000_000
MOST_POWER_LAW_LINKS = 20_000_000

#: The least probability of a link; with a smaller one, no domain is ever connected.
LEAST_PROBABILITY = 1e-6

#: The kind of a network that is made from a matrix of regions.
REGIONS = "regions"

#: The kind of a network without a graph, in which each pair of nodes has a delay.
PAIRS = "pairs"

#: The kind of a network that is made from a table of edges.
EDGES = "edges"

_SIZES = ("transit_domains", "transit_size", "stubs_per_transit", "stub_size")


def _graph(value: Any) -> Any:
    """Return a graph object as a `GivenGraph`; any other value is not changed."""
    plain = value is None or isinstance(value, str | bytes | bool | int | float | dict)
    return value if plain else GivenGraph.of(value)


_OF_TRANSIT_STUB = section.UsedWhen(
    section.drawn_as("transit-stub"),
    "has no effect on another network than transit-stub; leave it out",
)
_OF_REGIONS = section.used_when(lambda config: config.topology.kind == REGIONS, "--regions")
_OF_PAIRS = section.used_when(lambda config: config.topology.is_pairs, "--topology pairs")
_OF_GRAPH = section.UsedWhen(
    lambda config: not config.topology.is_pairs,
    "has no effect with topology pairs, which has no routers and links; leave it out",
)
_OF_POWER_LAW = section.used_when(section.drawn_as("power-law"), "--topology power-law")


def _pair_delay(text: Any) -> Any:
    """Return the standard spelling of a distribution of delays (a text)."""
    return str(PairDelay.parse(text)) if isinstance(text, str) else text


def _jitter(text: Any) -> Any:
    """Return a jitter that is a text in its standard spelling; other values are not changed."""
    return jitter_in_words(parse_jitter(text)) if isinstance(text, str) else text


#: A name, a path, or a graph.
_Network = Annotated[
    section.Location | InstanceOf[GivenGraph], BeforeValidator(_graph), section.Flat("topology")
]


class TopologyConfig(section.Section):
    """The settings of the network of routers; the defaults are the paper's."""

    about: ClassVar[str] = (
        "The network below the overlay: routers and links. Each node is attached to a router by "
        "its own LAN link. A transit-stub network has domains of transit routers (the backbone) "
        "and smaller domains, stubs, at each transit router; the flags from --transit-domains "
        "to --gtitm-quirk describe it."
    )

    kind: _Network = section.setting(
        "transit-stub",
        "Network of routers: transit-stub, power-law, topohub:NAME (a real network of the package "
        "topohub), pairs (no routers: a delay for each pair of nodes), or a file: GML (Shadow), "
        "GraphML (Topology Zoo), or an edge list (columns src, dst, delay_ms[, weight, rate]; or "
        "two routers per line); in Python also a GraphFrame, Topology or DataFrames",
    )
    routes: Annotated[Literal["shortest", "direct"], _OF_GRAPH] = section.setting(
        "shortest",
        "Route between two routers: the one of least total weight (shortest), or the direct link, "
        "which every pair must then have (direct)",
    )
    tie: Annotated[Literal["delay", "seeded"], _OF_GRAPH] = section.setting(
        "delay",
        "Choice among routes of equal weight: the least delay (delay), or at random (seeded)",
    )
    lan_delay_ms: Annotated[float, section.within(0.001, 1e6), _OF_GRAPH] = section.setting(
        1.0, "Delay of the LAN link between a node and its router, in ms in each direction"
    )
    transit_domains: Annotated[int, section.within(1, MOST_DOMAINS), _OF_TRANSIT_STUB] = (
        section.setting(10, "Number of transit domains, T")
    )
    transit_size: Annotated[int, section.within(1, MOST_TRANSIT_STUB_ROUTERS), _OF_TRANSIT_STUB] = (
        section.setting(5, "Mean number of routers in a transit domain, N_T")
    )
    stubs_per_transit: Annotated[
        int, section.within(1, MOST_TRANSIT_STUB_ROUTERS), _OF_TRANSIT_STUB
    ] = section.setting(10, "Mean number of stubs at a transit router, K")
    stub_size: Annotated[int, section.within(1, MOST_TRANSIT_STUB_ROUTERS), _OF_TRANSIT_STUB] = (
        section.setting(10, "Mean number of routers in a stub, N_S")
    )
    p_top: Annotated[float, section.within(LEAST_PROBABILITY, 1.0), _OF_TRANSIT_STUB] = (
        section.setting(1.0, "Probability of a link between two transit domains")
    )
    p_transit: Annotated[float, section.within(LEAST_PROBABILITY, 1.0), _OF_TRANSIT_STUB] = (
        section.setting(0.6, "Probability of a link between two routers of a transit domain")
    )
    p_stub: Annotated[float, section.within(LEAST_PROBABILITY, 1.0), _OF_TRANSIT_STUB] = (
        section.setting(0.5, "Probability of a link between two routers of a stub")
    )
    extra_transit_stub: Annotated[int, section.within(0, MOST_EXTRA_LINKS), _OF_TRANSIT_STUB] = (
        section.setting(0, "Number of extra links between stubs and transit routers")
    )
    extra_stub_stub: Annotated[int, section.within(0, MOST_EXTRA_LINKS), _OF_TRANSIT_STUB] = (
        section.setting(0, "Number of extra links between routers of different stubs")
    )
    gtitm_quirk: Annotated[bool, _OF_TRANSIT_STUB] = section.setting(
        True,
        "Draw transit domains, except the first, like stubs (p_stub, a square of a stub's size), "
        "as the generator GT-ITM does",
    )
    transit_rate: Annotated[section.Rate, _OF_TRANSIT_STUB] = section.setting(
        "45Mbit/s", "Rate of a link between transit routers, for systems that choose by bandwidth"
    )
    transit_stub_rate: Annotated[section.Rate, _OF_TRANSIT_STUB] = section.setting(
        "1500kbit/s", "Rate of a link between a stub and a transit router"
    )
    stub_rate: Annotated[section.Rate, _OF_TRANSIT_STUB] = section.setting(
        "100Mbit/s", "Rate of a link between routers of stubs"
    )
    power_law_routers: Annotated[int, section.within(1, MOST_POWER_LAW_ROUTERS), _OF_POWER_LAW] = (
        section.setting(102_639, "Number of routers of a power-law network")
    )
    power_law_links: Annotated[int, section.within(0, MOST_POWER_LAW_LINKS), _OF_POWER_LAW] = (
        section.setting(142_303, "Number of undirected links of a power-law network")
    )

    node_routers: Annotated[section.Location, section.TakenAs("file")] | None = section.unset(
        "CSV or Parquet table with the router of each node (columns node, router) [default: "
        "random routers]"
    )
    regions: Annotated[section.Location, section.TakenAs("file")] | None = section.unset(
        "Network of regions: CSV or JSON file with a matrix of latencies, or the package's azure, "
        "continents or corrosion19"
    )
    region_latency: Annotated[Literal["one-way", "round-trip"] | None, _OF_REGIONS] = section.unset(
        "Meaning of latencies named ms in the matrix [default: one-way]"
    )
    region_shares: Annotated[section.Names, _OF_REGIONS] = section.setting(
        (),
        "Share of the nodes in each region, REGION=SHARE,... [default: the file's column share, "
        "or equal]",
    )
    region_jitter: Annotated[section.Time | None, _OF_REGIONS] = section.unset(
        "Greatest random delay that is added between two sites; the nodes of a region are spread "
        "over up to 16 sites"
    )

    nodes_file: Annotated[section.Location, section.TakenAs("file")] | None = section.unset(
        "CSV or Parquet table of all nodes (columns id[, region, up, down, weight, class]); up and "
        "down are rates (a number is in Mbit/s)"
    )
    edges_file: Annotated[section.Location, section.TakenAs("file")] | None = section.unset(
        "Network of edges between nodes, or between regions, of --nodes-file: CSV or Parquet table "
        "(columns source, target, latency[, loss]; a number is in ms)"
    )
    pair_delay: Annotated[str, BeforeValidator(_pair_delay), _OF_PAIRS] = section.setting(
        "uniform:10ms:150ms",
        "Delay of each pair of nodes, drawn by a hash of the pair: uniform:LEAST:MOST, "
        "lognormal:MEDIAN:SIGMA or constant:DELAY",
    )
    message_jitter: Annotated[str | None, BeforeValidator(_jitter), _OF_PAIRS] = section.unset(
        "Greatest additional delay of a copy of a publication, drawn for each copy, in percent of "
        "the pair's delay, such as 10%"
    )

    @model_validator(mode="before")
    @classmethod
    def _made_by_regions(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for field, kind in (("regions", REGIONS), ("edges_file", EDGES)):
                if given.get(field) is not None:
                    return {"kind": kind} | given
        return given

    def _faults(self) -> Iterator[section.Fault]:
        kind, regions, edges = self.kind, self.regions, self.edges_file
        unused = f"has no effect with topology = {kind}; give one of both"
        no_matrix, no_edges = regions is None, edges is None
        needs = "needs a matrix; give --regions FILE"
        yield kind == REGIONS and no_matrix, "topology", REGIONS, needs
        yield kind != REGIONS and not no_matrix, "regions", regions, unused
        needs = "needs a table; give --edges-file FILE"
        yield kind == EDGES and no_edges, "topology", EDGES, needs
        needs = "needs the nodes; give nodes_file"
        yield not no_edges and self.nodes_file is None, "edges_file", edges, needs
        yield kind != EDGES and not no_edges, "edges_file", edges, unused
        if self.node_routers is not None:
            twice = "has no effect with nodes_file, which places the nodes; give one of both"
            yield self.nodes_file is not None, "node_routers", self.node_routers, twice
            own = "has no effect with topology pairs, in which each node is its own router"
            yield self.is_pairs, "node_routers", self.node_routers, own
        yield self._too_large(
            self.routers,
            MOST_TRANSIT_STUB_ROUTERS,
            "routers (transit_domains x transit_size x (1 + stubs_per_transit x stub_size))",
        )
        yield self._too_large(self._pairs(), MOST_PAIRS, "pairs of routers in one domain")
        routers, links = self.power_law_routers, self.power_law_links
        least, most = routers - 1, routers * (routers - 1) // 2
        few = f"must be at least {least:,}, to connect {routers:,} routers"
        yield links < least, "power_law_links", links, few
        many = f"must be at most {most:,}: there are no more pairs of {routers:,} routers"
        yield links > most, "power_law_links", links, many

    @property
    def is_pairs(self) -> bool:
        """True for a network of pairs: nodes have delays, but there is no graph of routers."""
        return self.kind == PAIRS

    @property
    def routers(self) -> int:
        """The number of routers of the transit-stub graph: R = T N_T (1 + K N_S)."""
        transit = self.transit_domains * self.transit_size
        return transit * (1 + self.stubs_per_transit * self.stub_size)

    def _too_large(self, number: int, most: int, what: str) -> section.Fault:
        """Return a fault, which names the size that is farthest above its default."""
        fields = type(self).model_fields
        name = max(_SIZES, key=lambda size: getattr(self, size) / fields[size].default)
        remedy = f"makes {number:,} {what}; must be at most {most:,}"
        return number > most, name, getattr(self, name), remedy

    @property
    def rates_of_links(self) -> tuple[int, ...]:
        """The rates of links (bit/s), by the number of transit routers at their ends: 0, 1, 2."""
        rates = self.stub_rate, self.transit_stub_rate, self.transit_rate
        return tuple(parse_rate(rate) for rate in rates)

    def _pairs(self) -> int:
        transit = self.transit_domains * self.transit_size
        stubs = transit * self.stubs_per_transit
        of_transit = self.transit_domains * self.transit_size * (self.transit_size - 1) // 2
        return of_transit + stubs * self.stub_size * (self.stub_size - 1) // 2
