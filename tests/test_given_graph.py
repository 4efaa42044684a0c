"""A graph that the caller has in hand, as a config keeps it."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import RunConfig, TopologyConfig
from scribe_spark.config import given_graph as module
from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.core.errors import InputError
from scribe_spark.topology.registry import load

EDGES = pd.DataFrame({"src": [0, 1], "dst": [1, 2], "delay_ms": [1.5, 2.0], "name": ["a", "b"]})
VERTICES = pd.DataFrame({"id": [0, 1, 2], "kind": ["x", None, "y"]})


def test_a_config_takes_a_graph_wherever_it_takes_a_name():
    pair = (VERTICES, EDGES)
    config = RunConfig(topology=pair, nodes=5)
    given = config.topology.kind
    assert isinstance(given, GivenGraph)
    assert list(given.edges) == ["src", "dst", "delay_ms"]
    others = [
        RunConfig(topology={"kind": SimpleNamespace(vertices=VERTICES, edges=EDGES)}, nodes=5),
        RunConfig(topology=TopologyConfig(kind=pair), nodes=5),
        RunConfig(nodes=7, topology=given).replace(nodes=5),
        RunConfig.of({"topology.kind": pair}, {"nodes": 5}),
    ]
    assert all(other == config and hash(other) == hash(config) for other in others)
    graph = load(config)
    assert graph.vertices["id"].tolist() == [0, 1, 2]
    assert len(graph.edges) == 4


def test_the_flat_value_is_a_digest_that_names_no_file():
    config = RunConfig(topology=(None, EDGES))
    text = config.flat()["topology"]
    assert text == f"graph:{config.topology.kind.digest[:16]}" == str(config.topology.kind)
    with pytest.raises(InputError, match=f"topology = '{text}': stands for a graph .* in Python"):
        load(RunConfig(topology=text))
    assert text in repr(config)


def test_the_digest_is_that_of_the_content():
    digest = GivenGraph.of((VERTICES, EDGES)).digest
    same = [
        (VERTICES, EDGES.sample(frac=1, random_state=1)),
        (VERTICES[["kind", "id"]].iloc[::-1], EDGES.drop(columns="name")),
        (VERTICES.assign(x=np.nan, domain=None), EDGES.astype({"src": float, "dst": "Int32"})),
        (VERTICES.astype({"kind": "string"}), EDGES),
    ]
    assert {GivenGraph.of(pair).digest for pair in same} == {digest}
    assert digest[:16] == "174edb3893554cec"  # a run is resumed by it
    ids = GivenGraph.of((VERTICES[["id"]].astype("int32"), EDGES))
    assert ids.digest == GivenGraph.of((None, EDGES)).digest
    others = [
        (None, EDGES),
        (VERTICES, EDGES.assign(delay_ms=[1.5, 2.1])),
        (VERTICES, EDGES.assign(src=[1, 0], dst=[2, 1])),
        (VERTICES, EDGES.assign(weight=1.0)),
        (VERTICES.assign(kind=["x", "y", None]), EDGES),
        (VERTICES.assign(x=[0.5, np.nan, 1]), EDGES),
        (VERTICES, EDGES.iloc[[0, 1, 1]]),
    ]
    assert len({digest, *(GivenGraph.of(pair).digest for pair in others)}) == 8


@pytest.mark.parametrize("graph", [object(), (1, 2), (VERTICES,), (VERTICES, EDGES, EDGES), [], 7])
def test_what_is_no_graph(graph):
    with pytest.raises(InputError) as error:
        RunConfig(topology=graph)
    assert str(error.value).startswith("topology = ")
    assert "\n" not in str(error.value)


def test_refused_rows_and_columns(monkeypatch):
    twice = pd.DataFrame([[0, 1, 1.0, 2.0]], columns=["src", "dst", "delay_ms", "delay_ms"])
    with pytest.raises(InputError, match="column 'delay_ms' twice"):
        RunConfig(topology=(None, twice))
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    with pytest.raises(InputError, match="more than 2 rows"):
        RunConfig(topology=(VERTICES, EDGES))


def test_texts_as_ids_are_refused():
    named = pd.DataFrame({"src": ["7", "b"], "dst": ["1", "c"], "delay_ms": 1.0})
    for pair in ((None, named), (VERTICES.assign(id=["a", "b", "c"]), EDGES)):
        with pytest.raises(InputError, match="must be a whole number: row "):
            load(RunConfig(topology=pair))
    assert len(load(RunConfig(topology=(None, named.iloc[:1]))).vertices) == 2
