"""The pages of results: what they share, and what is written of small folders of experiments."""
# ruff: noqa: E501

import json
import re
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import exit_code
from jinja2.meta import find_undeclared_variables
from small_network import NETWORK

from scribe_spark.config import RunConfig, read_toml
from scribe_spark.config.reference_tree import TreePoint
from scribe_spark.experiments import checks
from scribe_spark.experiments.reference_tree import tidy
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.systems.registry import systems_of_run
from scribe_spark.underlay.routable import check_routes
from tools import folders, groups_root, pages, questions, results
from tools.checks import CHECKS
from tools.folders import Page
from tools.peers_results import CLAIMS, DIRECTIONS, LENGTHS

ROOT = Path(__file__).resolve().parents[1]

FILES = {
    "living": "living_results.md",
    "rad-under-churn": "groups_results.md",
    "reference-tree": "reference_tree.md",
    "groups": "groups_results.md",
    "peers": "peers.md",
    "peers-living": "peers_living.md",
    "questions": "questions.md",
    "parts": "parts.md",
}

# --- what pages share

PAGE = Page(
    {"one": "world --rounds 1", "two": "sweep", "three": "run --groups 1 --seed 5"},
    {"x": ("*", lambda out: [f"of {out.name}"])},
)


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """The commands that are run, none of which does anything, of a page of three experiments."""
    ran: list[list[str]] = []
    monkeypatch.setattr(folders.subprocess, "run", lambda command, check: ran.append(command))
    monkeypatch.setitem(results.PAGES, "living", PAGE)
    return ran


def test_experiments_are_run_with_resume(ran, tmp_path, capsys):
    results.main(["living", str(tmp_path)])
    program = [sys.executable, "-m", "scribe_spark.cli"]
    assert ran == [
        [*program, *command.split(), "--out", str(tmp_path / name), "--resume"]
        for name, command in PAGE.experiments.items()
    ]
    ran.clear()
    results.main(["living", str(tmp_path), "--only", "two", "three", "--size", "9", "3"])
    sizes = [command[3 : command.index("--out")] for command in ran]
    assert sizes == [
        ["sweep", "--nodes", "9", "--groups", "3"],
        ["run", "--groups", "1", "--seed", "5", "--nodes", "9"],
    ]
    with pytest.raises(SystemExit):
        results.main(["living", str(tmp_path), "--only", "four"])
    assert "invalid choice: 'four'" in capsys.readouterr().err


def test_a_page_runs_nothing(ran, tmp_path):
    file = tmp_path / "page.md"
    file.write_text("a\n<!-- x: -->\nold\n<!-- end of x -->\nb\n")
    results.main(["living", str(tmp_path), "--page", str(file)])
    assert file.read_text() == f"a\n<!-- x: -->\nof {tmp_path.name}\n<!-- end of x -->\nb\n"
    assert not ran
    file.write_text("nothing")
    with pytest.raises(SystemExit, match="the page has no lines"):
        results.main(["living", str(tmp_path), "--page", str(file)])
    assert file.read_text() == "nothing"


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_pages_have_the_marks_of_their_parts(name, file):
    page = results.PAGES[name]
    for parts, path in ((page.parts, ROOT / "docs" / file), (page.readme, ROOT / "README.md")):
        text = path.read_text("utf-8")
        assert all(pages.lines_of(text, part) for part in parts)


@pytest.mark.parametrize("name", results.PAGES)
def test_templates_have_names_that_their_modules_have(name, tmp_path):
    parts = {**results.PAGES[name].parts, **results.PAGES[name].readme}
    for template, names in (part.args for _, part in parts.values() if isinstance(part, partial)):
        environment = folders.environment_of(names, tmp_path)
        environment.from_string(template)  # an error for an unknown filter
        unknown = find_undeclared_variables(environment.parse(template))
        assert unknown <= environment.globals.keys()


def test_tables_take_the_place_of_tables():
    """The text around them stays, and no table is left over."""
    begin, end = "<!-- x: -->\n", "<!-- end of x -->\n"
    page = f"{begin}one:\n\n| 1 |\n| 2 |\n\ntwo:\n| 3 |\nend\n{end}"
    made = pages.with_lines(page, "x", ["| 4 |", "", "| 5 |", "| 6 |"])
    assert made == f"{begin}one:\n\n| 4 |\n\ntwo:\n| 5 |\n| 6 |\nend\n{end}"
    assert pages.with_lines(page, "x", ["text", "| 4 |"]) == f"{begin}text\n| 4 |\n{end}"
    with pytest.raises(SystemExit, match="x: the page has 2 tables, the experiments 1"):
        pages.with_lines(page, "x", ["| 4 |"])


# --- their experiments


@pytest.fixture(scope="module")
def networks() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("name", results.PAGES)
def test_commands_of_experiments_are_understood(name, networks, monkeypatch, capsys, tmp_path):
    """Of seeds, one; some of another size.  Most have the same network."""
    monkeypatch.chdir(ROOT)  # their configs are the checkout's
    load = checks.load

    def load_once(config: Any) -> Any:
        network = repr((config.topology, config.seed))
        if network not in networks:
            networks[network] = load(config)
            check_routes(networks[network], config.topology.tie, config.seed)
        return networks[network]

    monkeypatch.setattr(checks, "load", load_once)
    monkeypatch.setattr(checks, "check_routes", lambda *_: None)
    page = results.PAGES[name]
    for experiment in page.experiments:
        command = page.command(experiment, ["600", "9"] if experiment.endswith("_can") else None)
        is_first = "--seed" not in command or command[command.index("--seed") + 1] == "1"
        if command and is_first:
            code = exit_code([*command, "--out", str(tmp_path / "out"), "--dry-run"])
            assert code == 0, (experiment, capsys.readouterr().err)


def test_the_needs_of_claims_are_experiments():
    for _, words, needs, *_ in (*CLAIMS, *DIRECTIONS):
        assert {*needs.split()} <= results.PAGES["peers"].experiments.keys(), words


@pytest.mark.parametrize("name", questions.COLUMNS)
def test_a_config_asks_one_question_and_has_its_answers(name):
    path = ROOT / "data" / f"{name}.toml"
    config = RunConfig.of(read_toml(str(path)))
    systems = systems_of_run(config.trees.variants, config.trees.systems)
    known = metric_definitions(systems, config)
    assert {f"scribe.{metric}" for metric in questions.COLUMNS[name].values()} <= {*known}
    page = (ROOT / "docs" / "questions.md").read_text()
    assert f"[`data/{name}.toml`](../data/{name}.toml): {question_of(path)}\n" in page


def question_of(path: Path) -> str:
    """Return the question in the first comment of a config; see that there is one."""
    asked = questions.question_of(path)
    assert asked[0].isupper()
    assert asked.count("?") == 1
    return asked


# --- small folders


def write(folder: Path, metrics: Mapping[str, Any] = {}, manifest: Any = None, **tables: Any):
    """Write what an experiment leaves; a table by rounds may be a mapping from measures."""
    for name, table in tables.items():
        (folder / "tables" / name).mkdir(parents=True)
        frame = rounds_of(table) if isinstance(table, dict) else table
        frame.to_parquet(folder / "tables" / name / "part.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"name": name, "value": value, "clock": "time"} for name, value in metrics.items()]
    if metrics:
        (folder / "metrics.json").write_text(json.dumps(rows))
    (folder / "manifest.json").write_text(json.dumps(manifest))


def rounds_of(measures: Mapping[str, Iterable[float | None]]) -> pd.DataFrame:
    """Return the table of a world's rounds; a round may have no value."""
    rows = [
        (number, "scribe", name, float(value))
        for name, values in measures.items()
        for number, value in enumerate(values)
        if value is not None
    ]
    return pd.DataFrame(rows, columns=["round", "system", "measure", "value"])


def published(rows: Iterable[tuple[int, ...]], deadline: int = 0) -> pd.DataFrame:
    """Return publications: round, group, expected, in time, late, lost, duplicates."""
    counts = ["expected", "in_time", "late", "lost", "duplicates"]
    found = pd.DataFrame(rows, columns=["round", "group", *counts]).assign(system="scribe")
    is_due = found["round"] <= found["round"].max() - deadline
    return found.assign(due=found["expected"].where(is_due, 0), first_copies=found["expected"])


def frame(columns: str, *rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def living(out: Path) -> None:
    """All measures fall to a value until round 12, and one falls for ever."""
    names = "lookups.delivered lookups.right lookups.hops lookups.lost cells.missing cells.dead"
    for name, value in (("churn", 1.0), ("churn-2", 3.0)):
        line = [8 * value] * 12 + [value] * 28
        measures = dict.fromkeys([*names.split(), "cells.nearest_delay"], line)
        measures["cells.delay"] = [100 * value - number for number in range(40)]
        write(out / name, rounds=measures)


def reference_tree(out: Path) -> None:
    events = {f"faults.{event}": {0: 4} for event in ("connection", "disconnection")}
    areas = {"area.connection": {3: 4}, "area.disconnection": {5: 4}}
    areas |= {"area_without.connection": {2: 4}, "area_without.disconnection": {4: 4}}
    small = {"degree": {1: 6, 2: 3, 9: 1}, **areas, **events}
    large = {**small, "depth": {2: 1, 4: 3}, "parent_lookups": {1: 4}, "child_lookups": {2: 4}}
    for name, point, measured in (
        ("degrees-pastry", TreePoint("events", 120, 8, 3, "pastry"), small),
        ("scaling-pastry", TreePoint("scaling", 1024, 128, 2, "pastry"), large),
    ):
        write(out / name, reference_tree=tidy({point: measured}))


def groups(out: Path) -> None:
    measures = {
        "nodes.live": [8] * 5 + [6] * 6,
        "scribe.repaired.2": [0] * 10 + [7],
        "scribe.failures": [0] * 10 + [9],
        "scribe.groups.lost": [0] * 5 + [1] * 6,
        "scribe.deliveries.out_of_order": [0] * 10 + [4],
    }
    lost = [(n, 1, 4, 4 - late, late, 0, 0) for n, late in enumerate([0] * 5 + [3, 1])]
    lost += [(n, 1, 4, 4, 0, 0, 0) for n in range(7, 11)]
    # of a group whose state is lost in round 5
    lost += [(n, 2, 2, 2 * (n < 5), 0, 2 * (n >= 5), 0) for n in range(11)]
    again = [(n, 1, 4, 4 - (n == 9), 1 * (n == 9), 0, 0) for n in range(11)]
    never = [(n, 1, 4, 4 - (n == 10), 1 * (n == 10), 0, 0) for n in range(11)]
    # the slower of two seeds, and their sums: the second has lost no group
    for seed, k, rows in ((3, 5, lost), (4, 5, again), (5, 8, never)):
        resolved = {"delivery": "reliable", "replicas": k, "seed": seed}
        tree = frame("parent", (1,), (None,))
        write(out / f"mass-{seed}", manifest={"resolved": resolved}, rounds=measures,
              publications=published(rows), memberships=tree)  # fmt: skip
    few = {"scribe.failures": [0, 0, 4, 0], "scribe.repair.nodes": [0, 0, 0, 10]}
    write(out / "local-1000", rounds=few)
    # of two seeds, of which 4 and 6 of 50 deliveries are late in a round
    under_churn(out / "churn-60-1", 4)
    under_churn(out / "churn-60-2", 6)
    # it gets worse up to the last but ten: of the last ten rounds eight lose nothing more
    under_churn(out / "churn-20-1", 4, rounds=36, begin=18)


def under_churn(folder: Path, late: int, rounds: int = 44, begin: int = 7) -> None:
    """A world of two groups; in the rounds before `begin` nothing is in time."""
    lost = [40] * begin + [1] * (rounds - begin)
    measures = {
        "nodes.live": [100] * rounds, "messages.payload": [7500] * rounds,
        "messages.heartbeat": [4_500] * rounds, "messages.refresh": [1_500] * rounds,
        "scribe.publications.expected": [50] * rounds,
        "scribe.publications.in_time": [50 - one - late for one in lost],
        "scribe.publications.source died": [2] * rounds,
        "scribe.deliveries.late.1": [3] * rounds, "scribe.deliveries.late.2": [1] * rounds,
        "scribe.deliveries.late.11": [0] * 2 + [1] * (rounds - 2),  # which count as lost
    }  # fmt: skip
    rows = [(n, 1, 40, 40 - one - late, late, one, 0) for n, one in enumerate(lost)]
    rows += [(n, 2, 10, 10, 0, 0, 0) for n in range(rounds)]
    manifest = {"resolved": {"lost_after": 10}, "round": {"seconds": 30.0}}
    write(folder, manifest=manifest, rounds=measures, publications=published(rows, 10))


#: Of each system, so that one is more than the other by a factor.
NUMBERS = {
    "latency.p50": 900, "latency.p99": 1700,
    "rad.median": 1.5, "rad.largest": 1.7, "rmd.median": 1.4, "rmd.largest": 1.8,
    "rdp.mean": 1.6, "children_entries.mean": 6.0,
    "children_entries.max": 300, "link_stress.mean_existing": 8.0, "link_stress.max": 2000,
    "messages": 2_000_000, "join_messages.max": 300, "join_messages.mean": 6.0, "state.max": 300,
    "state.mean": 6.0, "control_packets": 2_000_000,
}  # fmt: skip


def peers(out: Path) -> None:
    """Bayeux has three times Scribe's numbers, but its delays; each other system has a factor."""
    of_run = {"groups.size.sum": 4000, "groups.size.max": 10_000, "pastry.hops.mean": 2.5}
    config = {"nodes": 1000, "groups": 40, "seed": 1, "b": 4, "bayeux_partitions": 4}
    # one group of members 1 to 4 and root 0: of Scribe 0 -> 9 -> 1, 2; 1 -> 3; 0 -> 4
    edges = (("scribe", 1, 0, 9), ("scribe", 1, 9, 1), ("scribe", 1, 9, 2), ("scribe", 1, 1, 3))
    lists = (("bayeux", 1, 0, "member list", 4), ("bayeux", 1, 9, "member list", 3))
    tables = {
        "groups": frame("group root size", (1, 0, 4)),
        "members": frame("group node", *((1, node) for node in (1, 2, 3, 4))),
        "tree_edges": frame("system group parent child", *edges, ("scribe", 1, 0, 4)),
        "system_state": frame("system group node kind entries", *lists),
        "control": frame(
            "system group receiver kind messages",
            *(("bayeux", 1, 0, "JOIN", 4), ("bayeux", 1, 9, "JOIN", 2)),
            *(("bayeux", 1, 9, "TREE", 3), ("can", 1, 0, "CONTACT", 4)),
        ),
        "copies": frame("system group sender hop", ("can", 1, 0, 1)),
    }
    for name, factors in {
        "scribe": {"scribe": 1, "naive_unicast": 2, "ip_multicast": 0.4},
        "bayeux": {"scribe": 1, "bayeux": 3},
        "bayeux_leaf_set": {"scribe": 1, "bayeux": 0.5},
        "bayeux_partitions": {"scribe": 1, "bayeux": 1},
        "can": {"scribe": 1, "can": 2},
        "all_pastry": {"scribe": 1, "flooding": 1.2, "can": 4},
        "groups_pastry": {"scribe": 1, "flooding": 2, "can": 4},
        "all_can": {"scribe": 3},
        "groups_can": {"scribe": 3},
        "all_1000": {"scribe": 1, "narada": 2, "gossipsub": 3},
        "all_5000": {"scribe": 2, "gossipsub": 1},
    }.items():
        metrics = of_run | {
            f"{system}.{metric}": value * factor
            for system, factor in factors.items()
            for metric, value in NUMBERS.items()
        }
        phases = [{"name": "trees", "seconds": 10.0 * sum(factors.values())}]
        write(out / name, metrics, {"resolved": config, "phases": phases}, **tables)
    lengths = {"bayeux": {"first": 9.0, "last": 40.0}, "scribe": {"first": 30.0, "last": 35.0}}
    (out / "bayeux" / LENGTHS).write_text(json.dumps(lengths))
    (out / "plumtree").mkdir()  # which was run halfway


def answers(out: Path) -> None:
    values = {"within_1s.weight": 0.994, "quorum.median": 1234.4, "quorum.p99": None,
              "replies.median": 7.0, "replies.p99": 9.0, "replies.never": 2}  # fmt: skip
    for name in questions.COLUMNS:
        write(out / name, {f"scribe.{metric}": value for metric, value in values.items()})
    for part, name in enumerate(questions.KINDS.values()):
        values = {"reached": 1 - part / 2, "latency.p50": 100.4 * (part + 1), "latency.p99": None}
        again = {"scribe": None, "plumtree": 1.5}
        metrics = {
            f"{system}.{metric}": value
            for system in (("scribe", "plumtree"), ("plumtree",))[part]
            for metric, value in (values | {"duplicates.mean": again[system]}).items()
        }
        write(out / name, metrics)
    # publications of round 0 do not count, nor those that are not due
    rows = [(0, 1, 10, 0, 0, 10, 0), (1, 1, 10, 4, 2, 4, 0), (2, 1, 10, 5, 3, 2, 0)]
    for name in ("withhold-world", "withhold-reliable"):
        write(out / name, rounds={}, publications=published([*rows, (3, 1, 10, 9, 0, 0, 0)], 1))


FOLDERS = {
    "living": living, "reference-tree": reference_tree, "groups": groups, "peers": peers,
    "questions": answers,
}  # fmt: skip

#: Page and part -> lines that are there; ``...`` stands for any text, ``!`` for a line that is
#: not there.
LINES = {
    ("living", "churn"): """
        | rounds | `lookups.delivered` | ...
        | 20-39 | 1 | 1 | 1 | ...
        | steady, 2 seeds | ... | 2 ± 1.41 (12, 12) | ... | not settled | 2 ± 1.41 (12, 12) |""",
    ("reference-tree", "degrees"): """
        *More children* (120 hosts, 256 keys): with up to 3 children, at most 10.00 % of the hosts have more neighbours than the bound (children + 1); the largest degree is 9. ... The tree was right after every event.""",
    ("reference-tree", "scaling"): """
        | `pastry` | 1,024 | 60.0 | 30.0 | 0.0 | 10.00 | 3.50 | 4 | 10.00 | 4.00 ± 0.38 | 8 | 0 | 1.00 | 2.00 |""",
    ("groups", "mass"): """
        | reliable | 5 | 3 to 4 | 5 | 0 | 88 | 0 | 8 | 5 | 2: 14 | 2 | 12 |
        | reliable | 8 | 5 | never | ...""",
    # rounds 7 to 33; the median of 87.5 and 100 % is 93.75 %, of 82.5 and 100 % 91.25 %
    ("groups", "churn"): """
        | 60 | 2 | 7 to 33 | 1,350 | 88.000 ± 2.83 | 92.500 ± 1.77 | 10 ± 2.83 | 27 | 27 | 54 | 0 | 0 | 0 | 0 |
        | 20 | 1 | not settled; last 10 | 500 | ...""",
    # 6,000 messages of 100 nodes in 30 s
    ("groups", "claims"): """
        ... | 21 of 27 failures (all but those in 3 lost groups) repaired, 100 % after 2 rounds, the last after 2 |
        ... | Nodes per failure: 2.5 of 1,000 (1 log_16 N) |
        ... | Heartbeats and refreshes per live node and second: 2 (lifetime 20), 2 (lifetime 60) |""",
    ("peers", "systems"): """
        | Scribe | 900 | 1,700 | 1.5 | 1.7 | 1.4 | 1.8 | 1.6 | 6 | 300 | 8 | 2,000 | 2,000,000 | 0 | 300 | 300 | 6 | 34 |
        | Bayeux (bayeux-partitions 4) | 900 | ...
        ! | Plumtree ...""",
    # two of four JOINs end at the root; 3 at most, of 4; not with leaf sets
    ("peers", "claims"): """
        ... locally | JOINs that end below the root: 50 % in groups of 2 to 99 | *false* |
        ... more group membership information | | *true* |
        ... the root keeps a list of all ...(bayeux_partitions) | *true* |
        ... more traffic when handling ... | *true* |
        ... must go through the root | 100 % of JOINs end at the root | *true* |
        ... a small constant factor ... | *true* |
        ... similar delay characteristics | | *false* |
        ... a higher link stress ... | *depends* |
        ... many long links near the leaves ... | *depends* |
        ! ... root failures ...""",
    ("peers", "flooding_and_trees"): """
        | | one group: RAD | one group: packets | ...
        | tree over Pastry | 1.5 | 2,000,000 | ...
        | flooding over Pastry | 1.8 | 2,400,000 | ... | 3 | 4,000,000 | ...
        | tree over CAN | 4.5 | 6,000,000 | ...
        | flooding over CAN | 6 | 8,000,000 | ...
        ... trees over Pastry have 20 to 50 % less delay than trees over CAN | ... | *false* |
        ... half the delay penalty ... | one group: ratio 0.3; 1,500 groups: ratio 0.5 | *depends* |""",
    ("peers", "smaller"): """
        | Scribe | 900/1,800 | 1,700/3,400 | ...
        | GossipSub | 2,700/900 | 5,100/1,700 | ...
        | Narada | 1,800/- | 3,400/- | ...
        ! | Bayeux ...""",
    ("questions", "answers"): """
        | Scribe | 99.4 % | 1,234 ms | never | 7 ms | 9 ms | 2 |""",
    ("questions", "withheld"): """
        | Plumtree | `payload` | 100.0 % | 100 ms | never | 1.50 |
        | Plumtree | `all` | 50.0 % | 201 ms | never | 1.50 |
        | Scribe | `payload` | 100.0 % | 100 ms | never | 0 |""",
    ("questions", "delivered"): """
        | `reliable` | 45.0 % | 25.0 % | 30.0 % |""",
}  # fmt: skip

#: Page -> its figure, and words for those who do not see the figure.
FIGURES = {"groups": ("lifetime 60: 0.12 to 0.9",)}


@pytest.fixture(scope="module")
def outs(tmp_path_factory) -> Path:
    """A folder of each page: its experiments, and the page and README.md of these."""
    every = tmp_path_factory.mktemp("pages")
    for name, experiments in FOLDERS.items():
        (every / name).mkdir()
        experiments(every / "out" / name)
        page = results.PAGES[name]
        files = [every / name / file for file in ("page.md", "README.md")]
        for file, of in zip(files, (page.parts, page.readme), strict=True):
            marks = "".join(f"<!-- {part}: -->\n<!-- end of {part} -->\n" for part in of)
            file.write_text(f"before\n{marks}after\n")
        out = str(every / "out" / name)
        results.main([name, out, "--page", str(files[0]), "--readme", str(files[1])])
    return every


@pytest.mark.parametrize(("name", "part"), LINES)
def test_a_part_has_the_lines_of_its_experiments(outs, name, part):
    page = (outs / name / "page.md").read_text("utf-8")
    assert page.startswith("before\n<!--")
    assert page.endswith("-->\nafter\n")
    found = pages.lines_of(page, part)
    for line in map(str.strip, LINES[name, part].strip().splitlines()):
        words = line.removeprefix("! ").split("...")
        at = [row for row in found if re.fullmatch(".*".join(map(re.escape, words)), row)]
        assert bool(at) != line.startswith("! "), (line, found)


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_has_a_figure(outs, name):
    (file,) = (outs / name).glob("figure-*.svg")
    drawing = file.read_text("utf-8")
    assert drawing.startswith("<svg")
    assert all(words in drawing for words in FIGURES[name])


@pytest.mark.slow
def test_the_roots_children_join_again_and_no_others(spark, tmp_path):
    sizes = {"nodes": 84, "initial": 80, "groups": 2}
    found = groups_root.played(spark, tmp_path, **NETWORK, **sizes, b=2, leaf_set=8, replicas=3)
    assert found["new_root"] == found["nearest"] != found["root"]
    assert found["children"] > 1
    assert found["rejoined_no_children"] == found["children_not_rejoined"] == 0
    assert found["refused"] == {"JOIN": 2, "MULTICAST": 2}
    assert (found["joined_unnamed"], found["joined_named"]) == (0, 2)
    assert found["permitted"]["in_time"] == found["permitted"]["expected"] == 81


def test_the_page_of_checks_has_the_marks_of_all_checks():
    page = (ROOT / "docs" / "checks.md").read_text("utf-8")
    for name in CHECKS:
        assert page.count(f"<!-- {name}: written by `make checks` -->\n\n|") == 1
        assert page.count(f"|\n\n<!-- end of {name} -->") == 1
