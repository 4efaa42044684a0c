"""Errors of one line: bad input, and a run that cannot go on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from scribe_spark.redaction import redacted

__all__ = ["InputError", "RunError", "check_names", "named", "one_line"]

T = TypeVar("T")

_LONGEST = 1000  # characters of a value in a message


class InputError(ValueError):
    """Bad input, refused at the edge: one line that names the field, the value, what would do."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(redacted(f"{field} = {_shown(redacted(value))}: {remedy}"))
        self.field, self.value, self.remedy = field, value, remedy


class RunError(RuntimeError):
    """A run that cannot go on though its input is good: one line that says what helps."""

    def __init__(self, line: str) -> None:
        super().__init__(redacted(line))


def one_line(error: BaseException) -> str:
    """The first line of what an exception says, Java's own where it comes from the JVM."""
    java = getattr(error, "java_exception", None)
    text = getattr(error, "strerror", None) or str(error if java is None else java)
    return (text.strip() or type(error).__name__).splitlines()[0]


def _shown(value: object) -> str:
    """A value in one line, whatever it is."""
    try:
        text = " ".join(repr(value).split("\n"))
    except Exception:  # a number of more digits than Python writes; an object that has no repr
        text = f"({type(value).__name__})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def named(known: Mapping[str, T], name: str, field: str) -> T:
    """Return the entry of `known` that a field names.

    Raises
    ------
    InputError
        Nothing is; the message has all names.
    """
    if name not in known:
        raise InputError(field, name, f"is unknown; give one of {', '.join(known)}")
    return known[name]


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse the first unknown name, with the nearest known one.

    Parameters
    ----------
    given : iterable of str
        The names to check; a mapping's keys.
    known : iterable of str
        The names that are allowed; at least one.
    what : str
        What the names are, for the message: ``config key``, ``flag``, ...

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_names({"nods": 5}, ["nodes", "groups"], "config key")
    Traceback (most recent call last):
    scribe_spark.errors.InputError: config key = 'nods': is unknown; did you mean 'nodes'?
    """
    allowed = list(known)
    for name in given:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.0)
            raise InputError(what, name, f"is unknown; did you mean {near[0]!r}?")
