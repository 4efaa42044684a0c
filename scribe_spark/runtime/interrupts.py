"""Ctrl-C at any moment: one line, exit code 130, and no process left running.

The effect of a signal depends on the moment:

- *before and after the work*, the process ends at once (:func:`end_on_signals`);
- *while the JVM starts beside other work* (:func:`begin`), it is ended first;
- *while a session starts* (:func:`in_thread`), a thread starts it, so that the signal does not
  interrupt its middle, and pyspark installs no handler; started processes are ended;
- *while Spark works* (:func:`interruptible`), jobs are cancelled, and code that cleans up can still
  use Spark;
- *while the session ends* (:func:`deferred`), it first ends completely.

A second signal ends the process and the JVM at once.  SIGTERM and SIGHUP act like SIGINT, with
their own exit codes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import psutil

T = TypeVar("T")

#: Seconds between two checks if the call has returned.
_AGAIN = 0.2

#: Seconds within which a process that we started must end by itself.
_PATIENCE = 5.0

#: Seconds between two checks if processes have ended.
_ENDING = 0.05

#: The signals that end a run. Those that whoever started us wants ignored (nohup, a background
#: process of a script) stay so.
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

_Handler = Callable[[int, FrameType | None], Any]

#: The first received signal.
_first: int | None = None

#: Processes to be ended: those whose parent has ended are not below ours any more.
_found: set[psutil.Process] = set()

#: The result of the thread that :func:`begin` has started.
_begun: Future[Any] | None = None

#: Where stderr leads, once nothing but :func:`say` may write to it.
_stderr: int | None = None

#: What is said when a signal ends the process at once; None where the process is not ours to end
#: or to silence (a notebook's, a test's).
_last_words: Callable[[], str] | None = None


def interrupted() -> bool:
    """Return True if a signal to end the process has come."""
    return _first is not None


def exit_code() -> int:
    """Return the exit code after an interrupt: 130 after Ctrl-C."""
    return 128 + (_first or signal.SIGINT)


def end_on_signals(last_words: Callable[[], str]) -> None:
    """Let signals end the process with the last line ``last_words()``; for the main thread."""
    global _first, _last_words
    _first, _last_words = None, last_words
    if _is_main_thread():
        for number in _heeded():
            signal.signal(number, _end)


@contextmanager
def deferred() -> Iterator[None]:
    """Return a context manager that notes a signal, and raises KeyboardInterrupt at its end."""
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
    """Return ``work(*given)`` from a thread; a signal ends the processes that it started."""
    if not _is_main_thread():
        return work(*given)
    came = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        _note(number)

    with _handling(interrupt):
        result = _start(work, *given)
        while not came and not result.done():
            wait([result], _AGAIN)
    if came:
        end_started(result)
        raise KeyboardInterrupt
    return result.result()


def begin(work: Callable[..., T], *given: Any) -> Future[T]:
    """Return the future of ``work(*given)``, which starts a process that a signal ends first."""
    global _begun
    _begun = result = _start(work, *given)
    return result


def end_started(result: Future[Any]) -> None:
    """End all started processes, also those that the thread of `result` is about to start."""
    last = time.monotonic() + _PATIENCE
    end_processes()
    while not wait([result], _ENDING).done and time.monotonic() < last:
        end_processes()


def _start(work: Callable[..., T], *given: Any) -> Future[T]:
    """Return the future of ``work(*given)``, which a new thread runs."""
    import psutil  # noqa: F401  (before there are processes to end: see _end)

    result = Future[T]()

    def call() -> None:
        try:
            result.set_result(work(*given))
        except BaseException as error:
            result.set_exception(error)

    name = getattr(work, "__name__", "work")
    threading.Thread(target=call, daemon=True, name=name).start()
    return result


@contextmanager
def interruptible(cancel: Callable[[bool], object]) -> Iterator[None]:
    """Return a context manager in which a signal cancels Spark's jobs and raises KeyboardInterrupt.

    pyspark's own handler asks the JVM to cancel its jobs from inside any call that waits for the
    JVM.  Both calls share a connection, so both break, and all later ones.  Here a thread with its
    own connection cancels the jobs by ``cancel(silently)``, and the interrupt is raised when no
    call is on its way.  Only the main thread may use it.
    """
    came = False
    canceller = threading.Thread()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came, canceller
        if number != signal.SIGALRM:
            came = True
            _note(number)
        # a call has returned with an error, as intended: do not disturb the cleaning up
        unwinding = number == signal.SIGALRM and sys.exc_info()[0] is not None
        if not unwinding and not canceller.is_alive():
            canceller = threading.Thread(target=_cancel, args=(cancel,), daemon=True)
            canceller.start()
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        # again until the block is left: exceptions in a destructor are dropped
        if not unwinding and not _in_call(frame):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with _handling(interrupt):
            yield
    except Exception:
        if came:  # the call returned because of the cancelled job
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def end_processes() -> None:
    """End all processes that this one has started, and their own; they keep their exit codes.

    They are asked repeatedly, as a process that becomes another program may miss a signal, then
    killed.
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
    """Handle a signal (its number): end started processes, print the last line, and exit."""
    for heeded in _heeded():
        signal.signal(heeded, signal.SIG_IGN)
    _note(number)
    if _begun is not None:
        end_started(_begun)
    elif "psutil" in sys.modules:  # loaded before any process is started
        end_processes()
    if _last_words is not None:
        say(_last_words())
    os._exit(exit_code())


def _note(number: int) -> None:
    """Note the number of the first signal, and let the next one end the process."""
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
    """Let only :func:`say` write to stderr, to which interrupted calls would write reports."""
    global _stderr
    if _stderr is None:
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            _stderr = os.dup(2)
            os.dup2(nowhere.fileno(), 2)


@contextmanager
def _handling(handler: _Handler) -> Iterator[None]:
    """Return a context manager in which `handler` handles the first signal."""
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
    """Return True if `frame` is inside a call to the JVM, or to a Spark Connect server."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_CALLS):
            return True
        frame = frame.f_back
    return False


def _cancel(cancel: Callable[[bool], object]) -> None:
    # the session may be ending; then there is nothing to cancel
    with suppress(Exception):
        cancel(_last_words is not None)
