"""Pages of results: experiments, tables in Markdown between marks, cells, figures."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element

#: ``lines(OUT)``: the lines of a part of a page, of the experiments in OUT.
Lines = Callable[[Path], Sequence[str]]


class Page(NamedTuple):
    """A page of results.

    Attributes
    ----------
    experiments : mapping of str to str
        The command of each experiment, by the name of its folder in OUT.
    parts, readme : mapping of str to (str, callable)
        By the names of marks, of the page and of README.md: a pattern of paths in OUT, without
        which the part stays as it is, and the function that returns the lines.
    figures : callable, optional
        ``figures(OUT, FOLDER)`` writes the figures of the page into its folder.
    play : callable, optional
        ``play(OUT, name, words)`` runs an experiment that needs more than its command.
    """

    experiments: Mapping[str, str]
    parts: Mapping[str, tuple[str, Lines]]
    figures: Callable[[Path, Path], None] = lambda out, folder: None
    play: Callable[[Path, str, list[str]], None] | None = None
    readme: Mapping[str, tuple[str, Lines]] = {}

    def command(self, name: str, size: Sequence[str] | None = None) -> list[str]:
        """Return the words of a command, perhaps of another size; one group stays one group."""
        command = self.experiments[name]
        if size is not None:
            groups = "" if "--groups 1 " in f"{command} " else f" --groups {size[1]}"
            command += f" --nodes {size[0]}{groups}"
        return shlex.split(command)


def run(out: Path, name: str, words: Sequence[str]) -> None:
    """Run a command of scribe-spark, unless it is complete."""
    command = [sys.executable, "-m", "scribe_spark.cli", *words]
    subprocess.run([*command, "--out", str(out / name), "--resume"], check=True)


# --- Markdown


def table(header: str | Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table in Markdown; a text has the heads between `` | ``.

    Examples
    --------
    >>> table("node | hops", [["1", "3"]])
    ['| node | hops |', '|---|---|', '| 1 | 3 |']
    >>> print(*table(["|G|"], []), sep="; ")
    | \\|G\\| |; |---|
    """
    heads = header.split(" | ") if isinstance(header, str) else list(header)
    return [_row(heads), "|---" * len(heads) + "|", *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)


def tabled(columns: Mapping[str, Callable[..., str]], rows: Iterable[Any]) -> list[str]:
    """Return the lines of a table: by the head of a column, the cell of an object of a row."""
    return table(columns, ([cell(row) for cell in columns.values()] for row in rows))


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


def _is_row(line: str) -> bool:
    return line.startswith("|")


def with_part(text: str, name: str, lines: Sequence[str]) -> str:
    """Return a page with other lines in a part.

    Lines that are tables alone take the place of the part's tables, and the text around them stays.
    """
    kept = [(is_row, list(some)) for is_row, some in groupby(lines_of(text, name), _is_row)]
    tables = [list(some) for is_row, some in groupby(lines, _is_row) if is_row]
    count = sum(is_row for is_row, _ in kept)
    if not count or not all(_is_row(line) for line in lines if line):
        return with_lines(text, name, lines)
    if len(tables) != count:
        raise SystemExit(f"{name}: the page has {count} tables, the experiments {len(tables)}")
    new = iter(tables)
    return with_lines(text, name, chain(*(next(new) if is_row else some for is_row, some in kept)))


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


class Panel(NamedTuple):
    """A panel of a figure: its lines by their labels, and settings of its axes.

    `legend` is the place of a legend in the panel, if it has one.
    """

    lines: Mapping[str, pd.Series]
    axes: Mapping[str, Any]
    legend: str | None = None


def draw(file: Path, heading: str, rows: Sequence[Sequence[Panel]]) -> None:
    """Write a figure of rows of panels as SVG, ``figure-NAME.svg``: a label has one style."""
    words, known = list[str](), dict[str, int]()
    with new_figure(7.4, 0.5 + 1.8 * len(rows)) as drawing:
        drawing.set_layout_engine("constrained")
        places = drawing.subplots(len(rows), len(rows[0]), squeeze=False).flat
        for axes, panel in zip(places, chain.from_iterable(rows), strict=True):
            what = panel.axes.get("title") or panel.axes.get("ylabel", "")
            for label, values in panel.lines.items():
                style = curve_style(known.setdefault(label, len(known)))
                axes.plot(values.index, values, label=label, **style)
                ends = f"{number(values.min())} to {number(values.max())}"
                words.append(f"{what}, {label}: {ends}".replace("\n", " "))
            axes.set(**panel.axes)
            axes.title.set_fontsize(6)
            if panel.legend is not None:
                axes.legend(frameon=False, fontsize=5.5, loc=panel.legend)
        name = file.stem.removeprefix("figure-")
        replace_file(file, svg_element(drawing, name, heading, "; ".join(words)).encode())
