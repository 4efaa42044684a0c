"""Each command goes on with, replaces and deletes only what is its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scribe_spark import experiments
from scribe_spark.config import Execution, Paper, ReferenceTreeConfig, RunConfig, WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments import Sweep, paper
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.owner import (
    OWNERS,
    PAPER,
    REFERENCE_TREE,
    RUN,
    SWEEP,
    WORLD,
    WORLD_SWEEP,
    Owner,
)
from scribe_spark.experiments.run_reference_tree import check_reference_tree

RUNS = RunConfig(nodes=50, groups=2)
WORLDS = WorldConfig(nodes=50, generator="churn")

#: What the manifest of each command has that tells it from the others'.
DONE: dict[str, dict[str, Any]] = {
    RUN.noun: {"phases": []},
    SWEEP.noun: {"phases": [], "points": ["b=2"], "resolved": {"sweep": ["b"], "b": [2]}},
    WORLD.noun: {"world": {"tables": {}, "saved": None}},
    WORLD_SWEEP.noun: {"phases": [], "points": ["b=2"], "resolved": {"b": [2], "lookups": 1000}},
    REFERENCE_TREE.noun: {"points": {}},
    PAPER.noun: {"runs": []},
}

CHECKS: dict[str, Callable[[Execution], None]] = {
    RUN.noun: lambda how: experiments.check(RUNS, how),
    SWEEP.noun: lambda how: experiments.check_sweep(Sweep(RUNS, {"b": (2,)}), how),
    WORLD.noun: lambda how: experiments.check_world_run(WORLDS, how),
    WORLD_SWEEP.noun: lambda how: experiments.check_sweep(Sweep(WORLDS, {"b": (2,)}), how),
    REFERENCE_TREE.noun: lambda how: check_reference_tree(ReferenceTreeConfig(), how),
    PAPER.noun: lambda how: paper.check(Paper(), how),
}


def left_by(owner: Owner, out: Path) -> dict[str, str]:
    """A folder as a command leaves it, with something of the user's: file -> text."""
    manifest = {"resolved": {}, "inputs": {}, "versions": {}} | DONE[owner.noun]
    texts = {"manifest.json": json.dumps(manifest), "notes.txt": "mine"}
    texts |= {name if "." in name else f"{name}/x": "content" for name in owner.contents}
    if owner.points:
        point = {"resolved": {}} | DONE[WORLD.noun if owner is WORLD_SWEEP else RUN.noun]
        texts |= {"b=2/manifest.json": json.dumps(point), "b=2/tables/x": "content"}
    for name, text in texts.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    return texts


def content(out: Path) -> dict[str, str]:
    return {str(p.relative_to(out)): p.read_text() for p in out.rglob("*") if p.is_file()}


@pytest.mark.parametrize("how", ["overwrite", "resume"])
@pytest.mark.parametrize("theirs", OWNERS, ids=lambda owner: owner.noun)
@pytest.mark.parametrize("ours", OWNERS, ids=lambda owner: owner.noun)
def test_each_command_takes_only_its_own(ours, theirs, how, tmp_path):
    before = left_by(theirs, tmp_path)
    execution = Execution(out=str(tmp_path), **{how: True})
    if ours is theirs:
        if how == "overwrite":
            CHECKS[ours.noun](execution)
        return
    with pytest.raises(InputError) as refused:
        CHECKS[ours.noun](execution)
    says = f"holds {theirs.noun}, not {ours.noun}; name a new folder"
    assert str(refused.value) == f"out = {str(tmp_path)!r}: {says}"
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("ours", "theirs", "their_file"),
    [
        (RUN, SWEEP, "b=2"),
        (RUN, REFERENCE_TREE, "points"),
        (RUN, PAPER, "arrivals"),
        (SWEEP, RUN, "figures"),
        (WORLD, RUN, "metrics.json"),
    ],
    ids=lambda value: getattr(value, "noun", value),
)
def test_where_the_manifest_is_damaged_the_contents_say_whose_it_is(
    ours, theirs, their_file, tmp_path
):
    left_by(theirs, tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError) as refused:
        CHECKS[ours.noun](Execution(out=str(tmp_path), overwrite=True))
    assert f"cannot be read, and {their_file} is not of {ours.noun}" in str(refused.value)
    CHECKS[theirs.noun](Execution(out=str(tmp_path), overwrite=True))


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.noun)
def test_what_is_cleared_is_the_commands_own(spark, owner, tmp_path):
    for other in OWNERS:
        left_by(other, tmp_path)
    before = left_by(owner, tmp_path).keys() | content(tmp_path).keys()
    with Folder(spark, str(tmp_path)) as folder:
        folder.clear(owner)
    gone = before - content(tmp_path).keys()
    assert gone == {name for name in before if name.split("/")[0] in owner.contents}


@pytest.mark.parametrize("theirs", OWNERS, ids=lambda owner: owner.noun)
def test_a_sweep_removes_points_that_are_runs_and_nothing_else(spark, theirs, tmp_path):
    before = left_by(theirs, tmp_path)
    with Folder(spark, str(tmp_path)) as folder:
        folder.remove(RUN)
    assert content(tmp_path) == ({"notes.txt": "mine"} if theirs is RUN else before)


def test_the_calls_themselves_refuse(spark, small, tmp_path):
    """Where OUT is elsewhere, nothing is checked before Spark is started."""
    from .conftest import copied

    out = copied(small.out, tmp_path / "out")
    how = Execution(out=str(out), overwrite=True)
    with pytest.raises(InputError, match="holds a run, not a sweep of runs"):
        experiments.run_sweep(spark, Sweep(RUNS, {"b": (2,)}), how)
    with pytest.raises(InputError, match="holds a run, not a world"):
        experiments.run_world(spark, WORLDS, how)
    assert (out / "tables" / "tree_edges").is_dir()
    left_by(SWEEP, tmp_path / "sweep")
    with pytest.raises(InputError, match="holds a sweep of runs, not a run"):
        experiments.run(spark, RUNS, how.replace(out=str(tmp_path / "sweep")))
    assert (tmp_path / "sweep" / "b=2" / "tables" / "x").exists()
