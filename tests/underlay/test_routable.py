"""Networks that are refused before Spark starts: their routes take too long."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments import check, check_world_run
from scribe_spark.topology import Graph
from scribe_spark.topology.links import graph_of_links
from scribe_spark.underlay.routable import check_routes, statistics

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


def test_a_ring_is_as_long_as_half_of_it():
    ends = {"src": np.arange(100), "dst": np.roll(np.arange(100), -1)}
    for delay_ms, fits in ((MOST_MS / 50 - 1, True), (MOST_MS / 50 + 1, False)):
        ring = graph_of_links(None, pd.DataFrame({**ends, "delay_ms": delay_ms}), "ring")
        for most in (10_000, 50):
            if fits:
                check_routes(ring, "delay", 1, most)
            else:
                with pytest.raises(InputError, match="a route must take less than 2147484 ms"):
                    check_routes(ring, "delay", 1, most)


def test_runs_and_worlds_are_refused_before_spark_starts(tmp_path):
    """There is no session in this test, and none is started."""
    path = str(tmp_path / "far.csv")
    line(4, 800_000.0).edges.to_csv(path, index=False)
    how = Execution(out=str(tmp_path / "out"))
    said = "a route must take less than 2147484 ms"
    with pytest.raises(InputError, match=said):
        check(RunConfig(nodes=10, groups=2, group_size=2, topology=path), how)
    with pytest.raises(InputError, match=said):
        check_world_run(WorldConfig(nodes=10, topology=path), how)


def test_the_mean_delay_of_a_network_with_long_routes_is_right():
    """Not cut off at what a matrix holds: of a line of 4 the distances are 1, 1, 1, 2, 2, 3."""
    told = statistics(line(4, 900_000.0), "delay", 1)
    assert told["mean route delay"] == f"{900_000 * 10 / 6:.2f} ms"
