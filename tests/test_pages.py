"""What all pages of results share: tools/results.py, tools/pages.py, tools/folders.py."""

import sys
from pathlib import Path

import pytest

from tools import pages, results
from tools.folders import Folder
from tools.results import Page, Part

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

PAGE = Page(
    {"one": "world --rounds 1", "two": "sweep"},
    {"x": Part("*", lambda out: [f"of {out.name}"])},
    sized=lambda name, size: f"--sized {name} {' '.join(size)}",
)


@pytest.fixture
def commands(monkeypatch):
    """The commands that are run, none of which does anything, of a page of two experiments."""
    ran = []
    monkeypatch.setattr(results.subprocess, "run", lambda command, check: ran.append(command))
    monkeypatch.setattr(results, "page_of", lambda name: PAGE)
    return ran


def test_experiments_are_run_with_resume(commands, tmp_path):
    results.main(["living", str(tmp_path)])
    program = [sys.executable, "-m", "scribe_spark.cli"]
    assert commands == [
        [*program, *command.split(), "--out", str(tmp_path / name), "--resume"]
        for name, command in PAGE.experiments.items()
    ]


def test_only_some_experiments_are_run(commands, tmp_path, capsys):
    results.main(["living", str(tmp_path), "--only", "two", "--size", "9", "3"])
    assert [command[3:8] for command in commands] == [["sweep", "--sized", "two", "9", "3"]]
    with pytest.raises(SystemExit):
        results.main(["living", str(tmp_path), "--only", "three"])
    assert "invalid choice: 'three'" in capsys.readouterr().err


def test_a_page_runs_nothing(commands, tmp_path):
    file = tmp_path / "page.md"
    file.write_text("a\n<!-- x: -->\nold\n<!-- end of x -->\nb\n")
    results.main(["living", str(tmp_path), "--page", str(file)])
    assert file.read_text() == f"a\n<!-- x: -->\nof {tmp_path.name}\n<!-- end of x -->\nb\n"
    assert not commands


def test_parts_without_their_experiment_stay_as_they_are(tmp_path):
    (tmp_path / "two").mkdir()
    parts = {name: Part(f"{name[:2]}*", lambda out: ["new"]) for name in ("one", "two")}
    file = tmp_path / "page.md"
    file.write_text("".join(f"<!-- {name}: -->\nold\n<!-- end of {name} -->\n" for name in parts))
    results.write(file, tmp_path, parts)
    assert [pages.lines_of(file.read_text(), name) for name in parts] == [["old"], ["new"]]


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_pages_have_the_marks_of_their_parts(name, file):
    page = results.page_of(name)
    for parts, path in ((page.parts, ROOT / "docs" / file), (page.readme, ROOT / "README.md")):
        text = path.read_text("utf-8")
        assert all(pages.lines_of(text, part) for part in parts)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("mass-*", ["mass-1", "mass-2"]),  # mass-3 was not played to its end
        ("root mass-1", ["root", "mass-1"]),
        ("mass-3", []),
        ("mass-1 holders-4", []),  # all patterns are needed
    ],
)
def test_folders_are_those_that_are_complete(tmp_path, patterns, names):
    for end in ("mass-2/tables/rounds", "mass-1/metrics.json", "root/result.json", "mass-3/x"):
        (tmp_path / end).mkdir(parents=True)
    assert [folder.path.name for folder in Folder.find(tmp_path, patterns)] == names


def test_a_table_in_markdown():
    rows = [["1", "", "3"], ["4", "5", ""]]
    assert pages.table(["a", "b", "c"], rows) == [
        "| a | b | c |",
        "|---|---|---|",
        "| 1 | | 3 |",
        "| 4 | 5 | |",
    ]


def test_lines_between_marks_are_replaced():
    begin, end = "<!-- x: written by y -->\n", "<!-- end of x -->\n"
    new = pages.with_lines(f"before\n{begin}old\n{end}after\n", "x", ["new"])
    assert new == f"before\n{begin}new\n{end}after\n"
    assert pages.lines_of(new, "x") == ["new"]
    for part in (f"before\n{begin}", f"{end}after\n"):
        with pytest.raises(SystemExit, match=r"the page has no lines <!-- x: \.\.\. --> and"):
            pages.with_lines(part, "x", ["new"])
