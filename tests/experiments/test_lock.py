"""One run at a time in a folder; a killed run's lock is taken over.  No Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import refuse_local_lock
from scribe_spark.experiments.lock import LOCK, Lock, LockOwner, refuse_locked
from scribe_spark.runtime.filesystem import LocalFiles

#: Seconds between renewals, here.
EVERY = 0.1


def lock(folder: Path, notes: list[str] | None = None, every: float = EVERY) -> Lock:
    told = notes if notes is not None else []
    return Lock(LocalFiles(), folder.as_uri(), str(folder), every=every, note=told.append)


def left_by(folder: Path, owner: LockOwner) -> str:
    """A lock that its owner does not renew; its text."""
    text = json.dumps({"owner": vars(owner), "renewed": 3})
    (folder / LOCK).write_text(text)
    return text


def elsewhere() -> LockOwner:
    return replace(LockOwner.here(), host="another")


def test_only_one_has_it(tmp_path):
    with lock(tmp_path).acquired():
        for other in (lock(tmp_path), lock(tmp_path)):
            with pytest.raises(InputError, match=r"^out = .* is in use by another run \(process"):
                other.acquire()
            other.release()  # which must not give back what it never had
        text = (tmp_path / LOCK).read_text()
        with pytest.raises(InputError, match="is in use"):
            refuse_locked(str(tmp_path), text)
        with pytest.raises(InputError, match="is in use"):  # before Spark is started
            refuse_local_lock(str(tmp_path))
    assert not list(tmp_path.iterdir())
    refuse_local_lock(str(tmp_path))
    refuse_locked(str(tmp_path), text)  # a lock of ours that is not ours any more
    with lock(tmp_path).acquired() as again:
        again.check()


def test_released_where_something_raises_and_once(tmp_path):
    one = lock(tmp_path)
    with pytest.raises(KeyboardInterrupt), one.acquired():
        raise KeyboardInterrupt
    with lock(tmp_path).acquired():
        one.release()
        assert (tmp_path / LOCK).exists()


def test_a_killed_process_of_this_machine_is_known_at_once(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = replace(LockOwner.here(), pid=child.pid, started=_started(child.pid))
    left_by(tmp_path, owner)
    with pytest.raises(InputError, match=f"process {child.pid} on "):
        lock(tmp_path).acquire()
    child.kill()
    while _started(child.pid):  # from here on it only waits to be collected
        time.sleep(0.01)
    notes: list[str] = []
    with lock(tmp_path, notes).acquired():
        assert notes == []
    child.wait()


def _started(pid: int) -> str:
    from scribe_spark.experiments.lock import _started as started

    return started(pid)


def test_a_process_id_that_is_used_again_is_another_process(tmp_path):
    left_by(tmp_path, replace(LockOwner.here(), pid=1, started="before"))
    with lock(tmp_path).acquired():
        pass


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


def test_a_link_in_the_place_of_a_lock_is_refused_at_once(tmp_path):
    """A lock that cannot be read seems to be given back; one that is a link never is."""
    (tmp_path / LOCK).symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="is a symbolic link"):
        lock(tmp_path).acquire()


def test_a_lock_that_is_renewed_is_not(tmp_path):
    theirs = lock(tmp_path)
    theirs._owner = replace(theirs._owner, host="another")
    with theirs.acquired():
        with pytest.raises(InputError, match=rf"process {theirs._owner.pid} on another"):
            lock(tmp_path, every=2.0).acquire()  # has patience where the machine is busy
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


def test_a_release_while_somebody_waits(tmp_path):
    left_by(tmp_path, elsewhere())
    notes: list[str] = []

    class Released(list):
        def append(self, text: str) -> None:
            notes.append(text)
            (tmp_path / LOCK).unlink()

    with lock(tmp_path, Released()).acquired():
        assert len(notes) == 1
