"""The tutorial and two how-tos: each block runs, and prints what the page says."""

import code
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from scribe_spark.core.registry import SYSTEMS
from scribe_spark.systems.registry import unregister_system
from tools import tutorials

PAGE = """\
# A tutorial

<!-- small: --nodes 30 -->

```sh
scribe-spark run --nodes 100 \\
  --out out/run
scribe-spark verify out/run
```

<!-- output -->
```text
old
```
<!-- end of output -->

```python
# mine.py
NAMES = ["seen"]
```

```sh
python -c "import mine; print(mine.NAMES)"
```

```python
names = [open("mine.py").readline().split()[1]]
```

```python
print(names, open("data/tiny.toml").readable())
```

<!-- output -->
```text
```
<!-- end of output -->

<!-- drawn by: out/run/figures/a.svg -->
![A picture](figures/a.svg)
"""


def test_blocks_are_played_in_order_and_their_outputs_written(tmp_path):
    seen = []

    def run(words: list[str]) -> str:
        seen.append(words)
        return f"{words[0]}\n"

    (tmp_path / "small").mkdir()
    list(tutorials.play(PAGE, tmp_path / "small", run, small=True))  # flags for runs alone
    assert seen == [
        ["run", "--nodes", "100", "--out", "out/run", "--nodes", "30"],
        ["verify", "out/run"],
    ]
    seen.clear()
    outputs = list(tutorials.play(PAGE, tmp_path, run))
    assert seen == [["run", "--nodes", "100", "--out", "out/run"], ["verify", "out/run"]]
    assert outputs == ["run\nverify\n", "", "['seen']\n", "", "['mine.py'] True\n"]
    written = tutorials.with_outputs(PAGE, outputs)
    assert [block.output for block in tutorials.blocks_of(written)] == [
        *("run\nverify\n", None, None, None, "['mine.py'] True\n")
    ]
    assert tutorials.with_outputs(written, ["old\n", *[""] * 4]) == PAGE


# --- the tutorial

SOURCE = """\
# Databricks notebook source
# MAGIC %md
# MAGIC # A tutorial
# MAGIC
# MAGIC Text.

# COMMAND ----------

print("seen", spark)
displayHTML('<svg xmlns="http://www.w3.org/2000/svg"><title id="ring-title">A ring</title></svg>')

# COMMAND ----------

number = int(dbutils.widgets.text("nodes", "5") or dbutils.widgets.get("nodes"))
"""
#: The page of this notebook.
SHOWN = """\
<!-- written by `make tutorials` from jobs/notebooks/tutorial.py -->

# A tutorial

Text.

```python
print("seen", spark)
displayHTML('<svg xmlns="http://www.w3.org/2000/svg"><title id="ring-title">A ring</title></svg>')
```

<!-- output -->
```text
seen spark
```
<!-- end of output -->

![A ring](figures/tutorial-ring.svg)

```python
number = int(dbutils.widgets.text("nodes", "5") or dbutils.widgets.get("nodes"))
```
"""


def test_a_page_has_what_the_cells_of_a_notebook_show():
    shown = tutorials.play_notebook(SOURCE, "spark", {})
    assert tutorials.page_of_notebook(SOURCE, shown) == SHOWN


@pytest.fixture
def page() -> str:
    return tutorials.page_of(tutorials.TUTORIAL).read_text("utf-8")


@pytest.fixture
def notebook() -> str:
    return tutorials.NOTEBOOK.read_text("utf-8")


def pieces(page: str) -> list[str]:
    """The parts of a page, without outputs and pictures."""
    page = re.sub(r"<!-- output -->\n.*?<!-- end of output -->\n\n?", "", page, flags=re.S)
    return [one for one in page.split("\n\n") if not one.startswith("![")]


def test_the_page_is_the_notebook_s(page, notebook):
    nothing = [tutorials.Shown()] * notebook.count("# COMMAND ----------") + [tutorials.Shown()]
    assert pieces(page) == pieces(tutorials.page_of_notebook(notebook, nothing))
    for name in re.findall(r"^!\[.+\]\((figures/.+)\)$", page, re.M):
        assert (tutorials.page_of(tutorials.TUTORIAL).parent / name).exists()


def test_each_block_can_be_pasted_into_python(page):
    """Line by line: an indented part ends with an empty line or with the block."""
    for block in tutorials.blocks_of(page):
        held: list[str] = []
        for line in [*block.code.splitlines(), ""]:
            held.append(line)
            if code.compile_command("\n".join(held), "block", "single") is not None:
                held = []
        assert not any(held), held


@pytest.fixture
def rules_of_the_tutorial() -> Iterator[None]:
    """Unregister the systems that the tutorial registers."""
    before = set(SYSTEMS)
    yield
    for name in set(SYSTEMS) - before:
        unregister_system(name)


@pytest.mark.slow
@pytest.mark.usefixtures("rules_of_the_tutorial")
def test_the_tutorial_runs_at_a_small_size(spark, page, notebook):
    """With 300 nodes in its last step."""
    shown = list(tutorials.play_notebook(notebook, spark, {"nodes": "300"}))
    small = tutorials.blocks_of(tutorials.page_of_notebook(notebook, shown))
    written = tutorials.blocks_of(page)
    assert [first_words(block.output or "") for block in small[:-1]] == [
        first_words(block.output or "") for block in written[:-1]
    ]
    assert small[-1].output.count("300 nodes reached") == 3
    drawings = [tutorials.picture(one) for seen in shown for one in seen.drawings]
    assert len(drawings) == page.count("![")


@pytest.mark.slow
@pytest.mark.usefixtures("rules_of_the_tutorial")
def test_the_tutorial_shows_what_its_page_says(spark, page, notebook):
    shown = list(tutorials.play_notebook(notebook, spark, {}))
    assert tutorials.page_of_notebook(notebook, shown) == page
    for drawing in (one for seen in shown for one in seen.drawings):
        file = tutorials.FIGURES / f"{tutorials.name_of(drawing)[0]}.svg"
        assert tutorials.picture(drawing) == file.read_text("utf-8")


# --- how-tos


def first_words(output: str) -> list[str]:
    """Return how each line begins, whatever the numbers are."""
    return [re.sub(r"[\d.,]+", "N", line.split(maxsplit=1)[0]) for line in output.splitlines()]


@pytest.mark.parametrize("name", tutorials.HOW_TOS)
def test_commands_of_a_tutorial_are_accepted(name, call, tmp_path):
    """No block of Python is played: a run or a world that is only checked leaves nothing."""
    checked = []

    def check(words: list[str]) -> str:
        if words[0] in ("run", "world"):
            checked.append(call(*words, "--dry-run"))
        return ""

    text = tutorials.page_of(name).read_text("utf-8")
    shells = [block for block in tutorials.blocks_of(text) if block.language == "sh"]
    page = "".join(f"```sh\n{block.code}```\n" for block in shells)
    assert len(list(tutorials.play(page, tmp_path, check))) == len(shells)
    assert checked
    assert [err for code, _, err in checked if code] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", tutorials.HOW_TOS)
def test_a_tutorial_runs_at_a_small_size(name, spark, call, monkeypatch, tmp_path):
    """The blocks are the page's, the sizes are those that it has for this."""
    monkeypatch.setattr(
        "scribe_spark.cli.commands.open_session", lambda *_, **__: nullcontext(spark)
    )

    def run(words: list[str]) -> str:
        code, out, err = call(*words)
        assert code == 0, err
        return out

    text = tutorials.page_of(name).read_text("utf-8")
    outputs = list(tutorials.play(text, tmp_path, run, small=True))
    said = [block.output for block in tutorials.blocks_of(text)]
    assert sum(one is not None for one in said) >= 4
    for output, recorded in zip(outputs, said, strict=True):
        assert recorded is None or first_words(output) == first_words(recorded)
    pictures = tutorials.pictures_of(text)
    assert pictures
    assert len(pictures) == text.count("![")
    for source, target in pictures:
        assert (tmp_path / source).exists()
        assert (tutorials.page_of(name).parent / target).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", tutorials.HOW_TOS)
def test_a_tutorial_prints_what_it_says(name, tmp_path):
    text = tutorials.page_of(name).read_text("utf-8")
    outputs = list(tutorials.play(text, tmp_path))
    assert tutorials.with_outputs(text, outputs) == text
    for source, target in tutorials.pictures_of(text):
        drawn = tutorials.picture((tmp_path / source).read_text("utf-8"))
        words = re.compile(r"<(?:\w+:)?(?:desc|title)[^>]*>([^<]*)<")
        recorded = (Path(tutorials.page_of(name)).parent / target).read_text("utf-8")
        assert words.findall(drawn) == words.findall(recorded) != []
