"""Programs that run experiments and write pages: commands, sections, tables, figures.

Such a program has only data: the command of each experiment, which has a folder of its own in OUT,
the sections of the page, and functions that read the folders.  An experiment that is complete is
not run again.  With ``--page`` nothing is run: the page is written from what is in OUT.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element

# --- running


def run(commands: Mapping[str, Sequence[str]], out: Path, names: Iterable[str]) -> None:
    """Run the experiments that are not complete."""
    for name in names:
        command = [sys.executable, "-m", "scribe_spark.cli", *commands[name]]
        subprocess.run([*command, "--out", str(out / name), "--resume"], check=True)


def parser(description: str, names: Collection[str]) -> argparse.ArgumentParser:
    """Return a parser of ``OUT [--only NAME ...] [--page FILE]``."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("out", type=Path)
    made.add_argument("--only", nargs="+", choices=names, default=list(names))
    made.add_argument("--page", type=Path, help="write this page of what is there; run nothing")
    return made


def main(
    description: str,
    commands: Mapping[str, Sequence[str]],
    write: Callable[[Path, Path], str],
    arguments: Sequence[str],
    play: Callable[[Path, Iterable[str]], None] | None = None,
) -> None:
    """Run experiments, or write their page.

    ``write(OUT, FILE)`` returns the page of the experiments in OUT; ``play(OUT, names)`` runs
    experiments that need more than their commands.
    """
    given = parser(description, commands).parse_args(arguments)
    if given.page is not None:
        replace_file(given.page, write(given.out, given.page).encode())
    elif play is not None:
        play(given.out, given.only)
    else:
        run(commands, given.out, given.only)


# --- text


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes
    ----------
    needs : str
        A pattern of paths in OUT; without any such path the page does not have the section.
    text : str
        Markdown; ``{NAME}`` stands for a value.
    values : callable
        ``values(OUT)`` returns the values; ``table`` is a list of lines.
    """

    needs: str
    text: str
    values: Callable[[Path], Mapping[str, Any]]


def sections(out: Path, every: Iterable[Section]) -> str:
    """Return the text of the sections whose experiments are in `out`."""
    there = (section for section in every if any(out.glob(section.needs)))
    found = ((section.text, dict(section.values(out))) for section in there)
    return "".join(
        text.format(**of | {"table": "\n".join(of.get("table", ()))}) for text, of in found
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown.

    Examples
    --------
    >>> table(["node", "hops"], [["1", "3"]])
    ['| node | hops |', '|---|---|', '| 1 | 3 |']
    >>> print(*table(["|G|"], []), sep="; ")
    | \\|G\\| |; |---|
    """
    rule = "|---" * len(header) + "|"
    return [_row(header), rule, *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)


def with_lines(text: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    """Return a text with other lines between two marks; refuse a text without the marks."""
    begin, end = marks
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"the page has no lines {begin.strip()} and {end.strip()}")
    return before + begin + "".join(f"{line}\n" for line in lines) + end + after


# --- cells


def number(value: float) -> str:
    """Return a number of a cell: whole numbers from 100 on, else three digits."""
    whole = abs(value) >= 100 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def over_seeds(values: Sequence[float], cell: Callable[[float], str] = number) -> str:
    """Return the mean over seeds, and the standard deviation where seeds differ.

    It is ``-`` where a seed has no value (NaN).
    """
    if np.isnan(values).any():
        return "-"
    return cell(mean(values)) + (f" ± {number(stdev(values))}" if len({*values}) > 1 else "")


def per_cent(part: float, of_all: float) -> str:
    """Return a share; exact 0 and 100 % can be told from what is rounded to them."""
    return f"{share_cell(100 * part / of_all)} %" if of_all else "-"


def share_cell(share: float) -> str:
    """Return a share that is given in per cent, as :func:`per_cent` does."""
    if share in (0, 100):
        return f"{share:.0f}"
    return f"{np.floor(share * 1000) / 1000:.3f}" if share > 50 else f"{share:.2g}"


# --- figures


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: its place, its lines (label, values, number of the style), its axes."""

    place: tuple[float, float, float, float]
    lines: Sequence[tuple[str, pd.Series, int]]
    axes: Mapping[str, Any]
    title: str = ""
    legend: Mapping[str, Any] | None = None


def draw(
    size: tuple[float, float], panels: Iterable[Panel], name: str, heading: str, words: str
) -> str:
    """Return a figure as SVG."""
    with new_figure(*size) as drawing:
        for panel in panels:
            axes = drawing.add_axes(panel.place)
            for label, values, style in panel.lines:
                axes.plot(values.index, values, label=label, **curve_style(style))
            axes.set_title(panel.title, fontsize=6)
            axes.set(**panel.axes)
            if panel.legend is not None:
                axes.legend(frameon=False, **panel.legend)
        return svg_element(drawing, name, heading, words)
