"""Message exchanges between the tasks of one job: the rules of swaps.

In a *swap* each task sends bytes to any other tasks, and a note to all of them.  Every task must
call it equally often; a task that receives a message of another swap raises an error.  A task ends
once, and the others learn the reason: the task is done, its work raised an error, or it lost
contact with another task.  Reasons are forwarded unchanged, so that every task reports the first
cause.  The exchange over a network is in :mod:`~scribe_spark.engine.flight`.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from scribe_spark.core.errors import InputError, RunError, one_line

_LONGEST_TRACE = 8000  # characters

#: Contiguous bytes: any object with Python's buffer protocol, for example an array.
Buffer = Any


class ExchangeError(RuntimeError):
    """Raised when a swap cannot be completed."""


class OutOfStep(ExchangeError):
    """Raised when tasks do not call `swap` equally often: a bug of the program they run."""


class _PeerEnded(ExchangeError):
    """Raised if another task ended before a swap was complete; `ended` is the first cause."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.line)
        self.ended = ended


class PeerFailed(_PeerEnded):
    """Raised if the work of another task has raised an error."""


class PeerLost(_PeerEnded):
    """Raised if another task has ended unexpectedly, or does not answer."""


#: Errors whose message is shown without the name of their type.
_READABLE = (InputError, RunError, ExchangeError)


@dataclass(frozen=True)
class Ended:
    """Why a task has ended (``done``, ``failed``, ``lost``), the causing task, an InputError."""

    why: str
    rank: int
    line: str = ""
    trace: str = ""
    refused: tuple[str, object, str] | None = None

    @classmethod
    def by(cls, error: BaseException | None, rank: int) -> Ended:
        """Return the reason of a task that ends with `error`; None means that its work is done."""
        if error is None:
            return cls("done", rank)
        if isinstance(error, _PeerEnded):
            return error.ended
        if not isinstance(error, Exception):
            return cls("lost", rank, f"task {rank} was stopped ({type(error).__name__})")
        line = one_line(error)
        if not isinstance(error, _READABLE):
            line = f"{type(error).__name__}: {line}"
        trace = "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]
        refused = None
        if isinstance(error, InputError):
            refused = error.field, error.value, error.remedy
        return cls("failed", rank, line, trace, refused)

    def error(self, swap: int) -> ExchangeError:
        """Return the error for a task that needs this ended task in the exchange `swap`."""
        if self.why == "done":
            return OutOfStep(f"task {self.rank} ended before swap {swap} of another task")
        return (PeerFailed if self.why == "failed" else PeerLost)(self)

    def to_bytes(self) -> bytes:
        """Return the reason as a note of bytes."""
        return json.dumps(asdict(self), default=str).encode()

    @classmethod
    def of_bytes(cls, note: bytes) -> Ended:
        """Return the reason that a note of bytes contains."""
        return cls(**json.loads(note))


def one_buffer(pieces: Sequence[Buffer]) -> pa.Buffer:
    """Return pieces of bytes joined to one buffer; a single piece is not copied."""
    if len(pieces) == 1:
        return pa.py_buffer(pieces[0])
    return pa.py_buffer(b"".join(pa.py_buffer(piece) for piece in pieces))


class Inbox:
    """The messages that a task has received and not yet read, and its unfinished sends."""

    def __init__(self, rank: int, size: int) -> None:
        self._peers = [peer for peer in range(size) if peer != rank]
        self._messages: dict[int, deque[tuple[int, pa.Buffer | None, bytes]]] = {
            peer: deque() for peer in self._peers
        }
        self._ended: dict[int, Ended] = {}
        self._sending: set[int] = set()
        self._changed = threading.Condition()

    def put(self, sender: int, swap: int, part: pa.Buffer | None, note: bytes) -> None:
        """Add a message that the task `sender` has sent, or a part of it, and wake the reader."""
        with self._changed:
            self._messages[sender].append((swap, part, note))
            self._changed.notify_all()

    def end(self, sender: int, ended: Ended) -> None:
        """Record that a task has ended; only its first reason is kept."""
        with self._changed:
            self._ended.setdefault(sender, ended)
            self._changed.notify_all()

    def sending(self, receiver: int, now: bool) -> None:
        """Record that sending to the task `receiver` has begun (`now` is True) or has finished."""
        with self._changed:
            (self._sending.add if now else self._sending.discard)(receiver)
            self._changed.notify_all()

    def wait_for_ends(self, senders: Iterable[int], seconds: float) -> list[int]:
        """Wait at most some seconds until tasks (ranks) have ended; return those that have not."""
        wanted = set(senders)
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self._ended.keys(), seconds)
            return sorted(wanted - self._ended.keys())

    def ended(self) -> dict[int, Ended]:
        """Return the tasks that have ended: rank -> reason."""
        with self._changed:
            return dict(self._ended)

    def missing(self) -> list[int]:
        """Return the ranks of live tasks that have not sent a message, or are being sent one."""
        with self._changed:
            return [peer for peer in self._peers if self._waits(peer) and peer not in self._ended]

    def take(self, swap: int) -> dict[int, tuple[pa.Buffer | None, bytes]]:
        """Wait until a swap is complete; return the part (or None) and note of each task."""
        with self._changed:
            while waiting := list(filter(self._waits, self._peers)):
                self._raise_if_ended(waiting, swap)
                self._changed.wait()
            first = {peer: self._messages[peer].popleft() for peer in self._peers}
        for peer, (other, _, _) in first.items():
            if other != swap:
                raise OutOfStep(f"task {peer} is at swap {other}, another task at swap {swap}")
        return {peer: (part, note) for peer, (_, part, note) in first.items()}

    def _waits(self, peer: int) -> bool:
        return not self._messages[peer] or peer in self._sending

    def _raise_if_ended(self, waiting: list[int], swap: int) -> None:
        """Raise the reason if one of the tasks `waiting` has ended; errors of tasks come first."""
        ended = [
            self._ended[peer]
            for peer in waiting
            # a finished task has already received the message that is still being sent to it
            if peer in self._ended
            and not (self._ended[peer].why == "done" and self._messages[peer])
        ]
        if ended:
            first = min(ended, key=lambda one: ("failed", "lost", "done").index(one.why))
            raise first.error(swap)


class Exchange:
    """The exchange that connects task number `rank` with the other tasks of its job.

    This class has the rules of swaps, and serves the only task of a job; a subclass for several
    tasks implements the transport.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.inbox = Inbox(rank, size)
        self.swaps = 0
        self.peers = [peer for peer in range(size) if peer != rank]

    def swap(
        self, parts: Mapping[int, Sequence[Buffer]], note: bytes
    ) -> tuple[dict[int, pa.Buffer], list[bytes]]:
        """Send bytes to tasks and a note to all tasks; return what this task receives.

        All tasks must call this method equally often, else it raises `OutOfStep`.  A part for a
        task (or for this one) is pieces that are joined.  Received are the parts by sender, in
        order of the ranks, and the notes of all tasks.  If another task ends, `PeerFailed` or
        `PeerLost` is raised.
        """
        if unknown := parts.keys() - range(self.size):
            raise ValueError(f"parts for task {min(unknown)}; there are {self.size} tasks")
        swap, self.swaps = self.swaps, self.swaps + 1
        self._send(swap, parts, note)
        received = self.inbox.take(swap)
        own = one_buffer(parts[self.rank]) if self.rank in parts else None
        received[self.rank] = own, bytes(note)
        ordered = [received[rank] for rank in range(self.size)]
        return (
            {rank: part for rank, (part, _) in enumerate(ordered) if part is not None},
            [text for _, text in ordered],
        )

    def _send(self, swap: int, parts: Mapping[int, Sequence[Buffer]], note: bytes) -> None:
        """Send each of the other tasks its part and the note of the exchange `swap`."""

    def end(self, error: BaseException | None = None) -> None:
        """Tell the other tasks that this task has ended, and free its resources."""
