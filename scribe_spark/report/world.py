"""The page of a world: what was measured after each round, drawn over the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scribe_spark.report.page import Report, fill_template
from scribe_spark.report.provenance import facts, origin, settings
from scribe_spark.report.style import RC, STYLES, curve_style, short_number
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.report.text import as_text

__all__ = [
    "GROUP_PANELS",
    "PANELS",
    "TREE_PANELS",
    "Panel",
    "draw_rounds",
    "line_words",
    "render_world",
    "round_style",
]


@dataclass(frozen=True)
class Panel:
    """A drawing: some measures over the rounds.

    Attributes
    ----------
    name, title, unit : str
    measures : dict of str to str
        Measure -> what its line is called.
    every_round : bool
        Whether a round without a value is a gap in the line; else lines join the rounds that have
        one.
    """

    name: str
    title: str
    unit: str
    measures: Mapping[str, str]
    every_round: bool = True


PANELS = (
    Panel("live", "Live nodes", "nodes", {"nodes.live": "live"}),
    Panel("leaf-sets", "Leaf sets that are the ring's", "share", {"leaf_sets.right": "right"}),
    Panel(
        "cells",
        "Cells of routing tables",
        "per live node",
        {"cells.dead": "dead entry", "cells.missing": "no live entry, though there is a node"},
    ),
    Panel(
        "delay",
        "Delay to the entries of routing tables",
        "ms, between routers",
        {"cells.delay": "entry", "cells.nearest_delay": "nearest live node"},
    ),
    Panel(
        "delivered",
        "Lookups",
        "share",
        {"lookups.delivered": "delivered", "lookups.right": "at the right root"},
    ),
    Panel("hops", "Hops of delivered lookups", "mean", {"lookups.hops": "hops"}),
    Panel("lost", "Lost transmissions", "per lookup", {"lookups.lost": "lost"}),
)

#: Of a world with groups.
GROUP_PANELS = (
    Panel(
        "publications",
        "Deliveries, by the round of the publication",
        "deliveries",
        {
            f"scribe.publications.{name}": label
            for name, label in (
                ("expected", "expected"),
                ("in_time", "in time"),
                ("late", "late"),
                ("lost", "lost"),
                ("duplicates", "duplicates"),
            )
        },
    ),
    Panel("late", "Late deliveries", "deliveries", {"scribe.deliveries.late": "late"}),
    Panel("order", "Out of order", "deliveries", {"scribe.deliveries.out_of_order": "deliveries"}),
    Panel("members", "Members of all groups", "members", {"scribe.members": "members"}),
    Panel("orphans", "Orphans", "nodes in trees", {"scribe.orphans": "orphans"}),
    Panel(
        "joins",
        "JOINs by cause",
        "JOINs",
        {
            f"scribe.joins.{cause}": cause
            for cause in (
                *("own", "forwarder", "parent failed", "root failed"),
                *("parent left", "refused", "hand-over"),
            )
        }
        | {"scribe.joins.at_root": "answered by a root"},
    ),
    Panel(
        "repaired",
        "Failures and repair",
        "nodes",
        {
            "scribe.failures": "died and had children",
            "scribe.repaired": "all children of the failed node reached again",
            "scribe.repair.nodes": "took part in JOINs after failures",
        },
    ),
    Panel(
        "groups-lost",
        "Groups whose state nobody has",
        "groups",
        {"scribe.groups.lost": "lost"},
    ),
    Panel(
        "link-stress-mean",
        "Link stress, mean over all directed links",
        "messages per link, in rounds in which it is measured",
        {
            "link_stress.payload.mean_existing": "payload",
            "link_stress.maintenance.mean_existing": "maintenance",
        },
        every_round=False,
    ),
    Panel(
        "link-stress-max",
        "Link stress, maximum",
        "messages on a directed link, in rounds in which it is measured",
        {"link_stress.payload.max": "payload", "link_stress.maintenance.max": "maintenance"},
        every_round=False,
    ),
)

#: Of a world that keeps a reference tree.
TREE_PANELS = (
    Panel(
        "tree-links",
        "Links of the reference tree",
        "links",
        {"reference_tree.links.removed": "removed", "reference_tree.links.created": "created"},
    ),
    Panel(
        "tree-hosts",
        "Hosts that find their neighbours anew",
        "hosts",
        {"reference_tree.hosts": "hosts"},
    ),
    Panel(
        "tree-messages",
        "Messages of the reconfiguration",
        "messages",
        {
            "reference_tree.parent_lookups": "look-ups for a parent",
            "reference_tree.child_lookups": "look-ups for children",
            "reference_tree.notices": "notices",
        },
    ),
    Panel(
        "tree-rounds",
        "Rounds of the reconfiguration",
        "rounds",
        {"reference_tree.rounds": "rounds"},
    ),
    Panel(
        "tree-depth",
        "Depth of hosts in the reference tree",
        "hops",
        {"reference_tree.depth.largest": "largest", "reference_tree.depth.mean": "mean"},
    ),
    Panel(
        "tree-degree",
        "Neighbours of a host in the reference tree",
        "neighbours",
        {"reference_tree.degree.largest": "most"},
    ),
    Panel(
        "tree-faults",
        "Trees that are not the one computed from nothing",
        "trees",
        {"reference_tree.faults": "wrong"},
    ),
)

_MESSAGES, _LOST = "messages.", "messages.lost "
_MOST_FREQUENT, _MOST_KINDS = "messages", 5
_MOST_MARKERS = 30  # rounds up to which each has a marker


def render_world(rounds: pd.DataFrame, manifest: Mapping[str, Any]) -> Report:
    """The page of a world.

    Parameters
    ----------
    rounds : DataFrame
        `schemas.ROUNDS`.
    manifest : mapping
        As of `render`.
    """
    from markupsafe import Markup

    table = rounds.pivot(index="round", columns="measure", values="value")
    sections: list[tuple[str, list[Any]]] = []
    shown: list[Panel] = []
    figures: dict[str, str] = {}
    for title, panels in (
        ("Round by round", (*PANELS, _messages_panel(table))),
        ("Trees", GROUP_PANELS),
        ("The reference tree", TREE_PANELS),
    ):
        drawn = [(panel, *_draw(panel, table)) for panel in panels if _lines(panel, table)]
        if drawn:
            sections.append((title, [(panel, words, Markup(svg)) for panel, words, svg in drawn]))
            shown += [panel for panel in panels if panel.name != _MOST_FREQUENT]
            figures |= {f"round-{panel.name}": svg for panel, _, svg in drawn}
    html = fill_template(
        "world.html",
        facts=[*facts(manifest), ("Rounds", as_text(len(table)))],
        sections=sections,
        rounds=[
            (
                number,
                [as_text(_value(table, number, name)) for of in shown for name in of.measures],
            )
            for number in table.index
        ],
        heads=[f"{panel.title}: {label}" for panel in shown for label in panel.measures.values()],
        settings=settings(manifest),
        origin=origin(manifest),
        phases=[],
    )
    return Report(html, figures)


def _lines(panel: Panel, table: pd.DataFrame) -> dict[str, pd.Series]:
    """Label -> values by round, of the measures that there are."""
    lines = {label: table[name] for name, label in panel.measures.items() if name in table}
    if not panel.every_round:
        return {label: line.dropna() for label, line in lines.items()}
    if panel.name != _MOST_FREQUENT:
        return lines
    return {label: line.fillna(0) / table["nodes.live"] for label, line in lines.items()}


def _draw(panel: Panel, table: pd.DataFrame) -> tuple[str, str]:
    """What a panel says in words, and its drawing."""
    lines = _lines(panel, table)
    words = " ".join(line_words(label, line) for label, line in lines.items())
    return words, draw_rounds(f"round-{panel.name}", panel.title, words, lines)


def _messages_panel(table: pd.DataFrame) -> Panel:
    """The kinds of which most messages were sent."""
    sent = [name for name in table if name.startswith(_MESSAGES) and not name.startswith(_LOST)]
    most = sorted(sent, key=lambda name: (-table[name].sum(), name))[:_MOST_KINDS]
    kinds = {name: name.removeprefix(_MESSAGES) for name in most}
    return Panel(_MOST_FREQUENT, "Messages, the most frequent kinds", "per live node", kinds)


def _value(table: pd.DataFrame, number: int, name: str) -> float | None:
    if name not in table or pd.isna(table.at[number, name]):
        return None
    return float(table.at[number, name])


def line_words(label: str, line: pd.Series) -> str:
    """Where a line begins and ends, and its extremes."""
    known = line.dropna()
    first, last = as_text(float(known.iloc[0])), as_text(float(known.iloc[-1]))
    least, most = as_text(float(known.min())), as_text(float(known.max()))
    text = f"{label[:1].upper()}{label[1:]}: {first} in round {known.index[0]}, {last} in round"
    return f"{text} {known.index[-1]}, between {least} and {most}."


def round_style(number: int) -> dict[str, Any]:
    """How the line of a number looks, from 0; the first ten differ."""
    marker = ("o", "s")[number // len(STYLES) % 2]
    return {**curve_style(number), "marker": marker, "markersize": 3}


def draw_rounds(
    name: str, title: str, words: str, lines: Mapping[str, pd.Series], legend: bool = True
) -> str:
    """A drawing over the rounds.

    Parameters
    ----------
    lines : mapping of str to Series
        Label -> values by round, of which some are known.
    legend : bool
        Whether labels are in the drawing.
    """
    from matplotlib import style
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    with style.context(["default", RC]):
        figure = new_figure(4.6, 2.7)
        axes = figure.add_axes((0.13, 0.17, 0.83, 0.78))
        for number, (label, line) in enumerate(lines.items()):
            look = round_style(number)
            if len(line) > _MOST_MARKERS:  # where colours are used again, markers tell lines apart
                look["markevery"] = -(-len(line) // 10)
                look["marker"] = look["marker"] if number >= len(STYLES) else None
            axes.plot(line.index, line.to_numpy(), label=label, clip_on=False, zorder=3, **look)
        top = max(float(line.max()) for line in lines.values() if line.notna().any())
        axes.set_ylim(0, top * 1.08 or 1)
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short_number(round(v, 9))))
        if legend and len(lines) > 1:
            axes.legend(frameon=False, fontsize=7)
        return svg_element(figure, name, title, words)
