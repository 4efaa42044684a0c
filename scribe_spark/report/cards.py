"""The cards at the top of the pages: a card for each system or measure, with a few numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from scribe_spark.measures.incomplete import (
    NONE_DUE,
    has_none_due,
    rounds_not_due,
    values_in_means,
    words_in_place,
)
from scribe_spark.report.page import Card
from scribe_spark.report.style import (
    PERCENT,
    as_text,
    is_number,
    label_of,
    reach_in_words,
    share_in_percent,
    system_styles,
)
from scribe_spark.systems.registry import IP, UNICAST, all_systems, measure_of_round

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

#: The share of the members that a system of a run reaches.
REACHED = "reached"

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
        numbers = {measure: values.get(f"{system}.{measure}") for measure in _OF_RUNS}
        words = dict(_OF_RUNS)
        for measure, words_of in answers_in_words(values, system).items():
            words[measure] = words_of
            numbers[measure] = _answer(values[f"{system}.{measure}"], words_of[1])
        if links := clocks.get(f"{system}.{_LATENCY}", "").partition(": ")[2]:
            meaning, unit = words[_LATENCY]
            words[_LATENCY] = f"{meaning}: {links}", unit
        if card := _card(system, numbers, words):
            note = reach_in_words(values.get(f"{system}.{REACHED}"))
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
    """Return the results of a system's deliveries over all rounds, by name.

    Deliveries in time, late and lost are in per cent of the expected ones that are due.
    """
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
    """Return a system's card with the numbers it has; None for a system without numbers.

    `words` has the meaning and the unit of each number; a text in place of a number stays.
    """
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
