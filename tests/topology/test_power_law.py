"""The internet-like graph: what its degrees are, that a seed makes it, and its least sizes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import RunConfig
from scribe_spark.errors import InputError
from scribe_spark.topology import check, check_routable, load
from scribe_spark.topology.power_law import generate


@pytest.mark.parametrize(
    ("routers", "links", "kept"),
    [(1, 0, 0), (2, 1, 1), (2, 9, 1), (3, 2, 2), (40, 39, 39), (40, 60, None), (3000, 9001, None)],
)
def test_sizes(routers, links, kept):
    graph = generate(routers, links, 1)
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
    graph = generate(50_000, 100_000, 3)
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
    assert not edges.equals(generate(500, 900, 5).edges)
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
    graph = generate(30, 40, 1)
    check_routable(graph, "delay", 10)
    check_routable(graph, "seeded", 30)
    with pytest.raises(InputError, match=r"tie = 'seeded': must be delay .* more than 29 routers"):
        check_routable(graph, "seeded", 29)
    for name, value in (("weight", 2.0), ("delay_ms", 0.5)):
        graph = generate(30, 40, 1)
        graph.edges.loc[3, name] = value
        check_routable(graph, "delay", 30)
        with pytest.raises(InputError, match=rf"30 routers; beyond 29 .* {name} goes from"):
            check_routable(graph, "delay", 29)
