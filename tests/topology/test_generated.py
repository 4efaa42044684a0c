"""The transit-stub model (JSAC IV.A) and the internet-like graph: invariants, sizes, refusals."""

import hashlib
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra, shortest_path

from scribe_spark.config import RunConfig, TopologyConfig
from scribe_spark.core import draws
from scribe_spark.core.errors import InputError
from scribe_spark.topology import transit_stub as model
from scribe_spark.topology.checks import check, check_routable
from scribe_spark.topology.kinds import power_law
from scribe_spark.topology.registry import load
from scribe_spark.topology.transit_stub import (
    LinkWeights,
    Scales,
    _spread,
    check_connectable,
    connected_probability,
    generate,
    geo,
    hop_diameter,
)

PRESET = TopologyConfig()
SMALL = TopologyConfig(transit_domains=3, transit_size=3, stubs_per_transit=2, stub_size=4)

small_params = st.builds(
    TopologyConfig,
    transit_domains=st.integers(1, 4),
    transit_size=st.integers(1, 4),
    stubs_per_transit=st.integers(1, 3),
    stub_size=st.integers(1, 6),
    p_top=st.floats(0.5, 1.0),
    p_transit=st.floats(0.5, 1.0),
    p_stub=st.floats(0.5, 1.0),
    gtitm_quirk=st.booleans(),
)


def stream(row: int = 0) -> np.random.Philox:
    return draws.stream(7, "test", row)


def digest(graph) -> str:
    """Of every number of a graph, whatever the platform's byte order."""
    columns = [graph.vertices[c].to_numpy() for c in ("id", "domain", "x", "y")]
    columns += [graph.edges[c].to_numpy() for c in ("src", "dst", "delay_ms", "weight")]
    told = hashlib.sha256("".join(graph.vertices["kind"]).encode())
    for column in columns:
        told.update(column.astype("<f8").tobytes())
    return told.hexdigest()[:16]


def labelled(graph):
    """The edges with the kind and domain of both ends."""
    ends = graph.vertices.set_index("id")[["kind", "domain"]]
    return graph.edges.join(ends.add_suffix("_src"), on="src").join(
        ends.add_suffix("_dst"), on="dst"
    )


def routes(graph, among: np.ndarray) -> np.ndarray:
    """Least weights between all pairs of `among`, over links between them only."""
    links = graph.edges[graph.edges["src"].isin(among) & graph.edges["dst"].isin(among)]
    src, dst = (np.searchsorted(among, links[c]) for c in ("src", "dst"))
    return dijkstra(coo_array((links["weight"], (src, dst)), shape=(len(among),) * 2).tocsr())


def test_policy_weights():
    # D_top 1, D_T 4, D_S 3 by hand: w_tt = h(4), w_ts = h(3) + h(8), w_ss = 3 + 2 w_ts
    assert LinkWeights.of(1, 4, 3) == LinkWeights(inter_domain=3, transit_stub=2 + 5, stub_stub=17)
    assert LinkWeights.of(0, 0, 0) == LinkWeights(inter_domain=1, transit_stub=2, stub_stub=4)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 1000))
def test_spread_keeps_the_sum_and_leaves_no_zero(n, mean, row):
    counts = _spread(n, mean, stream(row))
    assert len(counts) == n
    assert counts.sum() == n * mean
    assert counts.min() >= 1


@given(st.integers(1, 12), st.integers(4, 40), st.floats(0.6, 1.0), st.integers(0, 1000))
def test_geo_is_connected_and_its_points_distinct(n, scale, p, row):
    points, links = geo(n, scale, p, "p", stream(row))
    assert points.shape == (n, 2)
    assert len(np.unique(points, axis=0)) == n
    assert points.min() >= 0
    assert points.max() < scale
    assert (links[:, 0] < links[:, 1]).all()
    assert len(np.unique(links, axis=0)) == len(links)
    graph = coo_array((np.ones(len(links)), links.T), shape=(n, n))
    assert connected_components(graph, directed=False)[0] == 1


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 1000))
def test_hop_diameter_is_that_of_all_shortest_paths(n, p, row):
    pairs = np.column_stack(np.triu_indices(n, 1))
    links = pairs[draws.uniform(stream(row), len(pairs)) < p]
    graph = coo_array((np.ones(len(links)), links.T), shape=(n, n)).tocsr()
    longest = shortest_path(graph, directed=False, unweighted=True).max()
    assert hop_diameter(n, links) == (None if np.isinf(longest) else longest)


def diameter_of(names, links) -> int:
    """The longest of the shortest paths in hops, which is finite."""
    src, dst = (np.searchsorted(np.sort(names), end) for end in links.to_numpy().T)
    graph = coo_array((np.ones(len(src)), (src, dst)), shape=(len(names),) * 2).tocsr()
    return int(shortest_path(graph, unweighted=True).max())


@settings(max_examples=15, deadline=None)
@given(small_params, st.integers(-(2**63), 2**63 - 1))
def test_invariants(params, seed):
    graph = generate(params, seed)
    vertices, edges, scales = graph.vertices, graph.edges, Scales.of(params)
    check(graph)
    assert len(vertices) == params.routers
    assert vertices["id"].tolist() == list(range(params.routers))
    assert vertices[["x", "y"]].min().min() >= 0
    assert vertices[["x", "y"]].max().max() < scales.grid

    # both directions, the same delay and weight, one row each
    pairs = edges.set_index(["src", "dst"])
    assert pairs.index.is_unique
    back = pairs.swaplevel().reindex(pairs.index)
    assert (back == pairs).all().all()

    # a delay is the rounded distance of its ends
    place = vertices[["x", "y"]].to_numpy()
    across = place[edges["src"]] - place[edges["dst"]]
    assert (edges["delay_ms"] == np.floor(np.hypot(*across.T) + 0.5)).all()

    # one transit-stub link per stub, no link between stubs
    links = labelled(graph)
    gateways = links.query("kind_src == 'transit' and kind_dst == 'stub'")
    routers = vertices.query("kind == 'transit'")
    stubs = params.transit_domains * params.transit_size * params.stubs_per_transit
    assert sorted(gateways["domain_dst"]) == sorted(
        set(vertices["domain"]) - set(routers["domain"])
    )
    assert len(gateways) == stubs
    assert routers["domain"].nunique() == params.transit_domains
    assert len(routers) == params.transit_domains * params.transit_size
    in_stubs = links.query("kind_src == 'stub' and kind_dst == 'stub'")
    assert (in_stubs["domain_src"] == in_stubs["domain_dst"]).all()

    # each transit router has stubs; sums of stubs and of their routers are those of the config
    sizes = vertices.groupby("domain").size()
    of_carrier = gateways.assign(size=gateways["domain_dst"].map(sizes)).groupby("src")
    assert sorted(of_carrier.groups) == routers["id"].tolist()
    assert (of_carrier["size"].sum() == params.stub_size * of_carrier.size()).all()
    in_domain = gateways.groupby("domain_src").size()
    assert (in_domain == params.stubs_per_transit * sizes[in_domain.index]).all()

    # routers of a domain have points of their own; a transit domain lies in its square
    assert not vertices.duplicated(["domain", "x", "y"]).any()
    for domain, of in routers.groupby("domain"):
        as_stub = params.gtitm_quirk and domain > 0
        assert (np.ptp(of[["x", "y"]], axis=0) < (scales.stub if as_stub else scales.transit)).all()

    # at most two links join two transit domains; weights follow from the hop diameters
    is_inside = links["domain_src"] == links["domain_dst"]
    core = links[~is_inside].query("kind_src == 'transit' and kind_dst == 'transit'")
    assert core.groupby(["domain_src", "domain_dst"]).size().max() <= 2 or core.empty
    diameter = {"transit": 0, "stub": 0}
    for (kind, domain), of in vertices.groupby(["kind", "domain"]):
        own = links[is_inside & (links["domain_src"] == domain)]
        diameter[kind] = max(diameter[kind], diameter_of(of["id"], own[["src", "dst"]]))
    top = diameter_of(routers["domain"].unique(), core[["domain_src", "domain_dst"]])
    weights = LinkWeights.of(top, diameter["transit"], diameter["stub"])
    assert set(links[is_inside]["weight"]) <= {weights.intra}
    assert set(core["weight"]) <= {weights.inter_domain}
    assert set(gateways["weight"]) == {weights.transit_stub}

    # a stub lies in a square that reaches its carrier's place
    carrier, gateway = (place[gateways[end]] for end in ("src", "dst"))
    assert (np.abs(carrier - gateway) <= scales.stub).all()


@pytest.mark.parametrize(("seed", "extra"), [(1, 0), (2, 5)])
def test_transit_property(seed, extra):
    """Routes inside a domain stay in it; routes between transit routers stay off the stubs."""
    params = TopologyConfig(
        transit_domains=4,
        transit_size=4,
        stubs_per_transit=2,
        stub_size=5,
        extra_transit_stub=extra,
        extra_stub_stub=extra,
    )
    graph = generate(params, seed)
    everyone = graph.vertices["id"].to_numpy()
    weight = routes(graph, everyone)
    core = graph.vertices.query("kind == 'transit'")["id"].to_numpy()
    assert (routes(graph, core) == weight[np.ix_(core, core)]).all()
    for (kind, _), rows in graph.vertices.groupby(["kind", "domain"]):
        if extra and kind == "stub":  # a stub of two gateways may be crossed by its own traffic
            continue
        inside = rows["id"].to_numpy()
        assert (routes(graph, inside) == weight[np.ix_(inside, inside)]).all()


def test_extra_links():
    params = SMALL.replace(extra_transit_stub=6, extra_stub_stub=7)
    plain, more = labelled(generate(SMALL, 3)), labelled(generate(params, 3))

    def count(links, kinds):
        ends = links["kind_src"] + links["kind_dst"]
        return int(((ends == kinds) & (links["domain_src"] != links["domain_dst"])).sum())

    # coinciding extras are one link; with this seed there are none
    assert count(more, "transitstub") == count(plain, "transitstub") + 6
    assert count(plain, "stubstub") == 0
    assert count(more, "stubstub") == 2 * 7
    # nothing else changes
    keys = ["src", "dst", "delay_ms", "weight"]
    assert len(more.merge(plain, how="inner", on=keys)) == len(plain)


def test_extra_links_need_a_pair():
    one = dict(transit_domains=1, transit_size=1, stubs_per_transit=1, stub_size=3, p_stub=1.0)
    with pytest.raises(InputError, match=r"extra_transit_stub = 1: .*two transit"):
        generate(TopologyConfig(**one, extra_transit_stub=1), 1)
    with pytest.raises(InputError, match=r"extra_stub_stub = 2: .*two stubs"):
        generate(TopologyConfig(**one, extra_stub_stub=2), 1)


def test_a_stub_does_not_depend_on_redraws_of_another(monkeypatch):
    """Burn draws of stub 16 alone: no other router moves, no link elsewhere changes."""
    before = generate(PRESET, 1)
    plain = model._stream

    def burnt(seed, purpose, row=0):
        rng = plain(seed, purpose, row)
        if (purpose, row) == ("stub domain", 16):
            rng.random_raw(55)
        return rng

    monkeypatch.setattr(model, "_stream", burnt)
    after = generate(PRESET, 1)
    moved = (before.vertices[["x", "y"]] != after.vertices[["x", "y"]]).any(axis=1)
    assert before.vertices["domain"][moved].unique().tolist() == [PRESET.transit_domains + 16]


def test_golden_digest_of_the_preset():
    """Changes only when the model is meant to change: published runs name their seed."""
    assert digest(generate(PRESET, 1)) == "c43416f7328b6e39"


def test_preset_against_the_published_numbers():
    graphs = [generate(PRESET, seed) for seed in range(1, 4)]
    delays = [graph.edges["delay_ms"].mean() for graph in graphs]
    assert all(39 <= delay <= 43 for delay in delays)
    assert np.isclose(np.mean([len(graph.edges) for graph in graphs]), 25_294, rtol=0.02)
    assert {len(graph.vertices) for graph in graphs} == {5050}


@pytest.mark.parametrize("field", ["p_top", "p_transit", "p_stub"])
def test_a_hopeless_probability_is_refused(field):
    params = TopologyConfig(
        transit_size=30, stubs_per_transit=3, gtitm_quirk=False, **{field: 1e-4}
    )
    with pytest.raises(
        InputError, match=f"{field} = 0.0001: practically never gives a connected .*raise it to"
    ) as error:
        generate(params, 1)
    assert "\n" not in str(error.value)


# --- the probability that a random graph is connected, against counting all graphs ----------------


def counted(n: int, p: float) -> float:
    """Over all graphs on n routers, each weighted with its probability."""
    pairs = list(combinations(range(n), 2))
    total = 0.0
    for chosen in range(2 ** len(pairs)):
        links = [pair for k, pair in enumerate(pairs) if chosen >> k & 1]
        ends = np.array(links, dtype=int).reshape(-1, 2).T
        graph = coo_array((np.ones(len(links)), (ends[0], ends[1])), shape=(n, n))
        if connected_components(graph, directed=False, return_labels=False) == 1:
            total += p ** len(links) * (1 - p) ** (len(pairs) - len(links))
    return total


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 1.0])
def test_probability_by_counting(p):
    found = connected_probability(np.arange(1, 6), p)
    assert np.allclose(found, [counted(n, p) for n in range(1, 6)])


def test_what_is_proposed_would_do():
    sizes = np.array([700, 650, 30])
    with pytest.raises(InputError, match=r"p_stub = 0\.002") as error:
        check_connectable(sizes, 0.002, "p_stub")
    enough = float(str(error.value).split("raise it to ")[1].split()[0])
    check_connectable(sizes, enough, "p_stub")
    with pytest.raises(InputError):
        check_connectable(sizes, enough * 0.9, "p_stub")


# --- the internet-like graph ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("routers", "links", "kept"),
    [(1, 0, 0), (2, 1, 1), (2, 9, 1), (3, 2, 2), (40, 39, 39), (40, 60, None), (3000, 9001, None)],
)
def test_sizes(routers, links, kept):
    graph = power_law(routers, links, 1)
    check(graph)
    assert graph.vertices["id"].tolist() == list(range(routers))
    assert set(graph.edges["delay_ms"]) | set(graph.edges["weight"]) <= {1.0}
    once = graph.edges[graph.edges["src"] > graph.edges["dst"]]
    assert len(once) * 2 == len(graph.edges)
    assert len(once) == kept if kept is not None else 0.9 * links < len(once) <= links
    # every router but the oldest brings as many links as any other, or one more
    brought = once.groupby("src").size()
    assert len(brought) == routers - 1
    assert brought.max() <= -(-links // (routers - 1)) if len(brought) else True


def test_degrees_follow_a_power_law():
    graph = power_law(50_000, 100_000, 3)
    degree = np.sort(graph.edges.groupby("src").size().to_numpy())[::-1]
    # k**-3: the share of routers with at least k links falls as k**-2
    share = [(degree >= k).mean() for k in (4, 8, 16, 32, 64)]
    slopes = np.diff(np.log2(share))
    assert np.all(np.abs(slopes + 2) < 0.35), slopes
    assert degree[0] > 300
    # the old are the hubs
    assert np.argmax(np.bincount(graph.edges["src"])) < 20


def test_a_seed_makes_it():
    config = RunConfig(topology="power-law", power_law_routers=500, power_law_links=900, seed=4)
    edges = load(config).edges
    assert edges.equals(load(config).edges)
    assert not edges.equals(power_law(500, 900, 5).edges)
    ends = pd.util.hash_pandas_object(edges, index=False).to_numpy()
    assert int(ends.sum(dtype=np.uint64)) == GOLDEN


GOLDEN = 216978844482369432


@pytest.mark.parametrize(
    ("field", "value"),
    [("power_law_routers", 0), ("power_law_routers", 2.0), ("power_law_links", 102_637)],
)
def test_bad_sizes(field, value):
    with pytest.raises(InputError, match=f"{field} = "):
        RunConfig(**{field: value})


def test_large_networks_must_have_links_that_are_all_alike():
    graph = power_law(30, 40, 1)
    check_routable(graph, "delay", 10)
    check_routable(graph, "seeded", 30)
    with pytest.raises(InputError, match=r"tie = 'seeded': must be delay .* more than 29 routers"):
        check_routable(graph, "seeded", 29)
    for name, value in (("weight", 2.0), ("delay_ms", 0.5)):
        graph = power_law(30, 40, 1)
        graph.edges.loc[3, name] = value
        check_routable(graph, "delay", 30)
        with pytest.raises(InputError, match=rf"30 routers; beyond 29 .* {name} goes from"):
            check_routable(graph, "delay", 29)
