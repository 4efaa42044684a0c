"""What all commands do in OUT: what is gone on with, lost executors, the lock of a folder."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError, RunError
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.lock import LOCK, Lock, LockOwner, _started, refuse_local_lock
from scribe_spark.experiments.manifest import version_of
from scribe_spark.experiments.phases import TABLE_PHASES, Phase
from scribe_spark.experiments.plan import Plan, plan_run
from scribe_spark.experiments.run import _Phases
from scribe_spark.experiments.stages import SavedTables
from scribe_spark.experiments.steps import Work
from scribe_spark.experiments.world_setup import plan_world
from scribe_spark.runtime.filesystem import LocalFiles

from .conftest import Notes


class NoLock:
    def check(self) -> None:
        """Nobody else is here."""


@pytest.fixture
def phases(spark, tmp_path, monkeypatch):
    """The texts of phases that write one each, and a function that plays phases and tells which."""
    content, played = dict.fromkeys(TABLE_PHASES, "as ever"), []
    of_run = {"spark": spark, "saved": SavedTables(), "application": None, "asked_for": ()}
    simulation: Any = SimpleNamespace(**of_run, clock_player=None)

    def phase(name: str) -> Phase:
        def tables(simulation: Any, scope: Any) -> Iterator[Any]:
            played.append(name)
            yield from ()

        return Phase(name, tables, lambda simulation: {f"{name}.json": content[name]})

    def play(*wanted: str) -> list[str]:
        played.clear()
        with Folder(spark, str(tmp_path)) as folder:
            work = Work(folder, NoLock(), Notes())
            there = (tmp_path / "manifest.json").exists()
            work.manifest = folder.read_json("manifest.json") if there else {"phases": []}
            _Phases(work, simulation).play(wanted or tuple(TABLE_PHASES), None)
        return [*played]

    module = sys.modules[_Phases.__module__]
    simulation.release = played.clear
    monkeypatch.setattr(module, "TABLE_PHASES", {name: phase(name) for name in TABLE_PHASES})
    return content, play


def test_what_is_complete_is_skipped_and_other_outputs_have_later_phases_played(phases, tmp_path):
    content, play = phases
    names = [*TABLE_PHASES]
    assert play(*names[:1]) == names[:1]
    assert play() == names[1:]
    assert play() == []
    (tmp_path / "overlay.json").unlink()
    assert play() == ["overlay"]
    (tmp_path / "overlay.json").write_text("damaged")
    content["overlay"] = "new"
    assert play() == names[1:]
    (tmp_path / "overlay.json").unlink()
    with pytest.raises(InputError, match=r"^phase = 'trees': needs the tables of overlay, which"):
        play("trees")


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


# --- one run at a time in a folder ----------------------------------------------------------------


#: Seconds between renewals, here.
EVERY = 0.1


def lock(folder: Path, notes: list[str] | None = None, every: float = EVERY) -> Lock:
    told = notes if notes is not None else []
    return Lock(LocalFiles(), folder.as_uri(), str(folder), every=every, note=told.append)


def refuse(lock: Lock, words: str) -> None:
    """Check that a lock cannot be had."""
    with pytest.raises(InputError, match=words), lock.acquired():
        pytest.fail("is acquired")


def left_by(folder: Path, owner: LockOwner) -> str:
    """A lock that its owner does not renew; its text."""
    text = json.dumps({"owner": vars(owner), "renewed": 3})
    (folder / LOCK).write_text(text)
    return text


def elsewhere() -> LockOwner:
    return replace(LockOwner.here(), host="another")


def test_only_one_has_it(tmp_path):
    with lock(tmp_path).acquired():
        for _ in range(2):
            refuse(lock(tmp_path), r"^out = .* is in use by another run \(process")
        text = (tmp_path / LOCK).read_text()
        with pytest.raises(InputError, match="is in use"):  # before Spark is started
            refuse_local_lock(str(tmp_path))
    assert not list(tmp_path.iterdir())
    (tmp_path / LOCK).write_text(text)  # a lock of ours that is not ours any more
    refuse_local_lock(str(tmp_path))
    with lock(tmp_path).acquired() as again:
        again.check()


def test_a_killed_process_of_this_machine_is_known_at_once(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = replace(LockOwner.here(), pid=child.pid, started=_started(child.pid))
    left_by(tmp_path, owner)
    refuse(lock(tmp_path), f"process {child.pid} on ")
    child.kill()
    while _started(child.pid):  # from here on it only waits to be collected
        time.sleep(0.01)
    notes: list[str] = []
    with lock(tmp_path, notes).acquired():
        assert notes == []
    child.wait()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"owner": {"pid": 1}}', "\udcff"])
def test_a_lock_that_is_not_renewed_is_taken_over(tmp_path, text):
    """Of another machine, or of nobody who can be told."""
    if text is None:
        left_by(tmp_path, elsewhere())
    else:
        (tmp_path / LOCK).write_bytes(text.encode(errors="surrogateescape"))
    notes: list[str] = []
    with lock(tmp_path, notes).acquired():
        assert len(notes) == 1
        assert "sign of life" in notes[0]
        assert LockOwner.read((tmp_path / LOCK).read_text()).pid == LockOwner.here().pid


def test_a_lock_that_is_renewed_is_not(tmp_path):
    theirs = lock(tmp_path)
    theirs._owner = replace(theirs._owner, host="another")
    with theirs.acquired():
        # has patience where the machine is busy
        refuse(lock(tmp_path, every=2.0), rf"process {theirs._owner.pid} on another")
        theirs.check()


def test_whoever_was_taken_for_dead_stops(tmp_path):
    with lock(tmp_path).acquired() as one:
        text = left_by(tmp_path, elsewhere())
        end = time.monotonic() + 20
        while one._lost is None:
            assert time.monotonic() < end
            time.sleep(EVERY / 5)
        with pytest.raises(InputError, match="is in use by another run"):
            one.check()
    assert (tmp_path / LOCK).read_text() == text  # it is theirs now
