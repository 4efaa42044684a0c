"""A lock, so that only one run writes into a folder, on any file system; killed runs lose it.

The lock file names its owner, who renews it every few seconds.  Another run that finds it:

1. takes the lock over at once if the owner was a process of this machine that is dead;
2. otherwise waits for a change of the file.  If it changes, the folder is in use; if not, the
   owner was killed, and the lock is taken over.

No clocks are compared.  On a file system without an atomic "create unless it exists" (object
stores), two runs may get the lock; each reads the file again, and the last writer keeps it.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scribe_spark.core.errors import InputError
from scribe_spark.core.paths import UnfitFileError, local_contents
from scribe_spark.runtime.filesystem import Files

#: The name of the lock file; it is hidden, so that it does not count as content.
LOCK = ".scribe-spark-lock"

#: Seconds between two renewals; after three times this long without one, the owner counts as
#: killed.
RENEWED_EVERY = 5.0
_PATIENCE = 3

#: Tokens of the locks that this process owns.
_ours: set[str] = set()


@dataclass(frozen=True)
class LockOwner:
    """A process that holds a lock: its machine, its id, and a token of this lock."""

    host: str
    processes: str  # the space of process ids: this boot of the machine, and the container
    pid: int
    started: str  # by the kernel's count, as process ids are reused
    token: str  # differs for each lock

    @classmethod
    def here(cls) -> LockOwner:
        """Return this process with a new token."""
        pid = os.getpid()
        return cls(platform.node(), _processes(), pid, _started(pid), uuid.uuid4().hex)

    @classmethod
    def read(cls, text: str) -> LockOwner | None:
        """Return the owner in a lock file's text; None if the text names no owner."""
        try:
            found: dict[str, Any] = json.loads(text)["owner"]
            owner = cls(**found)
        except (ValueError, KeyError, TypeError):
            return None
        return owner if isinstance(owner.pid, int) and isinstance(owner.token, str) else None

    @property
    def is_of_this_machine(self) -> bool:
        """Return True if the owner ran on this machine, where its process id is valid."""
        here = (platform.node(), _processes())
        return bool(self.processes) and (self.host, self.processes) == here

    @property
    def is_dead(self) -> bool:
        """Return True if the process is known to be dead; a process of another machine never is."""
        if not self.is_of_this_machine:
            return False
        if self.pid == os.getpid():
            return self.token not in _ours
        return _started(self.pid) != self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _processes() -> str:
    """Return the name of this process's space of process ids; empty if there is no name."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _started(pid: int) -> str:
    """Return the start time of a process; empty if it does not exist or has ended."""
    try:
        # the name in parentheses may contain anything, so count from its end
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]


class Lock:
    """The lock of the folder at `url`, which the user has written as `out`."""

    def __init__(
        self,
        files: Files,
        url: str,
        out: str,
        every: float = RENEWED_EVERY,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._files, self._url, self._out = files, f"{url}/{LOCK}", out
        self._every, self._note = every, note
        self._owner = LockOwner.here()
        self._beats = 0
        self._lost: str | None = None
        self._stop = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True, name="lock of OUT")

    def check(self) -> None:
        """Raise an InputError if another run has taken the lock over."""
        if self._lost is not None:
            raise _in_use(self._out, self._lost)

    @contextmanager
    def acquired(self) -> Iterator[Lock]:
        """Return a context manager that holds the lock."""
        _ours.add(self._owner.token)
        try:
            while not self._files.create(self._url, self._content()):
                if self._is_abandoned():
                    self._files.write(self._url, self._content())
                    break
            owner = LockOwner.read(self._read() or "")
            if owner != self._owner:
                raise _in_use(self._out, str(owner or "another run"))
            self._renewer.start()
            try:
                yield self
            finally:
                self._stop.set()
                self._renewer.join()
                if self._lost is None:
                    # the next run takes over a lock file that cannot be deleted
                    with suppress(Exception):
                        self._files.delete(self._url)
        finally:
            _ours.discard(self._owner.token)

    def _content(self) -> bytes:
        return json.dumps({"owner": asdict(self._owner), "renewed": self._beats}).encode()

    def _read(self) -> str | None:
        """Return the lock file's text, empty while it is written; None if there is none."""
        try:
            return self._files.read(self._url).decode(errors="replace")
        except FileNotFoundError:
            return None

    def _is_abandoned(self) -> bool:
        """Return True if the owner of the lock is dead, False if the lock has just been released.

        A live owner is an error; an owner on another machine is watched for some seconds.
        """
        found = self._read()
        owner = LockOwner.read(found or "")
        if owner is not None and owner.is_dead:
            return True
        whose = str(owner or "an unknown owner")
        if owner is not None and owner.is_of_this_machine:
            raise _in_use(self._out, whose)
        patience = _PATIENCE * self._every
        end = time.monotonic() + patience
        self._note(f"{self._out} is locked by {whose}; waiting {patience:g} s for a sign of life")
        while found is not None and time.monotonic() < end:
            time.sleep(self._every / 5)
            now = self._read()
            if now is not None and now != found:
                raise _in_use(self._out, str(LockOwner.read(now) or whose))
            found = now
        return found is not None

    def _renew(self) -> None:
        while not self._stop.wait(self._every):
            # storage that does not answer now may do so the next time
            with suppress(Exception):
                owner = LockOwner.read(self._read() or "")
                if owner is not None and owner != self._owner:
                    self._lost = str(owner)
                    return
                self._beats += 1
                self._files.write(self._url, self._content())


def refuse_local_lock(out: str) -> None:
    """Refuse a local OUT that another run of this machine uses."""
    names, read = local_contents(out)
    if LOCK not in names:
        return
    try:
        text = read(LOCK)
    except UnfitFileError as error:
        raise InputError("out", out, f"its {LOCK} {error}") from None
    except (OSError, UnicodeDecodeError):  # the lock was just released, or cannot be read
        return
    owner = LockOwner.read(text)
    if owner is not None and owner.is_of_this_machine and not owner.is_dead:
        raise _in_use(out, str(owner))


def _in_use(out: str, whose: str) -> InputError:
    remedy = f"is in use by another run ({whose}); wait for its end, or name another OUT"
    return InputError("out", out, remedy)
