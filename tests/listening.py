"""Sockets on which this process, and those that it has started, wait for connections."""

import psutil

#: Addresses that only this machine reaches.
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def listening(process: psutil.Process | None = None) -> set[tuple[str, int]]:
    """Return the address and port of each socket, of a process and of all below it."""
    top = process or psutil.Process()
    return {
        (socket.laddr.ip, socket.laddr.port)
        for one in (top, *top.children(recursive=True))
        for socket in one.net_connections(kind="inet")
        if socket.status == psutil.CONN_LISTEN
    }
