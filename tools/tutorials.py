"""Write the tutorial, and the outputs of how-tos and of the pages on extensions.

    python -m tools.tutorials [NAME ...]

NAME is that of a page, such as ``extending_rule``; by default, these are the tutorial and the two
how-tos.  `docs/tutorial.md` is the notebook :data:`NOTEBOOK`: its text, its code, and what each
cell prints and draws.

The other pages have blocks of `sh` or `python`, which are run one after the other in a folder; an
output between the marks below is what the block before it prints.  A block of `python` whose first
line is a comment with a name, such as ``# downhill.py``, is a file in this folder instead.  A
picture whose line above names a file of a run is a copy of that file, without the parts that need a
pointer.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from scribe_spark.core.paths import replace_file
from tools.run_notebook import CUT, HEADER, cells, names_of_cells

ROOT = Path(__file__).resolve().parents[1]
HOW_TOS = ("tutorial_paper", "tutorial_gossipsub")
#: The source of the tutorial, and its page.
NOTEBOOK, TUTORIAL = ROOT / "jobs" / "notebooks" / "tutorial.py", "tutorial"
FIGURES = ROOT / "docs" / "figures"

_BLOCK = re.compile(
    r"```(?P<language>sh|python)\n(?P<code>.*?)```\n"
    r"(?:\n<!-- output -->\n```text\n(?P<output>.*?)```\n<!-- end of output -->\n)?",
    re.S,
)
_PICTURE = re.compile(r"<!-- drawn by: (\S+) -->\n!\[[^\]]+\]\(([^)]+)\)")
#: The first line of the tutorial's page.
_NOTE = "<!-- written by `make tutorials` from {} -->\n"
_SMALL = re.compile(r"<!-- small: (?P<flags>.*) -->")
_FILE = re.compile(r"# (\w+\.py)\n")

#: Runs a command, given the words after `scribe-spark`; returns what it prints to stdout.
Run = Callable[[list[str]], str]


class Block(NamedTuple):
    """A block of a tutorial."""

    language: str
    code: str
    output: str | None


def page_of(name: str) -> Path:
    """Return the page of a tutorial."""
    return ROOT / "docs" / f"{name}.md"


def pages_on_extensions() -> dict[str, Path]:
    """Return the pages on extensions by their names."""
    return {page.stem: page for page in sorted(ROOT.glob("docs/extending_*.md"))}


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a tutorial, in order."""
    return [Block(**found.groupdict()) for found in _BLOCK.finditer(text)]


def pictures_of(text: str) -> list[tuple[str, str]]:
    """Return the pictures of a tutorial: the file that a run draws, and the page's file."""
    return _PICTURE.findall(text)


def files_of(text: str) -> dict[str, str]:
    """Return the files of a page: the contents by name."""
    blocks = [block.code for block in blocks_of(text) if block.language == "python"]
    return {name[1]: code for code in blocks if (name := _FILE.match(code))}


def play(text: str, folder: Path, run: Run | None = None, small: bool = False) -> Iterator[str]:
    """Run each block of a page in a folder that has the files, and yield what it prints."""
    (folder / "data").symlink_to(ROOT / "data")
    files = files_of(text)
    for name, code in files.items():
        replace_file(folder / name, code.encode())
    flags = _SMALL.search(text)
    more = shlex.split(flags["flags"]) if small and flags else []
    names: dict[str, object] = {}
    for block in blocks_of(text):
        with chdir(folder):
            if block.code in files.values():
                yield ""
            elif block.language == "python":
                yield _printed(block.code, names)
            else:
                yield "".join(_commands(block.code, run or run_as_a_user, more))


def _printed(code: str, names: dict[str, Any]) -> str:
    """Run a block or a cell; return what it prints."""
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, NOTEBOOK.name, "exec"), names)
    return printed.getvalue()


def _commands(code: str, run: Run, more: list[str]) -> Iterator[str]:
    """Run the lines of a block of commands; yield what each prints."""
    for line in code.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line)
        if program == "scribe-spark":
            yield run(words + (more if words[0] in ("run", "world") else []))
        elif program == "python":
            yield _run_python(words)
        else:
            raise ValueError(f"a page has the commands scribe-spark and python, not {program}")


# --- the tutorial


class Shown(NamedTuple):
    """What a cell of a notebook shows."""

    printed: str = ""
    drawings: tuple[str, ...] = ()


def play_notebook(text: str, spark: Any, widgets: Mapping[str, str]) -> Iterator[Shown]:
    """Run the cells of a notebook, and yield what each shows."""
    drawings: list[str] = []
    names = names_of_cells(spark, widgets) | {"displayHTML": drawings.append}
    for cell in cells(text):
        yield Shown(_printed(cell, names), tuple(drawings))
        drawings.clear()


def page_of_notebook(text: str, shown: Iterable[Shown]) -> str:
    """Return the page of a notebook, with what its cells show."""
    parts = [_NOTE.format(NOTEBOOK.relative_to(ROOT).as_posix())]
    for cell, seen in zip(cells(text), shown, strict=True):
        code = cell.strip().removeprefix(HEADER).removeprefix(CUT).strip()
        if code.startswith("# MAGIC %md"):
            words = re.sub(r"^# MAGIC ?", "", code, flags=re.M).removeprefix("%md")
            parts.append(words.strip() + "\n")
            continue
        parts.append(f"```python\n{code}\n```\n")
        if seen.printed:
            parts.append(f"<!-- output -->\n```text\n{seen.printed}```\n<!-- end of output -->\n")
        for name, heading in map(name_of, seen.drawings):
            parts.append(f"![{heading}](figures/{name}.svg)\n")
    return "\n".join(parts)


def name_of(drawing: str) -> tuple[str, str]:
    """Return the name of a picture's file without its ending, and its heading."""
    found = re.search(r'<title id="([^"]+)-title">([^<]*)</title>', drawing)
    assert found is not None
    return f"{TUTORIAL}-{found[1]}", found[2]


def write_tutorial(spark: Any) -> None:
    """Write the tutorial's page and pictures."""
    text = NOTEBOOK.read_text("utf-8")
    shown = list(play_notebook(text, spark, {}))
    replace_file(page_of(TUTORIAL), page_of_notebook(text, shown).encode())
    for drawing in (one for seen in shown for one in seen.drawings):
        replace_file(FIGURES / f"{name_of(drawing)[0]}.svg", picture(drawing).encode())


# --- how-tos


def with_outputs(text: str, outputs: list[str]) -> str:
    """Return a tutorial with other outputs."""
    left = iter(outputs)

    def block(found: re.Match[str]) -> str:
        printed, at = next(left), found.start()
        if found["output"] is None:
            return found[0]
        begin, end = (place - at for place in found.span("output"))
        return found[0][:begin] + printed + found[0][end:]

    return _BLOCK.sub(block, text)


def picture(svg: str) -> str:
    """Return a figure without what only a pointer shows, and with coordinates of two decimals."""
    names = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
    for prefix, uri in names.items():
        ElementTree.register_namespace(prefix, uri)
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if "spot" in (child.get("class") or "").split():
                parent.remove(child)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", ElementTree.tostring(root, encoding="unicode")) + "\n"


def run_as_a_user(words: list[str]) -> str:
    """Run a command in a process of its own; its progress goes to stderr."""
    return _run_python(["-m", "scribe_spark.cli", *words])


def _run_python(words: list[str]) -> str:
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], env=given, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{shlex.join(words)}: ended with {done.returncode}")
    return done.stdout


def main(names: list[str]) -> None:
    """Write the pages and the pictures."""
    for name in names or (TUTORIAL, *HOW_TOS):
        if name == TUTORIAL:
            from scribe_spark.notebook import spark

            write_tutorial(spark)
            continue
        page = page_of(name)
        text = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            outputs = list(play(text, Path(folder)))
            for source, target in pictures_of(text):
                drawn = Path(folder, source).read_text("utf-8")
                (page.parent / target).parent.mkdir(exist_ok=True)
                replace_file(page.parent / target, picture(drawn).encode())
        replace_file(page, with_outputs(text, outputs).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
