"""The process of a classic session's JVM: its output until it works, and its end.

A JVM that cannot start prints a hundred lines.  They are held back until a session exists; then
the output of a working session is passed on.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from scribe_spark.core.errors import one_line
from scribe_spark.runtime import guard
from scribe_spark.runtime.environment import (
    environment_of_machine,
    given_environment,
    scratch_folder,
)
from scribe_spark.runtime.interrupts import begin, end_started
from scribe_spark.runtime.tricks import enabled

#: A line of spark-defaults.conf: a name, then blanks, ``=`` or ``:``, then the value.
_JARS = re.compile(r"^\s*spark\.jars\s*[\s=:]\s*(\S.*?)\s*$", re.M)


def is_submitted() -> bool:
    """Return True if ``spark-submit`` has started this process, with a running JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_settings() -> dict[str, str]:
    """Return the settings of ``spark-submit`` and ``spark-defaults.conf``, if the trick is on."""
    if not is_submitted() or not enabled("submitted_settings"):
        return {}
    SparkContext._ensure_initialized()  # without a connection, a SparkConf is empty
    return dict(SparkConf().getAll())


def user_jars() -> list[str]:
    """Return the user's jars (PYSPARK_SUBMIT_ARGS, spark-defaults.conf) before the JVM starts."""
    for flag, value in pairwise(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        if flag == "--jars":
            return value.split(",")
        if flag == "--conf" and value.startswith("spark.jars="):
            return value.partition("=")[2].split(",")
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    try:
        found = _JARS.findall(Path(folder, "spark-defaults.conf").read_text(errors="replace"))
    except OSError:
        return []
    return [jar.strip() for jar in found[-1].split(",")] if found else []


#: Lines without information about a failure: warnings, and lines of a stack trace.
_ASIDE = re.compile(rb"\s*$|WARNING:|Picked up |Using Spark's default|::|\s+at |\s*\.\.\. \d+ more")
#: Seconds within which a process must end after its last output.
_PATIENCE = 0.5


class JvmError(RuntimeError):
    """The JVM has not started; the message is its output."""


class JvmWords:
    """The output of the JVM to stdout and stderr; :meth:`pass_on` prints the output."""

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, args=(read_end,), daemon=True)
        self._reader.start()

    def pass_on(self) -> None:
        """Write the held back output to our stderr, and from now on each new line."""
        with self._lock:
            lines, self._held = self._held or [], None
            _write(b"".join(lines))

    def reason(self) -> str:
        """Return the reason why the JVM has not started, as one line; empty without output."""
        self._reader.join(_PATIENCE)  # it ends with the JVM
        with self._lock:
            return reason_in(self._held or [])

    def _read(self, read_end: int) -> None:
        with open(read_end, "rb") as lines:
            for line in lines:
                with self._lock:
                    if self._held is None:
                        _write(line)
                    else:
                        self._held.append(line)


def reason_in(lines: Iterable[bytes]) -> str:
    """Return the reason why a JVM has not started, as one line; empty if its lines contain none."""
    told = [line for line in lines if not _ASIDE.match(line)]
    raised = [at for at, line in enumerate(told) if b"Exception" in line]
    first = raised[0] if raised else 0
    return "; ".join(line.decode(errors="replace").strip() for line in told[first : first + 2])


def _write(text: bytes) -> None:
    with suppress(OSError):  # the terminal may be gone
        os.write(2, text)


#: What a launched JVM is: py4j's gateway, and the output of the process.
_Launched = tuple[Any, JvmWords]

#: The JVM that a thread starts for a later session, with its settings.
_begun: tuple[dict[str, str], Future[_Launched]] | None = None


def begin_jvm(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Start a JVM in a thread for :func:`start_jvm`; it ends with this process if not taken."""
    global _begun
    if _is_not_ours():
        return

    def launch() -> _Launched:
        with given_environment(environment):
            return _launch(settings)

    _begun = dict(settings), begin(launch)
    atexit.register(_end_begun)


def await_jvm() -> None:
    """Wait until the JVM of :func:`begin_jvm` works or has failed, if one is being started."""
    if _begun is not None:
        wait([_begun[1]])


def start_jvm(settings: Mapping[str, str]) -> JvmWords | None:
    """Start a JVM, or take that of :func:`begin_jvm` with these settings; return its output.

    The result is None if there is a JVM already, or Spark starts one.
    """
    global _begun
    if _is_not_ours():
        return None
    begun = _begun
    if begun is not None and begun[0] != settings:
        _end_begun()
        begun = None
    _begun = None
    gateway, words = _launch(settings) if begun is None else begun[1].result()
    SparkContext._ensure_initialized(gateway=gateway)
    return words


def _is_not_ours() -> bool:
    """Return True if this process need not start a JVM: it has one, or Spark starts one."""
    elsewhere = "SPARK_REMOTE" in os.environ or is_submitted()
    return elsewhere or SparkContext._gateway is not None or not enabled("jvm_words")


def _launch(settings: Mapping[str, str]) -> _Launched:
    conf, words = SparkConf(), JvmWords()
    conf.setAll(list(settings.items()))
    try:
        gateway = launch_gateway(conf, {"stdout": words.write_end, "stderr": words.write_end})
    except Exception as error:
        raise JvmError(words.reason() or one_line(error)) from None
    finally:
        os.close(words.write_end)
    return gateway, words


def _end_begun() -> None:
    """End the JVM that no session has taken."""
    if _begun is not None:
        end_started(_begun[1])


def how_it_ended(process: Popen[bytes] | None) -> str | None:
    """Return a few words about how a process has ended; None while it runs, or without one."""
    if process is None:
        return None
    with suppress(TimeoutExpired):
        code = process.wait(_PATIENCE)  # its connections end just before it does
        return f"signal {-code}" if code < 0 else f"exit code {code}"
    return None


# --- a Spark Connect server on this machine, which ends with this process


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
