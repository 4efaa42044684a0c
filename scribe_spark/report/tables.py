"""The cards of the pages, and tables: latencies, classes, failures, and both overlays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
from markupsafe import Markup

from scribe_spark.config.bandwidth import sizes_in_words
from scribe_spark.measures.incomplete import (
    NONE_DUE,
    has_none_due,
    rounds_not_due,
    values_in_means,
    words_in_place,
)
from scribe_spark.report import page
from scribe_spark.report.comparison import NOTABLE, Compared, difference_cell, experiment_of
from scribe_spark.report.page import Card
from scribe_spark.report.style import (
    ABSENT,
    PERCENT,
    as_text,
    in_order,
    is_number,
    label_of,
    reach_in_words,
    readable,
    share_in_percent,
    system_styles,
)
from scribe_spark.systems.registry import IP, UNICAST, all_systems, measure_of_round

# --- cards

#: Measures of a system of a run, the main one first -> meaning and unit behind the number.
_OF_RUNS: dict[str, tuple[str, str]] = {
    "latency.p99": ("latency, 99 % of deliveries", " ms"),
    "latency.p50": ("50 % of deliveries", " ms"),
    "rad.median": ("RAD, median group", ""),
    "rad.largest": ("RAD, largest group", ""),
    "link_stress.max": ("packets, busiest link", ""),
    "messages": ("packets, all links", ""),
    "children_entries.max": ("copies, busiest node", ""),
    "duplicates.mean": ("duplicates per delivery", ""),
    "state.max": ("entries, busiest node", ""),
}

#: The measure after which a card describes how links carry messages with a size.
_LATENCY = "latency.p99"

#: The measure of the packets of payload on the busiest link of a world.
_PAYLOADS = "link_stress.payload.max"

_OVERLAY_COLOUR = "#59636e"


def run_cards(metrics: Iterable[Mapping[str, Any]]) -> list[Card]:
    """Return a card for each system of a run; an empty list for several runs together."""
    rows = list(metrics)
    if any(row.get("experiment") for row in rows):
        return []
    values = {str(row.get("name")): row.get("value") for row in rows}
    clocks = {str(row.get("name")): str(row.get("clock") or "") for row in rows}
    cards: list[Card] = []
    for system in _systems(values):
        answers = answers_in_words(values, system)
        words = _OF_RUNS | answers
        numbers = {measure: values.get(f"{system}.{measure}") for measure in words}
        numbers |= {name: _answer(numbers[name], unit) for name, (_, unit) in answers.items()}
        if links := clocks.get(f"{system}.{_LATENCY}", "").partition(": ")[2]:
            meaning, unit = words[_LATENCY]
            words[_LATENCY] = f"{meaning}: {links}", unit
        if card := _card(system, numbers, words):
            note = reach_in_words(values.get(f"{system}.reached"))
            cards.append(replace(card, note=note))
    return _with_bars(cards)


#: A metric of coverage on a card -> its meaning; of a system, in a run or a world.
_ANSWER = re.compile(
    r"within_(?P<deadline>\w+?)(?P<weight>\.weight)?|(?P<time>quorum|replies)\.median"
)


def answers_in_words(names: Iterable[str], system: str) -> dict[str, tuple[str, str]]:
    """Return a system's metrics of coverage: name -> meaning and unit."""
    found: dict[str, tuple[str, str]] = {}
    for name in (str(one) for one in names):
        match = _ANSWER.fullmatch(name.removeprefix(f"{system}."))
        if not name.startswith(f"{system}.") or match is None:
            continue
        if match["time"]:
            what = {"quorum": "until the quorum", "replies": "until the quorum's answers"}
            found[match[0]] = f"{what[match['time']]}, median", " ms"
        else:
            whole = "weight" if match["weight"] else "members"
            found[match[0]] = f"of the {whole} within {match['deadline']}", PERCENT
    return found


def _answer(value: Any, unit: str) -> float | str | None:
    """Return a metric of coverage as the number on a card; ``never`` for a time without a value."""
    if not is_number(value):
        return "never" if unit == " ms" else None
    return 100 * value if unit == PERCENT else value


def _with_bars(cards: Sequence[Card]) -> list[Card]:
    """Return the cards with bars if their main numbers are positive, and all of one measure."""
    numbers = [card.number for card in cards if is_number(card.number) and card.number > 0]
    alike = len({card.what.partition(":")[0] for card in cards}) == 1
    if not alike or len(numbers) < max(2, len(cards)):
        return list(cards)
    most = max(numbers)
    shares = [round(100 * number / most, 1) for number in numbers]
    return [replace(card, share=share) for card, share in zip(cards, shares, strict=True)]


def verdict(cards: Sequence[Card]) -> str:
    """Return the main results of a run of several systems in sentences; empty without results.

    Latencies are compared among systems that reach all members; baselines are only named.
    """
    baselines = {one.label for one in all_systems() if one.family in (IP, UNICAST)}
    sentences = [f"{card.title} {card.note}." for card in cards if card.note]
    timed = [card for card in cards if card.what.startswith(_OF_RUNS[_LATENCY][0])]
    ranked = [card for card in timed if card.title not in baselines and not card.note]
    if len(ranked) > 1:
        beside = [card.title for card in timed if card.title in baselines]
        sentences.insert(0, _ranking(sorted(ranked, key=lambda card: card.number or 0.0), beside))
    return " ".join(sentences)


def _ranking(cards: Sequence[Card], beside: Sequence[str]) -> str:
    """Return a sentence on the systems' cards by ascending latency; `beside` names baselines."""
    first, *_, last = cards
    fastest, slowest = ([c.title for c in cards if c.value == end.value] for end in (first, last))
    others = f" beside {_and(beside)}" if beside else ""
    begin = f"99{PERCENT} of the deliveries arrive within {first.value} with"
    if first.value == last.value:
        return f"{begin} each of the {len(cards)} systems{others}."
    return (
        f"{begin} {_and(fastest)}, the fastest, and within {last.value} with {_and(slowest)}, the "
        f"slowest of the {len(cards)} systems{others}."
    )


def _and(names: Sequence[str]) -> str:
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last


def world_cards(table: pd.DataFrame) -> list[Card]:
    """Return a card for the overlay's lookups, and one for each system of a world."""
    cards, words = [_lookups(table)] if "lookups.right" in table else [], words_in_place(table)
    for system in _systems(table.columns):
        rad = f"{system}.rad.median"
        numbers: dict[str, float | str | None] = _fates(table, system) | {
            "rad.median": words.get(rad, _over(table, rad)),
            _PAYLOADS: _over(table, measure_of_round(system, _PAYLOADS), pd.Series.max),
            "control": words.get(f"{system}.control", _over(table, f"{system}.control")),
        }
        words_of = answers_in_words(table.columns, system)
        numbers |= {
            measure: _answer(_over(table, f"{system}.{measure}"), unit)
            for measure, (_, unit) in words_of.items()
        }
        card = _card(system, numbers, _OF_WORLDS | words_of)
        cards += [card] if card else []
    return cards


#: Numbers of a system of a world, the main one first -> meaning and unit behind the number.
_OF_WORLDS: dict[str, tuple[str, str]] = {
    "in_time": ("deliveries in time", PERCENT),
    "late": ("late", PERCENT),
    "lost": ("lost", PERCENT),
    "open": ("open deliveries", ""),
    "duplicates": ("duplicates per delivery", ""),
    "rad.median": ("RAD, median over the groups, mean over the rounds", ""),
    _PAYLOADS: ("payloads, busiest link", ""),
    "control": ("control messages per node and second", ""),
}


def _lookups(table: pd.DataFrame) -> Card:
    right = table["lookups.right"].dropna()
    lines = [
        (what, as_text(value))
        for what, value in (
            ("hops of a lookup, mean", _over(table, "lookups.hops")),
            ("live nodes, first round", _over(table, "nodes.live", lambda live: live.iloc[0])),
            ("live nodes, last round", _over(table, "nodes.live", lambda live: live.iloc[-1])),
        )
        if value is not None
    ]
    if len(right):
        lines.insert(0, ("in the worst round", share_in_percent(right.min())))
    value = share_in_percent(right.mean()) if len(right) else as_text(None)
    return Card("Pastry", value, "lookups that reach the right root", _OVERLAY_COLOUR, lines)


def _fates(table: pd.DataFrame, system: str) -> dict[str, float | str | None]:
    """Return the results of a system's deliveries over all rounds, by name."""
    not_due = rounds_not_due(table, system)

    def total(count: str, rows: pd.DataFrame = table) -> float:
        name = f"{system}.publications.{count}"
        return float(rows[name].sum()) if name in rows else 0.0

    if not total("expected"):
        return {}
    first, due, found = total("first_copies"), total("due"), dict[str, float | str | None]()
    if has_none_due(table, system):
        found["in_time"] = NONE_DUE
    elif due:
        rows = table.drop(not_due)
        found |= {fate: 100 * total(fate, rows) / due for fate in ("in_time", "late", "lost")}
    if not_due:
        found["open"] = total("open")
    return found | {"duplicates": total("duplicates") / first if first else None}


def _card(
    system: str, numbers: Mapping[str, float | str | None], words: Mapping[str, tuple[str, str]]
) -> Card | None:
    """Return a system's card with the numbers it has; None for a system without numbers."""
    known = [
        (what, value if isinstance(value, str) else _shown(value, unit), value)
        for name, (what, unit) in words.items()
        if isinstance(value := numbers.get(name), str) or is_number(value)
    ]
    if not known:
        return None
    (what, text, main), *others = known
    colour = system_styles([system])[system]["color"]
    lines = [(what, text) for what, text, _ in others]
    return Card(label_of(system), text, what, colour, lines, main if is_number(main) else None)


def _shown(value: float, unit: str) -> str:
    """Return a number as text to three digits, whole numbers in full, with its unit."""
    if unit == PERCENT:
        return share_in_percent(value / 100)
    return as_text(value if abs(value) >= 1000 else float(f"{value:.3g}")) + unit


def _systems(names: Iterable[str]) -> list[str]:
    """Return the systems to which measures belong, in the order of the registry."""
    there = {str(name).partition(".")[0] for name in names}
    return [system.name for system in all_systems() if system.name in there]


def _over(
    table: pd.DataFrame, name: str, result: Callable[[pd.Series], float] = pd.Series.mean
) -> float | None:
    """Return the mean, or another result, of a measure in complete rounds; None without values."""
    line = values_in_means(table, name).dropna() if name in table else pd.Series(dtype=float)
    return float(result(line)) if len(line) else None


# --- tables

#: Head of a column of the table of latencies -> the metric.
LATENCIES = {
    "Members": "reached",
    "Mean": "latency.mean",
    **{name: f"latency.{name}" for name in ("p50", "p90", "p95", "p99", "max")},
    **{f"{x} %": f"time_to_{x}.median" for x in (50, 90, 95, 99, 100)},
}

_WORDS = Markup(
    "A latency is the time from the publication to the first copy at a member, in ms or hops; "
    "sources are left out. <em>Members</em> is the share of the members that get the message. The "
    "mean and the percentiles (nearest rank) are over all deliveries, so without the other "
    "members. A column in per cent is the time until this share of the members has the message, "
    "the median over the publications; a dash marks a share that more than half of the "
    "publications never reach."
)
_TABLE = Markup(' The table <a href="tables/latency">latency</a> has every publication.')
_BY_PART = Markup(
    "The percentiles (nearest rank, in ms) are over the deliveries to the nodes of each {by}. The "
    'table <a href="tables/{table}">{table}</a> has more measures.'
)
_OF_FAILURES = (
    "Each number is the mean cost of one failure. Reference tree: a sample of the hosts at each "
    "depth of its one tree, with the rounds of reconfiguration and every look-up. Scribe: every "
    "node of every group's static tree; each child of the failed node joins again, which costs at "
    "least one new link and one JOIN, and a host is in the trees of many groups."
)

#: The metrics of latencies, without those of duplicates, which are in the table of all numbers.
_LATENCIES = re.compile(
    r"\w+\.((latency|latency_hops)\.\w+|(time_to|hops_to)_\d+\.\w+|(multicasts\.)?reached)"
)

#: The costs of a failure, and their heads in the table.
COSTS = {"links": "Links changed", "acting": "Hosts that act", "messages": "Messages"}

#: The metrics of `measures.joins_and_failures`.
_FAILURE = re.compile(r".*\.failure\.depth_(?P<depth>\w+)\.(?P<cost>\w+?)(?P<beside>\.\w+)?")

_PART_PERCENTILES = ("p50", "p90", "p99")

#: The name of each overlay, and its experiment (`config.EXPERIMENTS`).
OVERLAYS = {"perfect": "main", "arrivals": "arrivals"}


def without_tables_of_their_own(metrics: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the metrics that are shown neither in the table of latencies nor of failures."""
    return [
        metric
        for metric in metrics
        if not _LATENCIES.fullmatch(name := str(metric.get("name")))
        and (metric.get("experiment") or not _FAILURE.fullmatch(name))
    ]


# --- latencies


def latencies(
    metrics: Sequence[Mapping[str, Any]],
    of: str = "",
    has_table: bool = True,
    contents: str = "Table of latencies",
) -> list[page.PageSection]:
    """Return the section of latencies, if any was measured: a row for each system and unit.

    `of` is the origin of the numbers; `has_table` is True for a link to the table.
    """
    values = {(experiment_of(one), str(one.get("name"))): one.get("value") for one in metrics}
    named = ((of, name) for of, name in values if _LATENCIES.fullmatch(name))
    systems = dict.fromkeys((of, name.partition(".")[0]) for of, name in named)
    rows = []
    for (experiment, system), unit in product(systems, ("ms", "hops")):
        names = list(LATENCIES.values())
        if unit == "hops":
            in_hops = (name.replace("latency.", "latency_hops.") for name in names)
            names = [name.replace("time_to", "hops_to") for name in in_hops]
        reached, *numbers = (values.get((experiment, f"{system}.{name}")) for name in names)
        if any(map(is_number, numbers)) or (unit == "ms" and reached == 0):
            label = ". ".join(filter(None, (experiment, label_of(system))))
            share = share_in_percent(reached) if is_number(reached) else ABSENT
            head = page.Cell(label, "" if unit == "ms" else f"in {unit}")
            rows.append((head, share, *map(as_text, numbers)))
    words = _WORDS + (_TABLE if has_table else Markup())
    parts: page.PageParts = [words, page.PageTable(("System", *LATENCIES), rows)]
    return [page.PageSection("latencies", f"Latencies{of}", parts, contents)] if rows else []


def latencies_of_last_round(
    table: pd.DataFrame, links: str = "", has_table: bool = False, contents: str = ""
) -> list[page.PageSection]:
    """Return the section of latencies of the last round of a world that has latencies.

    `table` has a row for each round, `links` comes from :func:`links_in_words`.
    """
    names = [name for name in table if _LATENCIES.fullmatch(str(name))]
    timed = [name for name in names if not name.endswith("reached")]
    some = table[names][table[timed].notna().any(axis=1)]
    if some.empty:
        return []
    last = some.iloc[-1].dropna()
    rows = [
        {"name": name.replace(".multicasts.", "."), "value": float(value)}
        for system in in_order(name.partition(".")[0] for name in last.index)
        for name, value in last.items()
        if name.startswith(f"{system}.")
    ]
    of = f" in round {some.index[-1]}, the last one with multicasts{links}"
    return latencies(rows, of, has_table, contents)


def links_in_words(resolved: Mapping[str, Any]) -> str:
    """Return a description of links with sizes, on which latencies depend; empty without sizes."""
    if resolved.get("message_size") is None and resolved.get("schedule") is None:
        return ""
    size, order, links = (resolved.get(n) for n in ("message_size", "uplink_order", "links"))
    return f": {sizes_in_words(size, order, links)}"


# --- classes and regions


def latencies_by_part(by_part: pd.DataFrame | None, table: str) -> list[page.PageSection]:
    """Return a section of latencies by class of node and one by region, if nodes have these parts.

    The link leads to a table of the folder, which has more measures.
    """
    if by_part is None:
        return []
    delays = by_part[by_part["measure"] == "delay_ms"]
    found = []
    for by, rows in delays.groupby("by", sort=True):
        systems = list(dict.fromkeys(rows["system"]))
        values = rows.set_index(["part", "system"])[[*_PART_PERCENTILES]]
        cells = [
            (part, *(as_text(values[name].get((part, system)))
                     for system in systems for name in _PART_PERCENTILES))
            for part in dict.fromkeys(rows["part"])
        ]  # fmt: skip
        columns = [page.Cell(label_of(s), note=name) for s in systems for name in _PART_PERCENTILES]
        words = _BY_PART.format(by=by, table=table)
        parts: page.PageParts = [words, page.PageTable((str(by).capitalize(), *columns), cells)]
        title = f"Latency by {by}" + " of nodes" * (by != "tree")
        found.append(page.PageSection(f"by-{by}", title, parts, ""))
    return found


# --- failures of the reference tree


def failures(metrics: Iterable[Mapping[str, Any]]) -> list[page.PageSection]:
    """Return the section of failures of hosts of the reference tree by depth, if there are any."""
    found: dict[str, dict[tuple[str, bool], Any]] = {}
    for metric in metrics:
        match = _FAILURE.fullmatch(str(metric.get("name")))
        if match is not None and not metric.get("experiment"):
            cells = found.setdefault(match["depth"], {})
            cells[match["cost"], bool(match["beside"])] = metric.get("value")
    rows = [
        (
            re.sub(r"(\d)_(\d)", r"\1 to \2", depth).replace("_", " "),
            *(as_text(cells.get((cost, beside))) for cost in COSTS for beside in (False, True)),
        )
        for depth, cells in found.items()
        if any(is_number(value) for value in cells.values())
    ]
    trees = ("reference tree", "Scribe, a group")
    heads = [page.Cell(head, note=tree) for head in COSTS.values() for tree in trees]
    parts: page.PageParts = [_OF_FAILURES, page.PageTable(("Depth", *heads), rows)]
    title = "Cost of the failure of a host, by the host's depth"
    return [page.PageSection("failures", title, parts, "")] if rows else []


# --- perfect tables and tables of arrivals


def published_numbers(metrics: Iterable[Mapping[str, Any]]) -> list[Compared]:
    """Return the published numbers of ``make paper`` that can be compared, in the paper's order.

    The base is the paper, and the other sides are :data:`OVERLAYS`.  There are no numbers without
    runs over both overlays.  Numbers to which parameters of the network were fitted, and numbers of
    the network alone, do not depend on the overlay and are left out, as are numbers that are 0 in
    the paper.
    """
    rows = list(metrics)
    values = {(row.get("experiment"), row.get("name")): row.get("value") for row in rows}
    if not {*OVERLAYS.values()} <= {experiment for experiment, _ in values}:
        return []
    found = []
    for row in rows:
        paper, name = row.get("paper"), str(row.get("name"))
        is_compared = row.get("experiment") == OVERLAYS["perfect"] and name.startswith("scribe")
        if is_compared and is_number(paper) and paper and not row.get("fitted"):
            measured = (values.get((experiment, name)) for experiment in OVERLAYS.values())
            found.append(Compared(name, "", True, (paper, *measured)))
    return found


def met_by(number: Compared) -> list[str]:
    """Return the overlays for which a published number has no notable difference."""
    apart = zip(OVERLAYS, map(number.apart, number.others), strict=True)
    return [overlay for overlay, one in apart if one is not None and not one.notable]


def met(numbers: Iterable[Compared]) -> dict[str, int]:
    """Return, for each overlay, how many published numbers have no notable difference."""
    overlays = [overlay for number in numbers for overlay in met_by(number)]
    return {overlay: overlays.count(overlay) for overlay in OVERLAYS}


def both_overlays(metrics: Iterable[Mapping[str, Any]]) -> list[page.PageSection]:
    """Return the section of the published numbers over both overlays, if runs have both."""
    numbers = published_numbers(metrics)
    told = [
        f"{count} are met within {NOTABLE:g}{PERCENT} with {overlay}"
        for overlay, count in met(numbers).items()
    ]
    words = f"Of {len(numbers)} published numbers that depend on the overlay, {', '.join(told)}."
    heads = [head for overlay in OVERLAYS for head in (overlay.capitalize(), "Difference")]
    rows = []
    for number in numbers:
        cells = [page.Cell(readable(number.measure), code=number.measure), number.shown(0)]
        for side in number.others:
            cells += [number.shown(side), difference_cell(number.apart(side))]
        some = met_by(number)
        verdict = f"{some[0]} only" if len(some) == 1 else "both" if some else "neither"
        rows.append([*cells, page.Cell(verdict, look="")])
    table = page.PageTable(("Measure", "Paper", *heads, page.Cell("Met by", look="")), rows)
    title, parts = "Perfect tables, and tables of arrivals", [page.Text(words), table]
    return [page.PageSection("overlays", title, parts, "")] if numbers else []
