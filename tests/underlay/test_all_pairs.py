"""Routes between all pairs of routers, against the oracle."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import worlds

from scribe_spark.config import TopologyConfig
from scribe_spark.errors import InputError
from scribe_spark.topology import transit_stub
from scribe_spark.underlay import matrices as module
from scribe_spark.underlay.dijkstra import LinkArrays
from scribe_spark.underlay.matrices import (
    RouteMatrices,
    compute_routes,
    route_unit,
    units,
    unpack_routes,
)
from scribe_spark.underlay.pendant import pendant_components


def check(matrices: RouteMatrices, one: worlds.World) -> None:
    """Against the oracle, router by router."""
    for place, router in enumerate(one.case.routers):
        assert dict(enumerate(matrices.delay_us[place].tolist())) == one.routes.delay[router]
        before = {v: None if p < 0 else p for v, p in enumerate(matrices.pred[place].tolist())}
        assert before == one.routes.pred[router]


def test_units_of_work_in_any_order_make_the_matrices(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)
    pendant = 0
    for one in worlds.worlds():
        links = LinkArrays.of(np.array(one.case.routers), worlds.link_frame(one.case), "delay", 1)
        components = pendant_components(links)
        pendant += len(components)
        n = units(links, components)
        order = np.random.default_rng(one.case.seed).permutation(n)
        rows = [row for unit in order for row in route_unit(links, components, unit)]
        matrices = unpack_routes(links, components, pa.Table.from_batches(rows))
        assert matrices.delay_us.dtype == np.int32
        assert matrices.pred.dtype == np.int16
        check(matrices, one)
    assert pendant > 200


@pytest.mark.parametrize("few", [0, 10**6], ids=["by tasks", "by the driver"])
@pytest.mark.parametrize("seed", [1, 2, 5])
def test_compute_routes_equal_the_oracle(spark, seed, few, monkeypatch):
    monkeypatch.setattr(module, "_FEW_UNITS", few)
    one = worlds.worlds()[seed]
    ids = np.array(one.case.routers) * 3 + 7
    links = worlds.link_frame(one.case)
    links = links.assign(src=links["src"] * 3 + 7, dst=links["dst"] * 3 + 7)
    matrices = compute_routes(spark, ids, links, "delay", 1)
    assert matrices.routers.tolist() == ids.tolist()
    check(matrices, one)


def test_unpacking_takes_little_more_memory_than_the_matrices():
    """Blocks are unpacked one after the other."""
    graph = transit_stub.generate(TopologyConfig(transit_domains=4), 1)
    links = LinkArrays.of(graph.vertices["id"].to_numpy(), graph.edges, "delay", 1)
    components = pendant_components(links)
    rows = [r for n in range(units(links, components)) for r in route_unit(links, components, n)]
    blocks = pa.Table.from_batches(rows)
    tracemalloc.start()
    try:
        matrices = unpack_routes(links, components, blocks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * (matrices.delay_us.nbytes + matrices.pred.nbytes)


@pytest.mark.parametrize("chain", [2, 3, 40])
def test_a_route_too_long_for_the_matrices_is_refused(spark, chain):
    """In one hop or in several, of the core's routers or through a gateway."""
    ids = np.arange(chain) + 5
    ends = pd.DataFrame({"src": [*ids[:-1], *ids[1:]], "dst": [*ids[1:], *ids[:-1]]})
    each = 2_147_483.647 / (chain - 1)
    for delay_ms, refused in ((each + 0.001, True), (each - 0.001, False)):
        links = ends.assign(delay_ms=delay_ms, weight=1.0)
        if refused:
            said = f"delay_ms = '2147484 or more from router 5 to router {ids[-1]}': a route must"
            with pytest.raises(InputError, match=re.escape(said)):
                compute_routes(spark, ids, links, "delay", 1)
        else:
            compute_routes(spark, ids, links, "delay", 1)
