"""The experiments of docs/peers.md, and the page that is written of what they leave."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import exit_code

from tools import results
from tools.folders import Folder
from tools.pages import lines_of
from tools.peers_claims import CLAIMS, DIRECTIONS, LENGTHS, Case, grid_of, verdict
from tools.peers_claims import rows_of as rows_of_claims
from tools.peers_results import PEERS, edge_lengths, tree_shape

#: Of each system, so that one is more than the other by a factor.
NUMBERS = {
    "latency.p50": 900, "latency.p99": 1700,
    "rad.median": 1.5, "rad.largest": 1.7, "rmd.median": 1.4, "rmd.largest": 1.8,
    "rdp.mean": 1.6, "children_entries.mean": 6.0,
    "children_entries.max": 300, "link_stress.mean_existing": 8.0, "link_stress.max": 2000,
    "messages": 2_000_000, "join_messages.max": 300, "join_messages.mean": 6.0, "state.max": 300,
    "state.mean": 6.0, "control_packets": 2_000_000,
}  # fmt: skip


def write_run(out: Path, name: str, factors: dict[str, float], **tables: pd.DataFrame) -> None:
    """A run's folder: its metrics are `NUMBERS` times a factor for each system."""
    metrics = [
        {"name": f"{system}.{metric}", "value": value * factor, "clock": "time"}
        for system, factor in factors.items()
        for metric, value in NUMBERS.items()
    ]
    of_run = {"groups.size.sum": 4000, "groups.size.max": 10_000, "pastry.hops.mean": 2.5,
              "pastry.table_entries.mean": 30}  # fmt: skip
    metrics += [{"name": n, "value": value, "clock": None} for n, value in of_run.items()]
    folder = out / name
    for table, frame in tables.items():
        (folder / "tables" / table).mkdir(parents=True)
        frame.to_parquet(folder / "tables" / table / "part.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    resolved = {"nodes": 1000, "groups": 40, "seed": 1, "b": 4, "limit": 64,
                "bayeux_partitions": 4, "can_dimensions": 6}  # fmt: skip
    phases = [{"name": "trees", "seconds": 10.0 * sum(factors.values())}]
    (folder / "manifest.json").write_text(json.dumps({"resolved": resolved, "phases": phases}))


def frame(columns: str, *rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


#: One group of members 1 to 4 and root 0: of Scribe 0 -> 9 -> 1, 2; 1 -> 3; 0 -> 4.
GROUPS = frame("group root size", (1, 0, 4))
MEMBERS = frame("group node", *((1, node) for node in (1, 2, 3, 4)))
EDGES = frame(
    "system group parent child",
    *(("scribe", 1, 0, 9), ("scribe", 1, 9, 1), ("scribe", 1, 9, 2), ("scribe", 1, 1, 3)),
    ("scribe", 1, 0, 4),
)


def rows_of(page: str, part: str) -> list[list[str]]:
    rows = [line for line in lines_of(page, part) if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def page_of(out: Path) -> str:
    file = out / "page.md"
    file.write_text("".join(f"<!-- {name}: -->\n<!-- end of {name} -->\n" for name in PEERS.parts))
    results.main(["peers", str(out), "--page", str(file)])
    return file.read_text("utf-8")


@pytest.mark.parametrize("name", PEERS.experiments)
def test_commands_are_understood(name, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parents[1])  # their configs are the checkout's
    for size in (None, ["600", "9"]):
        code = exit_code([*PEERS.command(name, size), "--dry-run"])
        assert code == 0, capsys.readouterr().err


def test_the_needs_of_claims_are_experiments():
    for claim in (*CLAIMS, *DIRECTIONS):
        assert {*claim.needs.split()} <= PEERS.experiments.keys(), claim.words


def test_a_verdict_is_true_false_or_depends():
    yes, no = Case(True, ""), Case(False, "")
    assert [verdict(c) for c in ([yes, yes], [no], [no, yes], [])] == [
        *("true", "false", "depends", "not measured")
    ]


def test_a_page_of_scribe_alone(tmp_path):
    write_run(tmp_path, "scribe", {"scribe": 1, "naive_unicast": 2, "ip_multicast": 0.4},
              groups=GROUPS, members=MEMBERS, tree_edges=EDGES)  # fmt: skip
    page = page_of(tmp_path)
    assert "1,000 nodes, 40 groups, seed 1" in page
    assert "half of which have at most 4 members;" in page
    assert "of the group of 4 members." in page
    assert "by hops" not in page
    (scribe,) = (line for line in page.splitlines() if line.startswith("| Scribe |"))
    assert scribe == (
        "| Scribe | 900 | 1,700 | 1.5 | 1.7 | 1.4 | 1.8 | 1.6 | 6 | 300 | 8 | 2,000 | 2,000,000 "
        "| 0 | 300 | 300 | 6 | 34 |"
    )
    told = {row[1]: row for row in rows_of(page, "claims")}
    local = told["group join and leave requests are handled locally"]
    # two of four JOINs end at the root
    assert local[2:] == ["JOINs that end below the root: 50 % in groups of 2 to 99", "*false*"]
    assert not any("Bayeux" in claim for claim in told)


@pytest.fixture
def bayeux(tmp_path) -> dict[str, list[str]]:
    """Claim -> its row; Bayeux has three times Scribe's numbers, but its delays."""
    lists = frame("system group node kind entries", ("bayeux", 1, 0, "member list", 4),
                  ("bayeux", 1, 9, "member list", 3), ("scribe", 1, 0, "children", 2))  # fmt: skip
    control = frame(
        "system group receiver kind messages",
        *(("bayeux", 1, 0, "JOIN", 4), ("bayeux", 1, 9, "JOIN", 2), ("bayeux", 1, 9, "TREE", 3)),
    )
    tables: dict[str, Any] = {"groups": GROUPS, "members": MEMBERS, "tree_edges": EDGES,
                              "system_state": lists, "control": control}  # fmt: skip
    write_run(tmp_path, "scribe", {"scribe": 1}, **tables)
    write_run(tmp_path, "bayeux", {"scribe": 1, "bayeux": 3}, **tables)
    write_run(tmp_path, "bayeux_leaf_set", {"scribe": 1, "bayeux": 0.5}, **tables)
    write_run(tmp_path, "bayeux_partitions", {"scribe": 1, "bayeux": 1}, **tables)
    lengths = {"bayeux": {"first": 9.0, "last": 40.0}, "scribe": {"first": 30.0, "last": 35.0}}
    (tmp_path / "bayeux" / LENGTHS).write_text(json.dumps(lengths))
    page = page_of(tmp_path)
    assert "(bayeux-partitions 4) |" in page
    return {row[1]: row[2:] for row in rows_of(page, "claims")}


def test_verdicts_are_of_what_was_measured(bayeux):
    def of(words: str) -> str:
        (found,) = (row[-1] for claim, row in bayeux.items() if words in claim)
        return found.strip("*")

    assert of("more group membership information") == "true"
    assert of("the root keeps a list of all") == "true"
    assert of("more traffic when handling") == "true"
    assert of("must go through the root") == "true"
    assert of("a small constant factor") == "true"  # 3 at most, of 4
    assert of("similar delay characteristics") == "false"
    assert of("a higher link stress") == "depends"  # not with leaf sets
    assert of("many long links near the leaves") == "depends"  # Scribe's are not longer at roots
    assert "4 of" not in bayeux["all group management traffic must go through the root"][0]


def test_the_shape_of_trees_and_how_long_edges_are():
    edges = EDGES.drop(columns="system")
    depth, is_inner = tree_shape(edges)
    assert depth.tolist() == [1, 2, 2, 3, 1]
    assert is_inner.tolist() == [True, True, False, False, False]
    # a leaf under the root is at neither end
    ms = edge_lengths(edges, np.array([8000, 4000, 2000, 6000, 99_000]))
    assert ms == {"first": 8.0, "last": 4.0}


def test_readme_has_the_most_telling_rows(tmp_path):
    write_run(tmp_path, "scribe", {"scribe": 1}, groups=GROUPS, members=MEMBERS, tree_edges=EDGES)
    tables = {
        "copies": frame("system group sender hop", ("can", 1, 0, 1)),
        "control": frame("system group receiver kind messages", ("can", 1, 0, "CONTACT", 4)),
    }
    common = {"groups": GROUPS, "members": MEMBERS, "tree_edges": EDGES}
    write_run(tmp_path, "can", {"scribe": 1, "can": 2}, **common, **tables)
    readme, begin, end = tmp_path / "README.md", "<!-- peers: -->\n", "<!-- end of peers -->\n"
    readme.write_text(f"before\n{begin}old\n{end}after\n")
    page_of(tmp_path)
    file = tmp_path / "page.md"
    results.main(["peers", str(tmp_path), "--page", str(file), "--readme", str(readme)])
    before, _, after = readme.read_text().partition(begin)
    assert (before, after.endswith("after\n")) == ("before\n", True)
    lines = after.partition(end)[0].splitlines()
    assert lines == [
        "| 1,000 nodes, 40 groups | delay, median, ms | RAD, median group | RAD, largest group "
        "| link stress, maximum | packets | duplicates per delivery |",
        "|---" * 7 + "|",
        "| Scribe | 900 | 1.5 | 1.7 | 2,000 | 2,000,000 | 0 |",
        "| CAN multicast | 1,800 | 3 | 3.4 | 4,000 | 4,000,000 | - |",
    ]


def test_flooding_and_trees_over_both_overlays(tmp_path):
    for grid in ("all", "groups"):
        factors = {"scribe": 1, "flooding": 2, "can": 4}
        write_run(tmp_path, f"{grid}_pastry", factors)
        write_run(tmp_path, f"{grid}_can", {"scribe": 3})
    found = {name: Folder(tmp_path / name, "flooding") for name in ("all_pastry", "all_can")}
    assert grid_of(found) == []
    found |= {name: Folder(tmp_path / name, "flooding") for name in ("groups_pastry", "groups_can")}
    head, *rows = grid_of(found)
    assert head[1:3] == ["one group: RAD", "one group: packets"]
    assert [row[:3] for row in rows] == [
        ["tree over Pastry", "1.5", "2,000,000"],
        ["flooding over Pastry", "3", "4,000,000"],
        ["tree over CAN", "4.5", "6,000,000"],
        ["flooding over CAN", "6", "8,000,000"],
    ]
    verdicts = {claim: verdict for _, claim, _, verdict in rows_of_claims(DIRECTIONS, found)}
    assert verdicts["trees over Pastry have 20 to 50 % less delay than trees over CAN"] == "*false*"
    half = "flooding over Pastry has about half the delay penalty of flooding over CAN"
    assert verdicts[half] == "*true*"
    write_run(tmp_path, "all_pastry", {"scribe": 1, "flooding": 1.2, "can": 4})
    found["all_pastry"] = Folder(tmp_path / "all_pastry", "flooding")
    (row,) = (row for row in rows_of_claims(DIRECTIONS, found) if row[1] == half)
    assert row[2:] == ["one group: ratio 0.3; 1,500 groups: ratio 0.5", "*depends*"]


def test_what_was_run_halfway_is_not_on_the_page(tmp_path):
    write_run(tmp_path, "scribe", {"scribe": 1}, groups=GROUPS, members=MEMBERS, tree_edges=EDGES)
    (tmp_path / "can").mkdir()
    assert not Folder(tmp_path / "can", "can").is_complete
    assert "CAN" not in str(rows_of(page_of(tmp_path), "systems"))


def test_a_page_has_the_systems_of_small_groups_side_by_side(tmp_path):
    write_run(tmp_path, "scribe", {"scribe": 1}, groups=GROUPS, members=MEMBERS, tree_edges=EDGES)
    write_run(tmp_path, "all_1000", {"scribe": 1, "narada": 2, "gossipsub": 3})
    write_run(tmp_path, "all_5000", {"scribe": 2, "gossipsub": 1})
    rows = rows_of(page_of(tmp_path), "smaller")
    assert {row[0]: row[1:3] for row in rows} == {
        "Scribe": ["900/1,800", "1,700/3,400"],
        "GossipSub": ["2,700/900", "5,100/1,700"],
        "Narada": ["1,800/-", "3,400/-"],
    }
