"""Message exchanges between the tasks of one job, over TCP.

In a *swap* each task sends bytes to any other tasks, and a note to all of them.  Every task must
call it equally often; a task that receives a message of another swap raises an error.  A task ends
once, and the others learn the reason: the task is done, its work raised an error, or it lost
contact with another task.  Reasons are forwarded unchanged, so that every task reports the first
cause.

There is a connection between each two tasks.  The task of the greater rank connects, and proves by
a token that it knows the secret of the job.  A message is a header, then the bytes of the part and
of the note.  A thread for each connection reads, so a task receives messages while it computes.  A
task often shows that it is alive; one that is silent for a while counts as lost.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
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
    """The messages that a task has received and not yet read."""

    def __init__(self, rank: int, size: int) -> None:
        self._peers = [peer for peer in range(size) if peer != rank]
        self._messages: dict[int, deque[tuple[int, pa.Buffer | None, bytes]]] = {
            peer: deque() for peer in self._peers
        }
        self._ended: dict[int, Ended] = {}
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

    def take(self, swap: int) -> dict[int, tuple[pa.Buffer | None, bytes]]:
        """Wait until a swap is complete; return the part (or None) and note of each task."""
        with self._changed:
            while waiting := [peer for peer in self._peers if not self._messages[peer]]:
                self._raise_if_ended(waiting, swap)
                self._changed.wait()
            first = {peer: self._messages[peer].popleft() for peer in self._peers}
        for peer, (other, _, _) in first.items():
            if other != swap:
                raise OutOfStep(f"task {peer} is at swap {other}, another task at swap {swap}")
        return {peer: (part, note) for peer, (_, part, note) in first.items()}

    def _raise_if_ended(self, waiting: list[int], swap: int) -> None:
        """Raise the reason if one of the tasks `waiting` has ended; errors of tasks come first."""
        reasons = [self._ended[peer] for peer in waiting if peer in self._ended]
        for why in ("failed", "lost", "done"):
            for reason in reasons:
                if reason.why == why:
                    raise reason.error(swap)


# --- over a network

LOOPBACK = "127.0.0.1"

#: The time in seconds after which a silent task counts as lost.
PATIENCE = 60.0

#: The longest time in seconds for which a task with an error waits for other tasks.
_HURRY = 5.0

#: Most bytes that are sent in one step; pieces of at most `_SMALL` bytes are joined.
SLICE = 2**24
_SMALL = 2**16

#: The head of a message: the number of the swap (or `_END`, `_ALIVE`), the size of the part in
#: bytes (or `_NO_PART`), the size of the note in bytes.
_HEAD = struct.Struct("<qqq")
_END, _ALIVE, _NO_PART = -1, -2, -1

#: What a task says first: its rank, and its token.
_HELLO = struct.Struct("<q32s")
_WELCOME = b"!"


@dataclass(frozen=True)
class Address:
    """The address where a task listens, and the nonce from which tokens for it are computed."""

    host: str
    port: int
    nonce: str

    def token(self, secret: bytes, rank: int) -> bytes:
        """Return the token that the task number `rank` must send."""
        return hmac.digest(secret, f"{self.nonce} {rank}".encode(), "sha256")


class Server:
    """The socket of a task, on which it listens until all tasks of greater ranks have connected."""

    def __init__(self, host: str = LOOPBACK) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.create_server((host, 0), family=family, backlog=1024)
        self.address = Address(host, self.socket.getsockname()[1], secrets.token_hex(16))


class Exchange:
    """The exchange that connects task number `rank` with the other tasks of its job.

    `addresses` are in order of the ranks; by default, the task is alone.
    """

    def __init__(
        self,
        rank: int = 0,
        server: Server | None = None,
        addresses: Sequence[Address] = (),
        secret: bytes = b"",
        patience: float = PATIENCE,
    ) -> None:
        self.rank, self.size, self.swaps = rank, len(addresses) or 1, 0
        self.inbox = Inbox(rank, self.size)
        self.peers = [peer for peer in range(self.size) if peer != rank]
        self._secret, self._patience, self._addresses = secret, patience, addresses
        self._connections: dict[int, socket.socket] = {}
        if server is not None:
            try:
                with server.socket:
                    for peer in range(rank):
                        self._call(peer)
                    self._accept(server.socket)
            except BaseException:
                for connection in self._connections.values():
                    connection.close()
                raise
        self._writing = {peer: threading.Lock() for peer in self.peers}
        self._over = threading.Event()
        works: list[Callable[[], None]] = [self._show_life]
        works += [partial(self._read, peer) for peer in self.peers]
        self._threads = [
            threading.Thread(target=work, daemon=True, name="exchange")
            for work in (works if self.peers else ())
        ]
        for thread in self._threads:
            thread.start()

    # --- the beginning

    def _call(self, peer: int) -> None:
        """Connect with a task of a lesser rank."""
        address = self._addresses[peer]
        try:
            made = socket.create_connection((address.host, address.port), self._patience)
            self._keep(peer, made)
            made.sendall(_HELLO.pack(self.rank, address.token(self._secret, self.rank)))
            if made.recv(1) != _WELCOME:
                raise OSError("wrong secret")
        except OSError as error:
            raise self._lost(peer, f"cannot be reached ({one_line(error)})") from None

    def _accept(self, server: socket.socket) -> None:
        """Wait until all tasks of greater ranks have connected; others are refused."""
        last = time.monotonic() + self._patience
        while missing := set(self.peers) - self._connections.keys():
            server.settimeout(max(last - time.monotonic(), 0.001))
            try:
                made, _ = server.accept()
            except TimeoutError:
                what = f"has not connected for {self._patience:g} s"
                raise self._lost(min(missing), what) from None
            made.settimeout(_HURRY)
            with suppress(OSError):
                peer, token = _HELLO.unpack(_receive(made, _HELLO.size))
                expected = self._addresses[self.rank].token(self._secret, peer)
                if peer in missing and hmac.compare_digest(token, expected):
                    made.sendall(_WELCOME)
                    self._keep(peer, made)
                    continue
            made.close()

    def _keep(self, peer: int, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(self._patience)
        self._connections[peer] = connection

    # --- sending and receiving

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
        for peer in self.peers:
            self._write(peer, swap, parts.get(peer), note)

    def _write(self, peer: int, swap: int, part: Sequence[Buffer] | None, note: bytes) -> None:
        pieces = [memoryview(pa.py_buffer(piece)).cast("B") for piece in part or ()]
        size = _NO_PART if part is None else sum(map(len, pieces))
        head = memoryview(_HEAD.pack(swap, size, len(note)))
        connection = self._connections[peer]
        try:
            with self._writing[peer]:
                for step in _steps([head, *pieces, memoryview(note)]):
                    connection.sendall(step)
        except OSError as error:
            with suppress(OSError):  # the rest of the message will never come
                connection.shutdown(socket.SHUT_WR)
            # the peer's own last message may still bring its reason
            if self.inbox.wait_for_ends([peer], 2.0):
                self.inbox.end(peer, self._lost(peer, self._reason(error)).ended)

    def _read(self, peer: int) -> None:
        """Read the messages of another task until its end; the work of a thread."""
        connection, what = self._connections[peer], "has gone"
        try:
            while True:
                swap, part, note = _HEAD.unpack(_receive(connection, _HEAD.size))
                whole = _receive(connection, max(part, 0) + note)
                text = whole.slice(max(part, 0)).to_pybytes()
                if swap == _END:
                    self.inbox.end(peer, Ended.of_bytes(text))
                elif swap != _ALIVE:
                    sent = None if part == _NO_PART else whole.slice(0, part)
                    self.inbox.put(peer, swap, sent, text)
        except OSError as error:
            what = self._reason(error)
        self.inbox.end(peer, self._lost(peer, what).ended)

    def _show_life(self) -> None:
        """Tell the other tasks again and again that this one is alive; the work of a thread."""
        alive = _HEAD.pack(_ALIVE, _NO_PART, 0)
        while not self._over.wait(min(5.0, self._patience / 4)):
            for peer, writing in self._writing.items():
                if writing.acquire(blocking=False):  # a message that is being sent tells it, too
                    with suppress(OSError):
                        self._connections[peer].sendall(alive)
                    writing.release()

    def _reason(self, error: OSError) -> str:
        late = isinstance(error, TimeoutError)
        return f"has not answered for {self._patience:g} s" if late else "has gone"

    def _lost(self, peer: int, what: str) -> PeerLost:
        address = self._addresses[peer]
        where = f"{address.host}:{address.port}"
        return PeerLost(Ended("lost", peer, f"task {peer} of {self.size} at {where} {what}"))

    # --- the end

    def end(self, error: BaseException | None = None) -> None:
        """Tell the other tasks that this task ends, wait for their ends, and close everything."""
        for peer, connection in self._connections.items():
            self._write(peer, _END, None, Ended.by(error, self.rank).to_bytes())
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        wait = min(self._patience, _HURRY)
        while self.inbox.wait_for_ends(self.peers, wait) and error is None:
            pass  # a task shows its life even while it writes its tables
        self._over.set()
        for connection in self._connections.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_HURRY)
        for connection in self._connections.values():
            connection.close()
        lost = [ended for ended in self.inbox.ended().values() if ended.why == "lost"]
        if lost and error is None:
            raise PeerLost(lost[0])


def _receive(connection: socket.socket, size: int) -> pa.Buffer:
    """Return the next bytes of a connection; their end raises an OSError."""
    whole = pa.allocate_buffer(size)
    view, at = memoryview(whole).cast("B"), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            raise ConnectionError("the connection has ended")
        at += count
    return whole


def _steps(pieces: Iterable[memoryview]) -> Iterator[memoryview | bytes]:
    """Yield bytes to be sent in one step each: small pieces are joined, large ones are cut."""
    small: list[memoryview] = []
    for piece in pieces:
        if len(piece) <= _SMALL:
            small.append(piece)
            continue
        yield b"".join(small)
        small = []
        for first in range(0, len(piece), SLICE):
            yield piece[first : first + SLICE]
    yield b"".join(small)
