"""Scribe and other systems under the same failures and churn: ``docs/peers_living.md``.

Each world is a folder of OUT, of a scenario and a kind of delivery.  ``make peers-living
NODES=100000`` plays larger worlds, with as many groups more.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.measures.incomplete import NOT_SIMULATED, has_control, incomplete_rounds
from tools.folders import COUNTS, Columns, Folder, Page, cells_of, rounds_in_words
from tools.pages import Panel, draw, table

NODES = int(os.environ.get("SCRIBE_NODES") or 20_000)  # as make exports it
GROUPS = max(1, NODES * 3 // 200)  # as in the paper: 1,500 for 100,000
FIGURE = "figure-peers-living.svg"

#: Rounds of a world, and after how many a delivery counts as lost: with a mass failure, and with
#: churn.
FAILURE, CHURN = (16, 8), (40, 5)

#: Name -> the events in the table, and in the figure, and flags.
_QUARTER = "quarter-fails"
_CHURN = "--generator churn+publications --lifetime-seconds"
_SCENARIOS = {
    _QUARTER: ("failure", "a quarter of the nodes fails in round 3",
               "--generator mass-failure+publications --share 0.25 --event-round 3"),
    "lifetime-1800": ("lifetime 30 min", "churn,\nmean lifetime 30 minutes", f"{_CHURN} 1800"),
    "lifetime-600": ("lifetime 10 min", "churn,\nmean lifetime 10 minutes", f"{_CHURN} 600"),
}  # fmt: skip

#: The delivery of a world, as in the name of its folder -> its systems.
_WORLDS = {"best-effort": "scribe,gossipsub,bayeux,flooding,can", "reliable": "scribe"}

#: A system as the page has it -> its name in tables, and the delivery.
_RELIABLE = "Scribe, reliable"
_KINDS = {
    "Scribe, best effort": ("scribe", "best-effort"),
    "GossipSub": ("gossipsub", "best-effort"),
    "Bayeux": ("bayeux", "best-effort"),
    "Flooding over Pastry": ("flooding", "best-effort"),
    "CAN multicast": ("can", "best-effort"),
    _RELIABLE: ("scribe", "reliable"),
}


def commands(nodes: int = NODES, groups: int = GROUPS) -> dict[str, str]:
    """Return the command of each world, by the name of its folder."""
    found = {}
    for name, (*_, events) in _SCENARIOS.items():
        (rounds, deadline), size = CHURN, f"--nodes {nodes * 6 // 5} --initial {nodes}"
        if name == _QUARTER:
            (rounds, deadline), size = FAILURE, f"--nodes {nodes}"
        for delivery, systems in _WORLDS.items():
            found[f"{name}-{delivery}"] = (
                f"world {size} --groups {groups} --seed 1 --lookups 0 --rounds {rounds} "
                f"--lost-after {deadline} --link-stress-period 5 {events} "
                f"--delivery {delivery} --systems {systems} --measures delay"
            )
    return found


#: Scenario and system of the page -> the system in its world.
Found = Mapping[tuple[str, str], Folder]


def seen(out: Path) -> Found:
    """Return the worlds that are there."""
    every = {
        (scenario, kind): Folder(out / f"{scenario}-{delivery}", system)
        for scenario in _SCENARIOS
        for kind, (system, delivery) in _KINDS.items()
    }
    return {key: one for key, one in every.items() if one.is_complete and len(one.told)}


def multicast(one: Folder, name: str, complete: bool = True) -> pd.Series:
    """Return a measure of a system's multicasts, by rounds in which multicasts reach members.

    With `complete`, they reach all members.  The rounds are those whose publications count.
    """
    measure = f"{one.system}.{name}"
    line = one.of(measure)
    partial = line.index.isin(incomplete_rounds(one.measures, measure)) & complete
    return line[(line > 0) & (line.index >= 1) & (line.index <= one.last) & ~partial]


def _mean(one: Folder, line: pd.Series) -> float:
    """Return the mean of a measure by rounds over the steady state."""
    return float(line[line.index >= one.first].mean())


def _link_stress(one: Folder, which: str) -> float:
    """Return the mean of a number of link stress over the rounds in which it is measured."""
    scribes = f"link_stress.{which.replace('control.', 'maintenance.')}"
    line = one.of(scribes if one.system == "scribe" else f"{one.system}.link_stress.{which}")
    return _mean(one, line[line > 0]) if (line[line.index >= one.first] > 0).any() else 0.0


_COLUMNS: Columns = {
    "in time, %": lambda one: one.share("in_time"),
    "in time, median group, %": lambda one: one.median_group,
    "lost, %": lambda one: one.share("lost"),
    "RAD, median group": lambda one: _mean(one, multicast(one, "rad.median")),
    "RAD, largest group": lambda one: _mean(one, multicast(one, "rad.largest")),
    "duplicates per delivery": lambda one: one.sum("duplicates") / max(1, one.sum("first_copies")),
    "control messages per node and second": lambda one: _mean(one, one.control),
    "link stress of payload, mean": lambda one: _link_stress(one, "payload.mean_existing"),
    "link stress of payload, maximum": lambda one: _link_stress(one, "payload.max"),
    "link stress of control, maximum": lambda one: (
        _link_stress(one, "control.max") / one.round_seconds
    ),
}


def numbers(out: Path) -> list[str]:
    """Return the table: a row for each system under each events."""
    rows = []
    for (scenario, kind), one in seen(out).items():
        known = one.system == "scribe" or has_control(one.measures, one.system)
        cells = [
            NOT_SIMULATED if "control" in head and not known else cell
            for head, cell in zip(_COLUMNS, cells_of(_COLUMNS, [one]), strict=True)
        ]
        about = _SCENARIOS[scenario][0], kind, rounds_in_words([one.begin], one.last)
        rows.append([*about, *cells])
    return table(["events", "system", "rounds", *_COLUMNS], rows)


#: The rows of the figure: what is drawn -> the label of its axis.
_ROWS = {
    "delivered": "delivered, %",
    "rad.median": "RAD, median group",
    "rad.largest": "RAD, largest group",
}


def figure(out: Path, folder: Path) -> None:
    """Write the figure, by the round of publication: the share delivered, and RAD."""
    found = seen(out)
    scenarios = [one for one in _SCENARIOS if any(scenario == one for scenario, _ in found)]
    rows: list[list[Panel]] = []
    for drawn, ylabel in _ROWS.items():
        row: list[Panel] = []
        for scenario in scenarios:
            axes: dict[str, Any] = {"ylim": (0, 104 if drawn == "delivered" else None)}
            axes |= {"ylabel": ylabel} if not row else {}
            axes |= {"title": _SCENARIOS[scenario][1]} if not rows else {}
            axes |= {"xlabel": "round of publication"} if len(rows) == len(_ROWS) - 1 else {}
            below = not rows and len(row) == min(1, len(scenarios) - 1)  # the lines of churn
            row.append(Panel(_lines(found, scenario, drawn), axes, "lower left" if below else None))
        rows.append(row)
    draw(folder / FIGURE, "Deliveries in their round, and RAD: systems under the same events", rows)


def _lines(found: Found, scenario: str, drawn: str) -> dict[str, pd.Series]:
    """Return the values by rounds of each system; delivery changes no ratio."""
    lines = {}
    for kind in _KINDS:
        one, reliable = found.get((scenario, kind)), kind == _RELIABLE
        if one is not None and drawn == "delivered":
            sums = one.told.groupby("round")[list(COUNTS)].sum()
            got = sums["in_time"] + (sums["late"] if reliable else 0)  # in time as best effort
            lines[kind + ", in the end" * reliable] = 100 * got / sums["due"]
        elif one is not None and not reliable:
            lines[kind] = multicast(one, drawn, complete=False)
    return {kind: line for kind, line in lines.items() if len(line)}


PEERS_LIVING = Page(commands(), {"worlds": ("*/tables", numbers)}, figures=figure)
