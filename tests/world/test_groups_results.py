"""The experiments of docs/groups_results.md, and the page that is written of what they leave."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import exit_code
from small_network import NETWORK

from scribe_spark.config import WorldConfig
from scribe_spark.experiments import checks
from scribe_spark.underlay.routable import check_routes
from scribe_spark.worlds.events import check_world
from tools import groups_root, results
from tools.groups_results import GROUPS, created_again, failures, local_world


def write(out, name, measures, published=None, trees=None, resolved=None):
    """The tables of a world, of measures by rounds."""
    folder = out / name / "tables"
    rows = [
        (number, "scribe", measure, float(value))
        for measure, values in measures.items()
        for number, value in enumerate(values)
    ]
    counts = ["expected", "in_time", "late", "lost", "duplicates"]
    found = pd.DataFrame(published or [], columns=["round", "group", *counts])
    is_due = found["round"] <= found["round"].max() - (resolved or {}).get("lost_after", 0)
    found["due"], found["first_copies"] = found["expected"].where(is_due, 0), found["expected"]
    tables = {
        "rounds": pd.DataFrame(rows, columns=["round", "system", "measure", "value"]),
        "publications": found,
        "memberships": pd.DataFrame(
            trees or [], columns=["group", "node", "parent", "member", "root"]
        ),
    }
    for table, frame in tables.items():
        (folder / table).mkdir(parents=True)
        frame.to_parquet(folder / table / "part.parquet")
    manifest = {"resolved": resolved, "round": {"seconds": 30.0}}
    (out / name / "manifest.json").write_text(json.dumps(manifest))


def page_of(out):
    file = out / "page.md"
    file.write_text("".join(f"<!-- {name}: -->\n<!-- end of {name} -->\n" for name in GROUPS.parts))
    results.main(["groups", str(out), "--page", str(file)])
    return file.read_text("utf-8")


def test_commands_are_of_worlds(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])  # their configs are the checkout's
    graphs, load = {}, checks.load  # most have the same network

    def load_once(config):
        network = repr((config.topology, config.seed))
        if network not in graphs:
            graphs[network] = load(config)
            check_routes(graphs[network], config.topology.tie, config.seed)
        return graphs[network]

    monkeypatch.setattr(checks, "load", load_once)
    monkeypatch.setattr(checks, "check_routes", lambda *_: None)
    for name in GROUPS.experiments:
        command = GROUPS.command(name)
        one_of_many = "--seed" in command and command[command.index("--seed") + 1] != "1"
        if command and not one_of_many:
            assert exit_code([*command, "--dry-run"]) == 0, name


def test_nothing_is_there(tmp_path):
    assert "|" not in page_of(tmp_path)


def test_a_mass_failure_is_met_or_not(tmp_path):
    resolved = {"delivery": "reliable", "replicas": 5, "seed": 3}
    measures = {
        "nodes.live": [8] * 5 + [6] * 6,
        "scribe.repaired.2": [0] * 10 + [7],
        "scribe.groups.lost": [0] * 5 + [1] * 6,
        "scribe.deliveries.out_of_order": [0] * 10 + [4],
    }
    published = [(n, 1, 4, 4 - late, late, 0, 0) for n, late in enumerate([0] * 5 + [3, 1])]
    published += [(n, 1, 4, 4, 0, 0, 0) for n in range(7, 11)]
    # of a group whose state is lost in round 5
    published += [(n, 2, 2, 2 * (n < 5), 0, 2 * (n >= 5), 0) for n in range(11)]
    write(tmp_path, "mass-3", measures, published, resolved=resolved)
    page = page_of(tmp_path)
    row = "| reliable | 5 | 3 | 2 | 0 | 44 | 0 | 4 | 4 | 2: 7 | 1 | 12 |"
    assert row in page.splitlines()
    answer = "| 7 failures repaired, 100 % after 2 rounds, the last after 2 |"
    assert answer in page
    again = [(n, 1, 4, 4 - (n == 9), 1 * (n == 9), 0, 0) for n in range(11)]
    write(tmp_path, "mass-4", measures, again, resolved={**resolved, "seed": 4})
    page = page_of(tmp_path)
    # the slower of two seeds, and their sums: the second has lost no group
    row = "| reliable | 5 | 3 to 4 | 5 | 0 | 88 | 0 | 8 | 5 | 2: 14 | 2 | 12 |"
    assert row in page.splitlines()
    never = [(n, 1, 4, 4 - (n == 10), 1 * (n == 10), 0, 0) for n in range(11)]
    write(tmp_path, "mass-5", measures, never, resolved={**resolved, "seed": 5})
    page = page_of(tmp_path)
    assert "| reliable | 5 | 3 to 5 | never |" in page


def test_who_takes_part_in_a_repair(tmp_path):
    measures = {
        "nodes.live": [1_000, 1_000, 990, 990],
        **{"scribe.failures": [0, 0, 4, 0], "scribe.repair.nodes": [0, 0, 0, 10]},
    }
    write(tmp_path, "local-1000", measures)
    assert "Nodes per failure: 2.5 of 1,000 (1 log_16 N) |" in page_of(tmp_path)


def test_few_nodes_fail_at_a_time(tmp_path):
    events = failures(tmp_path, 1_000)
    events.to_csv(tmp_path / "events.csv", index=False)
    words = local_world(1_000).replace("--", "").split()
    sizes = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    check_world(WorldConfig(**sizes, events=str(tmp_path / "events.csv")))
    assert events.groupby("round").size().to_dict() == dict.fromkeys(range(4, 124, 6), 2)
    assert events["node"].is_unique


def under_churn(out, seed, late, rounds=44, begin=7):
    """A world of two groups; in the rounds before `begin` nothing is in time."""
    lost = [40] * begin + [1] * (rounds - begin)
    measures = {
        "nodes.live": [100] * rounds, "messages.payload": [7500] * rounds,
        "messages.heartbeat": [4_500] * rounds, "messages.refresh": [1_500] * rounds,
        "scribe.publications.expected": [50] * rounds,
        "scribe.publications.in_time": [50 - one - late for one in lost],
        "scribe.publications.late": [late] * rounds, "scribe.publications.lost": lost,
        "scribe.publications.source died": [2] * rounds,
        "link_stress.payload.mean": [0, 4] * (rounds // 2),
        "link_stress.payload.max": [0, 9] * (rounds // 2),
        "link_stress.maintenance.mean": [0, 60] * (rounds // 2),
        "link_stress.maintenance.max": [0, 150] * (rounds // 2),
        "scribe.deliveries.late.1": [3] * rounds, "scribe.deliveries.late.2": [1] * rounds,
        "scribe.deliveries.late.11": [0] * 2 + [1] * (rounds - 2),  # which count as lost
    }  # fmt: skip
    published = [(n, 1, 40, 40 - one - late, late, one, 0) for n, one in enumerate(lost)]
    published += [(n, 2, 10, 10, 0, 0, 0) for n in range(rounds)]
    write(out, f"churn-60-{seed}", measures, published, resolved={"lost_after": 10})


def test_churn_has_a_table_of_the_steady_state_and_a_figure(tmp_path):
    """Of two seeds, of which 4 and 6 of 50 deliveries are late in a round."""
    under_churn(tmp_path, 1, 4)
    under_churn(tmp_path, 2, 6)
    page = page_of(tmp_path)
    # rounds 7 to 33; the median of 87.5 and 100 % is 93.75 %, of 82.5 and 100 % 91.25 %
    row = (
        "| 60 | 2 | 7 to 33 | 1,350 | 88.000 ± 2.83 | 92.500 ± 1.77 | 10 ± 2.83 | 27 | 27 | 54 "
        "| 0 | 0 | 0 | 0 |"
    )
    assert row in page.splitlines()
    # 6,000 messages of 100 nodes in 30 s
    assert "Heartbeats and refreshes per live node and second: 2 (lifetime 60) |" in page
    figure = (tmp_path / "figure-groups-churn.svg").read_text("utf-8")
    assert figure.startswith("<svg")
    assert "lifetime 60: 88.000 ± 2.83 % in time" in figure


def test_a_world_that_has_not_settled_says_so(tmp_path):
    """It gets worse up to the last but ten: of the last ten rounds eight lose nothing more."""
    under_churn(tmp_path, 1, 4, rounds=36, begin=18)
    assert "| 60 | 1 | not settled; last 10 | 500 | " in page_of(tmp_path)


def test_lost_groups_are_created_again(tmp_path):
    folder = tmp_path / "holders-5"
    write(
        tmp_path, "holders-5", {"nodes.live": [4]}, [(19, 1, 3, 0, 0, 3, 0), (19, 2, 3, 3, 0, 0, 0)]
    )
    (folder / "tables" / "nodes").mkdir()
    pd.DataFrame({"node": range(60)}).to_parquet(folder / "tables" / "nodes" / "part.parquet")
    rows = [(0, n, "join", 1) for n in range(30)] + [(0, 1, "create", 1), (0, 2, "create", 2)]
    rows += [(5, 3, "fail", None), (7, 4, "publish", 1)]
    events = pd.DataFrame(rows, columns=["round", "node", "event", "group"])
    (folder / "tables" / "events").mkdir()
    events.to_parquet(folder / "tables" / "events" / "part.parquet")
    made = created_again(tmp_path)
    assert made["event"].value_counts().to_dict() == {
        "join": 30,
        "create": 1,
        "fail": 1,
        "publish": 1,
    }
    assert set(made.loc[made["event"] == "join", "node"]) == set(range(30, 60))
    assert made.loc[made["event"] == "create", ["round", "group"]].to_numpy().tolist() == [[12, 1]]


@pytest.mark.slow
def test_the_roots_children_join_again_and_no_others(spark, tmp_path):
    given = {
        **NETWORK,
        "nodes": 84,
        "initial": 80,
        "groups": 2,
        "b": 2,
        "leaf_set": 8,
        "replicas": 3,
    }
    found = groups_root.played(spark, tmp_path, **given)
    assert found["new_root"] == found["nearest"] != found["root"]
    assert found["children"] > 1
    assert found["rejoined_no_children"] == found["children_not_rejoined"] == 0
    assert found["refused"] == {"JOIN": 2, "MULTICAST": 2}
    assert (found["joined_unnamed"], found["joined_named"]) == (0, 2)
    assert found["permitted"]["in_time"] == found["permitted"]["expected"] == 81
