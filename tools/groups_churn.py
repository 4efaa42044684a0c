"""Sustained churn in ``docs/groups_results.md``: its table and its figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.worlds.steady import WINDOW
from tools.groups_tables import (
    STEADY_RULE,
    complete,
    in_time_by_group,
    number,
    of,
    over_seeds,
    publications,
    rounds,
    rounds_in_words,
    settled,
    share_cell,
    spread,
    total,
)
from tools.pages import table

__all__ = ["FIGURE", "WAITED", "churn", "churn_figure", "sent_by_lifetime"]

#: The figure's file, beside the page.
FIGURE = "figure-groups-churn.svg"

#: The experiment with the shortest lifetime in which deliveries have twice the time.
WAITED = "waited-20"

#: Rounds at the end whose publications have not had all their time.
_DEADLINE = 10

#: Late deliveries by the rounds from the publication.
_LATE = "scribe.deliveries.late"

_KINDS = (
    "payload", "heartbeat", "refresh", "JOIN", "LEAVE", "MULTICAST", "acknowledgement",
    "retransmission", "replica",
)  # fmt: skip

#: Scribe's kinds that are no copies of publications.
_CONTROL = ("heartbeat", "refresh", "JOIN", "LEAVE", "acknowledgement", "replica")


@dataclass(frozen=True)
class _World:
    """A world under churn."""

    measures: pd.DataFrame
    begin: int
    last: int
    settles: bool
    median: float
    seconds: float

    @classmethod
    def read(cls, folder: Path) -> _World:
        """Read a world that was played to its end."""
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        measures = rounds(folder)
        last = int(measures.index.max()) - manifest["resolved"]["deadline"]
        told = publications(folder)
        told = told[told["round"].between(1, last)]
        control = sum((of(measures, f"messages.{kind}") for kind in _CONTROL), start=0.0)
        found = settled(told, control / measures["nodes.live"])
        begin = last + 1 - WINDOW if found is None else found
        median = float(in_time_by_group(told[told["round"] >= begin]).median())
        seconds = manifest["round"]["seconds"]
        return cls(measures, begin, last, found is not None, median, seconds)

    @property
    def steady(self) -> pd.DataFrame:
        """The measures of the rounds of the steady state."""
        return self.measures.loc[self.begin : self.last]


def _worlds(out: Path) -> dict[int, list[_World]]:
    """Return mean lifetime -> the worlds of all seeds."""
    found: dict[int, list[_World]] = {}
    for name in complete(out, sorted(folder.name for folder in out.glob("churn-*"))):
        life = int(name.split("-")[1])
        found.setdefault(life, []).append(_World.read(out / name))
    return dict(sorted(found.items()))


def churn(out: Path) -> list[str]:
    """The section."""
    worlds = _worlds(out)
    if not worlds:
        return []
    return [
        *("", "## Sustained churn", ""),
        "`data/groups_churn.toml`: 10,000 live nodes, 150 groups, reliable delivery, one "
        "publication a group in each round of 30 s. One node in *lifetime* fails silently in a "
        "round; a node that arrives replaces it and joins its groups (lifetimes of 20, 60 and 200 "
        f"rounds are 10, 30 and 100 minutes). {STEADY_RULE} Numbers are means over the seeds ± the "
        "standard deviation between seeds. *Median group*: the median over groups of the share in "
        f"time. *Lost*: not delivered after {_DEADLINE} rounds; *came later*: delivered after "
        "that. *Died*: publications whose source failed before a root had them.",
        "",
        *table(
            ["lifetime", "seeds", "rounds", *_DELIVERIES],
            [[number(life), f"{len(seeds)}", _rounds(seeds), *_cells(_DELIVERIES, seeds)]
             for life, seeds in worlds.items()],
        ),
        *_waited(out),
        "",
        f"![Share delivered in time, and messages per live node and second, by rounds]({FIGURE})",
    ]  # fmt: skip


def _cells(columns: Mapping[str, Callable[[_World], float]], seeds: Sequence[_World]) -> list[str]:
    """Return the cells of columns, over the seeds."""
    return [
        over_seeds([of_world(one) for one in seeds], share_cell if "%" in name else number)
        for name, of_world in columns.items()
    ]


def _rounds(seeds: Sequence[_World]) -> str:
    """Return the first and the last round that are looked at."""
    begins = [one.begin if one.settles else None for one in seeds]
    return rounds_in_words(begins, seeds[0].last)


def _sum(name: str) -> Callable[[_World], float]:
    return lambda one: total(one.steady, f"scribe.{name}")


def _share(name: str) -> Callable[[_World], float]:
    counted, expected = _sum(f"publications.{name}"), _sum("publications.expected")
    return lambda one: 100 * counted(one) / max(1.0, expected(one))


#: Head of a column -> a number of a world.
_DELIVERIES: dict[str, Callable[[_World], float]] = {
    "expected": _sum("publications.expected"),
    "in time, %": _share("in_time"),
    "median group, %": lambda one: 100 * one.median,
    "late, %": _share("late"),
    "lost": _sum("publications.lost"),
    "came later": lambda one: sum(
        count for n, count in spread(one.steady, _LATE).items() if n > _DEADLINE
    ),
    "died": _sum("publications.source died"),
    "duplicates": _sum("publications.duplicates"),
    "out of order": _sum("deliveries.out_of_order"),
    "orphans, mean": lambda one: float(of(one.steady, "scribe.orphans").mean()),
    "groups lost, most": lambda one: float(of(one.steady, "scribe.groups.lost").max()),
}


def _sent(*kinds: str) -> Callable[[_World], float]:
    """Return the messages of some kinds per live node and second."""

    def rate(one: _World) -> float:
        sent = total(one.steady, [f"messages.{kind}" for kind in kinds])
        return sent / total(one.steady, "nodes.live") / one.seconds

    return rate


def sent_by_lifetime(out: Path, *kinds: str) -> Iterator[tuple[int, str]]:
    """Yield each mean lifetime, and messages of some kinds per live node and second."""
    for life, seeds in _worlds(out).items():
        yield life, over_seeds([_sent(*kinds)(one) for one in seeds])


def _waited(out: Path) -> list[str]:
    """Return the lines of the world in which deliveries have twice the time."""
    if not complete(out, [WAITED]):
        return []
    most, one = 2 * _DEADLINE, _World.read(out / WAITED)
    lost, expected = (total(one.steady, f"scribe.publications.{n}") for n in ("lost", "expected"))
    return [
        "",
        f"A lifetime of 20 again, one seed, with a deadline of {most} rounds; rounds "
        f"{_rounds([one])}: {number(lost)} of {number(expected)} deliveries lost.",
    ]


def churn_figure(out: Path) -> str | None:
    """The figure as SVG, of the first seed of each lifetime; None without a world of churn."""

    worlds = _worlds(out)
    if not worlds:
        return None
    with new_figure(7.2, 2.9) as figure:
        panels = figure.add_axes((0.08, 0.16, 0.4, 0.74)), figure.add_axes((0.58, 0.16, 0.4, 0.74))
        for place, (life, seeds) in enumerate(worlds.items()):
            one = seeds[0].measures.loc[1 : seeds[0].last]
            expected = of(one, "scribe.publications.expected")
            share = of(one, "scribe.publications.in_time") / expected
            kinds = [of(one, f"messages.{kind}") for kind in _KINDS]
            messages = sum(kinds) / of(one, "nodes.live") / seeds[0].seconds
            for axes, line in zip(panels, (share, messages), strict=True):
                axes.plot(line.index, line, label=f"lifetime {life}", **curve_style(place))
        panels[0].set(xlabel="round", ylabel="delivered in time, share of expected")
        panels[1].set(
            xlabel="round", ylabel="Scribe's messages per live node and second", ylim=(0, None)
        )
        panels[1].legend(fontsize=7, frameon=False, loc="lower right")
        words = "; ".join(
            f"lifetime {life}: {_cells(_DELIVERIES, seeds)[1]} % in time"
            for life, seeds in worlds.items()
        )
        heading = "Sustained churn: deliveries in time and messages, by rounds"
        return svg_element(figure, "groups-churn", heading, words)
