"""What all pages of results share: tools/results.py, tools/pages.py, tools/folders.py."""

from __future__ import annotations

import sys

import pytest

from tools import pages, results
from tools.folders import Folder
from tools.results import Page, Section

PAGE = Page(
    {"one": "world --rounds 1", "two": "sweep"},
    more=lambda out, file: f"{out} {file}",
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
    results.main(["living", str(tmp_path), "--page", str(file)])
    assert file.read_text() == f"{tmp_path} {file}"
    assert not commands


def test_sections_are_those_whose_experiment_is_there(tmp_path):
    (tmp_path / "two").mkdir()
    (tmp_path / "three").mkdir()
    every = (
        Section("on*", "of one: {table}\n", lambda out: ["| a |"]),
        Section("tw*", "of two: {n:,}\n{table}\n", lambda out: {"n": 1000, "table": ["| a |"]}),
        Section("three", "of three: {table}\n", lambda out: ["| b |", out.name]),
    )
    text = Page({}, every, head="head\n").text(tmp_path, tmp_path / "page.md")
    assert text == f"head\nof two: 1,000\n| a |\nof three: | b |\n{tmp_path.name}\n"


@pytest.mark.parametrize("name", results.PAGES)
def test_every_page_has_experiments(name):
    assert results.page_of(name).experiments


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
    marks = ("<!-- begin -->\n", "<!-- end -->\n")
    text = "before\n<!-- begin -->\nold\n<!-- end -->\nafter\n"
    new = pages.with_lines(text, marks, ["new"])
    assert new == "before\n<!-- begin -->\nnew\n<!-- end -->\nafter\n"
    for part in ("before\n<!-- begin -->\n", "<!-- end -->\nafter\n"):
        with pytest.raises(SystemExit, match="the page has no lines <!-- begin --> and"):
            pages.with_lines(part, marks, ["new"])
