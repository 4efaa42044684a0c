"""Run Databricks-style notebooks (plain ``.py``) as they stand, away from Databricks.

``python -m tools.run_notebook [--remote=URL] [WIDGET=VALUE ...] NOTEBOOK.py ...``

A notebook is cut at ``# COMMAND ----------``; its cells run in order in one namespace, with
``spark``, ``dbutils.widgets``, ``dbutils.notebook.exit``, ``display`` and ``displayHTML`` as
Databricks gives them.  Lines that start with ``# MAGIC`` are comments to Python and stay so.
Notebooks are this repository's own files: they are trusted code.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from scribe_spark.core.errors import InputError
from scribe_spark.notebook import NotebookExit, Widgets, display, displayHTML, utilities

HEADER, CUT = "# Databricks notebook source", "# COMMAND ----------"
_CUT = re.compile(r"^# COMMAND -+[ \t]*$", re.M)


def cells(text: str) -> Iterator[str]:
    """Yield the cells of a notebook, each after as many empty lines as are before it in the file.

    So the line numbers of a traceback are the file's.
    """
    if not text.startswith(HEADER):
        raise InputError("notebook", text.split("\n", 1)[0], f"must start with {HEADER!r}")
    start = 0
    for end in [*(cut.start() for cut in _CUT.finditer(text)), len(text)]:
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = end


def names_of_cells(spark: Any, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the names that a notebook finds, with the values of widgets."""
    names = {"__name__": "__main__", "spark": spark, "dbutils": utilities(Widgets(given))}
    return names | {"display": display, "displayHTML": displayHTML}


def run(path: str | Path, spark: Any, given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run one notebook."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError("notebook", str(path), f"cannot be read ({error.strerror})") from None
    names = names_of_cells(spark, given or {})
    with suppress(NotebookExit):
        for cell in cells(text):
            exec(compile(cell, str(path), "exec"), names)
    return names


def main(arguments: Sequence[str]) -> int:
    given = dict(word.split("=", 1) for word in arguments if "=" in word)
    notebooks = [word for word in arguments if "=" not in word]
    remote = given.pop("--remote", None)
    if not notebooks:
        print("run_notebook.py: no notebook given", file=sys.stderr)
        return 2
    from pyspark.sql import SparkSession

    from scribe_spark.config import Execution
    from scribe_spark.runtime.java import check_java
    from scribe_spark.runtime.master import is_own
    from scribe_spark.runtime.session import session

    try:
        if remote is None or is_own(remote):
            check_java()
        spark: SparkSession = session(Execution(out=".", remote=remote), nodes=10_000)
        for path in notebooks:
            print(f"--- {path}", file=sys.stderr)
            run(path, spark, given)
    except InputError as error:
        print(f"run_notebook.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
