"""Failures of many nodes, roots and holders in ``docs/groups_results.md``."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from tools.groups_tables import (
    COUNTS,
    complete,
    is_lost,
    number,
    of,
    per_cent,
    publications,
    rounds,
    spread,
    total,
)
from tools.pages import table

__all__ = ["holders", "mass", "root"]

# --- (a)


def mass(out: Path) -> list[str]:
    names = complete(out, sorted(folder.name for folder in out.glob("mass-*")))
    if not names:
        return []
    worlds = pd.DataFrame([_mass_row(out / name) for name in names])
    rows = [
        _mass_cells(delivery, replicas, some)
        for (delivery, replicas), some in worlds.groupby(["delivery", "replicas"])
    ]
    header = [
        "delivery", "k", "seeds", "rounds until reached again, most", "lost deliveries",
        "expected deliveries", "duplicates", "out of order", "late", "repaired after N rounds",
        "groups lost", "deliveries lost with them",
    ]  # fmt: skip
    return [
        *("", "## A quarter of the nodes fails at once", ""),
        "`data/groups_mass_failure.toml`: 2,500 of 10,000 nodes fail silently in round 5; in each "
        "of 150 groups a member publishes in each of 20 rounds. Numbers are sums over the seeds. "
        "*Rounds until reached again*: from the failure until all members get each publication in "
        "its round (at most `parent_timeout` + 3 by the rules). *Repaired after N rounds*: failed "
        "nodes with children, by the rounds until the children are in the tree again. A group is "
        "*lost* if all k nodes with its state fail; only the last two columns include lost groups.",
        "",
        *table(header, rows),
    ]


def _mass_row(folder: Path) -> dict[str, Any]:
    """Return the numbers of a world."""
    measured, published = rounds(folder), publications(folder)
    shown = json.loads((folder / "manifest.json").read_text("utf-8"))["resolved"]
    gone = is_lost(published)
    alive = published[~gone]
    failed = failure_round(measured)
    again = reached_again(alive, failed)
    disorder = "scribe.deliveries.out_of_order"
    return {
        "delivery": shown["delivery"].replace("-", " "),
        "replicas": shown["replicas"],
        "seed": shown["seed"],
        "again": math.inf if again is None else again,
        **alive[list(COUNTS)].sum(),
        "disorder": total(measured, disorder) if disorder in measured else 0,
        "repaired": Counter(spread(measured, "scribe.repaired")),
        "groups": of(measured, "scribe.groups.lost").max(),
        "with groups": published.loc[gone & (published["round"] >= failed), "lost"].sum(),
    }


def _mass_cells(delivery: str, replicas: int, worlds: pd.DataFrame) -> list[str]:
    """Return the row of the worlds of all seeds."""
    seeds, again = sorted(worlds["seed"]), worlds["again"].max()
    sums = worlds[["lost", "due", "duplicates", "disorder", "late"]].sum()
    waits: Counter[int] = sum(worlds["repaired"], Counter())
    return [
        delivery,
        str(replicas),
        str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
        "never" if math.isinf(again) else number(again),
        *map(number, sums),
        ", ".join(f"{n}: {number(count)}" for n, count in sorted(waits.items())),
        number(worlds["groups"].sum()),
        number(worlds["with groups"].sum()),
    ]


def failure_round(measured: pd.DataFrame) -> int:
    """The round in which most nodes fail."""
    return int(of(measured, "nodes.live").diff().idxmin())


def reached_again(published: pd.DataFrame, failed: int) -> int | None:
    """Rounds from a failure to the first from which on all is delivered in its round.

    None if that is not so in the last round.
    """
    sums = published.groupby("round")[["expected", "in_time"]].sum()
    short = sums.index[(sums.index >= failed) & (sums["in_time"] < sums["expected"])]
    if not len(short):
        return 0
    return None if short.max() == sums.index.max() else int(short.max()) + 1 - failed


# --- (b)


def root(out: Path) -> list[str]:
    file = out / "root" / "result.json"
    if not file.exists():
        return []
    found = json.loads(file.read_text("utf-8"))
    root_too = "is one" if found["new_root_was_child"] else "is none"
    permitted = found["permitted"]
    rows = [
        ["members of the group", number(found["members"])],
        ["children of its root", number(found["children"])],
        ["nodes that have another parent after the repair, without the new root",
         number(found["rejoined"])],
        ["of these, not children of the failed root", number(found["rejoined_no_children"])],
        ["children of the failed root that have not joined again",
         number(found["children_not_rejoined"])],
        ["the new root is the live node nearest to the groupId",
         "yes" if found["new_root"] == found["nearest"] else "**no**"],
        ["JOINs and publications by nodes that the list does not name",
         f"{found['tried']} and {found['tried']}"],
        ["refused by the new root's tree",
         f"{number(found['refused']['JOIN'])} and {number(found['refused']['MULTICAST'])}"],
        ["members in the end, of the nodes that the list names",
         f"{number(found['joined_named'])} of {number(found['named'])}"],
        ["deliveries in time of a publication by one of them",
         f"{number(permitted['in_time'])} of {number(permitted['expected'])}"],
    ]  # fmt: skip
    return [
        *("", "## The root of the largest group fails", ""),
        "10,000 nodes, 150 groups, k = 5. All nodes are in the largest group, which has an access "
        f"list. Its root fails silently in round 5; the new root {root_too} of its children. The "
        "trees at the ends of rounds 4 and 8 are compared. In round 9, 200 nodes arrive; in round "
        "11 they try to join. Half of them are on the list. According to Costa and Frey (Section "
        '5), "all the other hosts have to start a new join procedure" after such a failure.',
        "",
        *table(["", "measured"], rows),
    ]


# --- (c)


def holders(out: Path) -> list[str]:
    kinds = {
        "holders-1": "the root",
        "holders-4": "4 of 5 holders",
        "holders-5": "all 5 holders",
        "created-again": "all 5; created again in round 12, joined by 50 others each in round 13",
    }
    names = complete(out, kinds)
    if not names:
        return []
    rows = [[kinds[name], *_holders_row(out / name)] for name in names]
    header = ["fail", "nodes", "groups lost", "round 4", "5-6", "7", "8-11", "12", "13", "14-19",
              "refused: no group"]  # fmt: skip
    return [
        *("", "## Holders of a group's state fail", ""),
        "`data/groups_root_failures.toml`: in round 5, nodes with the state of each of the ten "
        "largest groups (*holders*) fail. The columns *round 4* to *14-19* are shares of "
        "deliveries in time.",
        "",
        *table(header, rows),
    ]


def _holders_row(folder: Path) -> list[str]:
    measured, published = rounds(folder), publications(folder)
    ten = published[published["group"] <= 10]
    lost = of(measured, "scribe.groups.lost")
    most, last = number(lost.max()), number(lost.iloc[-1])
    parts = [ten[ten["round"].between(*ends)] for ends in _PARTS]
    return [
        number(-of(measured, "nodes.live").diff().min()),
        most if most == last else f"{most}, then {last}",
        *(per_cent(part["in_time"].sum(), part["expected"].sum()) for part in parts),
        number(total(measured, "scribe.refused.no group")),
    ]


_PARTS = ((4, 4), (5, 6), (7, 7), (8, 11), (12, 12), (13, 13), (14, 19))
