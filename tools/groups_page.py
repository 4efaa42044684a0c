"""``docs/groups_results.md``, of the experiments that are there."""

from __future__ import annotations

from pathlib import Path

from tools.groups_churn import FIGURE, WAITED, churn, churn_figure
from tools.groups_claims import claims
from tools.groups_failures import holders, mass, root
from tools.groups_tables import (
    complete,
    memberships,
    number,
    of,
    per_cent,
    rounds,
)
from tools.pages import table

__all__ = ["FIGURE", "WAITED", "churn_figure", "page"]

_HEAD = """\
# Scribe's trees in worlds, measured

This page measures how Scribe repairs its trees in [worlds](living.md). `make groups-results` writes it. A delivery is *lost* if it does not arrive within the deadline.
"""


def page(out: Path) -> str:
    """The page."""
    sections = (mass, root, holders, churn, _crowd, claims)
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
        ["messages JOIN (hops) for each node that joins",
         number(of(measured, "messages.JOIN")[at] / joins["own"])],
        ["JOINs that are answered by the root",
         f"{number(at_root)} ({per_cent(at_root, sent)})" if answered in measured else "-"],
        ["children of the root in the end", number(children.get(root, 0))],
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
