"""What each claim of JSAC 2002, Section III.B came to: quotations and measured answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log
from pathlib import Path

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

_SEEDS = [f"mass-{seed}" for seed in range(1, 6)]


def claims(out: Path) -> list[str]:
    """The section: the claims whose experiments are there."""
    rows = []
    for quotation, answer in _CLAIMS:
        found = answer(out)
        if found is not None:
            rows.append([f'"{quotation}"', found])
    if not rows:
        return []
    return [
        *("", "## The claims of JSAC III.B", ""),
        *table(["claim", "measured"], rows),
    ]


def _best_effort(out: Path) -> str | None:
    if not complete(out, ["mass-best-effort"]):
        return None
    table_ = publications(out / "mass-best-effort")
    alive = table_[~is_lost(table_)]
    lost, disorder = alive["lost"].sum(), rounds(out / "mass-best-effort")
    words = f"{_yes(lost > 0)}: {per_cent(lost, alive['expected'].sum())} of deliveries lost"
    if "scribe.deliveries.out_of_order" in disorder:
        words += f", {number(total(disorder, 'scribe.deliveries.out_of_order'))} out of order"
    return words


def _yes(is_so: bool) -> str:
    return "Yes" if is_so else "No"


def _repaired(out: Path) -> str | None:
    waits: dict[int, int] = {}
    worlds = [rounds(out / name) for name in complete(out, _SEEDS)]
    for one in worlds:
        for n, count in spread(one, "scribe.repaired").items():
            waits[n] = waits.get(n, 0) + count
    if not waits:
        return None
    all_, first = sum(waits.values()), min(waits)
    words = number(all_)
    if all("scribe.failures" in one for one in worlds):
        failures = sum(total(one, "scribe.failures") for one in worlds)
        words += f" of {number(failures)} failures"
    else:
        words += " failures"
    return (
        f"{words} repaired, {per_cent(waits[first], all_)} after {first} rounds, the last after "
        f"{max(waits)}"
    )


def _implicit(out: Path) -> str | None:
    names = complete(out, _SEEDS)
    if not names:
        return None
    one = rounds(out / names[0])
    before, after = (of(one, "messages.heartbeat")[n] for n in (4, one.index.max()))
    words = (
        f"{_yes(not before)}: {number(before)} explicit heartbeats and "
        f"{number(of(one, 'messages.payload')[4])} payloads in a round"
    )
    return words + (f"; {number(after)} heartbeats in lost groups" if after else "")


def _holders(out: Path) -> str | None:
    names = complete(out, ["holders-4", "holders-5"])
    if len(names) < 2:
        return None
    four, five = (of(rounds(out / n), "scribe.groups.lost").max() for n in names)
    return (
        f"{_yes(not four)}: {number(four)} of 10 groups are lost if 4 of 5 holders fail, "
        f"{number(five)} if all fail"
    )


def _children_join(out: Path) -> str | None:
    found = _result(out)
    if found is None:
        return None
    exact = not found["children_not_rejoined"] and not found["rejoined_no_children"]
    return (
        f"{'Yes' if exact else 'Not exactly'}: {number(found['rejoined'])} of "
        f"{number(found['members'])} members; the root had {number(found['children'])} children"
    )


def _new_root(out: Path) -> str | None:
    found = _result(out)
    if found is None:
        return None
    is_nearest = "Yes" if found["new_root"] == found["nearest"] else "No"
    kinds = " and ".join(
        f"{number(count)} {kind}s" for kind, count in sorted(found["refused"].items())
    )
    return f"{is_nearest}: it refused {kinds} of nodes that are not on the access list"


def _result(out: Path) -> dict | None:
    file = out / "root" / "result.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def _senders(out: Path) -> str | None:
    if not complete(out, ["holders-1"]):
        return None
    one = publications(out / "holders-1")
    ten = one[(one["group"] <= 10) & (one["round"] >= 8)]
    lost = of(rounds(out / "holders-1"), "messages.lost MULTICAST")
    in_time, expected = ten["in_time"].sum(), ten["expected"].sum()
    return (
        f"{_yes(in_time == expected)}: {per_cent(in_time, expected)} in time from 3 rounds after "
        f"the failure; {number(lost.sum())} MULTICASTs met a dead node before"
    )


def _discarded(out: Path) -> str | None:
    names = complete(out, _SEEDS)
    if not names:
        return None
    entries = sum(of(rounds(out / name), "scribe.children").iloc[-1] for name in names)
    trees = [memberships(out / name) for name in names]
    children = sum(tree["parent"].notna().sum() for tree in trees)
    words = "Yes" if entries == children else "Not all"
    return (
        f"{words}: {number(entries)} entries and {number(children)} children 14 rounds after a "
        "quarter of the nodes failed"
    )


def _detection(out: Path) -> str | None:
    parts = [
        f"{sent} (lifetime {life})" for life, sent in sent_by_lifetime(out, "heartbeat", "refresh")
    ]
    if not parts:
        return None
    return "Heartbeats and refreshes per live node and second: " + ", ".join(parts)


def _local(out: Path) -> str | None:
    parts = []
    for nodes in (1_000, 10_000, 100_000):
        for name in complete(out, [f"local-{nodes}"]):
            world = rounds(out / name)
            involved = total(world, "scribe.repair.nodes") / total(world, "scribe.failures")
            per_log = involved / log(nodes, 16)
            parts.append(f"{number(involved)} of {nodes:,} ({number(per_log)} log_16 N)")
    return "Nodes per failure: " + ", ".join(parts) if parts else None


def _reliable(out: Path) -> str | None:
    names = complete(out, _SEEDS)
    if not names:
        return None
    lost = duplicates = late = 0
    for name in names:
        table_ = publications(out / name)
        alive = table_[~is_lost(table_)]
        lost, duplicates = lost + alive["lost"].sum(), duplicates + alive["duplicates"].sum()
        late += alive["late"].sum()
    disorder = [rounds(out / name) for name in names]
    words = f"{number(lost)} lost, {number(duplicates)} delivered twice"
    if all("scribe.deliveries.out_of_order" in one for one in disorder):
        count = sum(total(one, "scribe.deliveries.out_of_order") for one in disorder)
        words += f", {number(count)} out of order"
    return f"{words}, {number(late)} late"


def _replicated(out: Path) -> str | None:
    if not complete(out, ["created-again"]):
        return None
    table_ = publications(out / "created-again")
    ten = table_[table_["group"] <= 10]
    parts = [ten[ten["round"].between(*ends)] for ends in ((8, 11), (14, 19))]
    shares = [per_cent(part["in_time"].sum(), part["expected"].sum()) for part in parts]
    return f"Yes: {shares[0]} delivered without holders, {shares[1]} after a new CREATE"


_CLAIMS: tuple[tuple[str, Callable[[Path], str | None]], ...] = (
    (
        "Multicast messages serve as an implicit heartbeat signal",
        _implicit,
    ),
    (
        "Pastry will route the message to a new parent",
        _repaired,
    ),
    (
        "Scribe can also tolerate the failure of multicast tree roots",
        _holders,
    ),
    (
        "its immediate children detect the failure and join again through Pastry",
        _children_join,
    ),
    (
        "Pastry routes the join messages to a new root [...]",
        _new_root,
    ),
    (
        "Multicast senders likewise discover the new rendez-vous point",
        _senders,
    ),
    (
        "Children table entries are discarded unless they are periodically refreshed",
        _discarded,
    ),
    (
        "fault detection is done by sending messages to a small number of nodes",
        _detection,
    ),
    (
        "only a small number of nodes (O(log_2^b N)) is involved",
        _local,
    ),
    (
        "Scribe may fail to deliver messages or may deliver them out of order",
        _best_effort,
    ),
    (
        "an application can implement ordered, reliable delivery",
        _reliable,
    ),
    (
        "the root needs to be replicated",
        _replicated,
    ),
)  # fmt: skip
