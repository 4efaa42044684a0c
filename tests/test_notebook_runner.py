"""The notebook runner, on notebooks of its own making."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from scribe_spark import notebook as notebook_functions
from scribe_spark.errors import InputError
from tools import run_notebook as runner

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
def notebook(tmp_path):
    def write(text: str = NOTEBOOK) -> Path:
        path = tmp_path / "notebook.py"
        path.write_text(text)
        return path

    return write


def test_cells_share_a_namespace(notebook, capsys):
    names = runner.run(notebook(), "a session")
    assert names["seen"] == "a session"
    assert capsys.readouterr().out == "20\n"


def test_given_values_win(notebook, capsys):
    runner.run(notebook(), None, {"nodes": "7", "of another notebook": "1"})
    assert capsys.readouterr().out == "14\n"


def test_a_choice_must_be_one_of_its_choices(notebook):
    with pytest.raises(InputError, match=r"tie = 'best': must be one of delay, seeded"):
        runner.run(notebook(), None, {"tie": "best"})


def test_an_unknown_widget_gets_the_nearest():
    widgets = notebook_functions.Widgets({})
    widgets.text("nodes", "1")
    with pytest.raises(InputError, match="did you mean 'nodes'"):
        widgets.get("node")


def test_a_notebook_can_exit(notebook, capsys):
    leaves = '\n# COMMAND ----------\ndbutils.notebook.exit("enough")\nlast = 1\n'
    names = runner.run(notebook(NOTEBOOK + leaves + "\n# COMMAND ----------\n1 / 0\n"), None)
    assert capsys.readouterr().out == "20\nNotebook exited: enough\n"
    assert "seen" in names
    assert "last" not in names


def test_three_cells():
    assert len(list(runner.cells(NOTEBOOK))) == 3


def test_tracebacks_show_the_files_lines(notebook):
    path = notebook(NOTEBOOK + "\n# COMMAND ----------\n\n1 / 0\n")
    line = path.read_text().splitlines().index("1 / 0") + 1
    with pytest.raises(ZeroDivisionError) as failed:
        runner.run(path, None)
    last = traceback.extract_tb(failed.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (str(path), line)


def test_not_a_notebook(notebook):
    with pytest.raises(InputError, match="must start with '# Databricks notebook source'"):
        runner.run(notebook("print(1)\n"), None)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        runner.run(tmp_path / "none.py", None)


def test_display_shows_dataframes(spark, capsys):
    notebook_functions.display(spark.range(2))
    assert "|id |" in capsys.readouterr().out


def test_no_notebook_is_bad_input(capsys):
    assert runner.main(["nodes=5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
