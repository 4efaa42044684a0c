"""Run the experiments of a page, or write the page.

``python -m tools.results PAGE OUT [--only EXPERIMENT ...] [--size NODES GROUPS] [--page FILE]``

PAGE is a name of :data:`PAGES`.  Each experiment has a folder of its own in OUT; an experiment that
is complete is not run again.  With ``--page`` nothing is run: the page is written from the folders
that exist, and with ``--readme`` also its rows of README.md.  A page has its text, and marks around
the parts that are written.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scribe_spark.core.paths import replace_file
from tools import groups_results, pastry_results, peers_living_results, peers_results
from tools.pages import Lines, Page, run, with_part
from tools.questions import PARTS, QUESTIONS

PAGES: dict[str, Page] = {
    "living": pastry_results.LIVING,
    "rad-under-churn": pastry_results.RAD_UNDER_CHURN,
    "reference-tree": pastry_results.REFERENCE_TREE,
    "groups": groups_results.GROUPS,
    "peers": peers_results.PEERS,
    "peers-living": peers_living_results.PEERS_LIVING,
    "questions": QUESTIONS,
    "parts": PARTS,
}


def write(file: Path, out: Path, parts: Mapping[str, tuple[str, Lines]]) -> None:
    """Write the parts of a page whose experiments are in OUT."""
    text = file.read_text("utf-8")
    for name, (needs, lines) in parts.items():
        if any(out.glob(needs)):
            text = with_part(text, name, lines(out))
    replace_file(file, text.encode())


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
    page = PAGES[given.name]
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
