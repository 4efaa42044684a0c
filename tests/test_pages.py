"""What is shared by the programs that run experiments and write pages of them: tools/pages.py."""

from __future__ import annotations

import sys

import pytest

from tools import pages as module
from tools.folders import Folder

COMMANDS = {"one": ["world", "--rounds", "1"], "two": ["sweep"]}


@pytest.fixture(scope="module")
def pages():
    return module


@pytest.fixture
def commands(pages, monkeypatch):
    """The commands that are run, none of which does anything."""
    ran = []
    monkeypatch.setattr(pages.subprocess, "run", lambda command, check: ran.append(command))
    return ran


def test_experiments_are_run_with_resume(pages, commands, tmp_path):
    pages.main("", COMMANDS, None, [str(tmp_path)])
    program = [sys.executable, "-m", "scribe_spark.cli"]
    assert commands == [
        [*program, *command, "--out", str(tmp_path / name), "--resume"]
        for name, command in COMMANDS.items()
    ]


def test_only_some_experiments_are_run(pages, commands, tmp_path, capsys):
    pages.main("", COMMANDS, None, [str(tmp_path), "--only", "two"])
    assert [command[3] for command in commands] == ["sweep"]
    with pytest.raises(SystemExit):
        pages.main("", COMMANDS, None, [str(tmp_path), "--only", "three"])
    assert "invalid choice: 'three'" in capsys.readouterr().err


def test_a_page_runs_nothing(pages, commands, tmp_path):
    file = tmp_path / "page.md"
    pages.main(
        "", COMMANDS, lambda *told: "{} {}".format(*told), [str(tmp_path), "--page", str(file)]
    )
    assert file.read_text() == f"{tmp_path} {file}"
    assert not commands


def test_sections_are_those_whose_experiment_is_there(pages, tmp_path):
    (tmp_path / "two").mkdir()
    sections = [
        pages.Section(f"{name[:2]}*", f"of {name}: {{n:,}}\n{{table}}\n",
                      lambda out: {"n": 1000, "table": ["| a |", out.name]})
        for name in COMMANDS
    ]  # fmt: skip
    assert pages.sections(tmp_path, sections) == f"of two: 1,000\n| a |\n{tmp_path.name}\n"


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


def test_a_table_in_markdown(pages):
    rows = [["1", "", "3"], ["4", "5", ""]]
    assert pages.table(["a", "b", "c"], rows) == [
        "| a | b | c |",
        "|---|---|---|",
        "| 1 | | 3 |",
        "| 4 | 5 | |",
    ]


def test_lines_between_marks_are_replaced(pages):
    marks = ("<!-- begin -->\n", "<!-- end -->\n")
    text = "before\n<!-- begin -->\nold\n<!-- end -->\nafter\n"
    new = pages.with_lines(text, marks, ["new"])
    assert new == "before\n<!-- begin -->\nnew\n<!-- end -->\nafter\n"
    for part in ("before\n<!-- begin -->\n", "<!-- end -->\nafter\n"):
        with pytest.raises(SystemExit, match="the page has no lines <!-- begin --> and"):
            pages.with_lines(part, marks, ["new"])
