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
from tools import groups_inputs, groups_page, groups_root, pages

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
    groups_page.WAITED: [*_CHURN, "--lifetime", "20", "--deadline", "20"],
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


def _write(out: Path, file: Path) -> str:
    figure = groups_page.churn_figure(out)
    if figure is not None:
        replace_file(file.parent / groups_page.FIGURE, figure.encode())
    return groups_page.page(out)


def main(arguments: Sequence[str]) -> None:
    pages.main(arguments, "Measure Scribe in worlds.", EXPERIMENTS, _write, run)


if __name__ == "__main__":
    main(sys.argv[1:])
