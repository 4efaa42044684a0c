"""Exchanges over Arrow Flight: every task has a server, and a stream to each other task's server.

A task opens one stream to each receiver, with the receiver's token, and sends all its messages on
it.  A message is a header followed by the bytes of the part and of the note, cut into slices.  The
server reads each stream in a thread of its own, so a task receives messages while it computes.

Import this module only inside a task: gRPC starts threads, and Spark's daemon forks its workers.
"""

from __future__ import annotations

import hmac
import itertools
import os
import queue
import secrets
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

# gRPC reports lost connections on stderr, which is the user's terminal in local mode
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import pyarrow.flight as fl

from scribe_spark.engine.between_tasks import Buffer, Ended, Exchange, PeerLost

LOOPBACK = "127.0.0.1"

#: The time in seconds after which a task that does not answer counts as lost.
PATIENCE = 60.0

#: The longest time in seconds that a task with an error waits for other tasks.
_HURRY = 5.0

#: The longest time in seconds in which a cancelled stream is closed.
_SOON = 0.5

#: Most bytes of one Flight batch; pieces of at most `_SMALL` bytes are joined to one batch.
SLICE = 2**24
_SMALL = 2**16

#: The head of a message: the number of the swap (or `_END`), the size of the part in bytes (or
#: `_NO_PART`), the size of the note in bytes.
_HEAD = struct.Struct("<qqq")
_END, _NO_PART = -1, -1

#: Received parts are aligned to this many bytes, so that arrays can be views of them.
_ALIGNED = 8

_RANK = struct.Struct("<q")
_SCHEMA = pa.schema([("bytes", pa.uint8())])
_TOKEN = "x-scribe-token"
_ALIVE = "alive"

#: Connections between tasks ignore the proxies that environment variables name.
_OPTIONS = [("grpc.enable_http_proxy", 0)]

#: The exceptions that pyarrow raises when a connection fails.
_BROKEN = (pa.ArrowException, OSError)


@dataclass(frozen=True)
class Address:
    """The address of a task's server, and the nonce from which its token is computed."""

    host: str
    port: int
    nonce: str

    def token(self, secret: bytes) -> str:
        """Return the token that callers of the server must send."""
        return hmac.digest(secret, self.nonce.encode(), "sha256").hex()

    @property
    def location(self) -> str:
        """The address as a URL."""
        return _location(self.host, self.port)


def _location(host: str, port: int) -> str:
    return f"grpc://[{host}]:{port}" if ":" in host else f"grpc://{host}:{port}"


class Server(fl.FlightServerBase):
    """The Flight server of a task; calls without the token of the job's secret are refused."""

    def __init__(self, secret: bytes, host: str = LOOPBACK) -> None:
        nonce = secrets.token_hex(16)
        token = Address(host, 0, nonce).token(secret)
        super().__init__(_location(host, 0), middleware={"token": _RefuseStrangers(token)})
        self.address = Address(host, self.port, nonce)
        self._ready = threading.Event()
        self._listen: Callable[[int, Any], None] = _nobody

    def begin(self, listen: Callable[[int, Any], None]) -> None:
        """Begin to accept streams; each is passed to ``listen(sender, reader)``."""
        self._listen = listen
        self._ready.set()

    def do_exchange(
        self, context: Any, descriptor: fl.FlightDescriptor, reader: Any, writer: Any
    ) -> None:
        """Receive the messages of another task, from its stream `reader`, until the stream ends."""
        (sender,) = _RANK.unpack(descriptor.command)
        if not self._ready.wait(PATIENCE):
            raise fl.FlightUnavailableError("the task has not begun")
        self._listen(sender, reader)

    def do_action(self, context: Any, action: fl.Action) -> list[bytes]:
        """Answer a task that asks whether this task is alive."""
        return []


def _nobody(sender: int, reader: Any) -> None:
    raise fl.FlightUnavailableError("the task has not begun")


class _RefuseStrangers(fl.ServerMiddlewareFactory):
    """The middleware of a server that refuses calls without the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token.encode()

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> None:
        given = headers.get(_TOKEN, [""])[0]
        text = given.encode() if isinstance(given, str) else given
        if not hmac.compare_digest(text, self._token):
            raise fl.FlightUnauthenticatedError("wrong secret")


class _Stream:
    """The Flight stream on which this task sends its messages to another task.

    The caller itself writes a small message, for which the buffers always have room.  A thread
    writes a large one, which waits until the other task reads: for ever, if that task hangs.
    """

    def __init__(self, rank: int, address: Address, secret: bytes, patience: float) -> None:
        self._headers = [(_TOKEN.encode(), address.token(secret).encode())]
        self._client = fl.FlightClient(address.location, generic_options=_OPTIONS)
        self._patience, self._lock, self._open = patience, threading.Lock(), False
        self._large: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.ask()
        descriptor = fl.FlightDescriptor.for_command(_RANK.pack(rank))
        options = fl.FlightCallOptions(headers=self._headers)
        self._writer, self._reader = self._client.do_exchange(descriptor, options)
        self._writer.begin(_SCHEMA)
        self._open = True

    def ask(self) -> None:
        """Ask the other task whether it is alive; raise an exception if it does not answer."""
        options = fl.FlightCallOptions(timeout=self._patience, headers=self._headers)
        list(self._client.do_action(fl.Action(_ALIVE, b""), options))

    def in_thread(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="exchange")
            self._thread.start()
        self._large.put(work)

    def _work(self) -> None:
        while (work := self._large.get()) is not None:
            work()

    def write(self, head: bytes, batches: Iterable[pa.RecordBatch]) -> None:
        with self._lock:
            if not self._open:
                raise fl.FlightUnavailableError("the stream has ended")
            first, *others = batches
            self._writer.write_with_metadata(first, head)
            for batch in others:
                self._writer.write_batch(batch)

    def finish(
        self, last: tuple[bytes, list[pa.RecordBatch]] | None = None, wait: float = 0.0
    ) -> bool:
        """Send the message `last` and end the stream; return False if it is in use."""
        if not self._lock.acquire(timeout=wait):
            return False
        try:
            if self._open:
                self._open = False
                with suppress(*_BROKEN):
                    if last is not None:
                        self._writer.write_with_metadata(last[1][0], last[0])
                    self._writer.done_writing()
        finally:
            self._lock.release()
        return True

    def close(self, hangs: bool) -> None:
        """Close the connection; abandon it if the other task hangs or has ended."""
        self._large.put(None)
        if hangs := hangs or not self.finish(wait=_HURRY):
            with suppress(*_BROKEN):
                self._reader.cancel()
        # in a thread, as closing could wait for ever; an open writer that is freed warns on stderr
        closer = threading.Thread(target=self._close, daemon=True)
        closer.start()
        closer.join(_SOON if hangs else 2 * _HURRY)
        if closer.is_alive():
            _abandoned.append(self)

    def _close(self) -> None:
        if self.finish(wait=_HURRY):
            for one in (self._writer, self._client):
                with suppress(*_BROKEN):
                    one.close()


#: Abandoned streams.  Freeing one could wait for ever; the process ends soon, because the task has
#: failed.
_abandoned: list[_Stream] = []


def _message(
    swap: int, part: Sequence[Buffer] | None, note: bytes
) -> tuple[bytes, list[pa.RecordBatch]]:
    pieces = [pa.py_buffer(piece) for piece in (*(part or ()), note)]
    size = _NO_PART if part is None else sum(piece.size for piece in pieces) - len(note)
    filled = [piece for piece in pieces if piece.size] or pieces[-1:]
    return _HEAD.pack(swap, size, len(note)), list(_slices(filled))


def _slices(pieces: Sequence[pa.Buffer]) -> Iterator[pa.RecordBatch]:
    """Yield pieces of bytes as batches: adjacent small pieces are joined, large ones are cut."""
    for is_small, some in itertools.groupby(pieces, lambda piece: piece.size <= _SMALL):
        for piece in [pa.py_buffer(b"".join(some))] if is_small else some:
            for first in range(0, max(1, piece.size), SLICE):
                yield _batch(piece.slice(first, min(SLICE, piece.size - first)))


def _batch(piece: pa.Buffer) -> pa.RecordBatch:
    column = pa.Array.from_buffers(pa.uint8(), piece.size, [None, piece])
    return pa.RecordBatch.from_arrays([column], schema=_SCHEMA)


def _received(chunk: Any) -> pa.Buffer:
    column = chunk.data.column(0)
    values = column.buffers()[1]
    return pa.py_buffer(b"") if values is None else values.slice(column.offset, len(column))


def _joined(first: pa.Buffer, size: int, read: Callable[[], pa.Buffer]) -> pa.Buffer:
    """Return a message of `size` bytes, which came in slices: `first`, and what `read` returns."""
    if first.size == size and first.address % _ALIGNED == 0:
        return first
    whole = pa.allocate_buffer(size)
    view, at, piece = memoryview(whole).cast("B"), 0, first
    while True:
        view[at : at + piece.size] = memoryview(piece).cast("B")
        at += piece.size
        if at == size:
            return whole
        piece = read()


class Flight(Exchange):
    """The exchange of one task over Arrow Flight; `addresses` are in order of the ranks."""

    def __init__(
        self,
        rank: int,
        server: Server,
        addresses: Sequence[Address],
        secret: bytes,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__(rank, len(addresses))
        self._server, self._patience, self._addresses = server, patience, addresses
        self._listened: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        self._over, self._swapping = threading.Event(), False
        for peer in self.peers:
            try:
                self._streams[peer] = _Stream(rank, addresses[peer], secret, patience)
            except _BROKEN as error:
                lost = self._lost(peer, f"cannot be reached ({_short(error)})")
                server.begin(_nobody)
                self._close()
                raise lost from None
        server.begin(self._listen)
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="exchange-watch")
        self._watcher.start()

    # --- sending

    def swap(
        self, parts: Mapping[int, Sequence[Buffer]], note: bytes
    ) -> tuple[dict[int, pa.Buffer], list[bytes]]:
        self._swapping = True
        try:
            return super().swap(parts, note)
        finally:
            self._swapping = False

    def _send(self, swap: int, parts: Mapping[int, Sequence[Buffer]], note: bytes) -> None:
        """Send each peer its part and the note; a large message is sent in a thread of its own."""
        small = []
        for peer in self.peers:
            message = _message(swap, parts.get(peer), note)
            if len(message[1]) == 1 and message[1][0].nbytes <= _SMALL:
                small.append((peer, message))
            else:
                self.inbox.sending(peer, True)
                self._streams[peer].in_thread(partial(self._send_one, peer, message))
        for one in small:
            self._send_one(*one)

    def _send_one(self, peer: int, message: tuple[bytes, list[pa.RecordBatch]]) -> None:
        try:
            self._streams[peer].write(*message)
        except _BROKEN as error:  # the peer's own stream may still bring its reason
            if self.inbox.wait_for_ends([peer], 2.0):
                self.inbox.end(peer, self._lost(peer, f"has gone ({_short(error)})").ended)
        else:
            self.inbox.sending(peer, False)

    # --- receiving

    def _listen(self, sender: int, reader: Any) -> None:
        """Read the stream of another task to its end; called in a thread of the server."""
        if sender not in self._streams or sender in self._listened:
            raise fl.FlightServerError(f"no stream is expected from task {sender}")
        self._listened.add(sender)
        ended = None
        try:
            ended = self._read(sender, reader)
        finally:
            if ended is None:
                ended = self._lost(sender, "has gone").ended
            self.inbox.end(sender, ended)
            # the sender waits until this task ends its stream to the sender
            self._streams[sender].finish(_message(_END, None, Ended.by(None, self.rank).to_bytes()))

    def _read(self, sender: int, reader: Any) -> Ended | None:
        """Read a task's messages until its stream ends; return its reason, or None if it breaks."""
        ended = None
        with suppress(StopIteration, *_BROKEN):
            while True:
                chunk = reader.read_chunk()
                swap, part, note = _HEAD.unpack(chunk.app_metadata)
                size, first = max(part, 0), _received(chunk)
                whole = _joined(first, size + note, lambda: _received(reader.read_chunk()))
                text = whole.slice(size).to_pybytes()
                if swap == _END:
                    ended = Ended.of_bytes(text)
                else:
                    sent = None if part == _NO_PART else whole.slice(0, part)
                    self.inbox.put(sender, swap, sent, text)
        return ended

    # --- tasks that do not answer

    def _watch(self) -> None:
        """While a swap makes no progress, ask the missing tasks whether they are alive."""
        before = -1
        while not self._over.wait(min(5.0, self._patience / 4)):
            now = self.swaps if self._swapping else -1
            waits, before = now == before != -1, now
            for peer in self.inbox.missing() if waits else ():
                self._ask(peer)

    def _ask(self, peer: int) -> None:
        """Ask the task `peer` whether it is alive; without an answer, record that it has ended."""
        try:
            self._streams[peer].ask()
        except _BROKEN as error:
            late = isinstance(error, fl.FlightTimedOutError)
            what = f"has not answered for {self._patience:g} s" if late else "has gone"
            self.inbox.end(peer, self._lost(peer, what).ended)

    def _lost(self, peer: int, what: str) -> PeerLost:
        address = self._addresses[peer]
        where = f"{address.host}:{address.port}"
        return PeerLost(Ended("lost", peer, f"task {peer} of {self.size} at {where} {what}"))

    # --- the end

    def end(self, error: BaseException | None = None) -> None:
        """Tell the other tasks that this task ends, wait for answers, and close everything."""
        last = _message(_END, None, Ended.by(error, self.rank).to_bytes())
        ended = self.inbox.ended()
        for peer, stream in self._streams.items():
            stream.finish(last, 0.0 if peer in ended else _HURRY)
        wait = self._patience if error is None else min(self._patience, _HURRY)
        while (silent := self.inbox.wait_for_ends(self.peers, wait)) and error is None:
            for peer in silent:  # a task answers even while it writes its tables
                self._ask(peer)
        self._close()
        lost = [ended for ended in self.inbox.ended().values() if ended.why == "lost"]
        if lost and error is None:
            raise PeerLost(lost[0])

    def _close(self) -> None:
        self._over.set()
        ended = self.inbox.ended()
        for peer, stream in self._streams.items():
            reason = ended.get(peer)
            stream.close(reason is None or (reason.why == "lost" and reason.rank == peer))
        # shutdown waits until all streams end, and one of them may hang
        closer = threading.Thread(target=self._server.shutdown, daemon=True)
        closer.start()
        closer.join(min(self._patience, _HURRY))


def _short(error: BaseException) -> str:
    """Return the message of a gRPC error without addresses and file names."""
    return str(error).split(". Detail:")[0].split(". gRPC client debug context")[0].splitlines()[0]
