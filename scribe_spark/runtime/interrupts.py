"""Ctrl-C at any moment: one line, exit code 130, and nothing of ours left running.

What a signal does depends on what it comes into:

- *nothing is under way yet, or any more*: the process ends at once (:func:`end_on_signals`);
- *a session is being made* (:func:`in_thread`): a thread makes it, so that the signal comes into
  no half of it, and pyspark puts no handler of its own in place; what it has started is ended;
- *Spark works* (:func:`interruptible`): jobs are cancelled, and whoever cleans up can still talk to
  Spark;
- *the session ends* (:func:`deferred`): it goes on to its end first.

A second signal ends the process at once, and the JVM with it, wherever it comes.  SIGTERM and
SIGHUP are treated as SIGINT is, with exit codes of their own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import psutil

__all__ = [
    "deferred",
    "end_on_signals",
    "end_processes",
    "exit_code",
    "in_thread",
    "interrupted",
    "interruptible",
    "say",
]

T = TypeVar("T")

#: Seconds between two looks at whether the call has come back.
_AGAIN = 0.2

#: Seconds that a process we started has to end by itself.
_PATIENCE = 5.0

#: Seconds between two looks at whether processes have ended.
_ENDING = 0.05

#: The signals that end a run. Those that whoever started us wants ignored (nohup, a background
#: process of a script) stay so.
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

_Handler = Callable[[int, FrameType | None], Any]

#: The first signal that came.
_first: int | None = None

#: Processes to be ended: those whose parent has ended are not below ours any more.
_found: set[psutil.Process] = set()

#: Where stderr leads, once nothing but :func:`say` may write to it.
_stderr: int | None = None

#: What is said when a signal ends the process at once; None where the process is not ours to end
#: or to silence (a notebook's, a test's).
_last_words: Callable[[], str] | None = None


def interrupted() -> bool:
    """Return whether a signal has come."""
    return _first is not None


def exit_code() -> int:
    """Return the code that the process ends with after an interrupt: 130 after Ctrl-C."""
    return 128 + (_first or signal.SIGINT)


def end_on_signals(last_words: Callable[[], str]) -> None:
    """From now on a signal ends the process, but where the other functions say otherwise.

    To be called by the main thread; in any other it does nothing.

    Parameters
    ----------
    last_words : callable
        Its line goes to stderr.
    """
    global _first, _last_words
    _first, _last_words = None, last_words
    if _is_main_thread():
        for number in _heeded():
            signal.signal(number, _end)


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, a signal is only noted; KeyboardInterrupt is raised at the end."""
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        noted = True
        _note(number)

    with _handling(note):
        yield
    if noted:
        raise KeyboardInterrupt


def in_thread(work: Callable[..., T], *given: Any) -> T:
    """The result of ``work(*given)``, done by a thread while the caller waits.

    A signal ends the processes that it has started, and raises KeyboardInterrupt in the caller.
    """
    if not _is_main_thread():
        return work(*given)
    import psutil  # noqa: F401  (before there are processes to end: see _end)

    done: list[T] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def call() -> None:
        try:
            done.append(work(*given))
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    came = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        _note(number)

    thread = threading.Thread(target=call, daemon=True, name=getattr(work, "__name__", "work"))
    with _handling(interrupt):
        thread.start()
        while not came and not ended.wait(_AGAIN):
            pass
    if came:
        last = time.monotonic() + _PATIENCE
        end_processes()
        while not ended.wait(_ENDING) and time.monotonic() < last:
            end_processes()  # one may be started yet
        raise KeyboardInterrupt
    if failed:
        raise failed[0]
    return done[0]


@contextmanager
def interruptible(cancel: Callable[[bool], object]) -> Iterator[None]:
    """Inside, a signal cancels Spark's jobs and raises KeyboardInterrupt.

    pyspark's own handler asks the JVM to cancel its jobs from inside whatever call is waiting for
    the JVM.  Both calls share a connection, so both break, and all that follows.  Here jobs are
    cancelled from a thread, which has a connection of its own, and the interrupt waits until no
    call is on its way.  To be entered by the main thread.

    Parameters
    ----------
    cancel : callable
        ``cancel(silently)``: cancels all jobs.
    """
    came = False
    canceller = threading.Thread()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came, canceller
        if number != signal.SIGALRM:
            came = True
            _note(number)
        # a call that came back with an error is what we wanted: let the cleaning up be
        unwinding = number == signal.SIGALRM and sys.exc_info()[0] is not None
        if not unwinding and not canceller.is_alive():
            canceller = threading.Thread(target=_cancel, args=(cancel,), daemon=True)
            canceller.start()
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        # again until we are left: what is raised in a destructor is dropped
        if not unwinding and not _in_call(frame):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with _handling(interrupt):
            yield
    except Exception:
        if came:  # a cancelled job is how the call came back
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def end_processes() -> None:
    """End all processes that this one has started, and those that they have.

    They are asked to, again and again because one that is about to become another program may not
    hear it; after a few seconds they are killed.  None is waited for in the way that would keep
    its exit code from whoever has started it.
    """
    import psutil

    last = time.monotonic() + _PATIENCE
    while alive := {process for process in _found | _processes() if _is_alive(process)}:
        _found.update(alive)
        late = time.monotonic() > last
        for process in alive:
            with suppress(psutil.Error):  # it has just ended
                (process.kill if late else process.terminate)()
        time.sleep(_ENDING)


def _processes() -> set[psutil.Process]:
    """All processes below this one."""
    import psutil

    with suppress(psutil.Error):
        return set(psutil.Process().children(recursive=True))
    return set()


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _end(number: int, frame: FrameType | None) -> None:
    """Handle a signal: end what was started, say the line, and end."""
    for heeded in _heeded():
        signal.signal(heeded, signal.SIG_IGN)
    _note(number)
    if "psutil" in sys.modules:  # loaded before any process is started
        end_processes()
    if _last_words is not None:
        say(_last_words())
    os._exit(exit_code())


def _note(number: int) -> None:
    """Remember the first signal, and have the next one end the process."""
    global _first
    _first = _first or number
    for heeded in _heeded():
        signal.signal(heeded, _end)
    if _last_words is not None:
        _silence()


def say(line: str) -> None:
    """Write a line to stderr, also after an interrupt."""
    if _stderr is None:
        print(line, file=sys.stderr)
        return
    with suppress(OSError):  # the terminal may be gone
        if os.isatty(_stderr):
            os.write(_stderr, b"\x1b[?25h\n")  # bars hide the cursor
        os.write(_stderr, f"{line}\n".encode(errors="backslashreplace"))


def _silence() -> None:
    """Let no one but :func:`say` write to stderr.

    What threads, servers, destructors and the JVM's connection have to tell of calls that are cut
    off is no news.
    """
    global _stderr
    if _stderr is None:
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            _stderr = os.dup(2)
            os.dup2(nowhere.fileno(), 2)


@contextmanager
def _handling(handler: _Handler) -> Iterator[None]:
    """Inside, the first signal is `handler`'s; nothing changes where one has come already."""
    if not _is_main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _heeded()}
    if not (interrupted() and _end in before.values()):
        for number in before:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _heeded() -> list[int]:
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


#: The modules that wait for Spark's answers.
_CALLS = ("py4j.", "grpc.", "pyspark.sql.connect.client.")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _in_call(frame: FrameType | None) -> bool:
    """Return whether `frame` is inside a call to the JVM, or to a Spark Connect server."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_CALLS):
            return True
        frame = frame.f_back
    return False


def _cancel(cancel: Callable[[bool], object]) -> None:
    # the session may be ending by itself; then there is nothing to cancel
    with suppress(Exception):
        cancel(_last_words is not None)
