"""Swaps between tasks: what arrives, and what a task hears of lost ones."""

import multiprocessing
import os
import re
import signal
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import outcomes, play_in_threads

from scribe_spark.core.errors import InputError
from scribe_spark.engine.between_tasks import (
    SLICE,
    Address,
    Ended,
    Exchange,
    OutOfStep,
    PeerFailed,
    PeerLost,
    Server,
)

SECRET = b"of this job"


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


@settings(max_examples=25)
@given(st.integers(1, 4), swaps)
def test_every_task_receives_what_was_sent_to_it(size, swaps):
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

    played = play_in_threads(size, work)
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


def test_arrays_go_and_come_as_they_are():
    sent = np.arange(SLICE // 4), np.zeros(0), np.arange(5, dtype=np.int16)  # more than a slice

    def work(exchange):
        pieces = [sent[0] + exchange.rank, sent[1], sent[2]]
        found, _ = exchange.swap({1 - exchange.rank: pieces}, b"")
        part = found[1 - exchange.rank]
        first = np.frombuffer(part, dtype=np.int64, count=len(sent[0]))
        rest = np.frombuffer(part, dtype=np.int16, offset=sent[0].nbytes)
        return first.flags.aligned, first - (1 - exchange.rank), rest

    for aligned, first, rest in play_in_threads(2, work):
        assert aligned
        np.testing.assert_array_equal(first, sent[0])
        np.testing.assert_array_equal(rest, sent[2])


def test_a_task_may_change_what_it_has_sent():
    def work(exchange):
        values = np.full(10, exchange.rank)
        found, _ = exchange.swap({1 - exchange.rank: [values]}, b"")
        values[:] = -1
        exchange.swap({}, b"")
        return np.frombuffer(found[1 - exchange.rank], dtype=np.int64)[0]

    assert play_in_threads(2, work) == [1, 0]


def test_tasks_that_are_late_are_waited_for():
    """Also longer than the time in which a task has to show that it is alive."""

    def work(exchange):
        for _ in range(2):
            if exchange.rank == 1:
                time.sleep(0.6)
            exchange.swap({}, b"")
        return "done"

    assert outcomes(2, work, patience=0.3) == ["done"] * 2


def test_unknown_tasks_are_refused():
    with pytest.raises(ValueError, match="parts for task 2; there are 2 tasks"):
        play_in_threads(2, lambda exchange: exchange.swap({2: []}, b""))


# --- tasks that end early


def errors(size, work):
    """Return the error of each task, None where it has none."""
    return [one if isinstance(one, Exception) else None for one in outcomes(size, work)]


def test_an_error_of_a_task_ends_all_with_its_line():
    def work(exchange):
        for number in range(5):
            if exchange.rank == 2 and number == 3:
                raise InputError("nodes", 7, "are too few")
            exchange.swap({0: [b"part"]}, b"note")

    *others, own = errors(3, work)
    assert isinstance(own, InputError)
    for error in others:
        assert isinstance(error, PeerFailed)
        assert str(error) == str(own)
        assert error.ended.rank == 2
        assert "in work" in error.ended.trace


def test_a_task_that_swaps_less_often_than_others():
    def work(exchange):
        for _ in range(2 if exchange.rank else 3):
            exchange.swap({}, b"")

    first, *others = errors(3, work)
    assert isinstance(first, OutOfStep)
    assert re.fullmatch("task [12] ended before swap 2 of another task", str(first))
    assert others == [None, None]


def test_a_message_of_another_swap():
    def work(exchange):
        exchange.swap({}, b"")
        exchange.swaps += exchange.rank
        exchange.swap({}, b"")

    with pytest.raises(OutOfStep, match=r"task [01] is at swap [12], another task at swap [12]"):
        play_in_threads(2, work)


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
    server = Server()
    pipe.send(server.address)
    addresses = pipe.recv()
    exchange = Exchange(rank, server, addresses, SECRET, 30.0)
    try:
        for number in range(4):
            if number == 2 and rank == len(addresses) - 1:
                pipe.send(time.monotonic())
                os.kill(os.getpid(), signal.SIGKILL)
            # more than sockets hold back
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


def test_a_task_that_shows_no_life_is_lost(monkeypatch):
    """One that shows it may end late."""

    def work(exchange):
        if exchange.rank:
            time.sleep(1.0)
        return "played"

    assert outcomes(2, work, patience=0.5) == ["played"] * 2
    monkeypatch.setattr(Exchange, "_show_life", lambda exchange: None)
    first, _ = outcomes(2, work, patience=0.5)
    assert isinstance(first, PeerLost)
    assert str(first).endswith("has not answered for 0.5 s")


def test_nobody_is_left_at_the_end():
    before = set(threading.enumerate())
    servers = []

    def work(exchange):
        servers.append(exchange._addresses[exchange.rank].port)
        exchange.swap({}, b"")

    outcomes(3, work)
    for port in servers:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            pass
    left = [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]
    assert not left


# --- strangers


def test_a_wrong_secret_is_refused():
    first, second = outcomes(2, lambda exchange: "played", 1.0, [SECRET, b"another"])
    assert isinstance(first, PeerLost)
    assert str(first).endswith("has not connected for 1 s")
    assert isinstance(second, PeerLost)
    assert str(second).endswith("cannot be reached (wrong secret)")


def test_each_task_has_a_token_of_its_own_for_each_server():
    one, other = Address("h", 1, "a"), Address("h", 1, "b")
    tokens = one.token(SECRET, 0), one.token(SECRET, 1), other.token(SECRET, 0), one.token(b"", 0)
    assert len(set(tokens)) == 4


def test_a_server_listens_on_loopback_alone():
    server = Server()
    with server.socket:
        assert server.address.host == "127.0.0.1"
        with socket.create_connection(("127.0.0.1", server.address.port), 5):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", server.address.port), 0.5)
