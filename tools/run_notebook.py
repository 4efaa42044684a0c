"""Run Databricks-style notebooks (plain ``.py``) as they stand, away from Databricks.

``python -m tools.run_notebook [--remote=URL] [WIDGET=VALUE ...] NOTEBOOK.py ...``

A notebook is cut at ``# COMMAND ----------``; its cells run in order in one namespace, with
``spark``, ``dbutils.widgets``, ``dbutils.notebook.exit``, ``display`` and ``displayHTML`` as
Databricks gives them.  Lines that start with ``# MAGIC`` are comments to Python and stay so.
Notebooks are this repository's own files: they are trusted code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from scribe_spark.config import check_names
from scribe_spark.errors import InputError

HEADER = "# Databricks notebook source"
_CUT = re.compile(r"^# COMMAND -+[ \t]*$", re.M)


class Widgets:
    """``dbutils.widgets``: parameters with defaults; `given` wins over a default."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._values: dict[str, str] = {}

    def text(self, name: str, defaultValue: str, label: str | None = None) -> None:
        self._values[name] = self._given.get(name, defaultValue)

    def dropdown(
        self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None
    ) -> None:
        self.text(name, defaultValue, label)
        if self._values[name] not in choices:
            raise InputError(name, self._values[name], "must be one of " + ", ".join(choices))

    def get(self, name: str) -> str:
        check_names({name: None}, list(self._values), "widget")
        return self._values[name]

    def remove(self, name: str) -> None:
        del self._values[name]

    def removeAll(self) -> None:
        self._values.clear()

    @property
    def names(self) -> list[str]:
        return list(self._values)


class NotebookExit(Exception):
    """A notebook ends before its last cell; the message is what it ends with."""


def exit_notebook(value: str) -> NoReturn:
    """``dbutils.notebook.exit``: no cell after this one is run."""
    raise NotebookExit(value)


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


def display(value: Any, *_: Any) -> None:
    """A DataFrame's first rows, all of a pandas frame, anything else as it prints."""
    if hasattr(value, "limit") and hasattr(value, "show"):
        value.show(20, truncate=False)
    elif hasattr(value, "to_string"):
        print(value.to_string(index=False, float_format="{:,.6g}".format))
    else:
        print(value)


def display_html(html: str) -> None:
    """``displayHTML``, without a place to show it: print the kind and the length."""
    kind = "SVG" if "<svg" in html[:2000] else "HTML"
    print(f"[{kind}, {len(html):,} characters]")


def run(path: str | Path, spark: Any, given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run one notebook."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError("notebook", str(path), f"cannot be read ({error.strerror})") from None
    names = {
        "__name__": "__main__",
        "spark": spark,
        "dbutils": SimpleNamespace(
            widgets=Widgets(given or {}), notebook=SimpleNamespace(exit=exit_notebook)
        ),
        "display": display,
        "displayHTML": display_html,
    }
    try:
        for cell in cells(text):
            exec(compile(cell, str(path), "exec"), names)
    except NotebookExit as end:
        print(f"Notebook exited: {end}")
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
    from scribe_spark.runtime.remote import is_own
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
