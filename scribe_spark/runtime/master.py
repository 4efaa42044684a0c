"""Checks of Spark masters, with one line for a bad one in place of Spark's hundred."""

from __future__ import annotations

import importlib.util
import os
import re
import socket

from scribe_spark.core.errors import LEFT_OUT, InputError, listed

_REMEDY = "use local[*], local[4], spark://HOST:PORT, yarn or k8s://URL"

_LOCAL = re.compile(r"local(\[(?P<threads>\*|[0-9]+)(\s*,\s*(?P<failures>[0-9]+))?\])?")
_LOCAL_CLUSTER = re.compile(
    r"local-cluster\[\s*(?P<executors>[0-9]+)\s*,\s*(?P<cores>[0-9]+)\s*,\s*(?P<memory>[0-9]+)\s*\]"
)
_STANDALONE = re.compile(r"spark://(?P<hosts>[^,/\s]+:[0-9]+(,[^,/\s]+:[0-9]+)*)")
#: Kubernetes: the address of its API server, with TLS unless it begins with http.
_KUBERNETES = re.compile(
    r"k8s://((?P<scheme>https?)://)?(?P<host>\[[^\]/\s]+\]|[^:/\s]+)(:(?P<port>[0-9]+))?(/\S*)?"
)

#: The greatest numbers in a master; Spark refuses greater ones with many lines.
_MOST = {
    "threads": 10_000,
    "failures": 10_000,
    "executors": 10_000,
    "cores": 10_000,
    "memory": 2**31 - 1,
    "port": 65_535,
}

#: Seconds within which a cluster's master must accept a connection.
PATIENCE = 5.0


def is_local_master(master: str) -> bool:
    """Return True if the executors are threads of the driver's JVM."""
    return _LOCAL.fullmatch(master) is not None


def on_this_machine(master: str) -> bool:
    """Return True if the executors run on the driver's machine, as threads or as processes."""
    return is_local_master(master) or _LOCAL_CLUSTER.fullmatch(master) is not None


def check_master(master: str) -> None:
    """Refuse a text that Spark cannot read as a master."""
    numbers: list[tuple[str, str | None]] = []
    if found := _LOCAL.fullmatch(master) or _LOCAL_CLUSTER.fullmatch(master):
        numbers = [*found.groupdict().items()]
    elif found := _STANDALONE.fullmatch(master):
        numbers = [("port", host.rpartition(":")[2]) for host in found["hosts"].split(",")]
    elif found := _KUBERNETES.fullmatch(master):
        numbers = [("port", found["port"])]
    elif master != "yarn":
        raise InputError("master", master, f"is not a Spark master; {_REMEDY}")
    elif not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        remedy = "set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder of the cluster's settings"
        raise InputError("master", master, remedy)
    for name, text in numbers:
        if text not in (None, "*") and not 1 <= int(text) <= _MOST[name]:
            raise InputError("master", master, f"{name} must be 1 to {_MOST[name]:,}")


def reach_master(master: str, patience: float = PATIENCE) -> None:
    """Refuse a standalone master, or Kubernetes, that accepts no connection."""
    reach("master", master, _addresses(master), patience)


def reach(field: str, value: str, addresses: list[tuple[str, int]], patience: float) -> None:
    """Refuse the value of a field if none of its addresses accepts a connection in time."""
    reason = ""
    for host, port in addresses:
        try:
            socket.create_connection((host.strip("[]"), port), timeout=patience).close()
        except TimeoutError:
            reason = f"no answer in {patience:g} s"
        except (OSError, UnicodeError) as error:  # the text may be no valid host name
            reason = getattr(error, "strerror", None) or str(error)
        else:
            return
    if reason:
        raise InputError(field, value, f"cannot be reached ({reason})")


def _addresses(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports in the text `master`; empty if only Spark knows them."""
    if found := _STANDALONE.fullmatch(master):
        parts = [address.rpartition(":") for address in found["hosts"].split(",")]
        return [(host, int(port)) for host, _, port in parts]
    if found := _KUBERNETES.fullmatch(master):
        typical = 80 if found["scheme"] == "http" else 443
        return [(found["host"], int(found["port"] or typical))]
    return []


# --- addresses of Spark Connect servers


_PORT = 15_002
_URL = re.compile(
    r"sc://(?P<host>\[[^\]/\s]+\]|[^:/;\s]+)(:(?P<port>[0-9]+))?(/(;[^;=\s]+=[^;\s]*)*)?"
)
_REMOTE_REMEDY = f"use sc://HOST:{_PORT}, or local[2] for a server of this machine and this command"

#: The libraries that pyspark's client needs besides pyspark: name of the import -> package.
_LIBRARIES = ("grpc", "grpc_status", "google.rpc", "zstandard")


def is_own(remote: str) -> bool:
    """Return True if the address `remote` asks for a server that this process starts."""
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
    if missing := missing_libraries():
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
        raise InputError("remote", remote, f"is not a Spark Connect server; {_REMOTE_REMEDY}")
    if LEFT_OUT in remote:
        raise InputError("remote", remote, f"has {LEFT_OUT} for a secret; write the secret itself")
    port = int(found["port"] or _PORT)
    if not 1 <= port <= _MOST["port"]:
        raise InputError("remote", remote, f"port must be 1 to {_MOST['port']:,}")
    return found["host"], port
