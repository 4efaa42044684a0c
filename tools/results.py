"""Run the experiments of a page, or write the page.

``python -m tools.results PAGE OUT [--only EXPERIMENT ...] [--size NODES GROUPS] [--page FILE]``

PAGE is a name of :data:`PAGES`.  Each experiment has a folder of its own in OUT; an experiment that
is complete is not run again.  With ``--page`` nothing is run: the page is written from the folders
that exist, and with ``--readme`` also its rows of README.md.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from scribe_spark.core.paths import replace_file
from tools.folders import Page, run
from tools.groups_results import GROUPS
from tools.pages import with_lines
from tools.pastry_results import LIVING, RAD_UNDER_CHURN, REFERENCE_TREE
from tools.peers_living_results import PEERS_LIVING
from tools.peers_results import PEERS
from tools.questions import PARTS, QUESTIONS

PAGES: dict[str, Page] = {
    **{"living": LIVING, "rad-under-churn": RAD_UNDER_CHURN, "reference-tree": REFERENCE_TREE},
    **{"groups": GROUPS, "peers": PEERS, "peers-living": PEERS_LIVING},
    **{"questions": QUESTIONS, "parts": PARTS},
}


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
    if unknown := {*(given.only or ())} - page.experiments.keys():
        choices = ", ".join(page.experiments)
        parser.error(f"invalid choice: {min(unknown)!r} (choose from {choices})")
    if given.page is None:
        for name in given.only or page.experiments:
            (page.play or run)(given.out, name, page.command(name, given.size))
        return
    page.figures(given.out, given.page.parent)
    for file, parts in ((given.page, page.parts), (given.readme, page.readme)):
        if file is not None:
            text = file.read_text("utf-8")
            for name, (needs, lines) in parts.items():
                if any(given.out.glob(needs)):
                    text = with_lines(text, name, lines(given.out))
            replace_file(file, text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
