"""Sustained churn in ``docs/groups_results.md``: its table and its figure."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from scribe_spark.report.style import RC, curve_style
from scribe_spark.report.svg import new_figure, svg_element
from tools.groups_tables import COUNTS, complete, number, of, per_cent, rounds, spread, total
from tools.pages import table

__all__ = ["FIGURE", "WAITED", "churn", "churn_figure"]

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


def _worlds(out: Path) -> dict[int, pd.DataFrame]:
    """Mean lifetime -> measures by rounds, without the start and the last rounds."""
    names = complete(out, [folder.name for folder in out.glob("churn-*")])
    found = {int(name.removeprefix("churn-")): rounds(out / name) for name in names}
    return {life: one.iloc[1 : -_DEADLINE or None] for life, one in sorted(found.items())}


def churn(out: Path) -> list[str]:
    """The section."""
    worlds = _worlds(out)
    if not worlds:
        return []
    return [
        *("", "## Sustained churn", ""),
        "`data/groups_churn.toml`: 10,000 live nodes, 150 groups, reliable delivery, one "
        "publication of each group in a round by a member; of the live nodes 1 in *lifetime* "
        "fails silently in a round and is replaced by one that arrives, which joins its groups "
        f"again. Publications of all rounds but the first and the last {_DEADLINE}; what has not "
        f"come after {_DEADLINE} rounds counts as lost, whether a replica of the group's state "
        "survived or not (*groups lost*). *Came later*: deliveries after more rounds, to members "
        "that were cut off so long; the rest of the lost had not come when the world ended. "
        "*Died*: publications whose sources died while they still kept them, before any root had "
        "taken them; nobody is expected to get these. *Duplicates* are messages to members that "
        "had got them already; reliable delivery does not deliver them again.",
        "",
        *table(
            ["lifetime", "rounds", "deliveries expected", "in time", "late", "lost", "came later",
             "died", "duplicates", "out of order", "orphans, mean", "groups lost, most"],
            [[number(life), number(len(one)), *_deliveries(one)] for life, one in worlds.items()],
        ),
        *_waited(out),
        "",
        "Late deliveries to any member, also to those that die before the deadline and are not "
        "expected: shares by the rounds from the publication.",
        "",
        *_lateness(worlds),
        "",
        "Messages per live node and round, by kind. Whoever joined in the same round refreshes in "
        "the same rounds, every second one: so the lines of the figure go up and down until churn "
        "has spread them.",
        "",
        *table(
            ["lifetime", *_KINDS, "of Pastry"],
            [[number(life), *_messages(one)] for life, one in worlds.items()],
        ),
        "",
        *_link_stress(worlds),
        f"![Share delivered in time, and messages per live node, by rounds]({FIGURE})",
    ]  # fmt: skip


def _deliveries(one: pd.DataFrame) -> list[str]:
    sums = {name: total(one, f"scribe.publications.{name}") for name in COUNTS}
    disorder = "scribe.deliveries.out_of_order"
    return [
        number(sums["expected"]),
        *(per_cent(sums[name], sums["expected"]) for name in ("in_time", "late")),
        number(sums["lost"]),
        number(sum(count for n, count in spread(one, _LATE).items() if n > _DEADLINE)),
        number(total(one, "scribe.publications.source died")),
        number(sums["duplicates"]),
        number(total(one, disorder)) if disorder in one else "-",
        number(of(one, "scribe.orphans").mean()),
        number(of(one, "scribe.groups.lost").max()),
    ]


def _waited(out: Path) -> list[str]:
    """What is lost where deliveries have twice the time."""
    if not complete(out, [WAITED]):
        return []
    most = 2 * _DEADLINE
    one = rounds(out / WAITED).iloc[1:-most]
    lost, expected = (total(one, f"scribe.publications.{name}") for name in ("lost", "expected"))
    return [
        "",
        f"A lifetime of 20 again, with a deadline of {most} rounds; publications of all rounds but "
        f"the first and the last {most}: {number(lost)} of {number(expected)} deliveries lost.",
    ]


def _lateness(worlds: dict[int, pd.DataFrame]) -> list[str]:
    late = {life: spread(one, _LATE) for life, one in worlds.items()}
    count = sorted({n for found in late.values() for n in found})
    if not count:
        return ["(Not measured.)"]
    rows = []
    for life, found in late.items():
        all_ = sum(found.values())
        rows.append([number(life), number(all_), *(per_cent(found.get(n, 0), all_) for n in count)])
    return table(["lifetime", "late", *map(str, count)], rows)


def _messages(one: pd.DataFrame) -> list[str]:
    """Cells: Scribe's kinds, and all of Pastry's."""
    live = total(one, "nodes.live")
    pastry = (
        "join message",
        "announcement",
        "exchange",
        "keep-alive",
        "repair",
        "introduction",
        "check",
    )
    sums = [total(one, f"messages.{kind}") for kind in _KINDS]
    sums.append(total(one, [f"messages.{kind}" for kind in pastry]))
    return [number(count / live) for count in sums]


def _link_stress(worlds: dict[int, pd.DataFrame]) -> list[str]:
    """Messages on a link in a round, where it was measured; the mean of rounds, and the most."""
    names = [f"link_stress.{kind}" for kind in ("payload", "maintenance")]
    there = {life: one for life, one in worlds.items() if f"{names[0]}.mean" in one}
    if not there:
        return []
    rows = [
        [number(life)]
        + [number(_where_measured(one, f"{name}.mean").mean()) for name in names]
        + [number(of(one, f"{name}.max").max()) for name in names]
        for life, one in there.items()
    ]
    header = [
        "lifetime",
        "payload, mean",
        "maintenance, mean",
        "payload, max.",
        "maintenance, max.",
    ]
    return ["Messages on a link in a round:", "", *table(header, rows), ""]


def _where_measured(one: pd.DataFrame, measure: str) -> pd.Series:
    values = of(one, measure)
    return values[values > 0]


def churn_figure(out: Path) -> str | None:
    """The figure as SVG; None without a world of churn."""
    from matplotlib import style

    worlds = _worlds(out)
    if not worlds:
        return None
    with style.context(["default", RC]):
        figure = new_figure(7.2, 2.9)
        panels = figure.add_axes((0.08, 0.16, 0.4, 0.74)), figure.add_axes((0.58, 0.16, 0.4, 0.74))
        for place, (life, one) in enumerate(worlds.items()):
            expected = of(one, "scribe.publications.expected")
            share = of(one, "scribe.publications.in_time") / expected
            kinds = [of(one, f"messages.{kind}") for kind in _KINDS]
            messages = sum(kinds) / of(one, "nodes.live")
            for axes, line in zip(panels, (share, messages), strict=True):
                axes.plot(line.index, line, label=f"lifetime {life}", **curve_style(place))
        panels[0].set(xlabel="round", ylabel="delivered in time, share of expected")
        panels[1].set(xlabel="round", ylabel="Scribe's messages per live node", ylim=(0, None))
        panels[1].legend(fontsize=7, frameon=False, loc="lower right")
        words = "; ".join(
            f"lifetime {life}: {_deliveries(one)[1]} in time" for life, one in worlds.items()
        )
        heading = "Sustained churn: deliveries in time and messages, by rounds"
        return svg_element(figure, "groups-churn", heading, words)
