"""Reports of progress on stderr: phases, the rounds inside them, and notes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from scribe_spark.core.errors import redacted

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """The type of objects to which the engine and the experiments report progress."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Return a context manager for the phase `name`; phases are not nested."""
        yield

    def round(self, loop: str, number: int, messages: int, seconds: float) -> None:
        """Report round `number` of a `loop` (a name): messages on their way, and its seconds."""
        return

    def note(self, text: str) -> None:
        """Report a line of text."""
        return


class Silent(Progress):
    """A receiver of progress that prints nothing."""


class Lines:
    """A receiver of progress that prints plain lines, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.note(f"{name}: started")
        start = time.monotonic()
        try:
            yield
        except BaseException:
            self.note(f"{name}: stopped after {time.monotonic() - start:.1f} s")
            raise
        self.note(f"{name}: done in {time.monotonic() - start:.1f} s")

    def round(self, loop: str, number: int, messages: int, seconds: float) -> None:
        self.note(f"  {loop}: round {number}, {messages:,} messages left, {seconds:.1f} s")

    def note(self, text: str) -> None:
        print(redacted(text), file=self._stream, flush=True)


class Bars:
    """One bar per phase on a terminal: the finished share of the loop's largest round."""

    def __init__(self, stream: TextIO) -> None:
        # imported here, as rich takes a tenth of a second and only a terminal needs it
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._bar: RichProgress | None = None
        self._loop, self._most = "", 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[where]}"),
        )
        self._loop, self._most = "", 0
        start = time.monotonic()
        # stdout is not used: it may be a pipe
        with Progress(
            *columns, console=self._console, transient=True, redirect_stdout=False
        ) as self._bar:
            self._bar.add_task(name, total=None, where="")
            try:
                yield
            finally:
                self._bar = None
        self.note(f"{name:<10} done in {time.monotonic() - start:.1f} s")

    def round(self, loop: str, number: int, messages: int, seconds: float) -> None:
        if self._bar is None:
            return
        if loop != self._loop:
            self._loop, self._most = loop, 0
        self._most = max(self._most, messages)
        self._bar.update(
            self._bar.task_ids[0],
            total=self._most or 1,
            completed=self._most - messages if self._most else 1,
            where=f"{loop}: round {number}, {messages:,} messages left",
        )

    def note(self, text: str) -> None:
        self._console.print(redacted(text), markup=False)


def pick(stream: TextIO | None = None) -> Progress:
    """Return bars if `stream` (by default stderr) is a terminal, else plain lines."""
    stream = stream or sys.stderr
    return Bars(stream) if stream.isatty() else Lines(stream)
