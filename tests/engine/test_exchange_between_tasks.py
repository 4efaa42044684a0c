"""Swaps between tasks, over each transport: what arrives, and what a task hears of lost ones."""

import multiprocessing
import os
import queue
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import play_in_threads

from scribe_spark.core.errors import InputError
from scribe_spark.engine.between_tasks import Ended, Exchange, OutOfStep, PeerFailed, PeerLost
from scribe_spark.engine.flight import SLICE, Address, Flight, Server, _Stream, fl

SECRET = b"of this job"


def play_over_flight(size, work, patience=20.0, secrets=None):
    """Play tasks as threads of this process that are connected by Flight; their results by rank.

    The result of a task that raises is its error.
    """
    secrets = secrets or [SECRET] * size
    servers = [Server(secret) for secret in secrets]
    addresses = [server.address for server in servers]

    def play(rank):
        try:
            exchange = Flight(rank, servers[rank], addresses, secrets[rank], patience)
            try:
                result = work(exchange)
            except Exception as error:
                exchange.end(error)
                raise
            exchange.end()
        except Exception as error:
            return error
        return result

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(play, range(size)))


def play_alone(size, work):
    assert size == 1
    return [work(Exchange())]


TRANSPORTS = {"threads": play_in_threads, "flight": play_over_flight}


# --- what arrives

#: A piece that is sent as it is, not joined with others.
LARGE = bytes(70_000)


def short(part):
    return bytes(part).replace(LARGE, b"LARGE")


parts_of_a_task = st.dictionaries(
    st.integers(0, 3), st.lists(st.binary(max_size=20) | st.just(LARGE), max_size=4)
)
swaps = st.lists(
    st.lists(st.tuples(parts_of_a_task, st.binary(max_size=9)), min_size=4, max_size=4), max_size=3
)


@pytest.mark.parametrize("transport", TRANSPORTS)
@settings(max_examples=25)
@given(st.integers(1, 4), swaps)
def test_every_task_receives_what_was_sent_to_it(transport, size, swaps):
    """Also nothing, and what a task sends to itself."""

    def work(exchange):
        received = []
        for swap in swaps:
            parts, note = swap[exchange.rank]
            parts = {task: pieces for task, pieces in parts.items() if task < exchange.size}
            found, notes = exchange.swap(parts, note)
            assert list(found) == sorted(found)
            received.append(({task: short(part) for task, part in found.items()}, notes))
        return received

    played = (play_alone if size == 1 else TRANSPORTS[transport])(size, work)
    for rank, received in enumerate(played):
        assert received == [
            (
                {
                    sender: short(b"".join(parts[rank]))
                    for sender, (parts, _) in enumerate(swap[:size])
                    if rank in parts
                },
                [note for _, note in swap[:size]],
            )
            for swap in swaps
        ]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_arrays_go_and_come_as_they_are(transport):
    sent = np.arange(SLICE // 4), np.zeros(0), np.arange(5, dtype=np.int16)  # more than a slice

    def work(exchange):
        pieces = [sent[0] + exchange.rank, sent[1], sent[2]]
        found, _ = exchange.swap({1 - exchange.rank: pieces}, b"")
        part = found[1 - exchange.rank]
        first = np.frombuffer(part, dtype=np.int64, count=len(sent[0]))
        rest = np.frombuffer(part, dtype=np.int16, offset=sent[0].nbytes)
        return first.flags.aligned, first - (1 - exchange.rank), rest

    for aligned, first, rest in TRANSPORTS[transport](2, work):
        assert aligned
        np.testing.assert_array_equal(first, sent[0])
        np.testing.assert_array_equal(rest, sent[2])


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_task_may_change_what_it_has_sent(transport):
    def work(exchange):
        values = np.full(10, exchange.rank)
        found, _ = exchange.swap({1 - exchange.rank: [values]}, b"")
        values[:] = -1
        exchange.swap({}, b"")
        return np.frombuffer(found[1 - exchange.rank], dtype=np.int64)[0]

    assert TRANSPORTS[transport](2, work) == [1, 0]


def test_tasks_that_are_late_are_waited_for():
    """Also longer than the time in which a task has to show that it is alive."""

    def work(exchange):
        for _ in range(2):
            if exchange.rank == 1:
                time.sleep(0.6)
            exchange.swap({}, b"")
        return "done"

    assert play_over_flight(2, work, patience=0.3) == ["done"] * 2


def raise_first(play, size, work):
    """Raise the first error of tasks."""
    for result in play(size, work):
        if isinstance(result, Exception):
            raise result


# --- tasks that end early


def errors(transport, size, work):
    """Return the error of each task, None where it has none."""
    found = [None] * size

    def remember(exchange):
        try:
            work(exchange)
        except Exception as error:
            found[exchange.rank] = error
            raise

    with suppress(Exception):  # threads raise the first error
        TRANSPORTS[transport](size, remember)
    return found


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_error_of_a_task_ends_all_with_its_line(transport):
    def work(exchange):
        for number in range(5):
            if exchange.rank == 2 and number == 3:
                raise InputError("nodes", 7, "are too few")
            exchange.swap({0: [b"part"]}, b"note")

    *others, own = errors(transport, 3, work)
    assert isinstance(own, InputError)
    for error in others:
        assert isinstance(error, PeerFailed)
        assert str(error) == str(own)
        assert error.ended.rank == 2
        assert "in work" in error.ended.trace


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_task_that_swaps_less_often_than_others(transport):
    def work(exchange):
        for _ in range(2 if exchange.rank else 3):
            exchange.swap({}, b"")

    first, *others = errors(transport, 3, work)
    assert isinstance(first, OutOfStep)
    assert re.fullmatch("task [12] ended before swap 2 of another task", str(first))
    assert others == [None, None]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_message_of_another_swap(transport):
    def work(exchange):
        exchange.swap({}, b"")
        exchange.swaps += exchange.rank
        exchange.swap({}, b"")

    with pytest.raises(OutOfStep, match=r"task [01] is at swap [12], another task at swap [12]"):
        raise_first(TRANSPORTS[transport], 2, work)


def test_reasons_are_handed_on():
    for ended in (
        Ended.by(KeyError("x"), 3),
        Ended("lost", 1, "task 1 has gone"),
        Ended("done", 0),
    ):
        assert Ended.of_bytes(ended.to_bytes()) == ended
    assert Ended.by(KeyError("x"), 3).line == "KeyError: 'x'"
    assert Ended.by(PeerLost(Ended("lost", 1, "gone")), 0).rank == 1
    assert Ended.by(GeneratorExit(), 3) == Ended("lost", 3, "task 3 was stopped (GeneratorExit)")


# --- tasks that are lost


def in_process(rank, pipe):
    """Play a task in a process of its own; the last one is killed in its third swap."""
    server = Server(SECRET)
    pipe.send(server.address)
    addresses = pipe.recv()
    exchange = Flight(rank, server, addresses, SECRET, 30.0)
    try:
        for number in range(4):
            if number == 2 and rank == len(addresses) - 1:
                pipe.send(time.monotonic())
                os.kill(os.getpid(), signal.SIGKILL)
            # more than sockets and gRPC hold back
            exchange.swap({task: [bytes(20_000_000)] for task in exchange.peers}, b"")
    except Exception as error:
        pipe.send((type(error), str(error), time.monotonic()))
        exchange.end(error)
    pipe.close()
    os._exit(0)  # as Spark's workers end


def test_a_lost_process_is_named_soon():
    """A killed one; `test_barrier` has one that never answers."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(3)]
    started = [
        context.Process(target=in_process, args=(rank, pipe))
        for rank, (_, pipe) in enumerate(pipes)
    ]
    ours = [pipe for pipe, _ in pipes]
    try:
        for process in started:
            process.start()
        addresses = [pipe.recv() for pipe in ours]
        for pipe in ours:
            pipe.send(addresses)
        at = ours[2].recv()
        for pipe in ours[:2]:
            kind, line, heard = pipe.recv()
            assert kind is PeerLost
            assert line.startswith(f"task 2 of 3 at 127.0.0.1:{addresses[2].port} has ")
            assert line.endswith("has gone")
            assert heard - at < 20
        for process in started[:2]:
            process.join(20)
            assert process.exitcode == 0
    finally:
        for process in started:
            process.kill()


def test_a_stream_that_another_task_does_not_read_is_cancelled(monkeypatch):
    """Its large message holds the stream, also if that task has told why it ended."""
    monkeypatch.setattr(f"{_Stream.__module__}._HURRY", 0.1)
    stream = _Stream.__new__(_Stream)
    stream._lock, stream._large, stream._open = threading.Lock(), queue.SimpleQueue(), True
    stream._writer = stream._client = Mock()
    stream._lock.acquire()
    stream._reader = Mock(cancel=stream._lock.release)
    stream.close(hangs=False)
    assert not stream._open


@pytest.mark.parametrize("answers", [True, False])
def test_a_task_that_answers_may_end_late(monkeypatch, answers):
    """Its reply to the end of the other task waits behind a message that it still writes."""
    ask = _Stream.ask

    def ask_or_wait(stream):
        if not answers and writes.is_set():
            raise fl.FlightTimedOutError("too late")
        ask(stream)

    monkeypatch.setattr(_Stream, "ask", ask_or_wait)
    writes = threading.Event()

    def work(exchange):
        exchange.swap({}, b"")
        if exchange.rank:
            with exchange._streams[0]._lock:
                writes.set()
                time.sleep(1.0)
        else:
            assert writes.wait(5.0)
        return "played"

    first, _ = play_over_flight(2, work, patience=0.5)
    if answers:
        assert first == "played"
    else:
        assert isinstance(first, PeerLost)
        assert str(first).endswith("has not answered for 0.5 s")


def test_nobody_is_left_at_the_end():
    before = set(threading.enumerate())
    servers = []

    def work(exchange):
        servers.append(exchange._server.port)
        exchange.swap({}, b"")

    play_over_flight(3, work)
    for port in servers:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            pass
    left = [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]
    assert not left


# --- strangers


def test_a_wrong_secret_is_refused():
    work = play_over_flight(2, lambda exchange: "played", 1.0, [SECRET, b"of another job"])
    assert all(isinstance(error, PeerLost) for error in work)
    # a task that was refused closes its server, so the other one may find the call cancelled
    assert any("cannot be reached (wrong secret)" in str(error) for error in work)


CALLS = {
    "list_flights": lambda client, options: list(client.list_flights(options=options)),
    "list_actions": lambda client, options: list(client.list_actions(options)),
    "get_flight_info": lambda client, options: client.get_flight_info(
        fl.FlightDescriptor.for_command(b""), options
    ),
    "get_schema": lambda client, options: client.get_schema(
        fl.FlightDescriptor.for_command(b""), options
    ),
    "do_get": lambda client, options: client.do_get(fl.Ticket(b""), options).read_all(),
    "authenticate": lambda client, options: client.authenticate_basic_token("a", "b", options),
    "do_action": lambda client, options: list(client.do_action("alive", options)),
    "do_put": lambda client, options: client.do_put(
        fl.FlightDescriptor.for_command(b""), pa.schema([]), options
    )[0].close(),
    "do_exchange": lambda client, options: client.do_exchange(
        fl.FlightDescriptor.for_command(b"\0" * 8), options
    )[1].read_chunk(),
}


@pytest.fixture(scope="module")
def server():
    with Server(SECRET) as made:
        yield made


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("token", [None, "0" * 64])
def test_every_call_without_the_token_is_refused(server, call, token):
    headers = [] if token is None else [(b"x-scribe-token", token.encode())]
    options = fl.FlightCallOptions(timeout=5, headers=headers)
    refused = pytest.raises((fl.FlightUnauthenticatedError, OSError), match=r"^wrong secret")
    with fl.FlightClient(server.address.location) as client, refused:
        CALLS[call](client, options)


def test_each_server_has_a_token_of_its_own():
    one, other = Address("h", 1, "a"), Address("h", 1, "b")
    assert one.token(SECRET) != other.token(SECRET)
    assert one.token(SECRET) != one.token(b"another secret")


def test_a_server_listens_on_loopback_alone(server):
    assert server.address.host == "127.0.0.1"
    with socket.create_connection(("127.0.0.1", server.port), 5):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), 0.5)
