"""Checks of addresses of Spark Connect servers, as grpc tries a bad one for minutes."""

from __future__ import annotations

import importlib.util
import re

from scribe_spark.errors import InputError, listed
from scribe_spark.redaction import LEFT_OUT
from scribe_spark.runtime.master import PATIENCE, check_master, is_local_master, reach

_PORT = 15_002
_MOST = 65_535
_URL = re.compile(
    r"sc://(?P<host>\[[^\]/\s]+\]|[^:/;\s]+)(:(?P<port>[0-9]+))?(/(;[^;=\s]+=[^;\s]*)*)?"
)
_REMEDY = f"use sc://HOST:{_PORT}, or local[2] for a server of this machine and this command"

#: The libraries that pyspark's client needs besides pyspark: name of the import -> package.
_LIBRARIES = ("grpc", "grpc_status", "google.rpc", "zstandard")


def is_own(remote: str) -> bool:
    """Return True if the server is to be started on this machine for the session."""
    return remote.startswith("local")


def check_remote(remote: str) -> None:
    """Refuse a bad address of a server, and a client without its libraries."""
    if is_own(remote) and is_local_master(remote):
        try:
            check_master(remote)
        except InputError as error:
            raise InputError("remote", remote, error.remedy) from None
    else:
        _address(remote)
    missing = missing_libraries()
    if missing:
        remedy = f"needs {listed(missing)}; pip install 'scribe-spark[connect]'"
        raise InputError("remote", remote, remedy)


def missing_libraries() -> list[str]:
    """Return the libraries of pyspark's client that are not installed."""
    return [library for library in _LIBRARIES if not _is_there(library)]


def _is_there(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:  # its parent package is missing, too
        return False


def reach_remote(remote: str, patience: float = PATIENCE) -> None:
    """Refuse a server that accepts no connection."""
    reach("remote", remote, [_address(remote)], patience)


def _address(remote: str) -> tuple[str, int]:
    found = _URL.fullmatch(remote)
    if found is None:
        raise InputError("remote", remote, f"is not a Spark Connect server; {_REMEDY}")
    if LEFT_OUT in remote:
        raise InputError("remote", remote, f"has {LEFT_OUT} for a secret; write the secret itself")
    port = int(found["port"] or _PORT)
    if not 1 <= port <= _MOST:
        raise InputError("remote", remote, f"port must be 1 to {_MOST:,}")
    return found["host"], port
