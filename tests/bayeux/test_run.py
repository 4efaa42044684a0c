"""Bayeux in a run on Spark: what it hands over, beside the oracle; what is refused."""

from __future__ import annotations

import of_run
import pytest
from oracle.bayeux.publication import publish
from oracle.bayeux.session import Options, Session

from scribe_spark.bayeux.bayeux import build
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments import Simulation
from scribe_spark.experiments.checks import check
from scribe_spark.runtime.batches import Batches

SEVERAL = {"bayeux_hops": "leaf_set", "bayeux_root": "surrogate", "bayeux_partitions": 3}
OPTIONS = [({}, "root"), pytest.param(SEVERAL, "routed", marks=pytest.mark.slow)]


def rows(table, *columns) -> list[tuple]:
    return sorted(map(tuple, Batches.of(table, columns).frame.select(*columns).collect()))


@pytest.mark.parametrize(("options", "source"), OPTIONS, ids=["tree", "partitions"])
def test_what_a_run_hands_over_equals_the_oracle(spark, options, source):
    config = RunConfig(**of_run.SMALL, **options, source=source, systems="bayeux")
    with Simulation(spark, config) as stages:
        case, found, chosen = of_run.case_of(stages), build(stages), config.bayeux
        told = Options(chosen.partitions, chosen.root, chosen.hops)
        edges, deliveries, state, control = [], [], [], []
        for group, key in case.keys.items():
            session = Session(case.overlay, key, told)
            for member in sorted(case.members[group]):
                session.join(member)
            published = publish(session, case.sources[group], source)
            edges += [(group, c.sender, c.receiver) for c in published.copies]
            deliveries += [(group, n, *got[:2]) for n, got in published.deliveries.items()]
            state += [(group, node, n) for node, n in session.state().items()]
            control += [(group, *ends, n) for ends, n in session.messages.items()]
        assert rows(found.deliveries, "group", "node", "hops", "delay_us") == sorted(deliveries)
        if found.tree_edges is not None:
            assert rows(found.tree_edges, "group", "parent", "child") == sorted(edges)
        else:
            copies = found.handed_over("copies")
            assert rows(copies, "group", "sender", "receiver") == sorted(edges)
        kept = found.handed_over("state").frame.groupBy("group", "node").sum("entries")
        assert sorted(map(tuple, kept.collect())) == sorted(state)
        columns = ("group", "sender", "receiver", "kind")
        sent = found.handed_over("control").frame.groupBy(*columns).sum("messages")
        assert sorted(map(tuple, sent.collect())) == sorted(control)
        assert len(deliveries) > 150


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"bayeux_partitions": 0}, "bayeux_partitions = 0"),
        ({"bayeux_partitions": 65}, "bayeux_partitions = 65"),
        ({"bayeux_root": "chord"}, "bayeux_root = 'chord'"),
        ({"bayeux_hops": "leaves"}, "bayeux_hops = 'leaves'"),
        ({"bayeux_recreate": 3}, "bayeux_recreate.*applies to worlds"),
    ],
)
def test_bad_values_are_refused_in_one_line(given, refused):
    with pytest.raises(InputError, match=refused) as error:
        RunConfig(**given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"bayeux_recreate": -1}, "bayeux_recreate = -1"),
        ({"bayeux_partitions": 2}, "bayeux_partitions.*applies to runs"),
        ({"bayeux_root": "surrogate"}, "bayeux_root.*applies to runs"),
    ],
)
def test_worlds_refuse_what_is_of_runs(given, refused):
    with pytest.raises(InputError, match=refused):
        WorldConfig(**given)


@pytest.mark.parametrize("system", ["bayeux", "flooding"])
def test_an_overlay_without_rows_is_refused(system, tmp_path):
    config = RunConfig(**of_run.SMALL | {"overlay": "can"}, systems=system)
    with pytest.raises(InputError, match=f"{system}, which needs Pastry's tables"):
        check(config, Execution(out=str(tmp_path / "out")))
