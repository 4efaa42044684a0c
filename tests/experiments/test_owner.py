"""Each command goes on with, replaces and deletes only what is its own."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from scribe_spark import experiments
from scribe_spark.config import Execution, Paper, ReferenceTreeConfig, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Sweep, TreeSweep
from scribe_spark.experiments.comparing import check_compare_out
from scribe_spark.experiments.folder import Folder, StoredFolder, find_strange_file
from scribe_spark.experiments.manifest import (
    COMPARISON,
    OWNERS,
    PAPER,
    REFERENCE_TREE,
    RUN,
    SWEEP,
    WORLD,
    WORLD_SWEEP,
    Owner,
)
from scribe_spark.experiments.paper import PaperSweep
from scribe_spark.experiments.plan import Plan
from scribe_spark.runtime.filesystem import ArrowFiles, HadoopFiles, LocalFiles

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
    COMPARISON.noun: {"compared": "run"},
}

CHECKS: dict[str, Callable[[Execution], None]] = {
    RUN.noun: lambda how: experiments.check(RUNS, how),
    SWEEP.noun: lambda how: experiments.check_sweep(Sweep(RUNS, {"b": (2,)}), how),
    WORLD.noun: lambda how: experiments.check_world_run(WORLDS, how),
    WORLD_SWEEP.noun: lambda how: experiments.check_sweep(Sweep(WORLDS, {"b": (2,)}), how),
    REFERENCE_TREE.noun: lambda how: experiments.check_sweep(TreeSweep(ReferenceTreeConfig()), how),
    PAPER.noun: lambda how: experiments.check_sweep(PaperSweep(Paper()), how),
    COMPARISON.noun: lambda how: check_compare_out(how.out),
}


#: A file of a table, and a file in each folder that a command writes.
PART = "tables/nodes/part-00000-5e1.snappy.parquet"
FILES = {
    PART: "content",
    # what a killed run has left
    "tables/nodes/.part-00000-5e1.snappy.parquet.crc": "cut o",
    "tables/nodes/_temporary/0/attempt_1/part-00001-5e1-c000.snappy.parquet": "cut o",
    "tables/nodes/_SUCCESS": "",
    "figures/round-hops.svg": '<svg aria-labelledby="round-hops-title round-hops-words">',
    "figures/round-hops.png": "content",
    "figures/round-hops.csv": "content",
    "points/hosts-10-children-2.json": "{}",
    "sweep/part-00000-5e1.snappy.parquet": "content",
}


def left_by(owner: Owner, out: Path) -> dict[str, str]:
    """A folder as a command leaves it, with something of the user's: file -> text."""
    manifest = {"resolved": {}, "inputs": {}, "versions": {}} | DONE[owner.noun]
    texts = {"manifest.json": json.dumps(manifest), "notes.txt": "mine"}
    texts |= {name: "content" for name in owner.contents if "." in name}
    texts |= {path: text for path, text in FILES.items() if path.split("/")[0] in owner.contents}
    if owner.inner is not None:
        inner = "arrivals/seed=1" if owner is PAPER else "b=2"
        manifest = {"resolved": {}} | DONE[owner.inner.noun]
        texts |= {f"{inner}/manifest.json": json.dumps(manifest), f"{inner}/{PART}": "content"}
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


#: Files of a user: the command whose folder they are in, the folder in it, and the path in that.
STRANGE = [
    *((owner, "", "figures/mine.png") for owner in OWNERS),
    *((owner, "", "tables/mine.csv") for owner in (RUN, WORLD, REFERENCE_TREE, PAPER)),
    (RUN, "", "figures/mine.svg"),
    (RUN, "", "figures/round-hops.pdf"),
    (RUN, "", "figures/deep/round-hops.svg"),
    (RUN, "", "figures/.hidden.tmp"),
    (RUN, "", "tables/mine/part-00000-5e1.snappy.parquet"),
    (RUN, "", "tables/nodes/notes.txt"),
    (RUN, "", "tables/nodes/part-of-mine.parquet"),
    (RUN, "", "tables/nodes/deep/part-00000-5e1.snappy.parquet"),
    (RUN, "", "tables/links"),
    (REFERENCE_TREE, "", "points/mine.json"),
    (SWEEP, "", "sweep/mine.csv"),
    (SWEEP, "b=2", "tables/mine.csv"),
    (WORLD_SWEEP, "b=2", "figures/mine.png"),
    (PAPER, "arrivals/seed=1", "figures/mine.png"),
]


@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
@pytest.mark.parametrize(("owner", "inner", "path"), STRANGE)
def test_a_strange_file_is_refused_and_stays(owner, inner, path, link, tmp_path):
    left_by(owner, tmp_path)
    strange = tmp_path / inner / path
    strange.parent.mkdir(parents=True, exist_ok=True)
    if link:
        strange.symlink_to("nowhere")
    else:
        strange.write_text("mine")
    before = content(tmp_path)
    with pytest.raises(InputError) as refused:
        CHECKS[owner.noun](Execution(out=str(tmp_path), overwrite=True))
    says = "which scribe-spark did not write and would delete; move it away, or name another OUT"
    assert str(refused.value) == f"out = {str(tmp_path / inner)!r}: holds {path!r}, {says}"
    assert content(tmp_path) == before
    strange.unlink()
    CHECKS[owner.noun](Execution(out=str(tmp_path), overwrite=True))


@pytest.mark.parametrize(
    "path", ["tables", "tables/nodes", PART, "figures", "figures/round-hops.svg"]
)
def test_a_link_by_the_name_of_a_file_of_ours_is_refused(path, tmp_path):
    left_by(RUN, tmp_path / "out")
    (tmp_path / "out" / path).rename(tmp_path / "elsewhere")
    (tmp_path / "out" / path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"holds '{path}', which"):
        CHECKS[RUN.noun](Execution(out=str(tmp_path / "out"), overwrite=True))


@pytest.mark.parametrize("path", ["metrics.json", "figures", "tables", "report.html"])
def test_resuming_and_reports_write_into_no_link(path, tmp_path):
    out = tmp_path / "out"
    resumed = Plan(RUN, Execution(out=str(out), resume=True), {}, {}, about={}, done={})
    left_by(RUN, out)
    record = json.loads((out / "manifest.json").read_text())
    record["versions"] = {"scribe_spark": version("scribe_spark")}
    (out / "manifest.json").write_text(json.dumps(record))
    with StoredFolder(None, str(out)) as folder:
        assert resumed.previous(folder) == record
    (out / path).rename(tmp_path / "elsewhere")
    (out / path).symlink_to(tmp_path / "elsewhere")
    before = content(tmp_path)
    says = f"holds '{path}', which scribe-spark did not write"
    with pytest.raises(InputError, match=says):
        experiments.report(None, str(out))
    with StoredFolder(None, str(out)) as folder, pytest.raises(InputError, match=says):
        resumed.previous(folder)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        ("tables/nodes/mine.csv", True),  # the table may be written again
        ("sweep/mine.csv", True),
        ("tables/mine.csv", False),
        ("figures/mine.png", False),
    ],
)
def test_resuming_refuses_strange_files_among_those_of_a_table(path, is_refused, tmp_path):
    left_by(RUN, tmp_path)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("mine")
    says = f"holds '{path}', which" if is_refused else "cannot be read; use --overwrite"
    with pytest.raises(InputError, match=says):
        CHECKS[RUN.noun](Execution(out=str(tmp_path), resume=True))


def test_every_file_system_finds_strange_files(spark, tmp_path):
    url = tmp_path.as_uri()
    left_by(RUN, tmp_path)
    contents = RUN.contents
    for files in (LocalFiles(), HadoopFiles(spark, url), ArrowFiles(url)):
        assert find_strange_file(files, url, contents) is None
        (tmp_path / "tables" / "mine.csv").write_text("mine")
        assert find_strange_file(files, url, contents) == "tables/mine.csv"
        (tmp_path / "tables" / "mine.csv").unlink()
        files.close()


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.noun)
def test_what_is_cleared_is_the_commands_own(spark, owner, tmp_path):
    for other in OWNERS:
        left_by(other, tmp_path)
    before = left_by(owner, tmp_path).keys() | content(tmp_path).keys()
    with Folder(spark, str(tmp_path)) as folder:
        folder.clear(owner)
    gone = before - content(tmp_path).keys()
    inner = f"{'arrivals/seed=1' if owner is PAPER else 'b=2'}/"
    ours = {name for name in before if name.split("/")[0] in owner.contents}
    assert gone == ours | {n for n in before if owner.inner is not None and n.startswith(inner)}
