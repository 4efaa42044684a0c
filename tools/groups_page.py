"""``docs/groups_results.md``, of the experiments that are there."""

from __future__ import annotations

from math import log
from pathlib import Path

import pandas as pd

from tools.groups_churn import FIGURE, WAITED, churn, churn_figure
from tools.groups_claims import claims
from tools.groups_failures import holders, mass, root
from tools.groups_tables import (
    COUNTS,
    complete,
    memberships,
    number,
    of,
    per_cent,
    rounds,
    spread,
    total,
)
from tools.pages import table

__all__ = ["FIGURE", "WAITED", "churn_figure", "page"]

_HEAD = """\
# Scribe's trees in worlds, measured

This page measures how Scribe repairs its trees in [worlds](living.md). `make groups-results` writes it. A delivery is *lost* if it does not arrive within the deadline.
"""


def page(out: Path) -> str:
    """The page."""
    sections = (mass, root, holders, churn, _crowd, _local, _refused, claims)
    return _HEAD + "".join(f"{line}\n" for section in sections for line in section(out))


# --- (e)


def _crowd(out: Path) -> list[str]:
    if not complete(out, ["crowd"]):
        return []
    measured, trees = rounds(out / "crowd"), memberships(out / "crowd")
    at = int(of(measured, "scribe.members").diff().idxmax())
    joins = {cause: of(measured, f"scribe.joins.{cause}")[at] for cause in ("own", "forwarder")}
    tree = trees[trees["group"] == 1]
    root = tree.loc[tree["root"], "node"].iloc[0]
    children = tree["parent"].value_counts()
    answered = "scribe.joins.at_root"
    at_root = of(measured, answered)[at]
    sent = sum(joins.values())
    rows = [
        ["JOINs sent by nodes that join", number(joins["own"])],
        ["JOINs sent by nodes that become forwarders", number(joins["forwarder"])],
        ["messages JOIN (hops) for each node that joins",
         number(of(measured, "messages.JOIN")[at] / joins["own"])],
        ["JOINs that are answered by the root",
         f"{number(at_root)} ({per_cent(at_root, sent)})" if answered in measured else "-"],
        ["children of the root in the end", number(children.get(root, 0))],
        ["largest children table of another node in the end",
         number(children.drop(root, errors="ignore").max())],
        ["in time in the next round",
         per_cent(*(of(measured, f"scribe.publications.{name}")[at + 1]
                    for name in ("in_time", "expected")))],
    ]  # fmt: skip
    return [
        *("", "## A flash crowd", ""),
        "`data/groups_flash_crowd.toml`: 10,000 of 12,000 nodes join one group of 10 members in "
        f"round {at}.",
        "",
        *table(["", "measured"], rows),
    ]


# --- (f)


def _local(out: Path) -> list[str]:
    names = complete(out, [folder.name for folder in out.glob("local-*")])
    if not names:
        return []
    rows = [repair_row(rounds(out / name)) for name in names]
    header = [
        "nodes", "groups", "failed", "with children", "log_16 N", "nodes involved per failure",
        "JOINs per failure", "messages JOIN per failure", "per JOIN", "rounds until repaired",
    ]  # fmt: skip
    return [
        *("", "## Who takes part in a repair", ""),
        "Every six rounds, one node in 500 fails silently. *With children*: failed nodes that have "
        "children in a tree; the next columns are means over these failures. *Nodes involved* send, "
        "forward or answer a JOIN of the repair.",
        "",
        *table(header, [cells for _, cells in sorted(rows)]),
    ]


def repair_row(measured: pd.DataFrame) -> tuple[float, list[str]]:
    """Nodes at the start, and the cells of a world in which few nodes fail."""
    live, after = of(measured, "nodes.live"), measured.iloc[1:]
    failures = total(after, "scribe.failures")
    joins, messages = (total(after, name) for name in ("scribe.joins", "messages.JOIN"))
    waits = spread(after, "scribe.repaired")
    cells = [
        number(live.iloc[0]),
        number(total(measured, "scribe.groups.created")),
        number(live.iloc[0] - live.iloc[-1]),
        number(failures),
        f"{log(live.iloc[0], 16):.2f}",
        *(_ratio(of_all, failures) for of_all in (total(after, "scribe.repair.nodes"), joins)),
        *(_ratio(messages, by) for by in (failures, joins)),
        ", ".join(f"{n}: {number(count)}" for n, count in waits.items()),
    ]
    return live.iloc[0], cells


def _ratio(part: float, by: float) -> str:
    return number(part / by) if by else "-"


# --- (g)


def _refused(out: Path) -> list[str]:
    if not complete(out, ["refused"]):
        return []
    folder = out / "refused"
    events = pd.read_csv(out / "inputs" / "refused" / "events.csv")
    named = pd.read_csv(out / "inputs" / "refused" / "access.csv")[["group", "node"]]
    stranger = events.merge(named.drop_duplicates(), how="left", indicator="named")
    stranger = stranger[(stranger["named"] == "left_only") & (stranger["group"] > 1)]
    tried = {event: stranger[stranger["event"] == event] for event in ("join", "publish")}
    trees, measured = memberships(folder), rounds(folder)
    members = trees[trees["member"]]
    joined = tried["join"].merge(members, on=["group", "node"], how="inner")
    rows = [
        ["tries", number(len(tried["join"])), number(len(tried["publish"]))],
        ["refused", *(number(total(measured, f"scribe.refused.{kind}"))
                      for kind in ("JOIN", "MULTICAST"))],
        ["joined; delivered", number(len(joined)), _delivered(out)],
    ]  # fmt: skip
    return [
        *("", "## Refused credentials", ""),
        "149 of 150 groups have an access list. Nodes that are not on the list try to join and to "
        "publish. *Delivered*: additional deliveries in comparison with a world without these tries.",
        "",
        *table(["", "JOIN", "MULTICAST"], rows),
    ]


def _delivered(out: Path) -> str:
    """How far a world with refused publications is from that without them."""
    if not complete(out, ["not-tried"]):
        return "-"
    one, other = (rounds(out / name) for name in ("refused", "not-tried"))
    names = ["messages.payload", *(f"scribe.publications.{name}" for name in COUNTS)]
    return number(sum((of(one, name) - of(other, name)).abs().sum() for name in names))
