"""Measured values beside bars: rows of a table in Markdown, and the table in a page."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tools.pages import write_part


class Row(NamedTuple):
    """A measured value beside its bar; `what` has the cells before the bar."""

    what: tuple[str, ...]
    bar: str
    measured: str
    holds: bool | None = None  # None: nothing is asserted

    def __str__(self) -> str:
        holds = {None: "-", True: "yes", False: "NO"}[self.holds]
        return "| " + " | ".join((*self.what, self.bar, self.measured, holds)) + " |"


def print_rows(head: str, rows: Iterable[Row]) -> list[Row]:
    """Print a table row by row; return the rows."""
    print(head, flush=True)
    found = []
    for row in rows:
        print(row, flush=True)
        found.append(row)
    return found


def write_rows(page: Path | None, name: str, head: str, rows: Iterable[Row]) -> None:
    """Write the rows that have a tolerance between the marks of a name."""
    write_part(page, name, [head, *(str(row) for row in rows if row.holds is not None)])
