"""Run the experiments of a page, or write the page.

``python -m tools.results PAGE OUT [--only EXPERIMENT ...] [--size NODES GROUPS] [--page FILE]``

PAGE is a name of :data:`PAGES`.  Each experiment has a folder of its own in OUT; an experiment that
is complete is not run again.  With ``--page`` nothing is run: the page is written from the folders
that exist, and with ``--readme`` also its rows of README.md.  A page has its text, and marks around
the parts that are written.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from scribe_spark.core.paths import replace_file
from tools.pages import with_lines

#: Page -> the module and the name of its `Page`.
PAGES = {
    "living": ("pastry_results", "LIVING"),
    "rad-under-churn": ("pastry_results", "RAD_UNDER_CHURN"),
    "reference-tree": ("pastry_results", "REFERENCE_TREE"),
    "groups": ("groups_results", "GROUPS"),
    "peers": ("peers_results", "PEERS"),
    "peers-living": ("peers_living_results", "PEERS_LIVING"),
    "questions": ("questions", "QUESTIONS"),
    "parts": ("parts_results", "PARTS"),
}


class Part(NamedTuple):
    """The lines of a page between the marks of a name.

    Attributes
    ----------
    needs : str
        A pattern of paths in OUT; without any such path the page keeps its lines.
    lines : callable
        ``lines(OUT)`` returns the lines.
    """

    needs: str
    lines: Callable[[Path], Sequence[str]]


@dataclass(frozen=True)
class Page:
    """A page of results.

    Attributes
    ----------
    experiments : mapping of str to str
        The command of each experiment, by the name of its folder.
    parts : mapping of str to Part
        The parts of the page, by the names of their marks (:func:`tools.pages.with_lines`).
    figures : callable, optional
        ``figures(OUT, FOLDER)`` writes the figures of the page into its folder.
    play : callable, optional
        ``play(OUT, name, words)`` runs an experiment that needs more than its command.
    sized : callable, optional
        ``sized(name, size)`` returns the flags of other numbers of nodes and groups.
    readme : mapping of str to Part
        The parts of README.md.
    """

    experiments: Mapping[str, str]
    parts: Mapping[str, Part]
    figures: Callable[[Path, Path], None] = lambda out, folder: None
    play: Callable[[Path, str, list[str]], None] | None = None
    sized: Callable[[str, Sequence[str]], str] | None = None
    readme: Mapping[str, Part] = field(default_factory=dict)

    def command(self, name: str, size: Sequence[str] | None = None) -> list[str]:
        """Return the words of an experiment's command, perhaps of another size."""
        more = "" if size is None or self.sized is None else f" {self.sized(name, size)}"
        return shlex.split(self.experiments[name] + more)


def write(file: Path, out: Path, parts: Mapping[str, Part]) -> None:
    """Write the parts of a page whose experiments are in OUT."""
    text = file.read_text("utf-8")
    for name, part in parts.items():
        if any(out.glob(part.needs)):
            text = with_lines(text, name, part.lines(out))
    replace_file(file, text.encode())


def run(out: Path, name: str, words: Sequence[str]) -> None:
    """Run a command of scribe-spark, unless it is complete."""
    command = [sys.executable, "-m", "scribe_spark.cli", *words]
    subprocess.run([*command, "--out", str(out / name), "--resume"], check=True)


def page_of(name: str) -> Page:
    """Return a page by its name."""
    module, variable = PAGES[name]
    page: Page = getattr(import_module(f"tools.{module}"), variable)
    return page


def main(arguments: Sequence[str]) -> None:
    """Run experiments, or write their page."""
    parser = argparse.ArgumentParser(description="Run the experiments of a page, or write it.")
    parser.add_argument("name", metavar="PAGE", choices=PAGES, help=", ".join(PAGES))
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--only", nargs="+", metavar="EXPERIMENT")
    parser.add_argument("--size", nargs=2, metavar=("NODES", "GROUPS"), help="of peers")
    parser.add_argument("--page", type=Path, help="write this page of what is there; run nothing")
    parser.add_argument("--readme", type=Path, help="with --page peers: write its rows here, too")
    given = parser.parse_args(arguments)
    page = page_of(given.name)
    for name in given.only or ():
        if name not in page.experiments:
            parser.error(f"invalid choice: {name!r} (choose from {', '.join(page.experiments)})")
    if given.page is None:
        for name in given.only or page.experiments:
            (page.play or run)(given.out, name, page.command(name, given.size))
        return
    page.figures(given.out, given.page.parent)
    write(given.page, given.out, page.parts)
    if given.readme is not None:
        write(given.readme, given.out, page.readme)


if __name__ == "__main__":
    main(sys.argv[1:])
