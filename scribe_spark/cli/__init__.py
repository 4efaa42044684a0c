"""The command line: it turns flags and a TOML file into one call.

Flags are made from the fields of the config, so each field is described once.  Bad input gives one
line on stderr and exit code 2, before Spark starts.  Nothing here imports pyspark until a run
begins, so ``--help`` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from scribe_spark.runtime.interrupts import end_on_signals

__all__ = ["PROGRAM", "last_words", "main"]

PROGRAM = "scribe-spark"

#: Commands without ``--resume``.
_AT_ONCE = ("compare", "completion", "doctor", "report", "topology")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: the entry point of ``scribe-spark`` and of ``jobs/submit.py``."""
    given = sys.argv[1:] if arguments is None else arguments
    end_on_signals(lambda: last_words(given))
    # the import of the parser takes a while, and Ctrl-C may come before
    from scribe_spark.cli.program import start

    start(given)


def last_words(arguments: Sequence[str]) -> str:
    """Return the last line of an interrupted command."""
    if not arguments or arguments[0] in _AT_ONCE:
        return f"{PROGRAM}: interrupted"
    return (
        f"{PROGRAM}: interrupted; the same command with --resume continues after the last "
        "complete phase"
    )
