"""A Spark Connect server on this machine, which ends with this process.

The server is a separate process, with a JVM that has the settings of a classic session; nobody else
on the machine can connect to it.  This process holds the other end of its standard input: when that
closes, however this process ends, the server ends, too.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil
from pyspark.find_spark_home import _find_spark_home

from scribe_spark.runtime import guard
from scribe_spark.runtime.environment import environment_of_machine
from scribe_spark.runtime.jvm_process import reason_in
from scribe_spark.runtime.scratch import scratch_folder

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
#: Seconds within which the server must begin, and end by itself.
_BEGIN, _END = 120.0, 20.0
_AGAIN = 0.1
#: -P: the folder of the file is not searched for modules.
_GUARD = (sys.executable, "-P", guard.__file__)


class ConnectServer:
    """A server that this process has started; its address contains the token that it expects."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process, self.url = process, url

    def stop(self) -> None:
        """End the server; a second call does nothing."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END)


def start_server(master: str, settings: Mapping[str, str]) -> ConnectServer:
    """Start a server on a local master, and wait until it accepts connections."""
    token = secrets.token_hex()
    port = _free_port()
    listens = {
        "spark.connect.grpc.binding.address": "localhost",
        "spark.connect.grpc.binding.port": str(port),
        "spark.log.level": "OFF",  # the client's exception has the error
    }
    command = [str(Path(_find_spark_home(), "bin", "spark-submit")), "--master", master]
    for name, value in {**settings, **listens}.items():
        command += ["--conf", f"{name}={value}"]
    said = scratch_folder() / "server.log"
    # not on the command line, which other users can read
    secret = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    environment = {**os.environ, **environment_of_machine(), **secret}
    with said.open("wb") as log:
        process = subprocess.Popen(
            [*_GUARD, *command, "--class", _CLASS, "spark-internal"],
            stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment,
        )  # fmt: skip
    server = ConnectServer(process, f"sc://localhost:{port}/;token={token}")
    last = time.monotonic() + _BEGIN
    while not _listens(process.pid, port):
        if process.poll() is not None or time.monotonic() > last:
            server.stop()
            reason = reason_in(said.read_bytes().splitlines())
            raise RuntimeError(reason or f"the server has not begun in {_BEGIN:g} s")
        time.sleep(_AGAIN)
    return server


def _free_port() -> int:
    """Return a free port below those that a system gives to sockets without one (Spark's)."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError):
            socket.create_server(("localhost", port)).close()
            return port


def _listens(pid: int, port: int) -> bool:
    """Return True if a process, or one below it, listens on a port: another one may have it."""
    with suppress(psutil.Error):
        top = psutil.Process(pid)
        return any(
            socket.laddr.port == port and socket.status == psutil.CONN_LISTEN
            for process in (top, *top.children(recursive=True))
            for socket in process.net_connections(kind="tcp")
        )
    return False
