"""Routes between all pairs of routers, through Spark, and what is told and refused of networks."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import worlds
from oracle.random_cases import random_case

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.topology.graph import Graph, router_frame
from scribe_spark.topology.links import graph_of_links
from scribe_spark.underlay import matrices as all_pairs
from scribe_spark.underlay import routable as module
from scribe_spark.underlay.dijkstra import LinkArrays
from scribe_spark.underlay.matrices import (
    MatrixUnderlay,
    RouteMatrices,
    compute_routes,
    pendant_components,
    route_unit,
    units_of,
    unpack_routes,
)
from scribe_spark.underlay.routable import check_routes, statistics


def check(matrices: RouteMatrices, one: worlds.World) -> None:
    """Against the oracle, router by router."""
    for place, router in enumerate(one.case.routers):
        assert dict(enumerate(matrices.delay_us[place].tolist())) == one.routes.delay[router]
        before = {v: None if p < 0 else p for v, p in enumerate(matrices.pred[place].tolist())}
        assert before == one.routes.pred[router]


def test_units_of_work_in_any_order_make_the_matrices(monkeypatch):
    monkeypatch.setattr(all_pairs, "_BLOCK", 3)
    pendant = 0
    for one in worlds.worlds():
        links = LinkArrays.of(np.array(one.case.routers), worlds.link_frame(one.case), "delay", 1)
        components = pendant_components(links)
        pendant += len(components)
        units = units_of(links, components)
        order = np.random.default_rng(one.case.seed).permutation(len(units))
        rows = [row for number in order for row in route_unit(links, units[number])]
        matrices = unpack_routes(links, components, pa.Table.from_batches(rows))
        assert matrices.delay_us.dtype == np.int32
        assert matrices.pred.dtype == np.int16
        check(matrices, one)
    assert pendant > 200


@pytest.mark.parametrize("few", [0, 10**6], ids=["by tasks", "by the driver"])
@pytest.mark.parametrize("seed", [1, 2, 5])
def test_compute_routes_equal_the_oracle(spark, seed, few, monkeypatch):
    monkeypatch.setattr(all_pairs, "_FEW_UNITS", few)
    one = worlds.worlds()[seed]
    ids = np.array(one.case.routers) * 3 + 7
    links = worlds.link_frame(one.case)
    links = links.assign(src=links["src"] * 3 + 7, dst=links["dst"] * 3 + 7)
    matrices = compute_routes(spark, ids, links, "delay", 1)
    assert matrices.routers.tolist() == ids.tolist()
    check(matrices, one)


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


# --- bulk questions -------------------------------------------------------------------------------


def test_one_router_no_link(spark):
    case = replace(random_case(0), routers=(0,), links={})
    routes = compute_routes(spark, np.array([4]), worlds.link_frame(case), "delay", 1)
    underlay = MatrixUnderlay.of(spark, routes, 0, 1000)
    both = spark.createDataFrame([(4, 4)], "a bigint, b bigint")
    assert underlay.delay(both, "a", "b").first()["delay_us"] == 2000


def test_delay_between_all_routers_of_every_case(spark):
    rows = [
        (one.base + a, one.base + b, one.routes.delay[a][b] + 2 * worlds.LAN_US)
        for one in worlds.worlds()
        for a, b in product(one.case.routers, repeat=2)
    ]
    frame = spark.createDataFrame(rows, "a bigint, b bigint, expected bigint").repartition(3)
    timed = worlds.underlay(spark).delay(frame, "a", "b", "d")
    assert timed.columns == ["a", "b", "expected", "d"]
    assert timed.where("d = expected").count() == len(rows)


def test_losses_of_routes_are_handed_out(spark):
    one = worlds.worlds()[2]
    ids, links = np.array(one.case.routers), worlds.link_frame(one.case)
    routes = compute_routes(spark, ids, links, "delay", 1)
    loss = np.random.default_rng(1).random((len(ids), len(ids)))
    underlay = MatrixUnderlay.of(spark, routes, len(links), 500, loss)
    a = np.arange(len(ids))
    b = a[::-1]
    assert np.array_equal(underlay.kernel.losses(a, b), loss[a, b])
    underlay.release()
    assert MatrixUnderlay.of(spark, routes, len(links), 500).kernel.losses(a, b) is None


# --- the command topology -------------------------------------------------------------------------


def graph_of(one: worlds.World) -> Graph:
    return Graph(router_frame(one.case.routers), worlds.link_frame(one.case))


def test_means_over_all_ordered_pairs():
    for one in worlds.worlds()[:60]:
        pairs = [(a, b) for a in one.case.routers for b in one.case.routers if a != b]
        delay = sum(one.routes.delay[a][b] for a, b in pairs) / max(1, len(pairs)) / 1000
        hops = sum(len(one.routes.path_links(a, b)) for a, b in pairs) / max(1, len(pairs))
        told = statistics(graph_of(one), "delay", 1)
        assert told["routers"] == f"{len(one.case.routers):,}"
        assert told["links (directed)"] == f"{len(one.case.links):,}"
        assert told["mean route delay"] == f"{delay:.2f} ms"
        assert told["mean route hops"] == f"{hops:.2f}"


def test_a_large_network_is_sampled(monkeypatch):
    one = worlds.worlds()[3]
    monkeypatch.setattr(module, "MOST_ROUTERS", 2)
    monkeypatch.setattr(module, "_SAMPLE", 2)
    told = statistics(graph_of(one), "delay", 1)
    assert told["mean route hops"].endswith("(from 2 sampled routers)")


# --- networks whose routes take too long ----------------------------------------------------------


#: A route must take less than this.
MOST_MS = 2_147_483.647


def line(routers: int, delay_ms: float) -> Graph:
    """A line of routers."""
    ends = {"src": np.arange(routers - 1), "dst": np.arange(1, routers)}
    return graph_of_links(None, pd.DataFrame({**ends, "delay_ms": delay_ms}), "line.csv")


@pytest.mark.parametrize("most", [10_000, 5], ids=["matrices", "searches"])
@pytest.mark.parametrize("routers", [4, 300])
def test_a_line_may_be_as_long_as_a_delay_has_bits(routers, most):
    longest = MOST_MS / (routers - 1)
    check_routes(line(routers, np.floor(longest * 1000 - 1) / 1000), "delay", 1, most)
    with pytest.raises(InputError) as refused:
        check_routes(line(routers, np.ceil(longest * 1000 + 1) / 1000), "delay", 1, most)
    assert str(refused.value).startswith("delay_ms = '2147484 or more from router ")
    assert str(refused.value).endswith(": a route must take less than 2147484 ms")


def test_runs_and_worlds_are_refused_before_spark_starts(tmp_path):
    """There is no session in this test, and none is started."""
    path = str(tmp_path / "far.csv")
    line(4, 800_000.0).edges.to_csv(path, index=False)
    how = Execution(out=str(tmp_path / "out"))
    said = "a route must take less than 2147484 ms"
    with pytest.raises(InputError, match=said):
        experiments.check(RunConfig(nodes=10, groups=2, group_size=2, topology=path), how)
    with pytest.raises(InputError, match=said):
        experiments.check_world_run(WorldConfig(nodes=10, topology=path), how)
