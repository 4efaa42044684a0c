"""Play the pages on extensions: write their files, run their commands, and write the outputs.

    python -m tools.extending [NAME ...]

NAME is ``rule`` for docs/extending_rule.md.  A block of `python` whose first line is a comment with
a name, such as ``# downhill.py``, is a file.  Each other block is run, after the blocks before it,
in a folder with these files; an output between the marks of `tools.tutorials` is what the block
before it prints.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

from scribe_spark.core.paths import replace_file
from tools.tutorials import ROOT, blocks_of, run_as_a_user, with_outputs

_NAME = re.compile(r"# (\w+\.py)\n")


def pages() -> dict[str, Path]:
    """Return the pages by their names."""
    found = sorted(ROOT.glob("docs/extending_*.md"))
    return {page.stem.removeprefix("extending_"): page for page in found}


def files_of(text: str) -> dict[str, str]:
    """Return the files of a page: the contents by name."""
    blocks = [block.code for block in blocks_of(text) if block.language == "python"]
    return {name[1]: code for code in blocks if (name := _NAME.match(code))}


def play(text: str, folder: Path) -> Iterator[str]:
    """Run each block of a page in a folder that has the files, and yield what it prints."""
    (folder / "data").symlink_to(ROOT / "data")
    files = files_of(text)
    for name, code in files.items():
        replace_file(folder / name, code.encode())
    names: dict[str, object] = {}
    for block in blocks_of(text):
        with chdir(folder):
            if block.language == "sh":
                yield "".join(map(_run, block.code.replace("\\\n", " ").splitlines()))
            elif block.code in files.values():
                yield ""
            else:
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(block.code, names)
                yield printed.getvalue()


def _run(line: str) -> str:
    """Run a command of `scribe-spark`, or of Python; return what it prints."""
    program, *words = shlex.split(line)
    if program == "scribe-spark":
        return run_as_a_user(words)
    if program != "python":
        raise ValueError(f"a page has the commands scribe-spark and python alone, not {program}")
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], env=given, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{line}: ended with {done.returncode}")
    return done.stdout


def main(names: list[str]) -> None:
    """Play pages, and write their outputs."""
    for name in names or pages():
        text = pages()[name].read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            outputs = list(play(text, Path(folder)))
        replace_file(pages()[name], with_outputs(text, outputs).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
