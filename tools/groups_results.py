"""Measure Scribe in worlds, and write ``docs/groups_results.md`` of it.

``python -m tools.groups_results OUT [--only NAME ...] [--page FILE]``

Each experiment has a folder of its own in OUT; one that is complete is not run again.  Most are a
command of scribe-spark, some with tables that are written to OUT/inputs before
(:mod:`groups_inputs`); one steps a world in Python (:mod:`groups_root`).  With ``--page`` nothing
is run: the page, and its figure beside it, are written from what is in OUT.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from scribe_spark.core.paths import replace_file
from tools import groups_inputs, groups_root, pages
from tools.groups_churn import FIGURE, WAITED, churn, churn_figure
from tools.groups_claims import claims
from tools.groups_failures import holders, mass, root
from tools.groups_tables import complete, memberships, number, of, per_cent, rounds
from tools.pages import table

_MASS = ["world", "--config", "data/groups_mass_failure.toml"]
_ROOTS = ["world", "--config", "data/groups_root_failures.toml"]
_CHURN = ["world", "--config", "data/groups_churn.toml"]

#: Folder in OUT -> command of scribe-spark; none where the world is stepped in Python.
EXPERIMENTS: dict[str, list[str]] = {
    **{f"mass-{seed}": [*_MASS, "--seed", str(seed)] for seed in range(1, 6)},
    **{
        f"mass-{seed}-replicas-8": [*_MASS, "--seed", str(seed), "--replicas", "8"]
        for seed in range(1, 6)
    },
    "mass-best-effort": [*_MASS, "--delivery", "best-effort"],
    "root": [],
    **{f"holders-{count}": [*_ROOTS, "--holders", str(count)] for count in (1, 4, 5)},
    "created-again": ["world", *groups_inputs.flags(groups_inputs.CREATED_AGAIN)],
    "crowd": ["world", "--config", "data/groups_flash_crowd.toml"],
    **{
        f"local-{nodes}": ["world", *groups_inputs.flags(groups_inputs.local_world(nodes))]
        for nodes in groups_inputs.WAVES
    },
    **{
        f"churn-{rounds}-{seed}": [*_CHURN, "--lifetime", str(rounds), "--seed", str(seed)]
        for seed in range(1, 6)
        for rounds in (20, 60, 200)
    },
    WAITED: [*_CHURN, "--lifetime", "20", "--deadline", "20"],
}

#: Experiment -> what writes tables into a folder of inputs, and gives the flags that name them.
#: The first argument is OUT: events can be made of those of another experiment.
_INPUTS: dict[str, Callable[[Path, Path], list[str]]] = {
    "created-again": groups_inputs.created_again,
    **{
        f"local-{nodes}": partial(groups_inputs.failures, nodes=nodes)
        for nodes in groups_inputs.WAVES
    },
}

#: Experiment -> what runs it in Python.
_STEPPED: dict[str, Callable[[Path], None]] = {"root": groups_root.run}

#: Experiment -> the one whose tables it needs.
_NEEDS = {"created-again": "holders-5"}


def run(out: Path, names: Iterable[str]) -> None:
    """Run the experiments that are not complete."""
    for name in names:
        if name in _STEPPED:
            _STEPPED[name](out / name)
            continue
        if name in _NEEDS:
            run(out, [_NEEDS[name]])
        command = EXPERIMENTS[name]
        if name in _INPUTS:
            folder = out / "inputs" / name
            folder.mkdir(parents=True, exist_ok=True)
            command = [*command, *_INPUTS[name](out, folder)]
        pages.run({name: command}, out, [name])


# --- the page

_HEAD = """\
# Scribe's trees in worlds, measured

This page measures how Scribe repairs its trees in [worlds](living.md). `make groups-results` writes it. A delivery is *lost* if it does not arrive within the deadline.
"""


def page(out: Path, file: Path) -> str:
    """Return the page of the experiments that are there; write its figure beside it."""
    drawn = churn_figure(out)
    if drawn is not None:
        replace_file(file.parent / FIGURE, drawn.encode())
    sections = (mass, root, holders, churn, _crowd, claims)
    return _HEAD + "".join(f"{line}\n" for section in sections for line in section(out))


def _crowd(out: Path) -> list[str]:
    if not complete(out, ["crowd"]):
        return []
    measured, trees = rounds(out / "crowd"), memberships(out / "crowd")
    at = int(of(measured, "scribe.members").diff().idxmax())
    joins = {cause: of(measured, f"scribe.joins.{cause}")[at] for cause in ("own", "forwarder")}
    tree = trees[trees["group"] == 1]
    root = tree.loc[tree["root"], "node"].iloc[0]
    children = tree["parent"].value_counts()
    answered = "scribe.joins.at_root"
    at_root = of(measured, answered)[at]
    sent = sum(joins.values())
    rows = [
        ["JOINs sent by nodes that join", number(joins["own"])],
        ["messages JOIN (hops) for each node that joins",
         number(of(measured, "messages.JOIN")[at] / joins["own"])],
        ["JOINs that are answered by the root",
         f"{number(at_root)} ({per_cent(at_root, sent)})" if answered in measured else "-"],
        ["children of the root in the end", number(children.get(root, 0))],
        ["in time in the next round",
         per_cent(*(of(measured, f"scribe.publications.{name}")[at + 1]
                    for name in ("in_time", "expected")))],
    ]  # fmt: skip
    return [
        *("", "## A flash crowd", ""),
        "`data/groups_flash_crowd.toml`: 10,000 of 12,000 nodes join one group of 10 members in "
        f"round {at}.",
        "",
        *table(["", "measured"], rows),
    ]


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    pages.main(arguments, "Measure Scribe in worlds.", EXPERIMENTS, page, run)


if __name__ == "__main__":
    main(sys.argv[1:])
