"""The page of a world: the measures of each round, drawn over the rounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
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
from scribe_spark.report.charts import Panel, draw, rounds_panel
from scribe_spark.report.pictures import scene_figures, scene_of
from scribe_spark.report.run import Latency, draw_coverage
from scribe_spark.report.style import PERCENT, as_text, in_order, label_of, system_styles
from scribe_spark.report.tables import (
    answers_in_words,
    latencies_by_part,
    latencies_of_last_round,
    links_in_words,
    world_cards,
)
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


_PANELS = resources.files(__package__).joinpath("panels.txt").read_text("utf-8")


def _rows(section: str) -> list[list[str]]:
    """Return the cells of the lines in a section of ``panels.txt``."""
    lines = _PANELS.partition(f"\n# {section}\n")[2].partition("\n\n")[0].splitlines()
    return [line.split(" | ") for line in lines]


def panels_of(section: str) -> list[RoundPanel]:
    """Return the panels in a section of ``panels.txt`` whose measures it names."""
    found = []
    for name, title, unit, begin, ends, *across in _rows(section):
        pairs = (end.partition(" = ") for end in ends.split("; "))
        measures = {begin + end: label or end for end, _, label in pairs}
        panel = RoundPanel(name.lstrip("~"), title, unit, measures, not name.startswith("~"))
        found.append(replace(panel, across="".join(across)))
    return found


def _of_systems(
    name: str, title: str, unit: str, measures: Mapping[str, str], every_round: bool = False
) -> RoundPanel:
    """Return a panel with a line for each system; `measures` has a measure of each."""
    labels = {measure: label_of(system) for system, measure in measures.items()}
    systems = {label_of(system): system for system in measures}
    return RoundPanel(re.sub(r"[._]", "-", name), title, unit, labels, every_round, "", systems)


def system_panels(measures: Collection[str]) -> list[RoundPanel]:
    """Return the panels of several systems side by side; empty if Scribe is the only system."""
    systems = in_order(systems_of_world(measures))
    if set(systems) <= {SCRIBE}:  # Scribe's trees have panels of their own
        return []
    return [
        _of_systems(f"systems-{name}", title, unit, {s: measure_of_round(s, name) for s in systems})
        for name, title, unit in _rows("systems")
    ]


def coverage_panels(measures: Collection[str]) -> list[RoundPanel]:
    """Return a panel for each deadline and quorum, with a line for each system."""
    systems = in_order(systems_of_world(measures))
    words = {
        name: of for system in systems for name, of in answers_in_words(measures, system).items()
    }
    return [
        _of_systems(
            f"coverage-{name}",
            f"Share {what}" if unit == PERCENT else f"Time {what}, over publications",
            "share" if unit == PERCENT else "ms",
            {system: f"{system}.{name}" for system in systems},
        )
        for name, (what, unit) in words.items()
    ]


def group_panels() -> list[RoundPanel]:
    """Return the panels of a world with groups, some beside IP multicast and unicast."""
    links = [
        _of_systems(
            f"multicast-links-{end}",
            f"Packets on a link, {words}: one multicast of each group",
            "packets",
            {s: f"{s}.link_stress.{end}" for s in ("scribe", "ip_multicast", "naive_unicast")},
            every_round=True,
        )
        for end, words in (("mean_existing", "mean"), ("max", "maximum"))
    ]
    return [*panels_of("groups"), *links]


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

    length, table = manifest.get("round", {}), measures_by_round(rounds)
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
    costs = pd.DataFrame(manifest.get("world", {}).get("costs", {}).values())
    if costs.empty:
        return []
    of = costs.mean()
    words = (
        f"{of['supersteps']:,.0f} supersteps, {of['messages']:,.0f} messages of "
        f"{of['bytes'] / 1e6:,.1f} MB"
    )
    return [("A round, in the mean", words)]


def _last_round(
    table: pd.DataFrame,
    manifest: Mapping[str, Any],
    latency: Latency | None,
    by_part: pd.DataFrame | None,
) -> Iterator[page.PageSection]:
    """Yield the sections about the last round with multicasts."""
    contents, title = "Latency in the last round", "Coverage in the last round"
    coverage = list(draw_coverage(latency, set()))
    if coverage:
        yield page.PageSection("time", title, [page.Figures(coverage)], contents)
    links = links_in_words(manifest.get("resolved", {}))
    listed = "" if coverage else contents
    tables = latencies_of_last_round(table, links, bool(coverage), listed)
    yield from tables
    if by_part is not None and (tables or coverage):
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
        ("Scribe's trees", group_panels()),
        ("Nodes and lookups", [*panels_of("nodes"), _most_frequent(table)]),
        ("The reference tree", panels_of("tree")),
    ):
        made = [(one, _panel(one, table, seconds, in_place)) for one in panels]
        found = [(one, panel) for one, panel in made if panel is not None]
        shown += [one for one, _ in found if one.name != _MOST_FREQUENT and not one.across]
        # lines that do not change come last
        found.sort(key=lambda one: all(len({*line.at(line.x)}) <= 1 for line in one[1].lines))
        drawn = [draw(panel) for _, panel in found]
        if drawn:
            name, parts = f"section-{len(sections) + 1}", page.unfolded(drawn, page.MOST_OPEN)
            sections.append(page.PageSection(name, title, parts, count=len(drawn)))
    return sections, shown


def with_gaps(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return the values of a measure by round, NaN where there is a gap in its line.

    A gap is a round with multicasts of the measure's system, but without a value.
    """
    line = table[measure]
    return line[line.notna() | has_gap(table, measure)]


def _panel(
    panel: RoundPanel, table: pd.DataFrame, seconds: float, in_place: Mapping[str, str]
) -> Panel | None:
    """Return the panel of the lines that have values, by round or by what `across` names."""
    from scribe_spark.worlds.summary import totals_by_number  # imported here, as it imports Spark

    measures, styles = panel.measures.items(), system_styles(panel.systems.values())
    lines = dict[str, pd.Series]()
    for name, label in measures:
        if panel.across:
            if counts := totals_by_number(table, name):
                lines[label] = pd.Series(counts).reindex(range(max(counts) + 1), fill_value=0.0)
        elif name in table:
            lines[label] = table[name] if panel.every_round else with_gaps(table, name)
    if panel.name == _MOST_FREQUENT:
        nodes = table["nodes.live"] * seconds
        lines = {label: line.fillna(0) / nodes for label, line in lines.items()}
    if not panel.every_round:
        lines = {label: line for label, line in lines.items() if line.notna().any()}
    if not lines:
        return None
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
        told = [_distribution_words(line, panel.across) for line in lines.values()]
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
    return as_text(float(table.at[number, name]) if name in table else None)


def _distribution_words(counts: pd.Series, across: str) -> str:
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
