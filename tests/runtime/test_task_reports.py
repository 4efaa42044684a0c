"""What running tasks report to the driver."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import pytest

from scribe_spark.runtime.task_reports import Reporter, receive_reports


class Taken:
    """Remembers reports, and waits for them."""

    def __init__(self, count: int) -> None:
        self.reports: list = []
        self._count, self._all = count, threading.Event()

    def __call__(self, report) -> None:
        self.reports.append(report)
        if len(self.reports) == self._count:
            self._all.set()

    def wait(self) -> list:
        assert self._all.wait(30)
        return self.reports


def test_reports_come_in_order_while_a_task_runs(spark):
    taken = Taken(3)
    with receive_reports(spark, taken) as address:

        def run(batches):
            reporter = Reporter(address)
            for number in range(3):
                reporter.report({"number": number, "value": 0.1 + number})
            yield from batches

        assert spark.range(1).coalesce(1).mapInArrow(run, "id bigint").count() == 1
        expected = [{"number": number, "value": 0.1 + number} for number in range(3)]
        assert taken.wait() == expected


def test_who_does_not_know_the_token_is_not_heard(spark):
    taken = Taken(1)
    with receive_reports(spark, taken) as address:
        stranger = Reporter(replace(address, token="0" * 32))
        assert not stranger.is_heard
        stranger.report("stranger")
        known = Reporter(address)
        assert known.is_heard
        known.report("known")
        assert taken.wait() == ["known"]


def test_where_the_driver_is_not_reached_nothing_fails(spark):
    with receive_reports(spark, print) as address:
        pass
    for nowhere in (address, None, replace(address, host="no.such.host.invalid")):
        reporter = Reporter(nowhere)
        assert not reporter.is_heard
        reporter.report(1)
        reporter.close()


def test_a_driver_that_is_gone_is_no_error(spark):
    with receive_reports(spark, print) as address:
        with socket.create_server(("127.0.0.1", 0)) as server:
            other = replace(address, port=server.getsockname()[1])
            accepted = threading.Thread(target=lambda: _welcome_and_leave(server))
            accepted.start()
            reporter = Reporter(other)
            accepted.join()
        assert reporter.is_heard
        for _ in range(1_000):
            reporter.report("x" * 1_000)
        assert not reporter.is_heard


def _welcome_and_leave(server: socket.socket) -> None:
    connection, _ = server.accept()
    connection.recv(64)
    connection.sendall(b"go on\n")
    connection.close()


def test_what_takes_a_report_may_raise(spark):
    raised = threading.Event()

    def take(report) -> None:
        raised.set()
        raise KeyError(report)

    with (
        pytest.raises(KeyError, match="first"),
        receive_reports(spark, take) as address,
    ):
        report_twice(address, raised)


def report_twice(address, taken: threading.Event) -> None:
    reporter = Reporter(address)
    reporter.report("first")
    assert taken.wait(30)
    reporter.report("second")


def test_a_driver_that_cannot_listen_has_no_address(spark, monkeypatch):
    monkeypatch.setattr(socket, "create_server", _refuse)
    with receive_reports(spark, print) as address:
        assert address is None


def _refuse(*given) -> None:
    raise OSError("no port is left")
