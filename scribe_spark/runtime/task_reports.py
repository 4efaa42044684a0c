"""Reports of running tasks to the driver.

Spark sends a task's results, and accumulators, only when the task ends.  So the driver listens on
a port, and tasks connect to it, as executors do for other purposes.  Nothing depends on reports:
if the connection fails, there are none.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from scribe_spark.runtime.sessions import abilities

#: Seconds for which a task waits for the driver's answer; then it continues without reports.
_PATIENCE = 2.0

_WELCOME = b"go on\n"


@dataclass(frozen=True)
class ReportAddress:
    """The address on which the driver listens, and the token that a task must send first."""

    host: str
    port: int
    token: str


@contextmanager
def receive_reports(
    spark: SparkSession, take: Callable[[Any], None]
) -> Iterator[ReportAddress | None]:
    """Call `take` with the reports of tasks in a thread; its exceptions are raised at the end.

    Yield the address for tasks, None if the driver cannot listen, or tasks may not reach it.
    """
    hosts = abilities(spark).hosts()
    server = None
    if hosts is not None:
        with suppress(OSError):
            server = socket.create_server((hosts[1], 0))
    if hosts is None or server is None:
        yield None
        return
    receiver = _Receiver(server, take)
    with server:
        try:
            yield ReportAddress(hosts[0], server.getsockname()[1], receiver.token)
        finally:
            receiver.stop()
    if receiver.raised is not None:
        raise receiver.raised


class _Receiver:
    """The threads of the driver that read reports, one for each task that is connected."""

    def __init__(self, server: socket.socket, take: Callable[[Any], None]) -> None:
        self.token, self.raised = secrets.token_hex(16), None
        self._server, self._take = server, take
        self._lock, self._stopped = threading.Lock(), False
        threading.Thread(target=self._accept, daemon=True).start()

    raised: BaseException | None

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
        with suppress(OSError):  # closing it would not wake the thread that accepts
            self._server.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # the server is closed
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection, connection.makefile("rb") as lines:
            connection.settimeout(_PATIENCE)
            if not hmac.compare_digest(lines.readline(64).strip(), self.token.encode()):
                return
            connection.sendall(_WELCOME)
            connection.settimeout(None)
            for line in lines:
                report = json.loads(line)
                with self._lock:
                    if self._stopped or self.raised is not None:
                        return
                    try:
                        self._take(report)
                    except BaseException as raised:  # for the thread that waits for the job
                        self.raised = raised


class Reporter:
    """The end of a connection in a task, which sends reports to the driver if it can reach it."""

    def __init__(self, address: ReportAddress | None) -> None:
        self._connection: socket.socket | None = None
        if address is None:
            return
        with suppress(OSError):
            found = socket.create_connection((address.host, address.port), _PATIENCE)
            try:
                found.sendall(address.token.encode() + b"\n")
                if found.recv(len(_WELCOME), socket.MSG_WAITALL) == _WELCOME:
                    self._connection = found
            finally:
                if self._connection is None:
                    found.close()

    @property
    def is_heard(self) -> bool:
        """True if the driver receives the reports of this task."""
        return self._connection is not None

    def report(self, what: Any) -> None:
        """Send a report to the driver: any value that JSON can write."""
        if self._connection is None:
            return
        try:
            self._connection.sendall(json.dumps(what).encode() + b"\n")
        except OSError:
            self.close()

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
