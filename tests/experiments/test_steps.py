"""The runner of all commands: which steps are played, and which are skipped; without Spark."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.errors import InputError, RunError
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.manifest import version_of
from scribe_spark.experiments.plan import Plan, plan_run
from scribe_spark.experiments.steps import Step, Work
from scribe_spark.experiments.world_setup import plan_world

from .conftest import Notes

NAMES = ("first", "second", "third")


class NoLock:
    def check(self) -> None:
        """Nobody else is here."""


class Played:
    """Three steps, each with a text of its own; the runs of one command after the other."""

    def __init__(self, out: Path) -> None:
        self.out, self.content = out, dict.fromkeys(NAMES, "as ever")
        self.played: list[str] = []
        self.loaded: list[str] = []
        self.current = set(NAMES)

    def run(self, wanted: tuple[str, ...] | None = None, killed_in: str | None = None) -> list[str]:
        """Run the command; the names of the steps that were played."""
        self.played, self.loaded = [], []
        with Folder(None, str(self.out)) as folder:
            work = Work(folder, NoLock(), notes := Notes())
            if (self.out / "manifest.json").exists():
                work.manifest = folder.read_json("manifest.json")
            else:
                work.save({"done": {}})
            self.lines = notes.lines
            work.play([self.step(work, name, name == killed_in) for name in NAMES], wanted)
        return self.played

    def step(self, work: Work, name: str, is_killed: bool) -> Step:
        def play() -> dict[str, Any]:
            self.played.append(name)
            digest = work.write_json(f"{name}.json", self.content[name])
            if is_killed:
                raise KeyboardInterrupt
            return {"tables": {}, "texts": {f"{name}.json": digest}}

        return Step(
            name,
            play,
            lambda manifest: manifest["done"].get(name),
            lambda manifest, record: {"done": {**manifest["done"], name: record}},
            lambda record: self.loaded.append(name),
            lambda record: name in self.current,
        )


@pytest.fixture
def command(tmp_path) -> Played:
    return Played(tmp_path)


@pytest.fixture
def finished(command) -> Played:
    assert command.run() == [*NAMES]
    return command


def test_what_is_complete_is_skipped_and_read(finished):
    assert finished.run() == []
    assert finished.loaded == [*NAMES]
    assert finished.lines == [f"{name}: complete, skipped" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_command_goes_on_with_the_step_that_was_killed(command, name):
    with pytest.raises(KeyboardInterrupt):
        command.run(killed_in=name)
    assert command.run() == list(NAMES[NAMES.index(name) :])
    assert command.run() == []


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("{}")])
def test_a_damaged_step_is_played_and_those_after_it_stay(finished, damage):
    damage(finished.out / "second.json")
    assert finished.run() == ["second"]
    assert finished.loaded == ["first", "third"]
    assert finished.lines[1].startswith("second: second.json is not as written: it ")


@pytest.mark.parametrize("name", NAMES)
def test_other_outputs_have_all_later_steps_played(finished, name):
    finished.current.remove(name)
    finished.content[name] = "new"
    assert finished.run() == list(NAMES[NAMES.index(name) :])


def test_the_same_outputs_keep_later_steps(finished):
    finished.current.remove("first")
    assert finished.run() == ["first"]


def test_only_wanted_steps_are_played(command):
    assert command.run(("first",)) == ["first"]
    assert command.run(("first", "second")) == ["second"]
    (command.out / "first.json").unlink()
    with pytest.raises(InputError, match=r"^phase = 'second': needs the tables of first, which "):
        command.run(("second",))
    assert command.played == []


def test_the_manifest_is_kept_as_a_reader_gets_it(tmp_path):
    with Folder(None, str(tmp_path)) as folder:
        work = Work(folder, NoLock(), Notes())
        work.save({"members": "s3a://user:secret@bucket/a.csv", "seeds": (1, 2)})
        assert work.manifest == json.loads((tmp_path / "manifest.json").read_text())
        assert "secret" not in str(work.manifest)


# --- what is gone on with


def begun(plan: Plan, **others: Any) -> dict[str, Any]:
    """A manifest that a command has begun here."""
    manifest = {"resolved": plan.resolved, "inputs": plan.inputs(), **plan.done}
    return manifest | {"versions": {"scribe_spark": version_of("scribe_spark")}} | others


@pytest.mark.parametrize(
    ("config", "plan_of"),
    [
        (RunConfig(nodes=9, groups=2), plan_run),
        (WorldConfig(nodes=9, generator="churn"), plan_world),
    ],
)
def test_other_inputs_and_another_version_of_topohub_are_refused(
    config, plan_of, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    network, out = tmp_path / "network.csv", tmp_path / "out"
    network.write_text("src,dst,delay_ms\n0,1,2\n")
    how = Execution(out=str(out), resume=True)
    plan = plan_of(config.replace(topology="network.csv"), how)
    out.mkdir()
    (out / "manifest.json").write_text(json.dumps(begun(plan)))
    with Folder(None, str(out)) as folder:
        assert plan.previous(folder)["inputs"].keys() == {"topology"}
        network.write_text("src,dst,delay_ms\n0,1,3\n")
        with pytest.raises(InputError, match=r"^topology = .*: has changed since .*out was made"):
            plan.previous(folder)
        plan = plan_of(config.replace(topology="topohub:backbone/africa"), how)
        versions = {"scribe_spark": version_of("scribe_spark"), "topohub": "0.1"}
        (out / "manifest.json").write_text(json.dumps(begun(plan, versions=versions)))
        with pytest.raises(InputError, match=r"^topohub = .* was made by 0.1; use that"):
            plan.previous(folder)


# --- executors that are lost

LOST = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_0 not found!"


@pytest.mark.parametrize(
    ("losses", "saved", "attempts"),
    [(0, "a", 1), (1, "aa", 2), (2, "aab", 3), (2, "abb", None), (3, "abcd", 4)],
)
def test_a_step_is_repeated_after_a_loss_but_twice_only_if_more_is_saved(losses, saved, attempts):
    """`saved` are the states of what is saved, before each attempt."""
    states, begun_at, released = iter(saved), [], []

    def attempt(state: str) -> int:
        begun_at.append(state)
        if len(begun_at) <= losses:
            raise RuntimeError(f"Job aborted:\n{LOST}\n\tat org.apache...")
        return len(begun_at)

    def play() -> int:
        release = partial(released.append, None)
        return Work(None, NoLock(), Notes()).until_played(
            "trees", attempt, release, partial(next, states)
        )

    if attempts is None:
        with pytest.raises(RunError, match=r"^trees: .* lost repeatedly; .* --resume"):
            play()
    else:
        assert play() == attempts
        assert begun_at == list(saved)
    assert len(released) == losses


def test_other_errors_of_a_step_are_raised_at_once():
    def attempt(_: None) -> None:
        raise RuntimeError("no loss")

    with pytest.raises(RuntimeError, match="no loss"):
        Work(None, NoLock(), Notes()).until_played("trees", attempt, lambda: None)
