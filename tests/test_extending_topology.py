"""A topology of one's own, added from outside the package as the guide says."""

import pytest
from extending import run_example

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.topology.registry import load, unregister_topology


@pytest.fixture(scope="module", autouse=True)
def ring():
    run_example("ring_topology")
    yield
    unregister_topology("ring")


def test_the_ring_is_a_topology_like_any_other():
    graph = load(RunConfig(topology="ring:100"))
    assert len(graph.vertices) == 100
    assert len(graph.edges) == 200
    assert graph.edges["delay_ms"].between(1, 10).all()
    assert load(RunConfig(topology="ring:100")).edges.equals(graph.edges)
    assert not load(RunConfig(topology="ring:100", seed=2)).edges.equals(graph.edges)


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match=r"topology = .ring:2.: give ring:3 to ring:10000"):
        load(RunConfig(topology="ring:2"))
    with pytest.raises(InputError, match=r"does not exist; give .*, ring:ROUTERS, or the path of "):
        load(RunConfig(topology="ring"))
