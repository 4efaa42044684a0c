"""Run the experiments of a page, or write the page.

``python -m tools.results PAGE OUT [--only EXPERIMENT ...] [--size NODES GROUPS] [--page FILE]``

PAGE is a name of :data:`PAGES`.  Each experiment has a folder of its own in OUT; an experiment that
is complete is not run again.  With ``--page`` nothing is run: the page is written from the folders
that exist, and with ``--readme`` also its rows of README.md.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

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
}


class Section(NamedTuple):
    """A part of a page.

    Attributes
    ----------
    needs : str
        A pattern of paths in OUT; without any such path the page does not have the section.
    text : str
        Markdown; ``{NAME}`` stands for a value.
    values : callable
        ``values(OUT)`` returns the values, or the lines of the value ``table``.
    """

    needs: str
    text: str
    values: Callable[[Path], Mapping[str, Any] | list[str]]


@dataclass(frozen=True)
class Page:
    """A page of results.

    Attributes
    ----------
    experiments : mapping of str to str
        The command of each experiment, by the name of its folder.
    sections : sequence of Section
    head : str
        The text before the sections.
    marks : pair of str, optional
        The lines of an existing page between which the text is written; None: a page of its own.
    more : callable, optional
        ``more(OUT, FILE)`` writes the figures beside the page, and returns the text after the
        sections.
    play : callable, optional
        ``play(OUT, name, words)`` runs an experiment that needs more than its command.
    sized : callable, optional
        ``sized(name, size)`` returns the flags of other numbers of nodes and groups.
    readme : callable, optional
        ``readme(OUT, text)`` returns README.md with its rows of the page.
    """

    experiments: Mapping[str, str]
    sections: Sequence[Section] = ()
    head: str = ""
    marks: tuple[str, str] | None = None
    more: Callable[[Path, Path], str] = lambda out, file: ""
    play: Callable[[Path, str, list[str]], None] | None = None
    sized: Callable[[str, Sequence[str]], str] | None = None
    readme: Callable[[Path, str], str] | None = None

    def command(self, name: str, size: Sequence[str] | None = None) -> list[str]:
        """Return the words of an experiment's command, perhaps of another size."""
        more = "" if size is None or self.sized is None else f" {self.sized(name, size)}"
        return shlex.split(self.experiments[name] + more)

    def text(self, out: Path, file: Path) -> str:
        """Return the page of the experiments in OUT; write the figures beside it."""
        written = self.head + "".join(_texts(out, self.sections)) + self.more(out, file)
        if self.marks is None:
            return written
        return with_lines(file.read_text("utf-8"), self.marks, [written])


def _texts(out: Path, sections: Iterable[Section]) -> Iterable[str]:
    """Return the text of each section whose experiments are in OUT."""
    for section in sections:
        if any(out.glob(section.needs)):
            found = section.values(out)
            values = found if isinstance(found, Mapping) else {"table": found}
            lines = "\n".join(values.get("table", ()))
            yield section.text.format(**{**values, "table": lines})


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
    replace_file(given.page, page.text(given.out, given.page).encode())
    if given.readme is not None and page.readme is not None:
        text = page.readme(given.out, given.readme.read_text("utf-8"))
        replace_file(given.readme, text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
