"""Parts of pages: tables in Markdown, cells, figures."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element


def table(header: str | Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; a text has the heads between `` | ``.

    Examples
    --------
    >>> table("node | hops", [["1", "3"]])
    ['| node | hops |', '|---|---|', '| 1 | 3 |']
    >>> print(*table(["|G|"], []), sep="; ")
    | \\|G\\| |; |---|
    """
    heads = header.split(" | ") if isinstance(header, str) else header
    return [_row(heads), "|---" * len(heads) + "|", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)


def _part(text: str, name: str) -> re.Match[str]:
    """Return the match of a part of a page, whose group 1 has the lines between its marks."""
    begin, end = f"<!-- {name}: [^\n]*-->\n", f"<!-- (?:end of {name}|{name}: end) -->"
    found = re.search(f"{begin}(.*?){end}", text, re.S)
    if found is None:
        raise SystemExit(f"the page has no lines <!-- {name}: ... --> and <!-- end of {name} -->")
    return found


def lines_of(text: str, name: str) -> list[str]:
    """Return the lines of a page between the marks of a name."""
    return _part(text, name)[1].splitlines()


def with_lines(text: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with other lines between the marks of a name; refuse a page without them.

    Examples
    --------
    >>> with_lines("a <!-- x: written by y -->\\nb\\n<!-- end of x -->", "x", ["c", "d"])
    'a <!-- x: written by y -->\\nc\\nd\\n<!-- end of x -->'
    """
    found = _part(text, name)
    return text[: found.start(1)] + "".join(f"{line}\n" for line in lines) + text[found.end(1) :]


def write_part(page: Path | None, name: str, lines: Iterable[str]) -> None:
    """Write lines between the marks of a name into a page, if there is a page."""
    if page is not None:
        replace_file(page, with_lines(page.read_text("utf-8"), name, lines).encode())


# --- cells


def number(value: float | None) -> str:
    """Return a number of a cell: whole numbers from 100 on, else three digits; ``-`` for none."""
    if value is None:
        return "-"
    whole = abs(value) >= 100 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def over_seeds(values: Sequence[float], cell: Callable[[float], str] = number) -> str:
    """Return the mean over seeds, and the standard deviation if seeds differ.

    The cell is ``-`` if a seed has no value (NaN).
    """
    if np.isnan(values).any():
        return "-"
    return cell(mean(values)) + (f" ± {number(stdev(values))}" if len({*values}) > 1 else "")


def per_cent(part: float, of_all: float) -> str:
    """Return a share; exact 0 and 100 % differ from shares that are rounded to 0 and 100 %."""
    return f"{share_cell(100 * part / of_all)} %" if of_all else "-"


def share_cell(share: float) -> str:
    """Return a share that is in per cent already, as :func:`per_cent` does."""
    if share in (0, 100):
        return f"{share:.0f}"
    return f"{np.floor(share * 1000) / 1000:.3f}" if share > 50 else f"{share:.2g}"


# --- figures

#: A line of a figure: its label, its values, and the number of its style.
Line = tuple[str, pd.Series, int]


class Panel(NamedTuple):
    """A panel of a figure: its place, its lines, its axes."""

    place: tuple[float, float, float, float]
    lines: Sequence[Line]
    axes: Mapping[str, Any]
    title: str = ""
    legend: Mapping[str, Any] | None = None


def draw(
    file: Path, size: tuple[float, float], panels: Iterable[Panel], heading: str, words: str
) -> None:
    """Write a figure as SVG: ``figure-NAME.svg``."""
    with new_figure(*size) as drawing:
        for panel in panels:
            axes = drawing.add_axes(panel.place)
            for label, values, style in panel.lines:
                axes.plot(values.index, values, label=label, **curve_style(style))
            axes.set_title(panel.title, fontsize=6)
            axes.set(**panel.axes)
            if panel.legend is not None:
                axes.legend(frameon=False, **panel.legend)
        name = file.stem.removeprefix("figure-")
        replace_file(file, svg_element(drawing, name, heading, words).encode())
