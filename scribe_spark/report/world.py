"""The page of a world: the measures of each round, drawn over the rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from scribe_spark.core.units import NOMINAL_SECONDS
from scribe_spark.errors import in_series
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
from scribe_spark.report.cards import world_cards
from scribe_spark.report.catalogue import label_of
from scribe_spark.report.charts import draw, line_words, rounds_panel
from scribe_spark.report.page import (
    HOW_TO_READ,
    Cards,
    Figures,
    Folded,
    Pairs,
    Report,
    Section,
    Table,
    Text,
    as_mapping,
    facts,
    figure_section,
    make_page,
    provenance,
)
from scribe_spark.report.run_figures import Latency, draw_coverage
from scribe_spark.report.style import in_order, system_styles
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.tables import latencies_by_part, latencies_of_last_round, links_in_words
from scribe_spark.report.text import PERCENT, as_text
from scribe_spark.report.tree_scene import scene_figures, scene_of
from scribe_spark.report.world_panels import (
    BYTES_PANELS,
    GROUP_PANELS,
    PANELS,
    TREE_PANELS,
    RoundMeasures,
    system_panels,
)

_MESSAGES, _LOST = "messages.", "messages.lost "
_MOST_FREQUENT, _MOST_KINDS = "messages", 5
_MOST_OPEN = 6  # the number of visible figures of a section


def render_world(
    rounds: pd.DataFrame,
    manifest: Mapping[str, Any],
    watched: pd.DataFrame | None = None,
    latency: Latency | None = None,
    by_part: pd.DataFrame | None = None,
) -> Report:
    """Draw the figures and write the page of a world.

    Parameters
    ----------
    rounds : DataFrame
        `schemas.ROUNDS`.
    manifest : mapping
        As :func:`scribe_spark.report.render`.
    watched : DataFrame, optional
        For a world with groups: `schemas.WATCHED_TREES`.
    latency : Latency, optional
        Deliveries of the last round by their latency.
    by_part : DataFrame, optional
        `schemas.ROUNDS_BY_PART`.
    """
    from scribe_spark.worlds.summary import measures_by_round  # imported here, as it imports Spark

    length, table = as_mapping(manifest.get("round")), measures_by_round(rounds)
    seconds = float(length.get("seconds", NOMINAL_SECONDS))
    sections, shown = _over_rounds(table, seconds)
    known = [*facts(manifest), ("Rounds", as_text(len(table)))]
    known += [("A round", as_text(length["has"]))] if "has" in length else []
    cards = world_cards(table)
    return make_page(
        "A world of Pastry nodes",
        [
            Text(f"{_INTRO} {HOW_TO_READ}"),
            Pairs([*known, *_costs(manifest)], "facts"),
            *([Cards(cards)] if cards else []),
            *map(Text, world_notes(table)),
        ],
        [
            *_last_round(table, manifest, latency, by_part),
            *sections,
            *_scene(watched),
            _numbers(table, shown),
            provenance(manifest),
        ],
    )


_INTRO = (
    "Nodes arrive, leave, fail and recover in rounds, and the overlay repairs itself. The figures "
    "show measures taken after each round."
)


def _costs(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the means of a round's supersteps, messages and bytes, if nodes are in buckets."""
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
) -> Iterator[Section]:
    """Yield the sections about the last round with multicasts."""
    systems = set() if latency is None else {str(name) for name in latency.counts["system"]}
    contents, title = "Latency in the last round", "Coverage in the last round"
    coverage = draw_coverage(latency, systems)
    if coverage is not None:
        yield Section("time", title, [Figures([coverage])], contents)
    links = links_in_words(as_mapping(manifest.get("resolved")))
    listed = contents if coverage is None else ""
    tables = latencies_of_last_round(table, links, coverage is not None, listed)
    yield from tables
    if by_part is not None and (
        tables or coverage is not None
    ):  # of the last round with deliveries
        delays = by_part[by_part["measure"] == "delay_ms"]
        of_last = delays[delays["round"] == delays["round"].max()]
        yield from latencies_by_part(of_last, "rounds_by_part")


def _over_rounds(table: pd.DataFrame, seconds: float) -> tuple[list[Section], list[RoundMeasures]]:
    """Return the sections of figures over the rounds, and the measures for the table."""
    sections: list[Section] = []
    shown: list[RoundMeasures] = []
    for title, panels in (
        ("Systems side by side", system_panels(table.columns)),
        ("Scribe's trees", (*GROUP_PANELS, *BYTES_PANELS)),
        ("Nodes and lookups", (*PANELS, _most_frequent(table))),
        ("The reference tree", TREE_PANELS),
    ):
        found = [(one, lines) for one in panels if (lines := _lines(one, table, seconds))]
        shown += [one for one, _ in found if one.name != _MOST_FREQUENT and not one.across]
        # lines that do not change come last
        found.sort(key=lambda one: all(line.nunique() <= 1 for line in one[1].values()))
        drawn = [_draw(panel, lines, table) for panel, lines in found]
        if drawn:
            name = f"section-{len(sections) + 1}"
            sections.append(figure_section(name, title, drawn, most=_MOST_OPEN))
    return sections, shown


def _lines(panel: RoundMeasures, table: pd.DataFrame, seconds: float) -> dict[str, pd.Series]:
    """Return label -> values by round (or by `across`), for each measure that was taken."""
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
    """Return counts of all rounds by the number at the end of the measures' names; 0 in gaps."""
    from scribe_spark.worlds.summary import totals_by_number  # imported here, as it imports Spark

    counts = totals_by_number(table, measure)
    return pd.Series(counts).reindex(range(max(counts, default=-1) + 1), fill_value=0.0)


def with_gaps(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return the values of a measure by round; NaN, a gap in its line, in a round with multicasts
    of the system but without a value.
    """
    line = table[measure]
    return line[line.notna() | has_gap(table, measure)]


def _draw(panel: RoundMeasures, lines: Mapping[str, pd.Series], table: pd.DataFrame) -> PageFigure:
    """Describe measures in words, and draw them."""
    told = [
        distribution_words(line, panel.across) if panel.across else line_words(label, line)
        for label, line in lines.items()
    ]
    in_place, measures = words_in_place(table), panel.measures.items()
    told += [f"{label}: {in_place[name]}." for name, label in measures if name in in_place]
    styles = system_styles(panel.systems.values())
    return draw(
        rounds_panel(
            *(f"round-{panel.name}", panel.title, " ".join(told), lines, panel.across or "round"),
            looks={label: styles[system] for label, system in panel.systems.items()},
            axis=panel.unit.partition(", ")[0],  # short enough for the axis
            hollow={label: incomplete_rounds(table, name) for name, label in measures},
            unit=panel.unit,
            tables=("rounds",),
        )
    )


def _most_frequent(table: pd.DataFrame) -> RoundMeasures:
    """Return the most frequent kinds of messages."""
    sent = [name for name in table if name.startswith(_MESSAGES) and not name.startswith(_LOST)]
    most = sorted(sent, key=lambda name: (-table[name].sum(), name))[:_MOST_KINDS]
    kinds = {name: name.removeprefix(_MESSAGES) for name in most}
    unit = "per live node and second"
    return RoundMeasures(_MOST_FREQUENT, "Messages, the most frequent kinds", unit, kinds)


_SCENE = Markup(
    "The tree is that of group {group}, one of the small groups whose trees the world watches "
    '(table <a href="tables/watched_trees">watched_trees</a>). An orphan is a node without a live '
    "parent that has the node as a child; the root is no orphan. Numbers are those of nodes; point "
    "at a node to see its state."
)
_NO_SCENE = "No tree of the watched small groups lost a node with children."


def _scene(watched: pd.DataFrame | None) -> list[Section]:
    """Return the section with a tree before and after a failure, for a world with groups."""
    if watched is None:
        return []
    title = "A tree before a failure, during it, and after its repair"
    scene, contents = scene_of(watched), "A tree before and after a failure"
    if scene is None:
        return [Section("scene", title, [Text(_NO_SCENE, look="")], contents)]
    parts = [Text(_SCENE.format(group=scene.group)), Figures(scene_figures(scene), look="three")]
    return [Section("scene", title, parts, contents)]


_ROUNDS = Markup(
    'The table <a href="tables/rounds">rounds</a> (Parquet) has every measure of every round, with '
    "the messages of every kind."
)


def _numbers(table: pd.DataFrame, shown: Sequence[RoundMeasures]) -> Section:
    """Return the section with the drawn measures of each round."""
    heads = [f"{one.title}: {label}" for one in shown for label in one.measures.values()]
    names = [name for one in shown for name in one.measures]
    rows = [
        (str(number), *(_cell(table, number, name) for name in names)) for number in table.index
    ]
    folded = Folded(f"{len(rows)} rounds", [Table(("Round", *heads), rows)])
    return Section("numbers", "Numbers", [Text(_ROUNDS), folded], "Numbers")


def _cell(table: pd.DataFrame, number: int, name: str) -> str:
    """Return a measure in a round as text."""
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
    """Return sentences about open deliveries, incomplete rounds, and what is not simulated.

    `table` has a row for each round and a column for each measure.
    """
    systems = in_order(systems_of_world(table))
    return [
        *_open(table, systems),
        *_incomplete(table, systems),
        *_not_simulated(table, systems),
    ]


def _open(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    rounds = sorted({number for system in systems for number in rounds_not_due(table, system)})
    if not rounds:
        return
    counts = {system: _sum(table, f"{system}.publications.open") for system in systems}
    named = "; ".join(f"{label_of(s)}: {as_text(count)}" for s, count in counts.items() if count)
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


def _sum(table: pd.DataFrame, measure: str) -> float:
    return float(table[measure].sum()) if measure in table else 0.0


def _in_words(rounds: Sequence[int]) -> str:
    """Return ascending rounds in words.

    Examples
    --------
    >>> _in_words([3]), _in_words([1, 2, 3, 5])
    ('round 3', 'rounds 1 to 3, 5')
    """
    runs: list[list[int]] = []
    for number in rounds:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"round{'s' * (len(rounds) > 1)} {', '.join(words)}"
