"""The smallest, the largest and the oddest that a config allows, from drawing to report."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from scribe_spark.experiments import Run

from .conftest import ROOT

pytestmark = pytest.mark.slow

SYSTEMS = ["ip_multicast", "naive_unicast", "scribe"]


def tables(run: Run, *names: str) -> list[pd.DataFrame]:
    return [run.table(name).toPandas() for name in names]


def check_deliveries(run: Run, senders: str = "root") -> None:
    """By every system every member but the source hears the message, once."""
    groups, members, heard = tables(run, "groups", "members", "deliveries")
    expected = set(zip(members["group"], members["node"], strict=True))
    root = dict(zip(groups["group"], groups["root"], strict=True))
    for system in SYSTEMS:
        of = heard[heard["system"] == system]
        got = list(zip(of["group"], of["node"], strict=True))
        assert len(got) == len(set(got))
        silent = expected - set(got)
        assert set(got) <= expected
        if senders == "root":
            assert silent == {(g, n) for g, n in expected if root[g] == n}
        else:  # exactly one member of each group is the source
            assert sorted(g for g, _ in silent) == sorted({g for g, _ in expected})
    # the source of a group is the same node for all
    sources = [
        expected - set(zip(of["group"], of["node"], strict=True))
        for _, of in heard.groupby("system")
    ]
    assert all(source == sources[0] for source in sources)


def check_trees(run: Run) -> None:
    """One root, one parent a child, no loop."""
    groups, edges = tables(run, "groups", "tree_edges")
    root = dict(zip(groups["group"], groups["root"], strict=True))
    ours = edges[edges["system"] == "scribe"]
    for group, tree in ours.groupby("group"):
        parent = dict(zip(tree["child"], tree["parent"], strict=True))
        assert len(parent) == len(tree)
        assert root[group] not in parent
        for child in parent:
            seen = set()
            while child != root[group]:
                assert child not in seen
                seen.add(child)
                child = parent[child]


def check_left(run: Run, nodes: int, groups: int) -> dict[str, Any]:
    """Rows as promised, a report drawn; the numbers."""
    counted = {name: run.table(name).count() for name in ("nodes", "groups", "node_stress")}
    assert counted == {"nodes": nodes, "groups": groups, "node_stress": 3 * nodes}
    page = Path(run.out, "report.html").read_text()
    assert page.count("<svg") >= 5
    assert len(list(Path(run.out, "figures").glob("figure-*.svg"))) == 5
    # JSON as everybody reads it: no NaN
    text = Path(run.out, "metrics.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    return {row["name"]: row["value"] for row in run.metrics()}


def test_one_node(make):
    """On the smallest network that can be drawn: a transit router and a stub router."""
    shape = {"transit_domains": 1, "transit_size": 1, "stubs_per_transit": 1, "stub_size": 1}
    run = make(nodes=1, groups=3, **shape)
    numbers = check_left(run, 1, 3)
    groups, members, edges, heard = tables(run, "groups", "members", "tree_edges", "deliveries")
    assert groups["root"].tolist() == [0, 0, 0]
    assert (len(members), len(edges), len(heard)) == (1, 0, 0)
    assert numbers["pastry.hops.mean"] == 0
    assert not numbers["scribe.messages"]


def test_two_nodes_and_groups_of_two_one_and_none(make):
    """The tail of the Zipf-like sizes; a root is its group's only member, or is not."""
    run = make(nodes=2, groups=8, zipf_exponent=0.7, source="routed")
    check_left(run, 2, 8)
    check_deliveries(run, "routed")
    check_trees(run)
    groups, members, edges = tables(run, "groups", "members", "tree_edges")
    sizes = dict(zip(groups["group"], groups["size"], strict=True))
    assert [sizes[group] for group in range(1, 9)] == [2, 1, 1, 1, 1, 1, 1, 0]
    ones = members[members["group"] > 1].merge(groups, on="group")
    assert set(ones["node"] == ones["root"]) == {True, False}
    joined = edges[(edges["system"] == "scribe") & (edges["group"] > 1)]
    assert sorted(joined["group"]) == sorted(ones[ones["node"] != ones["root"]]["group"])


def test_no_group(make):
    numbers = check_left(make(groups=0), 200, 0)
    assert not numbers["scribe.messages"]
    assert numbers["groups.size.sum"] == 0
    assert numbers["scribe.rad.median"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"b": 8, "leaf_set": 128, "node_ids": "sha1", "source": "direct", "group_size": 40},
        {"b": 1, "leaf_set": 2, "group_ids": "creator", "tie": "seeded", "lan_delay_ms": 0.001},
    ],
    ids=lambda changes: " ".join(f"{name}={value}" for name, value in changes.items()),
)
def test_options(make, changes):
    run = make(nodes=40, groups=3, write_routing_table=True, **changes)
    check_left(run, 40, 3)
    check_deliveries(run, changes.get("source", "root"))
    check_trees(run)
    table = run.table("routing_table").toPandas()
    assert table["col"].max() < 2 ** changes.get("b", 4)
    assert not table.duplicated(["node", "row", "col"]).any()


def test_tables_of_the_users(make):
    """The tiny inputs of data/: routers 0 to 7, four groups of 12, 6, 3 and 1."""
    inputs = {
        "topology": str(ROOT / "data" / "tiny_topology.csv"),
        "members": str(ROOT / "data" / "tiny_members.csv"),
    }
    run = make(nodes=20, **inputs)
    check_left(run, 20, 4)
    check_deliveries(run)
    check_trees(run)
    given = pd.read_csv(inputs["members"]).sort_values(["group", "node"], ignore_index=True)
    kept = run.table("members").toPandas().sort_values(["group", "node"], ignore_index=True)
    assert kept.equals(given)
    routers, links = tables(run, "routers", "links")
    assert sorted(routers["router"]) == list(range(8))
    assert routers[["kind", "domain", "x", "y"]].isna().all(axis=None)
    assert len(links) == 2 * 11
