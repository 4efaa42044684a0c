"""The command line: it turns flags and a TOML file into one call.

Flags are made from the fields of the config, so each field is described once.  Bad input gives one
line on stderr and exit code 2, before Spark starts.  Nothing here imports pyspark until a run
begins, so ``--help`` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from scribe_spark.runtime.interrupts import end_on_signals

__all__ = ["PROGRAM", "last_words", "main"]

PROGRAM = "scribe-spark"

#: The last saved work of each command with ``--resume``.
_SAVED = {
    "paper": "the last complete phase",
    "reference-tree": "the last complete number of hosts",
    "run": "the last complete phase",
    "sweep": "the last complete phase",
    "world": "the last saved round",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: the entry point of ``scribe-spark`` and of ``jobs/submit.py``.

    After a success it returns, because some callers, such as wheel tasks of Databricks, count every
    SystemExit as a failure.

    Raises
    ------
    SystemExit
        After an error or an interrupt, with its exit code: 1 if a run failed, 2 for bad input, 128
        and the number of the signal after an interrupt.
    """
    given = sys.argv[1:] if arguments is None else arguments
    end_on_signals(lambda: last_words(given))
    # the import of the parser takes a while, and Ctrl-C may come before
    from scribe_spark.cli.program import start

    start(given)


def last_words(arguments: Sequence[str]) -> str:
    """Return the last line of an interrupted command."""
    saved = _SAVED.get(arguments[0]) if arguments else None
    if saved is None or "--dry-run" in arguments:
        return f"{PROGRAM}: interrupted"
    flag = "--resume in place of --overwrite" if "--overwrite" in arguments else "--resume"
    return f"{PROGRAM}: interrupted; the same command with {flag} continues after {saved}"
