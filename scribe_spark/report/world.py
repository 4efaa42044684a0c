"""The page of a world: the measures of each round, drawn over the rounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from scribe_spark.core.errors import in_series
from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.measures.incomplete import (
    has_control,
    has_gap,
    has_none_due,
    incomplete_rounds,
    reached_in_incomplete,
    rounds_not_due,
    systems_of_world,
    words_in_place,
)
from scribe_spark.report import page
from scribe_spark.report.cards import answers_in_words, world_cards
from scribe_spark.report.charts import Panel, draw, rounds_panel
from scribe_spark.report.pictures import scene_figures, scene_of
from scribe_spark.report.run_figures import Latency, draw_coverage
from scribe_spark.report.style import PERCENT, as_text, in_order, label_of, system_styles
from scribe_spark.report.tables import latencies_by_part, latencies_of_last_round, links_in_words
from scribe_spark.systems.registry import SCRIBE, measure_of_round


@dataclass(frozen=True)
class RoundPanel:
    """A figure of several measures over the rounds, before it has values."""

    name: str  # of its files
    title: str
    unit: str
    measures: Mapping[str, str]  # measure -> the name of its line
    #: True if a round without a value is a gap; else lines join the rounds with a value.
    every_round: bool = True
    #: If it is set, the panel is a distribution over all rounds together, by the number at the end
    #: of the measures' names (``repaired.3``), whose meaning it is; `measures` lacks the number.
    across: str = ""
    systems: Mapping[str, str] = field(default_factory=dict)  # name of a line -> its system


PANELS = (
    RoundPanel("live", "Live nodes", "nodes", {"nodes.live": "live"}),
    RoundPanel("leaf-sets", "Leaf sets that match the ring", "share", {"leaf_sets.right": "right"}),
    RoundPanel("cells", "Cells of routing tables", "per live node",
               {"cells.dead": "dead entry", "cells.missing": "empty, although a live node fits"}),
    RoundPanel("delay", "Delay to the entries of routing tables", "ms, between routers",
               {"cells.delay": "entry", "cells.nearest_delay": "nearest live node"}),
    RoundPanel("delivered", "Lookups", "share",
               {"lookups.delivered": "delivered", "lookups.right": "at the right root"}),
    RoundPanel("hops", "Hops of delivered lookups", "mean", {"lookups.hops": "hops"}),
    RoundPanel("lost", "Lost transmissions", "per lookup", {"lookups.lost": "lost"}),
)  # fmt: skip

#: Measure of every system of a world that is drawn -> title and unit.
_OF_SYSTEMS = {
    "publications.in_time": ("Delivered in time", "deliveries"),
    "publications.late": ("Delivered late", "deliveries"),
    "publications.lost": ("Lost", "deliveries"),
    "publications.duplicates.mean": ("Duplicates per delivery", "copies"),
    "multicasts.reached": ("Members that multicasts reach", "share"),
    "latency.p50": ("Latency, median over all deliveries", "ms"),
    "latency.p99": ("Latency, 99th percentile over all deliveries", "ms"),
    "time_to_99.median": ("Time to 99 % of the members, median over the groups", "ms"),
    "bytes.up.mean": ("Payload that a node sends, mean", "B per live node and round"),
    "bytes.up.max": ("Payload that a node sends, maximum", "B per round"),
    "control_bytes.up.mean": ("Control bytes that a node sends", "B per live node and round"),
    "rad.median": ("RAD, median over the groups", "times"),
    "rad.largest": ("RAD of the largest group", "times"),
    "rmd.median": ("RMD, median over the groups", "times"),
    "rmd.largest": ("RMD of the largest group", "times"),
    "rdp.mean": ("RDP of the largest group, mean", "times"),
    "children_entries.max": ("Copies or children of the busiest node, over all groups", "copies"),
    "link_stress.max": ("Packets on a link, maximum: one multicast of each group", "packets"),
    "control": ("Control messages", "per live node and second"),
    "control.member": ("Control messages of a member", "per member and second"),
    "rest.mean": ("Own rounds until the overlays of groups rest, mean", "own rounds"),
    "rest.max": ("Own rounds until the overlays of groups rest, maximum", "own rounds"),
    "certificates": ("Certificates that reach roots", "certificates"),
    "link_stress.payload.max": (
        "Link stress of payload, maximum",
        "messages on a directed link, in rounds in which it is measured",
    ),
    "publications.duplicates": ("Duplicates", "copies"),
    "lost": ("Stripes that do not reach live nodes", "stripes of a node"),
    "converging": ("Groups in which a stripe does not reach all live nodes", "groups"),
    "converged.rounds": (
        "Rounds until all stripes reached all live nodes again, mean",
        "rounds, of the groups in which they now do",
    ),
    "publications.open": ("Open deliveries at the end of the world", "deliveries"),
}


def _of_systems(
    name: str, title: str, unit: str, measures: Mapping[str, str], every_round: bool = True
) -> RoundPanel:
    """Return a panel with a line for each system; `measures` has a measure of each."""
    return RoundPanel(
        name,
        title,
        unit,
        {measure: label_of(system) for system, measure in measures.items()},
        every_round,
        systems={label_of(system): system for system in measures},
    )


def system_panels(measures: Collection[str]) -> tuple[RoundPanel, ...]:
    """Return the panels of several systems side by side; empty if Scribe is the only system."""
    systems = in_order(systems_of_world(measures))
    if set(systems) <= {SCRIBE}:  # Scribe's trees have panels of their own
        return ()
    return tuple(
        _of_systems(re.sub(r"[._]", "-", f"systems-{name}"), title, unit,
                    {system: measure_of_round(system, name) for system in systems},
                    every_round=False)
        for name, (title, unit) in _OF_SYSTEMS.items()
    )  # fmt: skip


def coverage_panels(measures: Collection[str]) -> tuple[RoundPanel, ...]:
    """Return a panel for each deadline and quorum, with a line for each system."""
    systems = in_order(systems_of_world(measures))
    words: dict[str, tuple[str, str]] = {}
    for system in systems:
        words |= answers_in_words(measures, system)
    return tuple(
        _of_systems(
            re.sub(r"[._]", "-", f"coverage-{name}"),
            f"Share {what}" if unit == PERCENT else f"Time {what}, over publications",
            "share" if unit == PERCENT else "ms",
            {system: f"{system}.{name}" for system in systems},
        )
        for name, (what, unit) in words.items()
    )


#: The panels of a world whose publications have a size.
BYTES_PANELS = (
    RoundPanel("payload-bytes", "Payload that a node sends in a round", "B",
               {f"scribe.bytes.up.{end}": end for end in ("mean", "p95", "max")},
               every_round=False),
)  # fmt: skip

#: The systems whose links are compared in a world.
_MULTICASTS = ("scribe", "ip_multicast", "naive_unicast")

_FATES = {"expected": "expected", "in_time": "in time", "late": "late", "lost": "lost",
          "open": "open at the end of the world", "duplicates": "duplicates"}  # fmt: skip
_CAUSES = ("own", "forwarder", "parent failed", "root failed", "parent left", "refused",
           "hand-over")  # fmt: skip

#: The panels of a world with groups.
GROUP_PANELS = (
    RoundPanel("publications", "Deliveries, by the round of the publication", "deliveries",
               {f"scribe.publications.{name}": label for name, label in _FATES.items()}),
    RoundPanel("late", "Late deliveries", "deliveries", {"scribe.deliveries.late": "late"}),
    RoundPanel("order", "Deliveries out of order", "deliveries",
               {"scribe.deliveries.out_of_order": "deliveries"}),
    RoundPanel("members", "Members of all groups", "members", {"scribe.members": "members"}),
    RoundPanel("orphans", "Orphans", "nodes in trees", {"scribe.orphans": "orphans"}),
    RoundPanel("joins", "JOINs by cause", "JOINs",
               {f"scribe.joins.{cause}": cause for cause in _CAUSES}
               | {"scribe.joins.at_root": "answered by a root"}),
    RoundPanel("repaired", "Failures and repair", "nodes",
               {"scribe.failures": "failed nodes with children",
                "scribe.repaired": "failed nodes whose children are all reached again",
                "scribe.repair.nodes": "nodes that took part in JOINs after failures"}),
    RoundPanel("repair-rounds", "Rounds until a failure is repaired", "failures, of all rounds",
               {"scribe.repaired": "failures"},
               across="rounds from the failure until the last child is reached"),
    RoundPanel("lateness", "Delay of late deliveries in rounds", "late deliveries, of all rounds",
               {"scribe.deliveries.late": "deliveries"},
               across="rounds from the publication to the delivery"),
    RoundPanel("groups-lost", "Groups whose state is lost", "groups",
               {"scribe.groups.lost": "lost"}),
    RoundPanel("link-stress-mean", "Link stress, mean over all directed links",
               "messages per link, in rounds in which it is measured",
               {"link_stress.payload.mean_existing": "payload",
                "link_stress.maintenance.mean_existing": "maintenance"}, every_round=False),
    RoundPanel("link-stress-max", "Link stress, maximum",
               "messages on a directed link, in rounds in which it is measured",
               {"link_stress.payload.max": "payload", "link_stress.maintenance.max": "maintenance"},
               every_round=False),
    RoundPanel("multicast-latency", "Latency of multicasts, over all deliveries", "ms",
               {f"scribe.latency.{name}": name for name in ("p50", "p90", "p95", "p99", "max")}),
    RoundPanel("multicast-delay", "Delay of multicasts, relative to IP multicast", "times",
               {"scribe.rad.median": "RAD, median",
                "scribe.rad.largest": "RAD of the largest group",
                "scribe.rmd.median": "RMD, median",
                "scribe.rmd.largest": "RMD of the largest group",
                "scribe.rdp.mean": "RDP of the largest group, mean"}),
    RoundPanel("multicast-reached", "Members that multicasts reach", "share",
               {"scribe.multicasts.reached": "reached"}),
    RoundPanel("node-stress", "Entries of children tables, per node", "entries",
               {"scribe.children_entries.mean": "mean", "scribe.children_entries.max": "most"}),
    *(_of_systems(f"multicast-links-{end}",
                  f"Packets on a link, {title}: one multicast of each group", "packets",
                  {system: f"{system}.link_stress.{end}" for system in _MULTICASTS})
      for end, title in (("mean_existing", "mean"), ("max", "maximum"))),
)  # fmt: skip

#: The panels of a world with a reference tree.
TREE_PANELS = (
    RoundPanel("tree-links", "Links of the reference tree", "links",
               {"reference_tree.links.removed": "removed",
                "reference_tree.links.created": "created"}),
    RoundPanel("tree-hosts", "Hosts that search for new neighbours", "hosts",
               {"reference_tree.hosts": "hosts"}),
    RoundPanel("tree-messages", "Messages of the reconfiguration", "messages",
               {"reference_tree.parent_lookups": "look-ups for a parent",
                "reference_tree.child_lookups": "look-ups for children",
                "reference_tree.notices": "notices"}),
    RoundPanel("tree-rounds", "Rounds of the reconfiguration", "rounds",
               {"reference_tree.rounds": "rounds"}),
    RoundPanel("tree-depth", "Depth of hosts in the reference tree", "hops",
               {"reference_tree.depth.largest": "largest", "reference_tree.depth.mean": "mean"}),
    RoundPanel("tree-degree", "Neighbours of a host in the reference tree", "neighbours",
               {"reference_tree.degree.largest": "most"}),
    RoundPanel("tree-faults", "Trees that differ from a new computation", "trees",
               {"reference_tree.faults": "wrong"}),
)  # fmt: skip


_MESSAGES, _LOST = "messages.", "messages.lost "
_MOST_FREQUENT, _MOST_KINDS = "messages", 5


def render_world(
    rounds: pd.DataFrame,
    manifest: Mapping[str, Any],
    watched: pd.DataFrame | None = None,
    latency: Latency | None = None,
    by_part: pd.DataFrame | None = None,
) -> page.Report:
    """Draw the figures and write the page of a world.

    `rounds` is the table `schemas.ROUNDS`, `manifest` as of :func:`scribe_spark.report.run.render`.
    For a world with groups, there may be `watched` (`schemas.WATCHED_TREES`), `latency` of the last
    round, and `by_part` (`schemas.ROUNDS_BY_PART`).
    """
    from scribe_spark.worlds.summary import measures_by_round  # imported here, as it imports Spark

    length, table = page.as_mapping(manifest.get("round")), measures_by_round(rounds)
    seconds = float(length.get("seconds", NOMINAL_SECONDS))
    sections, shown = _over_rounds(table, seconds)
    known = [*page.facts(manifest), ("Rounds", as_text(len(table)))]
    known += [("A round", as_text(length["has"]))] if "has" in length else []
    return page.make_page(
        "A world of Pastry nodes",
        [
            f"{_INTRO} {page.HOW_TO_READ}",
            page.NamedValues([*known, *_costs(manifest)], "facts"),
            page.Cards(world_cards(table)),
            *world_notes(table),
        ],
        [
            *_last_round(table, manifest, latency, by_part),
            *sections,
            *_scene(watched),
            _numbers(table, shown),
            page.provenance(manifest),
        ],
    )


_INTRO = (
    "Nodes arrive, leave, fail and recover in rounds, and the overlay repairs itself. The figures "
    "show measures taken after each round."
)


def _costs(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a round's mean supersteps, messages and bytes, if the rounds were played in jobs."""
    costs = list(manifest.get("world", {}).get("costs", {}).values())
    if not costs:
        return []
    supersteps, messages, size = (
        sum(one[name] for one in costs) / len(costs) for name in ("supersteps", "messages", "bytes")
    )
    words = f"{supersteps:,.0f} supersteps, {messages:,.0f} messages of {size / 1e6:,.1f} MB"
    return [("A round, in the mean", words)]


def _last_round(
    table: pd.DataFrame,
    manifest: Mapping[str, Any],
    latency: Latency | None,
    by_part: pd.DataFrame | None,
) -> Iterator[page.PageSection]:
    """Yield the sections about the last round with multicasts."""
    systems = set() if latency is None else {str(name) for name in latency.counts["system"]}
    contents, title = "Latency in the last round", "Coverage in the last round"
    coverage = draw_coverage(latency, systems)
    if coverage is not None:
        yield page.PageSection("time", title, [page.Figures([coverage])], contents)
    links = links_in_words(page.as_mapping(manifest.get("resolved")))
    listed = contents if coverage is None else ""
    tables = latencies_of_last_round(table, links, coverage is not None, listed)
    yield from tables
    if by_part is not None and (tables or coverage is not None):
        # of the last round with deliveries
        delays = by_part[by_part["measure"] == "delay_ms"]
        of_last = delays[delays["round"] == delays["round"].max()]
        yield from latencies_by_part(of_last, "rounds_by_part")


def _over_rounds(
    table: pd.DataFrame, seconds: float
) -> tuple[list[page.PageSection], list[RoundPanel]]:
    """Return the sections of figures over rounds of some seconds, and the panels of the table."""
    sections: list[page.PageSection] = []
    shown: list[RoundPanel] = []
    in_place = words_in_place(table)
    for title, panels in (
        ("Systems side by side", system_panels(table.columns)),
        ("Deadlines and quorums", coverage_panels(table.columns)),
        ("Scribe's trees", (*GROUP_PANELS, *BYTES_PANELS)),
        ("Nodes and lookups", (*PANELS, _most_frequent(table))),
        ("The reference tree", TREE_PANELS),
    ):
        found = [(one, lines) for one in panels if (lines := _lines(one, table, seconds))]
        shown += [one for one, _ in found if one.name != _MOST_FREQUENT and not one.across]
        # lines that do not change come last
        found.sort(key=lambda one: all(line.nunique() <= 1 for line in one[1].values()))
        drawn = [draw(_panel(panel, lines, table, in_place)) for panel, lines in found]
        if drawn:
            name, parts = f"section-{len(sections) + 1}", page.unfolded(drawn, page.MOST_OPEN)
            sections.append(page.PageSection(name, title, parts, count=len(drawn)))
    return sections, shown


def _lines(panel: RoundPanel, table: pd.DataFrame, seconds: float) -> dict[str, pd.Series]:
    """Return the lines of a figure: label -> values by round, or by what `across` names."""
    if panel.across:
        found = {label: _distribution(table, name) for name, label in panel.measures.items()}
        return {label: counts for label, counts in found.items() if len(counts)}
    there = {label: name for name, label in panel.measures.items() if name in table}
    if not panel.every_round:
        lines = {label: with_gaps(table, name) for label, name in there.items()}
        return {label: line for label, line in lines.items() if line.notna().any()}
    lines = {label: table[name] for label, name in there.items()}
    if panel.name != _MOST_FREQUENT:
        return lines
    nodes = table["nodes.live"] * seconds
    return {label: line.fillna(0) / nodes for label, line in lines.items()}


def _distribution(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return counts over all rounds, by the number at the end of the measures' names."""
    from scribe_spark.worlds.summary import totals_by_number  # imported here, as it imports Spark

    counts = totals_by_number(table, measure)
    return pd.Series(counts).reindex(range(max(counts, default=-1) + 1), fill_value=0.0)


def with_gaps(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return the values of a measure by round, NaN where there is a gap in its line.

    A gap is a round with multicasts of the measure's system, but without a value.
    """
    line = table[measure]
    return line[line.notna() | has_gap(table, measure)]


def _panel(
    panel: RoundPanel,
    lines: Mapping[str, pd.Series],
    table: pd.DataFrame,
    in_place: Mapping[str, str],
) -> Panel:
    """Return the panel of the lines that :func:`_lines` has found.

    `in_place` are the words in place of means (`words_in_place`).
    """
    measures, styles = panel.measures.items(), system_styles(panel.systems.values())
    found = rounds_panel(
        *(f"round-{panel.name}", panel.title, lines),
        panel.unit.partition(", ")[0],  # short enough for the axis
        panel.across or "round",
        hollow={label: incomplete_rounds(table, name) for name, label in measures},
        looks={label: styles[system] for label, system in panel.systems.items()},
        unit=panel.unit,
        tables=("rounds",),
    )
    told = [found.words]
    if panel.across:
        told = [distribution_words(line, panel.across) for line in lines.values()]
    told += [f"{label}: {in_place[name]}." for name, label in measures if name in in_place]
    return replace(found, words=" ".join(told))


def _most_frequent(table: pd.DataFrame) -> RoundPanel:
    """Return the figure of the most frequent kinds of messages."""
    sent = [name for name in table if name.startswith(_MESSAGES) and not name.startswith(_LOST)]
    most = sorted(sent, key=lambda name: (-table[name].sum(), name))[:_MOST_KINDS]
    kinds = {name: name.removeprefix(_MESSAGES) for name in most}
    unit = "per live node and second"
    return RoundPanel(_MOST_FREQUENT, "Messages, the most frequent kinds", unit, kinds)


_SCENE = Markup(
    "The tree is that of group {group}, one of the small groups whose trees the world watches "
    '(table <a href="tables/watched_trees">watched_trees</a>). An orphan is a node without a live '
    "parent that has the node as a child; the root is no orphan. Numbers are those of nodes; point "
    "at a node to see its state."
)
_NO_SCENE = "No tree of the watched small groups lost a node with children."


def _scene(watched: pd.DataFrame | None) -> list[page.PageSection]:
    """Return the section with a tree before and after a failure, if a watched tree had one."""
    if watched is None:
        return []
    scene = scene_of(watched)
    parts: page.PageParts = [page.Text(_NO_SCENE)]
    if scene is not None:
        words, drawn = _SCENE.format(group=scene.group), scene_figures(scene)
        parts = [words, page.Figures(drawn, "three")]
    title = "A tree before a failure, during it, and after its repair"
    return [page.PageSection("scene", title, parts, "A tree before and after a failure")]


_ROUNDS = Markup(
    'The table <a href="tables/rounds">rounds</a> (Parquet) has every measure of every round, with '
    "the messages of every kind."
)


def _numbers(table: pd.DataFrame, shown: Sequence[RoundPanel]) -> page.PageSection:
    """Return the section with a table of the measures that are drawn, by round."""
    heads = [f"{one.title}: {label}" for one in shown for label in one.measures.values()]
    names = [name for one in shown for name in one.measures]
    rows = [
        (str(number), *(_cell(table, number, name) for name in names)) for number in table.index
    ]
    folded = page.Folded(f"{len(rows)} rounds", [page.PageTable(("Round", *heads), rows)])
    return page.PageSection("numbers", "Numbers", [_ROUNDS, folded])


def _cell(table: pd.DataFrame, number: int, name: str) -> str:
    """Return the value of a measure `name` in round `number` as text."""
    system, _, measure = name.partition(".")
    if measure == "publications.lost" and number in rounds_not_due(table, system):
        return "not due"
    if name not in table or pd.isna(table.at[number, name]):
        return as_text(None)
    return as_text(float(table.at[number, name]))


def distribution_words(counts: pd.Series, across: str) -> str:
    """Return the median and the greatest value of a distribution, given by counts, in words."""
    shares = counts.cumsum() / counts.sum()
    median, most = (int((shares >= share).idxmax()) for share in (0.5, 1.0))
    sentence = f"{across[:1].upper()}{across[1:]}"
    return f"{sentence}: {median} for half of {as_text(float(counts.sum()))}, at most {most}."


# --- sentences about what the numbers do not cover


def world_notes(table: pd.DataFrame) -> list[str]:
    """Return sentences about open deliveries, incomplete rounds, and what is not simulated."""
    systems = in_order(systems_of_world(table))
    kinds = _open, _incomplete, _not_simulated
    return [sentence for kind in kinds for sentence in kind(table, systems)]


def _open(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    rounds = sorted({number for system in systems for number in rounds_not_due(table, system)})
    if not rounds:
        return
    counts = {system: table.get(f"{system}.publications.open", 0.0) for system in systems}
    totals = {label_of(system): float(np.nansum(count)) for system, count in counts.items()}
    named = "; ".join(f"{label}: {as_text(count)}" for label, count in totals.items() if count)
    shares = "No publication is due, so there are no shares of deliveries"
    if not all(has_none_due(table, system) for system in systems):
        shares = "Shares of deliveries cover only the publications that are due"
    yield (
        f"The publications of {_in_words(rounds)} are not due: their deadline is after the last "
        f"round. Deliveries that are missing are open, not lost ({named or 'none'}). {shares}."
    )


def _incomplete(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    told = []
    for system in systems:
        shares = reached_in_incomplete(table, system)
        if len(shares):
            least = f"{as_text(float(f'{100 * shares.min():.3g}'))}{PERCENT}"
            rounds = _in_words([int(number) for number in shares.index])
            told.append(f"{label_of(system)} in {rounds} ({least} in the worst one)")
    if told:
        yield (
            f"Not all members are reached in the round of the publication: {'; '.join(told)}. "
            "Delays, RAD, RMD, RDP and packets of these rounds cover the reached members only, so "
            "they seem better than they are: their points are hollow, and means leave them out."
        )


def _not_simulated(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    without = [label_of(system) for system in systems if not has_control(table, system)]
    if without:
        yield (
            f"Control messages are not simulated for {in_series(without, len(without))}: joins and "
            "repairs take no messages and no time, but nodes must detect a failure first."
        )


def _in_words(rounds: Sequence[int]) -> str:
    """Return ascending rounds in words, for example ``rounds 1 to 3, 5``."""
    runs = np.split(rounds, np.flatnonzero(np.diff(rounds) != 1) + 1)
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"round{'s' * (len(rounds) > 1)} {', '.join(words)}"
