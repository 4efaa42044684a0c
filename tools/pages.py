"""The common part of the programs that run experiments and write pages of the documentation."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from scribe_spark.core.paths import replace_file

__all__ = ["main", "run", "sections_of", "table", "with_lines"]


def run(commands: Mapping[str, Sequence[str]], out: Path, names: Iterable[str]) -> None:
    """Run the experiments that are not complete."""
    for name in names:
        command = [sys.executable, "-m", "scribe_spark.cli", *commands[name]]
        subprocess.run([*command, "--out", str(out / name), "--resume"], check=True)


def sections_of(out: Path, sections: Mapping[str, Callable[[Path], list[str]]]) -> list[str]:
    """Return the lines of the sections whose experiment is in `out`."""
    there = [section for name, section in sections.items() if (out / name).exists()]
    return [line for section in there for line in section(out)]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown.

    Examples
    --------
    >>> table(["node", "hops"], [["1", "3"]])
    ['| node | hops |', '|---|---|', '| 1 | 3 |']
    >>> print(*table(["|G|"], []), sep="; ")
    | \\|G\\| |; |---|
    """
    rule = "|---" * len(header) + "|"
    return [_row(header), rule, *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)


def with_lines(text: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    """Return a text with other lines between two marks; refuse a text without the marks."""
    begin, end = marks
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"the page has no lines {begin.strip()} and {end.strip()}")
    return before + begin + "".join(f"{line}\n" for line in lines) + end + after


def main(
    arguments: Sequence[str],
    description: str,
    commands: Mapping[str, Sequence[str]],
    write: Callable[[Path, Path], str],
    play: Callable[[Path, Iterable[str]], None] | None = None,
) -> None:
    """Run experiments, or write their page: ``OUT [--only NAME ...] [--page FILE]``.

    ``write(OUT, FILE)`` returns the page of the experiments in OUT; ``play(OUT, names)`` runs
    experiments that need more than their commands.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=commands, default=list(commands))
    parser.add_argument("--page", type=Path, help="write this page of what is there; run nothing")
    given = parser.parse_args(arguments)
    if given.page is None and play is not None:
        play(given.out, given.only)
    elif given.page is None:
        run(commands, given.out, given.only)
    else:
        replace_file(given.page, write(given.out, given.page).encode())
