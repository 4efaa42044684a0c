"""What a system leaves in tables, and a variant hands over, is checked row by row.

A row of a table of this file is a fault; each fault is of a system of its own, so that one job
finds all of them.
"""

import re
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import experiments
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import phases
from scribe_spark.experiments.system_rows import (
    Known,
    check_rows,
    checked_variant,
    pair_faults,
    row_faults,
)
from scribe_spark.measures.joins_and_failures import FAILURES
from scribe_spark.measures.measure import RunTables
from scribe_spark.multicast import Multicast
from scribe_spark.schemas import WRITTEN, local_table
from scribe_spark.systems.registry import (
    TREE,
    System,
    all_systems,
)
from scribe_spark.systems.scribe.variants import Variant

Cells = dict[str, Any]

#: Group 1 of members 1, 2, 3 and source 0; group 2 of members 0, 1 and 4, which is the source;
#: group 3, to which nobody multicasts.  Node n is at router 10 + n.
MEMBERS = [(1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 4), (3, 1)]
GROUPS = [(1, 0, 0), (2, 4, 4), (3, 2, None)]


def edge(group: int, parent: int, child: int, **other: Any) -> Cells:
    return {
        **{"group": group, "parent": parent, "child": child, "parent_router": 10 + parent},
        **{"child_router": 10 + child, "merged": False, **other},
    }


def copy(group: int, sender: int, receiver: int, hop: int, first: bool, **other: Any) -> Cells:
    ends = {"sender": sender, "receiver": receiver, "sender_router": 10 + sender}
    ends |= {"receiver_router": 10 + receiver, "kind": "payload"}
    return {"group": group, **ends, "hop": hop, "sent_ms": 1.5 * (hop - 1), "first": first, **other}


def delivery(group: int, node: int, hops: int, **other: Any) -> Cells:
    return {"group": group, "node": node, "hops": hops, "delay_ms": 1.5 * hops, **other}


#: What the tree `Multicast("tree", ...)` and the mesh have as they should.
TREE_EDGES = [edge(1, 0, 1), edge(1, 1, 2), edge(1, 1, 3), edge(2, 4, 0), edge(2, 0, 1)]
COPIES = [
    *(copy(1, 0, 1, 1, True), copy(1, 1, 2, 2, True), copy(1, 2, 1, 3, False)),
    *(copy(1, 1, 3, 2, True), copy(2, 4, 0, 1, True), copy(2, 0, 1, 2, True)),
    *(copy(2, 1, 4, 3, False), copy(2, 3, 2, 1, False, kind="IHAVE")),
]
DELIVERIES = [delivery(*of) for of in ((1, 1, 1), (1, 2, 2), (1, 3, 2), (2, 0, 1), (2, 1, 2))]
GOOD = {"tree_edges": TREE_EDGES, "deliveries": DELIVERIES, "copies": COPIES}

#: Table, the change to its first row, and what is said of it.
CHANGES = [
    ("tree_edges", {"child": 0, "child_router": 10}, "column child: {}: the same node as parent"),
    ("tree_edges", {"parent": 2, "parent_router": 12, "merged": True},
     "column parent: {}: not the source, though routers duplicate (merged)"),
    ("deliveries", {"hops": 0}, "column hops: row group 1, node 1, hops 0, delay_us 1500: less"),
    ("deliveries", {"delay_ms": -0.001}, "column delay_us: {}: less than 0"),
    ("copies", {"sent_ms": -2.0}, "copies with a fault in column sent_us: {}: less than 0"),
    ("copies", {"sent_ms": None},
     "column sent_us: {}: NULL; only copies by the clock of hops have no time"),
]  # fmt: skip


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> Known:
    def table(rows: list, columns: str) -> DataFrame:
        return spark.createDataFrame(rows, columns).coalesce(1)

    return Known(
        nodes=table([(node, 10 + node) for node in range(5)], "node bigint, router bigint"),
        groups=table(GROUPS, "group bigint, root bigint, source bigint"),
        members=table(MEMBERS, "group bigint, node bigint"),
    )


def saved(spark: SparkSession, name: str, rows_of: dict[str, list[Cells]]) -> DataFrame:
    """A table of a run with the rows of some systems."""
    rows = [{**row, "system": system} for system, rows in rows_of.items() for row in rows]
    frame = pd.DataFrame(rows, columns=WRITTEN[name].names, dtype=object)
    return local_table(spark, frame, WRITTEN[name])


@pytest.mark.parametrize("name", GOOD)
def test_a_row_that_cannot_be_is_found(spark, known, name):
    """And nothing is said of rows as they should be."""
    cases = {f"case_{n}": case for n, case in enumerate(CHANGES) if case[0] == name}
    rows_of = {
        system: [GOOD[name][0] | change, *GOOD[name][1:]]
        for system, (_, change, _) in cases.items()
    }
    by_hops = [row | {"sent_ms": None} if name == "copies" else row for row in GOOD[name]]
    good = {"good": GOOD[name], "hops": by_hops}
    found = row_faults(name, saved(spark, name, rows_of | good), known, ["hops"])
    assert found.keys() == cases.keys()
    for system, (_, _, words) in cases.items():
        said = str(found[system])
        assert said.startswith(f"systems = '{system}': hands over ")
        assert re.search(re.escape(words).replace(re.escape("{}"), "row .*"), said), said
        assert "\n" not in said


#: Changes to the rows of a tree and of a mesh, and what is said of them.
PAIRS: dict[str, tuple[dict[str, list[Cells]], str]] = {
    "twice": ({"deliveries": [*DELIVERIES, *DELIVERIES]},
              "column node: group 1, node 1: this member has 2 rows; give one"),
    "strangers": ({"deliveries": [*DELIVERIES, delivery(1, 4, 1)]},
                  "column node: group 1, node 4: this is no member of the group, or the group"),
    "of_no_source": ({"deliveries": [*DELIVERIES, delivery(3, 1, 1)]},
                     "column node: group 3, node 1: this is no member of the group, or the group"),
    "to_source": ({"deliveries": [*DELIVERIES, delivery(2, 4, 1)]},
                  "column node: group 2, node 4: this is the source, which gets no copy"),
    "children": ({"tree_edges": [*TREE_EDGES, edge(1, 0, 3)]},
                 "tree_edges with a fault in column child: group 1, node 3: this child has 2 rows"),
    "no_edge": ({"tree_edges": TREE_EDGES[:-1]},
                "column child: group 2, node 1: this node has a delivery, but no copy"),
    "orphans": ({"tree_edges": [*TREE_EDGES, edge(2, 3, 2)]},
                "column parent: group 2, node 3: this node sends, but gets no copy, and is"),
}  # fmt: skip
MESHES: dict[str, tuple[dict[str, list[Cells]], str]] = {
    "no_copy": ({"copies": COPIES[:5]},
                "copies with a fault in column receiver: group 2, node 1: this node has a del"),
    "no_first": ({"copies": [COPIES[0] | {"first": False}, *COPIES[1:]]},
                 "column first: group 1, node 1: 0 copies to this node are marked as its first"),
    "two_firsts": ({"copies": [*COPIES[:2], COPIES[2] | {"first": True}, *COPIES[3:]]},
                   "column first: group 1, node 1: 2 copies to this node are marked as its first"),
    "first_at_source": ({"copies": [*COPIES[:6], COPIES[6] | {"first": True}, COPIES[7]]},
                        "column first: group 2, node 4: a copy to the source is marked"),
    "from_nowhere": ({"copies": [*COPIES, copy(1, 4, 1, 1, False)]},
                     "column sender: group 1, node 4: this node sends, but gets no copy"),
}  # fmt: skip


def handed(system: str, mesh: bool) -> Multicast:
    """What a system has said; its rows are saved ones."""
    made: dict[str, Any] = {"copies" if mesh else "tree_edges": lambda: None}
    return Multicast(system, made.pop("tree_edges", None), lambda: None, **made)


def test_who_gets_too_much_or_nothing_is_found(spark, known):
    cases = PAIRS | MESHES
    good = {"tree": GOOD, "mesh": GOOD, "none": {"deliveries": [], "tree_edges": []}}
    good |= {"half": {"deliveries": DELIVERIES[:2] + DELIVERIES[3:]}}
    changes = {system: change for system, (change, _) in cases.items()} | good
    meshes = {*MESHES, "mesh"}
    made = [handed(system, system in meshes) for system in changes]
    rows = {
        name: saved(
            spark, name,
            {system: change.get(name, GOOD[name]) for system, change in changes.items()
             if name == "deliveries" or (name == "copies") == (system in meshes)},
        )
        for name in ("tree_edges", "deliveries", "copies")
    }  # fmt: skip
    found = pair_faults(made, rows, known)
    assert found.keys() == cases.keys()
    for system, (_, words) in cases.items():
        assert words in str(found[system]), found[system]
    # the first of them ends the run
    with pytest.raises(InputError, match="systems = 'children': hands over tree_edges"):
        check_rows(dict.fromkeys(cases, "time"), made, rows, known)


# --- variants and costs of failures

EDGE_COLUMNS = (
    "group bigint, parent bigint, child bigint, parent_router bigint, child_router bigint"
)


def without(columns: str, name: str) -> str:
    return ", ".join(c for c in columns.split(", ") if c.split()[0] != name)


def test_a_variant_is_checked_before_messages_are_sent_along_it(spark, known):
    def edges(*rows: tuple) -> DataFrame:
        return spark.createDataFrame(list(rows), EDGE_COLUMNS)

    good = edges((1, 0, 1, 10, 11))
    assert checked_variant("mine", Variant(good), known).edges.collect() == good.collect()
    for built, words in (
        (good, "trees returns a DataFrame; return a Variant"),
        (Variant(good.drop("child")), "hands over edges with no column child; it needs group, pa"),
        (Variant(good.select("*", "child")), "hands over edges with several columns child"),
        (Variant(good.withColumn("child", F.lit(1.5))), "column child of type .*; cast it to big"),
        (Variant(edges((None, 0, 1, 10, 11))), "column group: row .*: NULL, or out of the range"),
        (Variant(edges((9, 0, 1, 10, 11))), "column group: row .*: no group of the run"),
        (Variant(edges((1, 0, 8, 10, 11))), "column child: row .*: no node of the run"),
        (Variant(edges((1, 0, 1, 10, 12))), "column child_router: row .*: not the router of child"),
        (Variant(good, joins=good), "hands over joins with no column probes"),
        (Variant(good, good.withColumn("probes", -F.col("child"))), "column probes: row .*: less"),
        (Variant(good, overloaded=-1), "hands over overloaded = -1; give a number of nodes"),
    ):
        with pytest.raises(InputError, match=f"systems = 'mine': .*{words}"):
            checked_variant("mine", built, known)


def test_costs_of_failures_are_checked(spark):
    """They are measured of a system that is told beside another one."""
    columns = "depth bigint, failures bigint, links bigint, acting bigint, messages bigint"

    def collected(rows: list[tuple], columns: str = columns) -> dict[int, tuple]:
        table = spark.createDataFrame(rows, columns)
        mine = System("mine", "Mine", TREE, lambda stages: None, failures_beside="scribe",
                      failure_costs=lambda run: table)  # fmt: skip
        return FAILURES.collect(RunTables({}, (mine,), nodes=5, b=4))["mine"]

    assert collected([(0, 1, 2, 3, 4)]) == {0: (1, 2, 3, 4)}
    with pytest.raises(
        InputError, match=r"'mine': hands over failure_costs with a fault in col.* links"
    ):
        collected([(0, 1, -2, 3, 4)])
    with pytest.raises(InputError, match=r"column acting: row depth 0, .*, acting None, m"):
        collected([(0, 1, 2, None, 4)])
    with pytest.raises(InputError, match="hands over failure_costs with no column messages"):
        collected([], without(columns, "messages"))


# --- in runs


MEMBERS_SEND = {"source": "direct", "bayeux_partitions": 3, "can_clock": "hops"}


@pytest.mark.parametrize(
    "changes",
    [
        {"systems": "scribe,ip_multicast,gossipsub"},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param(MEMBERS_SEND, marks=pytest.mark.slow),
    ],
)
def test_the_packages_own_systems_hand_over_what_they_should(make, monkeypatch, changes):
    """Runs trust them: here their rows are checked as those of a user's."""
    checked = []
    monkeypatch.setattr(phases, "is_built_in", lambda system: checked.append(system.name))
    every = ",".join(system.name for system in all_systems())
    size = {"nodes": 30, "groups": 3, "gossipsub_heartbeats": 2, "systems": every} | changes
    make(phases=experiments.PHASES[:3], engine="tasks", partitions=1, **size)
    assert sorted(checked) == sorted(size["systems"].split(","))
