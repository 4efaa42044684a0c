"""Errors of one line: bad input, and runs that cannot continue.

Messages quote texts of users, files and libraries.  Only this module formats them: :func:`shown` a
value, :func:`listed` a list of names, :func:`in_words` a sentence of a library.

:func:`redacted` removes secrets from texts: tokens of Spark Connect servers, names and passwords in
URLs, and values of settings whose names say that they are secret (as in Spark's
``spark.redaction.regex``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

#: The text that replaces a secret.
LEFT_OUT = "***"

#: The address of a Spark Connect server with parameters, and the parameters that are not secret.
_SERVER = re.compile(r"sc://\S*")
_HARMLESS = ("use_ssl", "user_agent", "grpc_max_message_size")

#: ``scheme://NAME:PASSWORD@``, but not a port in place of the password.
_USER = re.compile(r"(?<=://)[^\s/:@'\"]+:(?![0-9]{1,5}/)\S*@")

#: ``NAME=VALUE``; a match begins where a name begins, as a long name would be read repeatedly else.
_NAMED = re.compile(
    r"((?<![\w.-])[\w.-]*"
    r"(?:secret|passw(?:or)?d|token|access[._-]?key|credential|signature|(?<=[?&])sig)"
    rf"[\w.-]*=)(?!{re.escape(LEFT_OUT)})[^\s;&'\"]+",
    re.IGNORECASE,
)


def redacted(value: T) -> T:
    """Return a text, or a value with texts in it, with a mark in place of each secret."""
    if isinstance(value, str):
        return _redacted_text(value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: redacted(one) for name, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, (list, tuple)):
        return type(value)(map(redacted, value))
    return value


def _redacted_text(text: str) -> str:
    text = _SERVER.sub(lambda found: ";".join(map(_parameter, found[0].split(";"))), text)
    text = _USER.sub(f"{LEFT_OUT}@", text)
    return _NAMED.sub(rf"\g<1>{LEFT_OUT}", text)


def _parameter(text: str) -> str:
    """Return a part ``name=value`` of a server's address, with a mark in place of a secret."""
    name, equals, value = text.partition("=")
    if not equals or name.lower() in _HARMLESS or value.startswith(LEFT_OUT):
        return text
    return f"{name}={LEFT_OUT}"


T = TypeVar("T")

#: The greatest number of characters of a name in a list, a value, a library's sentence, a message.
_LONGEST_NAME, _LONGEST_VALUE, _LONGEST_WORDS, _LONGEST_MESSAGE = 60, 200, 500, 2_000

#: The greatest number of names in a list.
_MOST_NAMES = 12

#: The greatest number of names that a message lists if none is similar; else it names ``--help``.
_FEW_NAMES = 24

#: A name that needs no quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_./:+-]+")

_LINE_BREAK = re.compile(r"[\r\n]+\s*")


class InputError(ValueError):
    """Bad input: one line that names the field, its value and a remedy.

    Attributes
    ----------
    field : str
        The name of the setting, table or argument.
    value : object
        The bad value; secrets in it are not shown.
    remedy : str
        What is wrong or what to do, as the end of the line.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        told = in_words(remedy, _LONGEST_MESSAGE)
        super().__init__(f"{in_words(field, _LONGEST_VALUE)} = {shown(value)}: {told}")
        self.field, self.value, self.remedy = field, value, remedy


class RunError(RuntimeError):
    """A run that cannot continue although its input is good: one line with a remedy."""

    def __init__(self, text: str) -> None:
        super().__init__(in_words(text, _LONGEST_MESSAGE))


def shown(value: object, most: int = _LONGEST_VALUE) -> str:
    """Return a value in quotes, as Python writes it: one printable line of bounded length."""
    try:
        text = repr(redacted(value))
    except Exception:  # a number with more digits than Python writes, or an object without repr
        text = f"({type(value).__name__})"
    return in_words(text, most)


def listed(names: Iterable[object]) -> str:
    """Return names separated by commas, or the first of many names; strange names are in quotes."""
    names = list(names)
    return in_series([_name(name) for name in names[:_MOST_NAMES]], len(names)) or "none"


def in_series(phrases: Collection[str], count: int) -> str:
    """Return phrases separated by commas, and how many of all `count` phrases are missing."""
    more = f" and {count - len(phrases):,} more" if count > len(phrases) else ""
    return ", ".join(phrases) + more


def exact(number: float) -> str:
    """Return a number with all of its digits, so that the text is the number again: ``30``."""
    return repr(float(number)).removesuffix(".0")


def unlike(number: float, other: float, digits: int = 6) -> str:
    """Return a number with `digits` digits, or as many as show that it is not `other`."""
    texts = (f"{number:.{count}g}" for count in range(digits, 18))
    return next((text for text in texts if float(text) != other), exact(number))


def in_words(text: str, most: int = _LONGEST_WORDS) -> str:
    """Return a text in one line, without secrets and control characters, cut in its middle."""
    if len(text) > 4 * most:  # of a text with many megabytes, the ends are enough
        text = text[: 2 * most] + text[-2 * most :]
    line = _LINE_BREAK.sub(" ", redacted(text).strip())
    escaped = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    half = most // 2
    return escaped if len(escaped) <= most else f"{escaped[: half - 3]}...{escaped[-half:]}"


def one_line(error: BaseException) -> str:
    """Return the first line of an exception's text; of an error in the JVM, Java's own text."""
    java = getattr(error, "java_exception", None)
    text = getattr(error, "strerror", None) or str(error if java is None else java)
    return in_words((text.strip() or type(error).__name__).splitlines()[0])


#: The last line of the traceback of an error of this module, which a task of Spark raised.
_OF_TASK = re.compile(r"^scribe_spark\.core\.errors\.(InputError|RunError): (.*)$", re.MULTILINE)


def error_of_task(error: BaseException) -> InputError | RunError | None:
    """Return the error of this module that a task raised, from Spark's error; None for others."""
    _, _, trace = str(error).partition("Traceback (most recent call last):")
    found = _OF_TASK.findall(trace)
    if not found or isinstance(error, InputError | RunError):
        return None
    kind, line = found[-1]
    if kind == "RunError":
        return RunError(line)
    field, _, rest = line.partition(" = ")
    value, _, remedy = rest.partition(": ")
    refused = InputError(field, value, remedy)
    refused.args = (line,)  # the value is already in quotes
    return refused


def named(known: Mapping[str, T], name: str, field: str) -> T:
    """Return the entry of `known` with a name, or refuse an unknown name of the setting `field`."""
    if name not in known:
        raise InputError(
            field, name, f"is unknown; give one of {listed(known)}{meant(name, known)}"
        )
    return known[name]


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse the first unknown name, of the kind `what`; the message has a similar known one."""
    allowed = list(known)
    for name in given:
        if name not in allowed:
            several = len(allowed) > _FEW_NAMES
            choice = "; --help has the list" if several else f"; give one of {listed(allowed)}"
            raise InputError(what, name, f"is unknown{meant(name, allowed) or choice}")


def meant(name: str, known: Collection[str]) -> str:
    """Return a question with the known name that is similar to a wrong one, or an empty text."""
    near = difflib.get_close_matches(name[:_LONGEST_VALUE], known, n=1)
    alike = [found for found in near if found[0] == name[0] or len(found) <= len(name) + 1]
    return f"; did you mean {alike[0]!r}?" if alike else ""


def _name(name: object) -> str:
    text = str(name)
    is_plain = len(text) <= _LONGEST_NAME and _PLAIN.fullmatch(text)
    return text if is_plain else shown(name, _LONGEST_NAME)


def refuse_large_group(system: str, group: int, members: int, most: int, why: str) -> None:
    """Refuse a group (its number) with more than the `most` members that a system supports."""
    if members > most:
        remedy = f"has {members:,} members in group {group}; must be at most {most:,}, since {why}"
        raise InputError("systems", system, f"{remedy}; give smaller groups, or leave {system} out")
