"""Tables in Markdown between the marks of pages, their cells, and figures."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element

ROOT = Path(__file__).resolve().parents[1]

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
    return [row(heads), "|---" * len(heads) + "|", *map(row, rows)]


def row(cells: Iterable[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)


_TABLE = re.compile(r"(?:^\|.*\n)+", re.M)


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

    Lines that are tables alone take the place of the part's tables, and the text around them stays.

    Examples
    --------
    >>> with_lines("a <!-- x: written by y -->\\nb\\n<!-- end of x -->", "x", ["c", "d"])
    'a <!-- x: written by y -->\\nc\\nd\\n<!-- end of x -->'
    """
    found, new = _part(text, name), "".join(f"{line}\n" for line in lines)
    count, tables = len(_TABLE.findall(found[1])), _TABLE.findall(new)
    if count and not _TABLE.sub("", new).strip():
        if len(tables) != count:
            raise SystemExit(f"{name}: the page has {count} tables, the experiments {len(tables)}")
        new = _TABLE.sub(lambda _: tables.pop(0), found[1])
    return text[: found.start(1)] + new + text[found.end(1) :]


def write_part(page: Path | None, name: str, lines: Iterable[str]) -> None:
    """Write lines between the marks of a name into a page, if there is a page."""
    if page is not None:
        replace_file(page, with_lines(page.read_text("utf-8"), name, lines).encode())


# --- cells

#: Metric -> head of its column, on every page.
HEADS = {
    "latency.p50": "delay, median, ms",
    "latency.p99": "delay, 99th percentile, ms",
    "rad.median": "RAD, median group",
    "rad.largest": "RAD, largest group",
    "rmd.median": "RMD, median group",
    "rmd.largest": "RMD, largest group",
    "rdp.mean": "RDP, mean of the largest group",
    "children_entries.mean": "node stress, mean",
    "children_entries.max": "node stress, maximum",
    "link_stress.mean_existing": "link stress, mean",
    "link_stress.max": "link stress, maximum",
    "messages": "packets",
    "duplicates.mean": "duplicates per delivery",
    "join_messages.max": "control messages, busiest node",
    "state.max": "state, busiest node",
    "state.mean": "state, mean",
    "depth.mean": "hops to a member, mean",
}


def heads(metrics: Iterable[str]) -> list[str]:
    """Return the heads of the columns of some metrics."""
    return [HEADS[metric] for metric in metrics]


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
    """A panel of a figure: its lines by their labels, settings of its axes, a legend's place."""

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
