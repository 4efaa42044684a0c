"""Flooding over Pastry in a run on Spark: what it hands over, beside the oracle."""

from __future__ import annotations

import of_run
import pytest
from oracle.flooding.flood import announcements, deliveries, flood, ring_of, state

from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments import Simulation
from scribe_spark.experiments.checks import check
from scribe_spark.flooding.flooding import build
from scribe_spark.runtime.batches import Batches


def rows(table, *columns) -> list[tuple]:
    return sorted(map(tuple, Batches.of(table, columns).frame.select(*columns).collect()))


@pytest.mark.parametrize("over", ["group", pytest.param("overlay", marks=pytest.mark.slow)])
def test_what_a_run_hands_over_equals_the_oracle(spark, over):
    config = RunConfig(**of_run.SMALL, flooding_over=over, systems="flooding")
    with Simulation(spark, config) as stages:
        case, found = of_run.case_of(stages), build(stages)
        edges, delivered, kept, told = [], [], [], []
        for group, source in case.sources.items():
            members = case.members[group]
            ring = ring_of(case.overlay, members, source) if over == "group" else case.overlay
            copies = flood(ring, source)
            edges += [(group, c.sender, c.receiver) for c in copies]
            got = deliveries(copies, members, source)
            delivered += [(group, node, *one[:2]) for node, one in got.items()]
            if over == "group":
                kept += [(group, *of, entries) for of, entries in state(ring).items()]
                told += [(group, *ends, n) for ends, n in announcements(ring).items()]
        if over == "overlay":
            kept = [(None, *of, entries) for of, entries in state(case.overlay).items()]
        assert rows(found.tree_edges, "group", "parent", "child") == sorted(edges)
        assert rows(found.deliveries, "group", "node", "hops", "delay_us") == sorted(delivered)
        state_rows = rows(found.handed_over("state"), "group", "node", "kind", "entries")
        assert state_rows == sorted(kept)
        if over == "group":
            columns = ("group", "sender", "receiver", "kind", "messages")
            assert rows(found.handed_over("control"), *columns) == sorted(told)
        assert len(delivered) > 150


def test_too_many_copies_are_refused(tmp_path):
    config = RunConfig(nodes=100_000, groups=1_500, systems="flooding", flooding_over="overlay")
    with pytest.raises(InputError, match=r"flooding_over = 'overlay'.*150,000,000 copies"):
        check(config, Execution(out=str(tmp_path / "out")))


def test_bad_values_are_refused_in_one_line():
    with pytest.raises(InputError, match="flooding_over = 'all'"):
        RunConfig(flooding_over="all")
