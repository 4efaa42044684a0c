"""The functions of Databricks' notebooks for Jupyter and plain Python.

Databricks gives a notebook ``spark``, ``dbutils``, ``display`` and ``displayHTML``.  Elsewhere, a
notebook imports them from this module, which starts a session at the import of ``spark``.  Values
of widgets are arguments: ``python jobs/notebooks/quick_start.py nodes=500``, in Jupyter
``%run jobs/notebooks/quick_start.py nodes=500``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from scribe_spark.core.errors import InputError, check_names, listed, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    spark: SparkSession

__all__ = ["NotebookExit", "Widgets", "dbutils", "display", "displayHTML", "spark"]

#: The greatest number of rows that are shown: of a text, and of a table in Jupyter.
_ROWS, _MOST_ROWS = 20, 1_000


class Widgets:
    """``dbutils.widgets``: parameters with default values.

    The values in `given` replace the defaults; with `arguments` (those of a script), values of
    unknown widgets are refused.
    """

    def __init__(self, given: Mapping[str, str], *, arguments: bool = False) -> None:
        self._given, self._arguments = dict(given), arguments
        self._values: dict[str, str] = {}

    def text(self, name: str, defaultValue: str, label: str | None = None) -> None:
        """Declare a widget whose value is a text."""
        self._values[name] = self._given.get(name, defaultValue)

    def dropdown(
        self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None
    ) -> None:
        """Declare a widget whose value is one of several texts."""
        self.text(name, defaultValue, label)
        if self._values[name] not in choices:
            raise InputError(name, self._values[name], f"must be one of {listed(choices)}")

    def get(self, name: str) -> str:
        """Return the value of a widget; all widgets must be declared before the first call."""
        check_names([name], self._values, "widget")
        if self._arguments:
            check_names(self._given, self._values, "widget")
        return self._values[name]

    def remove(self, name: str) -> None:
        """Delete a widget."""
        del self._values[name]

    def removeAll(self) -> None:
        """Delete all widgets."""
        self._values.clear()

    @property
    def names(self) -> list[str]:
        """The names of all widgets."""
        return list(self._values)


class NotebookExit(SystemExit):
    """The end of a notebook before its last cell; its exit code is 0."""


def exit_notebook(value: str) -> NoReturn:
    """Print a value, and end the notebook, as ``dbutils.notebook.exit``."""
    print(f"Notebook exited: {value}")
    raise NotebookExit(0)


def utilities(widgets: Widgets) -> SimpleNamespace:
    """Return an object like Databricks' ``dbutils``, with these widgets."""
    return SimpleNamespace(widgets=widgets, notebook=SimpleNamespace(exit=exit_notebook))


def _arguments() -> dict[str, str]:
    """Return the arguments ``name=value`` of the script as a dict; in Jupyter, there are none."""
    pairs = [word.partition("=") for word in sys.argv[1:]]
    return {name: value for name, equals, value in pairs if equals and name.isidentifier()}


#: ``dbutils``, with the arguments of the script as values of widgets.
dbutils = utilities(Widgets(_arguments(), arguments=True))


def display(value: Any, *_: Any) -> None:
    """Show a value: in Jupyter as Jupyter does, elsewhere as text.

    Of a DataFrame of Spark, the first rows are shown.
    """
    frame = hasattr(value, "limit") and hasattr(value, "toPandas")
    if _in_jupyter():
        from IPython.display import display as show

        show(value.limit(_MOST_ROWS).toPandas() if frame else value)
    elif frame:
        value.show(_ROWS, truncate=False)
    elif hasattr(value, "to_string"):
        print(value.to_string(index=False, float_format="{:,.6g}".format))
    else:
        print(value)


def displayHTML(html: str) -> None:
    """Show HTML or SVG in Jupyter; elsewhere print its kind and length."""
    if _in_jupyter():
        from IPython.display import HTML
        from IPython.display import display as show

        show(HTML(html))
        return
    kind = "SVG" if "<svg" in html[:2000] else "HTML"
    print(f"[{kind}, {len(html):,} characters]")


def _in_jupyter() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return shell is not None and shell() is not None


def __getattr__(name: str) -> Any:
    """Return the session ``spark``, which the first import of this name starts."""
    if name != "spark":
        raise AttributeError(f"{__name__} has no attribute {shown(name)}")
    from scribe_spark.runtime.java import check_java
    from scribe_spark.runtime.session import session

    check_java()
    return session()
