"""Play the tutorials: run their blocks, and write what each prints and draws into the page.

    python -m tools.tutorials [NAME ...]

A block of `sh` or `python` is run from the top of the repository; an output between the marks below
is what the block before it prints.  A picture whose line above names a file of a run is a copy of
that file, without the parts that need a pointer.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from scribe_spark.core.paths import replace_file

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("tutorial_paper", "tutorial_gossipsub")

_BLOCK = re.compile(
    r"```(?P<language>sh|python)\n(?P<code>.*?)```\n"
    r"(?:\n<!-- output -->\n```text\n(?P<output>.*?)```\n<!-- end of output -->\n)?",
    re.S,
)
_PICTURE = re.compile(r"<!-- drawn by: (?P<source>\S+) -->\n!\[[^\]]+\]\((?P<target>[^)]+)\)")
_SMALL = re.compile(r"<!-- small: (?P<flags>.*) -->")

#: Runs a command, given the words after `scribe-spark`; returns what it prints to stdout.
Run = Callable[[list[str]], str]


@dataclass(frozen=True)
class Block:
    """A block of a tutorial."""

    language: str
    code: str
    output: str | None


def page_of(name: str) -> Path:
    """Return the page of a tutorial."""
    return ROOT / "docs" / f"{name}.md"


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a tutorial, in order."""
    return [Block(**found.groupdict()) for found in _BLOCK.finditer(text)]


def pictures_of(text: str) -> list[tuple[str, str]]:
    """Return the pictures of a tutorial: the file that a run draws, and the page's file."""
    return [(found["source"], found["target"]) for found in _PICTURE.finditer(text)]


def play(text: str, folder: Path, run: Run, small: bool = False) -> Iterator[str]:
    """Run each block of a tutorial in a folder, and yield what it prints."""
    (folder / "data").symlink_to(ROOT / "data")
    flags = _SMALL.search(text)
    more = shlex.split(flags["flags"]) if small and flags else []
    names: dict[str, object] = {}
    for block in blocks_of(text):
        with chdir(folder):
            if block.language == "python":
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(block.code, names)
                yield printed.getvalue()
            else:
                yield "".join(_commands(block.code, run, more))


def _commands(code: str, run: Run, more: list[str]) -> Iterator[str]:
    """Run the lines of a block of commands; yield what each prints."""
    for line in code.replace("\\\n", " ").splitlines():
        program, command, *words = shlex.split(line)
        if program != "scribe-spark":
            raise ValueError(f"a tutorial has the commands of scribe-spark alone, not {program}")
        yield run([command, *words, *(more if command in ("run", "world") else [])])


def with_outputs(text: str, outputs: list[str]) -> str:
    """Return a tutorial with other outputs."""
    left = iter(outputs)

    def block(found: re.Match[str]) -> str:
        printed = next(left)
        if found["output"] is None:
            return found[0]
        begin, end = (found.start("output") - found.start(), found.end("output") - found.start())
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
    command = [sys.executable, "-m", "scribe_spark.cli", *words]
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=given, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(names: list[str]) -> None:
    """Play tutorials, and write their outputs and pictures."""
    for name in names or PAGES:
        page = page_of(name)
        text = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            outputs = list(play(text, Path(folder), run_as_a_user))
            for source, target in pictures_of(text):
                drawn = Path(folder, source).read_text("utf-8")
                (page.parent / target).parent.mkdir(exist_ok=True)
                replace_file(page.parent / target, picture(drawn).encode())
        replace_file(page, with_outputs(text, outputs).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
