"""The claims of JSAC 2002, Section III.B: quotations and measured answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

from tools.groups_churn import sent_by_lifetime
from tools.groups_tables import (
    complete,
    is_lost,
    memberships,
    number,
    of,
    per_cent,
    publications,
    rounds,
    spread,
    total,
)
from tools.pages import table

__all__ = ["claims"]

_DISORDER = "scribe.deliveries.out_of_order"


def claims(out: Path) -> list[str]:
    """Return the section: the claims whose experiments are there."""
    found = ((quotation, read(out), answer) for quotation, read, answer in _CLAIMS)
    rows = [
        [f'"{quotation}"', words]
        for quotation, worlds, answer in found
        if worlds and (words := answer(worlds))
    ]
    if not rows:
        return []
    return ["", "## The claims of JSAC III.B", "", *table(["claim", "measured"], rows)]


# --- what a claim needs of the experiments


def _there(*names: str) -> Callable[[Path], list[Path]]:
    return lambda out: [out / name for name in complete(out, names)]


def _all(*names: str) -> Callable[[Path], list[Path]]:
    return lambda out: found if len(found := _there(*names)(out)) == len(names) else []


_SEEDS = _there(*(f"mass-{seed}" for seed in range(1, 6)))


def _root(out: Path) -> dict[str, Any] | None:
    file = out / "root" / "result.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else None


# --- answers


def _yes(is_so: bool) -> str:
    return "Yes" if is_so else "No"


def _best_effort(worlds: list[Path]) -> str:
    (folder,) = worlds
    published, measured = publications(folder), rounds(folder)
    alive = published[~is_lost(published)]
    lost = alive["lost"].sum()
    words = f"{_yes(lost > 0)}: {per_cent(lost, alive['due'].sum())} of deliveries lost"
    if _DISORDER in measured:
        words += f", {number(total(measured, _DISORDER))} out of order"
    return words


def _repaired(worlds: list[Path]) -> str:
    measured = [rounds(folder) for folder in worlds]
    waits: Counter[int] = sum((Counter(spread(one, "scribe.repaired")) for one in measured),
                              Counter())  # fmt: skip
    if not waits:
        return ""
    all_, first = sum(waits.values()), min(waits)
    words = "failures"
    if all("scribe.failures" in one for one in measured):
        words = f"of {number(sum(total(one, 'scribe.failures') for one in measured))} failures"
    return (
        f"{number(all_)} {words} repaired, {per_cent(waits[first], all_)} after {first} rounds, "
        f"the last after {max(waits)}"
    )


def _implicit(worlds: list[Path]) -> str:
    one = rounds(worlds[0])
    before, after = (of(one, "messages.heartbeat")[n] for n in (4, one.index.max()))
    words = (
        f"{_yes(not before)}: {number(before)} explicit heartbeats and "
        f"{number(of(one, 'messages.payload')[4])} payloads in a round"
    )
    return words + (f"; {number(after)} heartbeats in lost groups" if after else "")


def _holders(worlds: list[Path]) -> str:
    four, five = (of(rounds(folder), "scribe.groups.lost").max() for folder in worlds)
    return (
        f"{_yes(not four)}: {number(four)} of 10 groups are lost if 4 of 5 holders fail, "
        f"{number(five)} if all fail"
    )


def _children_join(found: dict[str, Any]) -> str:
    exact = not found["children_not_rejoined"] and not found["rejoined_no_children"]
    return (
        f"{'Yes' if exact else 'Not exactly'}: {number(found['rejoined'])} of "
        f"{number(found['members'])} members; the root had {number(found['children'])} children"
    )


def _new_root(found: dict[str, Any]) -> str:
    kinds = " and ".join(
        f"{number(count)} {kind}s" for kind, count in sorted(found["refused"].items())
    )
    is_nearest = _yes(found["new_root"] == found["nearest"])
    return f"{is_nearest}: it refused {kinds} of nodes that are not on the access list"


def _senders(worlds: list[Path]) -> str:
    published = publications(worlds[0])
    ten = published[(published["group"] <= 10) & (published["round"] >= 8)]
    lost = of(rounds(worlds[0]), "messages.lost MULTICAST")
    in_time, expected = ten["in_time"].sum(), ten["expected"].sum()
    return (
        f"{_yes(in_time == expected)}: {per_cent(in_time, expected)} in time from 3 rounds after "
        f"the failure; {number(lost.sum())} MULTICASTs met a dead node before"
    )


def _discarded(worlds: list[Path]) -> str:
    entries = sum(of(rounds(folder), "scribe.children").iloc[-1] for folder in worlds)
    children = sum(memberships(folder)["parent"].notna().sum() for folder in worlds)
    words = "Yes" if entries == children else "Not all"
    return (
        f"{words}: {number(entries)} entries and {number(children)} children 14 rounds after a "
        "quarter of the nodes failed"
    )


def _detection(sent: list[tuple[int, str]]) -> str:
    parts = ", ".join(f"{rate} (lifetime {life})" for life, rate in sent)
    return f"Heartbeats and refreshes per live node and second: {parts}"


def _local(worlds: list[Path]) -> str:
    parts = []
    for folder in worlds:
        nodes, measured = int(folder.name.removeprefix("local-")), rounds(folder)
        involved = total(measured, "scribe.repair.nodes") / total(measured, "scribe.failures")
        per_log = number(involved / log(nodes, 16))
        parts.append(f"{number(involved)} of {nodes:,} ({per_log} log_16 N)")
    return f"Nodes per failure: {', '.join(parts)}"


def _reliable(worlds: list[Path]) -> str:
    sums: Counter[str] = Counter()
    for folder in worlds:
        published = publications(folder)
        alive = published[~is_lost(published)]
        sums.update({name: alive[name].sum() for name in ("lost", "duplicates", "late")})
    measured = [rounds(folder) for folder in worlds]
    words = f"{number(sums['lost'])} lost, {number(sums['duplicates'])} delivered twice"
    if all(_DISORDER in one for one in measured):
        words += f", {number(sum(total(one, _DISORDER) for one in measured))} out of order"
    return f"{words}, {number(sums['late'])} late"


def _replicated(worlds: list[Path]) -> str:
    published = publications(worlds[0])
    ten = published[published["group"] <= 10]
    parts = [ten[ten["round"].between(*ends)] for ends in ((8, 11), (14, 19))]
    shares = [per_cent(part["in_time"].sum(), part["expected"].sum()) for part in parts]
    return f"Yes: {shares[0]} delivered without holders, {shares[1]} after a new CREATE"


#: A quotation, ``read(out)``: what the claim needs of the experiments, nothing where they are not
#: there, and the answer to that, which may be empty.
_CLAIMS: tuple[tuple[str, Callable[[Path], Any], Callable[[Any], str]], ...] = (
    ("Multicast messages serve as an implicit heartbeat signal", _SEEDS, _implicit),
    ("Pastry will route the message to a new parent", _SEEDS, _repaired),
    (
        "Scribe can also tolerate the failure of multicast tree roots",
        _all("holders-4", "holders-5"),
        _holders,
    ),
    (
        "its immediate children detect the failure and join again through Pastry",
        _root,
        _children_join,
    ),
    ("Pastry routes the join messages to a new root [...]", _root, _new_root),
    (
        "Multicast senders likewise discover the new rendez-vous point",
        _all("holders-1"),
        _senders,
    ),
    (
        "Children table entries are discarded unless they are periodically refreshed",
        _SEEDS,
        _discarded,
    ),
    (
        "fault detection is done by sending messages to a small number of nodes",
        lambda out: list(sent_by_lifetime(out, "heartbeat", "refresh")),
        _detection,
    ),
    (
        "only a small number of nodes (O(log_2^b N)) is involved",
        _there("local-1000", "local-10000", "local-100000"),
        _local,
    ),
    (
        "Scribe may fail to deliver messages or may deliver them out of order",
        _all("mass-best-effort"),
        _best_effort,
    ),
    ("an application can implement ordered, reliable delivery", _SEEDS, _reliable),
    ("the root needs to be replicated", _all("created-again"), _replicated),
)
