"""Worlds: rounds of events, detection and repair, lookups; what is seen, and where it differs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ring import BITS, SortedRing
from .arrival import arrive_all
from .departure import detect, fail, keep_alive, leave, recover, repair_leaf_sets
from .overlay import Overlay
from .routing import DELIVERED, find_all_dead, maintain, route_all

PARTS = ("live", "leaf_sets", "sides", "cells", "counts", "lookups", "new_leafs")


def differences(ours: Any, theirs: Any, parts: Iterable[str] = PARTS, most: int = 5) -> list[str]:
    """At most `most` lines for each part and side that differs; none where the two are equal."""
    lines = []
    for part in parts:
        a, b = getattr(ours, part), getattr(theirs, part)
        if isinstance(a, Mapping):
            a, b = sorted(a.items()), sorted(b.items())
        if a == b:
            continue
        only_a = [row for row in a if row not in b]
        only_b = [row for row in b if row not in a]
        lines += [f"round {ours.round}, {part}, ours: {row}" for row in only_a[:most]]
        lines += [f"round {ours.round}, {part}, theirs: {row}" for row in only_b[:most]]
        if not only_a and not only_b:
            lines.append(f"round {ours.round}, {part}: the same rows in another order")
    return lines


# --- a round --------------------------------------------------------------------------------------


Event = tuple[int, int, str]  # round, node, arrive | leave | fail | recover
Lookup = tuple[int, int]  # source, key


@dataclass(frozen=True)
class LookupResult:
    """What became of a lookup; `at` is where it ended, `right` says whether that is the root."""

    source: int
    key: int
    status: str
    at: int
    right: bool
    hops: int
    lost: int


@dataclass
class Snapshot:
    """The whole state after a round, as sorted plain data, to be compared with another's."""

    round: int
    live: list[int]
    leaf_sets: list[tuple[int, list[int]]]  # node, its leaves by number
    sides: list[tuple[int, list[int], list[int]]]  # node, smaller, larger, nearest first
    cells: list[tuple[int, int, int, int]]  # node, row, column, entry
    counts: dict[str, int]  # messages of this round by kind
    lookups: list[LookupResult] = field(default_factory=list)
    new_leafs: list[int] = field(default_factory=list)  # whose leaf set is another than before


def snapshot(overlay: Overlay, counts: Mapping[str, int] | None = None) -> Snapshot:
    """The state of the live nodes now."""
    live = sorted(overlay.live)
    states = overlay.states
    return Snapshot(
        overlay.round,
        live,
        [(node, sorted(states[node].leaves())) for node in live],
        [(node, list(states[node].smaller), list(states[node].larger)) for node in live],
        [(node, *cell) for node in live for cell in states[node].cells()],
        dict(sorted((overlay.counts if counts is None else counts).items())),
    )


def play_events(overlay: Overlay, events: Sequence[Event]) -> None:
    """(1) The round's events: departures and failures, then recoveries, then arrivals (rule P25).

    Raises
    ------
    ValueError
        If a dead node shall leave or fail, a live one arrive or recover, or a node has two events.
    """
    by_kind: dict[str, list[int]] = {"arrive": [], "leave": [], "fail": [], "recover": []}
    for _, node, kind in events:
        if (kind in ("leave", "fail")) != (node in overlay.live):
            raise ValueError(f"round {overlay.round}: node {node} cannot {kind}")
        by_kind[kind].append(node)
    if len({node for _, node, _ in events}) < len(events):
        raise ValueError(f"round {overlay.round}: two events of one node")
    for node in by_kind["fail"]:
        fail(overlay, node)
    leave(overlay, by_kind["leave"])
    recover(overlay, by_kind["recover"])
    arrive_all(overlay, by_kind["arrive"])


def mend(overlay: Overlay) -> None:
    """(2) Keep-alives, detection, leaf set repair, eager table repair, periodic maintenance."""
    keep_alive(overlay)
    repair_leaf_sets(overlay, detect(overlay))
    if overlay.rules.table_repair == "eager":
        find_all_dead(overlay)
    period = overlay.rules.maintenance_period
    if period and overlay.round and overlay.round % period == 0:
        maintain(overlay, "round maintenance", overlay.round)


def look_up(overlay: Overlay, lookups: Sequence[Lookup]) -> list[LookupResult]:
    """(4) Lookups of the round, from live sources."""
    if not lookups:
        return []
    ring = SortedRing(overlay.idents, overlay.live)
    messages = route_all(overlay, lookups, "lookup")
    return [
        LookupResult(
            message.path[0],
            message.key,
            message.status,
            message.at,
            message.status == DELIVERED and message.at == ring.root(message.key),
            message.hops,
            message.lost,
        )
        for message in messages
    ]


def drawn_lookups(overlay: Overlay, count: int) -> list[Lookup]:
    """Lookups between random live nodes and random keys."""
    live, draw, now = overlay.live_in_ring_order(), overlay.draw, overlay.round
    return [
        (
            live[draw("lookup source", now, row, among=len(live))],
            draw("lookup key", now, row, among=1 << BITS),
        )
        for row in range(count)
    ]


def step(
    overlay: Overlay, round: int, events: Iterable[Event] = (), lookups: int | Sequence[Lookup] = 0
) -> Snapshot:
    """One round; lookups are given, or a number of them is drawn."""
    overlay.round = round
    counts, before = Counter(overlay.counts), leaf_sets(overlay)
    play_events(overlay, [event for event in events if event[0] == round])
    mend(overlay)
    if not overlay.live:
        raise ValueError(f"round {round}: no node is left")
    sent = drawn_lookups(overlay, lookups) if isinstance(lookups, int) else lookups
    results = look_up(overlay, sent)
    after = snapshot(overlay, overlay.counts - counts)
    after.lookups = results
    after.new_leafs = [node for node, leaves in after.leaf_sets if before.get(node) != leaves]
    return after


def leaf_sets(overlay: Overlay) -> dict[int, list[int]]:
    """Live node -> its leaves."""
    return {node: sorted(overlay.states[node].leaves()) for node in overlay.live}


def run(
    overlay: Overlay,
    events: Sequence[Event],
    rounds: int,
    lookups: int | Mapping[int, Sequence[Lookup]] = 0,
) -> list[Snapshot]:
    """Rounds 0, 1, ...; the snapshot after each."""
    return [
        step(overlay, at, events, lookups if isinstance(lookups, int) else lookups.get(at, ()))
        for at in range(rounds)
    ]
