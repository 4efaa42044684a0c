"""Progress: bars on a terminal, lines elsewhere, nothing on stdout."""

from __future__ import annotations

import io

import pytest

from scribe_spark.progress import Bars, Lines, Silent, pick


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(progress) -> None:
    with progress.phase("trees"):
        progress.round("join", 0, 1200, 0.5)
        progress.round("join", 1, 30, 0.25)
        progress.round("multicast", 0, 0, 0.1)
        progress.note("a [note] in passing")


def test_lines():
    stream = io.StringIO()
    work(Lines(stream))
    first, *rounds, note, last = stream.getvalue().splitlines()
    assert first == "trees: started"
    assert rounds == [
        "  join: round 0, 1,200 messages left, 0.5 s",
        "  join: round 1, 30 messages left, 0.2 s",
        "  multicast: round 0, 0 messages left, 0.1 s",
    ]
    assert note == "a [note] in passing"
    assert last.startswith("trees: done in ")


def test_a_phase_that_fails_says_so():
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), Lines(stream).phase("trees"):
        1 / 0  # noqa: B018
    assert "trees: stopped after" in stream.getvalue()
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Bars(stream).phase("trees"):
        1 / 0  # noqa: B018
    assert "done" not in stream.getvalue()


def test_bars_tell_round_messages_and_seconds(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    work(Bars(stream))
    text = stream.getvalue()
    assert "0:00:0" in text
    assert "a [note] in passing" in text
    assert "trees      done in " in text


def test_bars_outside_a_phase_ignore_rounds():
    Bars(Terminal()).round("join", 0, 5, 0.1)


@pytest.mark.parametrize(
    ("stream", "kind"), [(Terminal(), Bars), (io.StringIO(), Lines)], ids=["terminal", "pipe"]
)
def test_pick(stream, kind):
    assert isinstance(pick(stream), kind)


@pytest.mark.parametrize("make", [lambda: Lines(io.StringIO()), lambda: Bars(Terminal()), Silent])
def test_stdout_is_left_alone(make, capsys):
    work(make())
    assert capsys.readouterr().out == ""
