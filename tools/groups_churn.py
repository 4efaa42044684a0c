"""Sustained churn in ``docs/groups_results.md``: its table and its figure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scribe_spark.report.style import RC, curve_style
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.worlds.steady import WINDOW
from tools.groups_tables import (
    STEADY_RULE,
    complete,
    in_time_by_group,
    number,
    of,
    over_seeds,
    per_cent,
    publications,
    rounds,
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

_PASTRY = (
    *("join message", "announcement", "exchange", "keep-alive", "repair", "introduction"),
    "check",
)


@dataclass(frozen=True)
class _World:
    """A world under churn.

    Attributes
    ----------
    measures : DataFrame
        Rounds by measures.
    begin, last : int
        The first round of the steady state (where the world has not settled, that of the last
        `WINDOW` rounds), and the last round whose publications have had all their time.
    settles : bool
    median : float
        Share delivered in time in the steady state, median over groups.
    seconds : float
        How long a round lasts.
    """

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
        "publication of each group in a round of 30 s by a member; of the live nodes 1 in "
        "*lifetime* fails silently in a round and is replaced by one that arrives, which joins its "
        "groups again (lifetimes of 20, 60 and 200 rounds are 10, 30 and 100 minutes). "
        f"Publications of the steady state up to the last {_DEADLINE} rounds. {STEADY_RULE} "
        "Numbers are means over the seeds, ± the standard deviation between them. *Median group*: "
        "the median over groups of the share that each gets in time. What has not "
        f"come after {_DEADLINE} rounds counts as lost, whether a replica of the group's state "
        "survived or not (*groups lost*). *Came later*: deliveries after more rounds, to members "
        "that were cut off so long; the rest of the lost had not come when the world ended. "
        "*Died*: publications whose sources died while they still kept them, before any root had "
        "taken them; nobody is expected to get these. *Duplicates* are messages to members that "
        "had got them already; reliable delivery does not deliver them again.",
        "",
        *table(
            ["lifetime", "seeds", "rounds", *_DELIVERIES],
            [[number(life), f"{len(seeds)}", _rounds(seeds), *_cells(_DELIVERIES, seeds)]
             for life, seeds in worlds.items()],
        ),
        *_waited(out),
        "",
        "Late deliveries to any member, also to those that die before the deadline and are not "
        "expected: shares by the rounds from the publication, all seeds together.",
        "",
        *_lateness(worlds),
        "",
        "Messages per live node and second, by kind. Whoever joined in the same round refreshes in "
        "the same rounds, every second one: so the lines of the figure go up and down until churn "
        "has spread them.",
        "",
        *table(
            ["lifetime", *_MESSAGES],
            [[number(life), *_cells(_MESSAGES, seeds)] for life, seeds in worlds.items()],
        ),
        "",
        *_link_stress(worlds),
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
    if not all(one.settles for one in seeds):
        return f"not settled; last {WINDOW}"
    begins = sorted({one.begin for one in seeds})
    return f"{'-'.join(map(str, dict.fromkeys((begins[0], begins[-1]))))} to {seeds[0].last}"


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


_MESSAGES = {**{kind: _sent(kind) for kind in _KINDS}, "of Pastry": _sent(*_PASTRY)}


def sent_by_lifetime(out: Path, *kinds: str) -> Iterator[tuple[int, str]]:
    """Yield each mean lifetime, and messages of some kinds per live node and second."""
    for life, seeds in _worlds(out).items():
        yield life, over_seeds([_sent(*kinds)(one) for one in seeds])


def _waited(out: Path) -> list[str]:
    """What is lost where deliveries have twice the time."""
    if not complete(out, [WAITED]):
        return []
    most, one = 2 * _DEADLINE, _World.read(out / WAITED)
    lost, expected = (total(one.steady, f"scribe.publications.{n}") for n in ("lost", "expected"))
    return [
        "",
        f"A lifetime of 20 again, one seed, with a deadline of {most} rounds; rounds "
        f"{_rounds([one])}: {number(lost)} of {number(expected)} deliveries lost.",
    ]


def _lateness(worlds: Mapping[int, Sequence[_World]]) -> list[str]:
    late: dict[int, Counter[int]] = {
        life: sum((Counter(spread(one.steady, _LATE)) for one in seeds), Counter())
        for life, seeds in worlds.items()
    }
    count = sorted({n for found in late.values() for n in found})
    if not count:
        return ["(Not measured.)"]
    rows = []
    for life, found in late.items():
        all_ = sum(found.values())
        rows.append([number(life), number(all_), *(per_cent(found.get(n, 0), all_) for n in count)])
    return table(["lifetime", "late", *map(str, count)], rows)


def _link_stress(worlds: Mapping[int, Sequence[_World]]) -> list[str]:
    """Messages on a link, in the rounds in which they were counted; means and the most."""
    all_seeds = (one for seeds in worlds.values() for one in seeds)
    if not any(of(one.steady, "link_stress.payload.mean").any() for one in all_seeds):
        return []

    def mean(name: str) -> Callable[[_World], float]:
        return lambda one: float(_where_measured(one.steady, f"link_stress.{name}.mean").mean())

    def most(name: str) -> Callable[[_World], float]:
        return lambda one: float(of(one.steady, f"link_stress.{name}.max").max())

    def per_second(value: Callable[[_World], float]) -> Callable[[_World], float]:
        return lambda one: value(one) / one.seconds

    columns = {
        "payload, mean": mean("payload"),
        "maintenance, mean": per_second(mean("maintenance")),
        "payload, max.": most("payload"),
        "maintenance, max.": per_second(most("maintenance")),
    }
    rows = [[number(life), *_cells(columns, seeds)] for life, seeds in worlds.items()]
    about = (
        "Packets on a link: of payload those of one publication of each group, of maintenance "
        "those of a second (a round's, divided by its seconds):"
    )
    return [about, "", *table(["lifetime", *columns], rows), ""]


def _where_measured(one: pd.DataFrame, measure: str) -> pd.Series:
    values = of(one, measure)
    return values[values > 0]


def churn_figure(out: Path) -> str | None:
    """The figure as SVG, of the first seed of each lifetime; None without a world of churn."""
    from matplotlib import style

    worlds = _worlds(out)
    if not worlds:
        return None
    with style.context(["default", RC]):
        figure = new_figure(7.2, 2.9)
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
