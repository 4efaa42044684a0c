"""The page of a comparison: runs or worlds side by side; the first one is the base."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
from markupsafe import Markup

from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.measures.incomplete import incomplete_rounds, words_in_place
from scribe_spark.report import page
from scribe_spark.report.charts import Axis, Panel, draw, rounds_panel, share_line
from scribe_spark.report.comparison import NOTABLE, Compared, difference_cell, is_headline
from scribe_spark.report.paper_figures import ALL_SYSTEMS
from scribe_spark.report.style import (
    ABSENT,
    PERCENT,
    as_percent,
    as_setting,
    as_text,
    label_of,
    marked_style,
    measure_in_words,
    percent_tick,
    reach_in_words,
)
from scribe_spark.report.world import with_gaps, world_notes

#: Measure whose distribution is drawn -> heading, axis, the counted things, and True for the tail
#: on logarithmic axes in place of the cumulative share.
_DISTRIBUTIONS: dict[str, tuple[str, str, str, bool]] = {
    "latency": ("Latency", "latency (ms)", "deliveries", False),
    "rad": ("RAD", "RAD (mean delay / by IP multicast)", "groups", False),
    "rmd": ("RMD", "RMD (maximum delay / by IP multicast)", "groups", False),
    "children_entries": ("Children-table entries", "entries of a node", "nodes", True),
    "link_stress": ("Link stress", "packets on a link", "links with packets", True),
}

#: The greatest number of cards at the top of the page.
_MOST_CARDS = 6

#: Settings that do not change results.
_NOT_COMPARED = ("out", "master", "remote", "resume", "overwrite")


@dataclass(frozen=True)
class Side:
    """A run or a world of a comparison."""

    folder: str
    manifest: Mapping[str, Any]
    values: dict[str, float | None]  # by measure
    units: Mapping[str, str]  # by measure
    distributions: pd.DataFrame | None = None  # of a run: `schemas.DISTRIBUTIONS`
    rounds: pd.DataFrame | None = None  # of a world: rows are rounds, columns measures

    @cached_property
    def in_place(self) -> dict[str, str]:
        """Words that stand for missing values of a world: measure -> words."""
        return {} if self.rounds is None else words_in_place(self.rounds)


def compared_measures(sides: Sequence[Side]) -> list[Compared]:
    """Return every measure that a side has, in the order in which the sides have them."""
    world = sides[0].rounds is not None
    units = {name: unit for side in reversed(sides) for name, unit in side.units.items()}
    names = dict.fromkeys(name for side in sides for name in (*side.values, *side.in_place))
    return [
        Compared(
            name,
            units.get(name, ""),
            is_headline(name, world),
            tuple(None if name in side.in_place else side.values.get(name) for side in sides),
            tuple(side.in_place.get(name, "") for side in sides),
        )
        for name in names
    ]


def short_names(folders: Sequence[str]) -> list[str]:
    """Return the shortest ends of the paths of folders that distinguish them.

    Examples
    --------
    >>> short_names(["out/a", "out/b"]), short_names(["a/run", "b/run/"])
    (['a', 'b'], ['a/run', 'b/run'])
    """
    parts = [folder.rstrip("/").split("/") for folder in folders]
    lengths = range(1, max(map(len, parts)) + 1)
    names = (["/".join(part[-count:]) for part in parts] for count in lengths)
    return next((some for some in names if len({*some}) == len(some)), list(folders))


def render_compare(
    sides: Sequence[Side], rows: Sequence[Compared], noun: str, links: Sequence[str]
) -> page.Report:
    """Draw the figures and write the page of a comparison; the first side is the base.

    `rows` come from :func:`compared_measures`, `noun` is what a side is (``run`` or ``world``), and
    `links` has the location of each side's page, relative to this one.
    """
    names = short_names([side.folder for side in sides])
    named = dict(zip(names, sides, strict=True))
    headlines = [row for row in rows if row.headline and row.is_shown]
    others = [row for row in rows if not row.headline and row.is_shown]
    worst = sorted(headlines, key=lambda row: -row.most)[:_MOST_CARDS]
    cards = [_card(row, names) for row in worst if row.is_compared]
    panels = list(_distribution_panels(named) if noun == "run" else _round_panels(named))
    figures = [(page.section_of(of), draw(one)) for of, _, one in panels if one is not None]
    alike = [title for _, title, panel in panels if panel is None]
    facts = [
        ("Compared with it" if number else "Base", _LINK.format(link=link, name=name))
        for number, (link, name) in enumerate(zip(links, names, strict=True))
    ]
    left_out = (
        f"Figures that are left out, because the {noun}s are equal or one of them has no values: "
        f"{len(alike)}"
    )
    left = [page.Text(f"{'; '.join(alike)}.")] if alike else []
    title = "All other measures"
    all_others = page.Folded(f"{len(others)} measures", [_table(others, names, title)])
    tables = {name: side.rounds for name, side in named.items() if side.rounds is not None}
    notes = [f"{name}: {note}" for name, of in tables.items() for note in world_notes(of)]
    origins: list[page.PagePart] = []
    for name, side in named.items():
        origins += [page.Text(name, tag="h3"), page.NamedValues(page.origin(side.manifest))]
    return page.make_page(
        f"Comparison of {len(names)} {noun}s",
        [
            page.NamedValues(facts, "facts"),
            page.Text(" ".join([_summary(headlines), *_incomplete(rows, names)]), "verdict"),
            *notes,
            page.Cards(cards, "The greatest differences", "tiles"),
        ],
        [
            _headline_section(headlines, names, noun),
            _settings_section(named),
            f"Each figure shows one measure of all {noun}s. {page.HOW_TO_READ}" * bool(figures),
            *page.measure_sections(figures, page.MOST_OPEN),
            page.Folded(left_out, left),
            page.PageSection("others", title, [all_others]),
            page.PageSection("origins", "Versions and machines", origins),
        ],
        title=f"Comparison of {' and '.join(names)}",
    )


_LINK = Markup('<a href="{link}">{name}</a>')
_DIFFERENCE = Markup(
    "A difference is the value minus that of {base}, also in per cent of the value of {base}. "
    '<a href="compare.csv">compare.csv</a> and <a href="compare.json">compare.json</a> have every '
    "measure."
)
_OF_WORLDS = Markup(
    " Values are means over the rounds; delays and packets, over the rounds in which multicasts "
    "reach all members."
)


def _headline_section(
    headlines: Sequence[Compared], names: Sequence[str], noun: str
) -> page.PageSection:
    """Return the section of the headline measures; equal measures are hidden until a click."""
    title = "Headline measures"
    equal = [row for row in headlines if row.most == 0 and row.is_compared]
    differ = [row for row in headlines if row not in equal]
    table = _table(equal, names, "Equal headline measures")
    parts: page.PageParts = [
        _DIFFERENCE.format(base=names[0]) + _OF_WORLDS * (noun == "world"),
        _table(differ, names, title),
        page.Folded(f"{len(equal)} headline measures are equal", [table] if equal else []),
    ]
    return page.PageSection("headlines", title, parts)


def _settings_section(sides: Mapping[str, Side]) -> page.PageSection:
    """Return the section of the settings in which the sides differ."""
    told = [{key: value for key, value, _ in page.settings(of.manifest)} for of in sides.values()]
    values = {
        name: [one.get(name, as_setting(None)) for one in told]
        for name in dict.fromkeys(name for one in told for name in one)
    }
    rows = [
        (name, *of) for name, of in values.items() if name not in _NOT_COMPARED and len({*of}) > 1
    ]
    equal = page.Text("All settings are equal." * (not rows))
    table = page.PageTable(("Setting", *sides), rows)
    return page.PageSection("settings", "Settings that differ", [equal, table])


def _summary(headlines: Sequence[Compared]) -> str:
    compared = [row for row in headlines if row.is_compared]
    notable = sum(row.most > NOTABLE for row in headlines)
    equal = sum(row.most == 0 for row in compared)
    return (
        f"{notable} of {len(compared)} headline measures differ by more than "
        f"{NOTABLE:g}{PERCENT}; {equal} {'is' if equal == 1 else 'are'} equal."
    )


def _incomplete(rows: Sequence[Compared], names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each system that does not reach all members, in a comparison of runs."""
    for row in rows:
        system, _, measure = row.measure.partition(".")
        if measure == "reached":
            for name, value in zip(names, row.values, strict=True):
                if note := reach_in_words(value):
                    yield f"{label_of(system)} {note} in {name}."


def _card(row: Compared, names: Sequence[str]) -> page.Card:
    """Return the card of a measure: the base's value, and the side that differs most from it."""
    side, unit = row.farthest, f"{row.unit}, " if row.unit else ""
    return page.Card(
        measure_in_words(row.measure),
        row.shown(side),
        f"{unit}in {names[side]}; {row.shown(0)} in {names[0]}",
        difference=str(row.apart(side) or ABSENT),
        is_notable=row.most > NOTABLE,
    )


def _table(rows: Sequence[Compared], names: Sequence[str], label: str) -> page.PageTable:
    """Return a table with a row for each compared measure and a column for each folder."""
    heads: list[str | page.Cell] = ["Measure", names[0]]
    for name in names[1:]:
        heads += [name, page.Cell("Difference", look="number apart"), "%"]
    cells = []
    for row in rows:
        words = page.Cell(measure_in_words(row.measure), code=row.measure)
        cells.append([words, page.Cell(row.shown(0), row.unit)])
        for side in row.others:
            apart = row.difference(side)
            sign = "" if not apart else "+" if apart > 0 else "\N{MINUS SIGN}"
            signed = ABSENT if apart is None else sign + as_text(abs(apart))
            found = page.Cell(signed, look="number apart"), difference_cell(row.apart(side))
            cells[-1] += [page.Cell(row.shown(side)), *found]
    return page.PageTable(heads, cells, label)


# --- figures over each other: a measure, a title, and a panel (None if all sides are equal)


def _round_panels(sides: Mapping[str, Side]) -> Iterator[tuple[str, str, Panel | None]]:
    """Yield the panel of each headline measure of worlds."""
    tables = {name: side.rounds for name, side in sides.items() if side.rounds is not None}
    for measure in dict.fromkeys(name for table in tables.values() for name in table):
        if not is_headline(measure, world=True):
            continue
        there = {name: table for name, table in tables.items() if measure in table}
        found = {name: with_gaps(table, measure) for name, table in there.items()}
        lines = {name: line for name, line in found.items() if line.notna().any()}
        unit = next((of.units[measure] for of in sides.values() if measure in of.units), "")
        title = measure_in_words(measure) + (f" ({unit})" if unit else "")
        base, panel = next(iter(lines.values()), None), None
        if len(lines) > 1 and not all(line.equals(base) for line in lines.values()):
            hollow = {name: incomplete_rounds(table, measure) for name, table in there.items()}
            look: dict[str, Any] = {"looks": _looks(sides), "axis": unit, "hollow": hollow}
            panel = rounds_panel(re.sub(r"[._ ]", "-", f"round.{measure}"), title, lines, **look)
        yield measure, title, panel


def _looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the style of the lines of each side, the same in all figures."""
    return {name: marked_style(number) for number, name in enumerate(names)}


def _distribution_panels(sides: Mapping[str, Side]) -> Iterator[tuple[str, str, Panel | None]]:
    """Yield the panel of each system's distribution of each measure that at least one side has."""
    every = {name: of.distributions for name, of in sides.items() if of.distributions is not None}
    for measure, (heading, axis, things, tail) in _DISTRIBUTIONS.items():
        found: dict[str, dict[str, Histogram]] = {}
        for name, rows in every.items():
            rows = rows[(rows["measure"] == measure) & rows["value"].notna()]
            for system, of in rows[rows["system"] != ALL_SYSTEMS].groupby("system", sort=False):
                found.setdefault(str(system), {})[name] = histogram_of_rows(of)
        for system, named in found.items():
            title, file = f"{heading}: {label_of(system)}", f"{measure}-{system}".replace("_", "-")
            distinct = {(of.values.tobytes(), of.counts.tobytes()) for of in named.values()}
            panel = None
            if len(distinct) > 1:
                panel = _shares(file, title, named, _looks(sides), axis, things, tail)
            yield measure, title, panel


def _shares(
    name: str,
    title: str,
    found: Mapping[str, Histogram],
    looks: Mapping[str, Mapping[str, Any]],
    axis: str,
    things: str,
    tail: bool,
) -> Panel:
    """Return a panel of cumulated distributions, a line for each label of `found`."""
    bound = "at least" if tail else "at most"
    y = Axis(f"{things} with {bound} x (%)", 0, 100, tick=percent_tick)
    if tail:
        y = Axis(y.title, scale="log", tick=lambda share: f"{share:g}%")
    words = [
        f"{label}: median {as_text(of.median())}, maximum {as_text(of.max)} of "
        f"{of.total:,} {things}."
        for label, of in found.items()
    ]
    return Panel(
        *(name, title, "tails" if tail else "shares"),
        [share_line(n, {**looks[n], "marker": None}, of, tail=tail) for n, of in found.items()],
        *(Axis(axis, scale="decades" if tail else "linear"), y),
        " ".join(words),
        lambda x: f"{bound} {as_text(x)}, in {things}",
        as_percent,
    )
