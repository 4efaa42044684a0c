"""The pages docs/extending_*.md: each has a file, a command, an output and a test."""

import os
import re
import subprocess
import sys

import pytest
from extending import FILES

from tools import tutorials

PAGES = tutorials.pages_on_extensions()

#: The files of tests that start Spark.
WITH_SPARK = {"test_slowest.py"}

PAGE = """\
```python
# mine.py
SIZE = 7
```

```sh
python -c "import mine; print(mine.SIZE)"
```

<!-- output -->
```text
old
```
<!-- end of output -->

```python
print(open("mine.py").readline().strip())
```

<!-- output -->
```text
```
<!-- end of output -->
"""


def test_files_are_there_when_the_other_blocks_run(tmp_path):
    outputs = list(tutorials.play(PAGE, tmp_path))
    assert outputs == ["", "7\n", "# mine.py\n"]
    written = tutorials.with_outputs(PAGE, outputs)
    assert [block.output for block in tutorials.blocks_of(written)] == [None, *outputs[1:]]


@pytest.mark.parametrize(
    ("line", "words"),
    [("rm -r out", "not rm"), ("python -c 'print(5); exit(3)'", "5\n.*ended with 3")],
)
def test_other_programs_and_failures_are_refused(line, words, tmp_path):
    with pytest.raises((ValueError, SystemExit), match=re.compile(words, re.S)):
        list(tutorials.play(f"```sh\n{line}\n```\n", tmp_path))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_file_a_command_an_output_and_a_test(name):
    text = PAGES[name].read_text("utf-8")
    blocks = tutorials.blocks_of(text)
    files = tutorials.files_of(text)
    assert any(file.startswith("test_") for file in files)
    assert any(not file.startswith("test_") for file in files)
    assert any(block.output for block in blocks)
    assert any(block.language == "sh" for block in blocks)
    for file in files:
        if file.startswith("test_"):
            assert f"python -m pytest -q {file}\n" in text


def test_the_index_has_every_page():
    index = (tutorials.ROOT / "docs" / "extending.md").read_text("utf-8")
    named = re.findall(r"\((extending_\w+)\.md\)", index)
    assert sorted(named) == sorted(PAGES)


def test_names_of_files_are_different():
    every = [name for page in PAGES.values() for name in tutorials.files_of(page.read_text())]
    assert len(every) == len(set(every)) > 15


def test_the_tests_of_the_pages_pass(tmp_path):
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, "utf-8")
    tests = sorted(name for name in FILES if name.startswith("test_") and name not in WITH_SPARK)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    given = os.environ | {"PYTHONPATH": str(tutorials.ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{len(tests)} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name, tmp_path):
    text = PAGES[name].read_text("utf-8")
    assert tutorials.with_outputs(text, list(tutorials.play(text, tmp_path))) == text
