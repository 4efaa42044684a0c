"""Arrivals on Spark, wave by wave, beside the oracle."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from arriving import Arrivals, arrivals, as_snapshot, oracle_snapshot
from oracle.living.arrival import arrive, latest_of_nearest, nearest_live
from oracle.living.world import Snapshot, differences

from scribe_spark.config import RunConfig
from scribe_spark.core import draws
from scribe_spark.engine.on_spark import read_rows
from scribe_spark.overlays import build_overlay
from scribe_spark.pastry import overlay as arrivals_overlay
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.states import Kind, States
from scribe_spark.pastry.waves import WavePlan
from scribe_spark.underlay.matrices import MatrixUnderlay, RouteMatrices, pendant_exits

PARTS = ("live", "leaf_sets", "sides", "cells", "counts")

#: Waves of 1, 7 and the other nodes; those after the first are supersteps.
RULES = {
    "growth": 8,
    "b": 2,
    "leaf_set": 4,
    "contact": "random",
    "introduce": True,
    "maintenance": 1,
}


def underlay(spark, case: Arrivals) -> MatrixUnderlay:
    delay_us = case.kernel.delay_us
    routers, exits = case.kernel.routers, pendant_exits(len(delay_us), [])
    routes = RouteMatrices(routers, delay_us, np.full_like(delay_us, -1), exits)
    return MatrixUnderlay.of(spark, routes, 0, 1000)


def node_table(case: Arrivals) -> pa.Table:
    known, order = case.known, np.argsort(case.known.node)
    hi, lo = known.hi.view(np.int64), known.lo.view(np.int64)
    columns = {"node": known.node, "id_hi": hi, "id_lo": lo, "router": known.router}
    return pa.table({name: values[order] for name, values in columns.items()})


def with_plan(case: Arrivals, plan: WavePlan) -> Arrivals:
    """The case with the waves that were drawn, and the bits that contacts are drawn by."""
    by_number = np.argsort(case.known.node)
    case = replace(case, wave=plan.wave[by_number], rank=plan.rank[by_number])
    bits = draws.bits_np(case.seed, "contact", np.arange(len(case.known)))
    case.__dict__["contact_bits"] = bits
    return case


def snapshot_of(overlay: PastryOverlay, known) -> Snapshot:
    """What the nodes of an overlay know, and the messages of its arrivals, as the oracle writes."""
    rows = read_rows(overlay.known[0].toArrow().to_batches())
    tables: dict = {"leaves": [], "cells": []}
    for row in sorted(rows, key=lambda row: row.bucket):
        for name, column in row.read().items():
            tables[name].append(column)
    leaves, cells = (np.concatenate(parts) for parts in tables.values())
    everybody = np.arange(len(known))
    sent = {row["kind"]: row["messages"] for row in overlay.arrival_messages().to_pylist()}
    messages = np.array([sent[kind.value] for kind in Kind])
    return as_snapshot(States(known, everybody, leaves, cells), everybody, messages)


def planned(spark, case: Arrivals) -> tuple[Arrivals, WavePlan, MatrixUnderlay]:
    """A case whose three waves are those of the kernels' plan; its plan and its network."""
    routes = underlay(spark, case)
    plan = WavePlan.of(case.known, case.rules, case.seed, routes.kernel, len(case.known))
    assert np.bincount(plan.wave).tolist() == [1, 7, len(case.idents) - 8]
    return with_plan(case, plan), plan, routes


@pytest.mark.parametrize(
    ("kept", "in_tasks", "changed", "kind"),
    [
        (10, False, {"contact": "discovered"}, "probe"),
        (100, False, {}, "join"),
        (1, True, {}, "join"),
    ],
)
def test_states_and_messages_are_the_oracles(spark, monkeypatch, kept, in_tasks, changed, kind):
    monkeypatch.setattr(arrivals_overlay, "_KEPT", kept)
    case, _, routes = planned(spark, arrivals(1000, most=40, **RULES | changed))
    nodes = spark.createDataFrame(node_table(case)).repartition(3)
    oracle = case.oracle()
    for wave in range(3):
        arrive(oracle, case.arriving(wave))
    grown = arrivals_overlay.arrivals(nodes, routes, case.rules, case.seed, in_tasks=in_tasks)
    assert differences(snapshot_of(grown, case.known), oracle_snapshot(oracle), PARTS) == []
    assert sum(oracle.counts.values()) > 5 * len(case.idents)
    assert oracle.counts[kind] >= len(case.idents) - 1
    grown.release()
    routes.release()


def test_the_overlay_that_a_config_names_has_the_rings_leaf_sets(spark):
    case = arrivals(1001, most=40)
    routes, nodes = underlay(spark, case), spark.createDataFrame(node_table(case))
    leaf_sets = []
    for kind in ("perfect", "arrivals"):
        config = RunConfig(overlay=kind, nodes=len(case.idents), b=2, leaf_set=8).overlay
        overlay = build_overlay(nodes, routes, config, seed=5)
        rows = overlay.knowledge.select("node", "smaller", "covers_ring", "leaf_set.entry")
        leaf_sets.append(sorted(rows.collect()))
        assert [overlay.routing_table().count()] == overlay.table_entries()["entries"].to_pylist()
        overlay.release()
    assert leaf_sets[0] == leaf_sets[1]
    routes.release()


def test_of_equally_near_nodes_the_latest_is_asked(spark):
    case = arrivals(1003, most=40, **RULES | {"contact": "latest", "maintenance": 0})
    case, plan, routes = planned(spark, case)
    asked = dict(zip(case.known.node, case.known.node[plan.contact], strict=True))
    overlay, others = case.oracle(), 0
    for wave in range(3):
        for node in case.arriving(wave) if wave else []:
            assert asked[node] == latest_of_nearest(overlay, node)
            others += asked[node] != nearest_live(overlay, node)
        arrive(overlay, case.arriving(wave))
    assert others > 0  # else the smallest nodeId would do
    routes.release()
