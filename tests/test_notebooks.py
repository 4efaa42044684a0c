"""The notebooks, executed at a small size, and their runner."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from scribe_spark import notebook
from scribe_spark.runtime import graph_frame
from tools import run_notebook as runner

ROOT = Path(__file__).resolve().parent.parent
BOOKS = ROOT / "jobs" / "notebooks"
TINY = str(ROOT / "data" / "tiny_topology.csv")

#: What this file runs; a notebook that is not among them fails the first test.
NOTEBOOKS = {
    *("quick_start.py", "paper_experiment.py", "lookup.py", "graphs.py", "mass_failure.py"),
    *("reference_tree.py", "tree_repair.py", "peers.py"),
    "tutorial.py",  # test_tutorials plays it
}


#: What Databricks gives a notebook.
GIVEN = {"dbutils", "spark", "display", "displayHTML"}


@pytest.fixture
def given(tmp_path):
    """Values of widgets that many notebooks have."""
    places = {"quick_start_out": str(tmp_path / "quick"), "paper_out": str(tmp_path / "paper")}
    return {"topology": TINY, **places}


@pytest.fixture
def run(spark, given, monkeypatch):
    """Run a notebook as a script of plain Python, which finds the session of the tests."""

    def call(name: str, **more: str) -> dict:
        text = (BOOKS / name).read_text()
        known = {name: value for name, value in given.items() if f'"{name}"' in text}
        widgets = notebook.Widgets(known | more, arguments=True)
        monkeypatch.setattr(notebook, "dbutils", notebook.utilities(widgets))
        return runpy.run_path(str(BOOKS / name), run_name="__main__")

    return call


@pytest.fixture
def run_on_databricks(spark, given):
    def call(name: str, **more: str) -> dict:
        return runner.run(BOOKS / name, spark, given | more)

    return call


def test_every_notebook_is_run_here():
    assert {path.name for path in BOOKS.glob("*.py")} == NOTEBOOKS


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_notebook_imports_what_only_databricks_gives(name):
    """Before its first use, and only elsewhere."""
    tree = ast.parse((BOOKS / name).read_text())
    (at,) = (
        place
        for place, part in enumerate(tree.body)
        if isinstance(part, ast.If) and ast.unparse(part.test) == "'dbutils' not in globals()"
    )
    (imported,) = tree.body[at].body
    assert ast.unparse(imported).startswith("from scribe_spark.notebook import ")
    used = [
        {part.id for part in ast.walk(one) if isinstance(part, ast.Name)} & GIVEN
        for one in tree.body
    ]
    assert not set().union(*used[:at])
    assert {alias.name for alias in imported.names} == set().union(*used[at + 1 :])


def test_arguments_of_a_script_are_values_of_widgets(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from scribe_spark.notebook import dbutils\n"
        "dbutils.widgets.text('nodes', '1')\ndbutils.widgets.text('seed', '2')\n"
        "print(dbutils.widgets.get('nodes'), dbutils.widgets.get('seed'))\n"
        "dbutils.notebook.exit('enough')\n1 / 0\n"
    )

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, str(script), *arguments]
        return subprocess.run(line, capture_output=True, text=True)

    # as Jupyter's own program is started
    done = call("-f", "/x/kernel=1.json", "--History.file=:memory:", "nodes=7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 2\nNotebook exited: enough\n", "")
    assert "widget = 'node': is unknown; did you mean 'nodes'?" in call("node=7").stderr


@pytest.mark.slow
def test_quick_start(run):
    names = run("quick_start.py", nodes="60", groups="3")
    largest = {row["system"]: row for row in names["largest"].collect()}
    assert set(largest) == {"scribe", "ip_multicast", "naive_unicast"}
    # 60 members, of whom the root, if it is one, is left out
    assert {row["members"] for row in largest.values()} <= {59, 60}
    assert largest["scribe"]["mean_ms"] >= largest["ip_multicast"]["mean_ms"]
    assert largest["ip_multicast"]["mean_ms"] == largest["naive_unicast"]["mean_ms"]
    idle = {row["system"]: row["idle_nodes"] for row in names["busiest"].collect()}
    assert idle["ip_multicast"] == 60
    assert idle["naive_unicast"] >= 57  # at most a root a group has work


@pytest.mark.slow
def test_mass_failure(run):
    names = run("mass_failure.py", nodes="120", lookups="500")
    rounds = names["rounds"].set_index(["repair", "round"])
    assert rounds["nodes.live"].tolist() == [120, 108, 108, 108, 108] * 2
    assert rounds.loc[("lazy", 4), "leaf_sets.right"] == 1
    assert rounds.loc[("lazy", 4), "cells.missing"] < rounds.loc[("none", 4), "cells.missing"]
    assert names["hops"].shape == (5, 2)


def test_reference_tree(run_on_databricks):
    """Figure 2 of Costa and Frey, as Section 3.5 tells it."""
    names = run_on_databricks("reference_tree.py")
    first, joined, failed = names["trees"].values()
    tops = {5: 4, 9: 8, 11: 10, 13: 12, 15: 14}
    assert first["topmost_lo"].to_dict() == tops
    assert joined["topmost_lo"].to_dict() == tops | {4: 4, 5: 5}
    parents = [tree["parent"].dropna().astype(int).to_dict() for tree in (first, joined, failed)]
    assert parents[0] == {5: 9, 11: 13, 13: 9, 15: 13}
    assert parents[1] == {4: 9, 5: 4, 11: 13, 13: 9, 15: 13}
    assert parents[2] == {4: 9, 5: 4, 11: 15, 15: 9}
    join, failure = names["changes"].values()
    assert (join["removed"], join["created"]) == ([[5, 9]], [[4, 5], [4, 9]])
    assert join["hosts"] == [4, 5, 9]  # 11, 13 and 15 are unaffected
    assert failure["removed"] == [[9, 13], [11, 13], [13, 15]]
    assert failure["created"] == [[9, 15], [11, 15]]


def test_graphs_without_the_jar(run, run_on_databricks, capsys, monkeypatch):
    pytest.importorskip("graphframes")
    monkeypatch.setattr(graph_frame, "_JVM_CLASS", "org.graphframes.NoSuchClass")
    names = run_on_databricks("graphs.py", nodes="60", groups="3")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Notebook exited: GraphFrames cannot be used: io.graphframes:")
    assert "overlay" not in names
    with pytest.raises(notebook.NotebookExit) as ended:
        run("graphs.py", nodes="60", groups="3")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{line}\n")


def test_graphs(run, with_graphframes, capsys):
    names = run("graphs.py", nodes="60", groups="3")
    assert capsys.readouterr().out.count("connected components: 1\n") == 1
    links = names["simulation"].graph.edges
    degrees = {row["outDegree"]: row["count"] for row in names["degrees"].collect()}
    assert degrees == links["src"].value_counts().value_counts().to_dict()
    assert (names["tree_nodes"], names["tree_edges"], names["parents"]) == (60, 59, 1)
    lan_ms = 2  # the links of both ends, which are not the network's
    assert names["after"] - lan_ms == pytest.approx(2 * (names["before"] - lan_ms))
    assert str(names["slow"].config.topology.kind).startswith("graph:")


# --- the runner, on notebooks of its own making ---------------------------------------------------


NOTEBOOK = """# Databricks notebook source
# MAGIC %md
# MAGIC # A title

# COMMAND ----------

dbutils.widgets.text("nodes", "10")
dbutils.widgets.dropdown("tie", "delay", ["delay", "seeded"], "Tie rule")
nodes = int(dbutils.widgets.get("nodes"))

# COMMAND ----------

display(nodes * 2)
seen = spark
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str = NOTEBOOK) -> Path:
        path = tmp_path / "notebook.py"
        path.write_text(text)
        return path

    return write


def test_a_notebook_can_exit(written, capsys):
    leaves = '\n# COMMAND ----------\ndbutils.notebook.exit("enough")\nlast = 1\n'
    names = runner.run(written(NOTEBOOK + leaves + "\n# COMMAND ----------\n1 / 0\n"), None)
    assert capsys.readouterr().out == "20\nNotebook exited: enough\n"
    assert "seen" in names
    assert "last" not in names
