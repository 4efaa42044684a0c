"""Unknown names are refused, with the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from scribe_spark.errors import InputError

__all__ = ["check_names"]


def check_names(given: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Refuse the first unknown name, with the nearest known one.

    Parameters
    ----------
    given : mapping
        Its keys are checked.
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
