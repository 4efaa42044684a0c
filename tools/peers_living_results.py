"""Scribe and other systems under the same failures and churn: ``docs/peers_living.md``.

Each world is a folder of OUT, of a scenario and a kind of delivery.  ``make peers-living
NODES=100000`` plays larger worlds, with as many groups more.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.measures.incomplete import NOT_SIMULATED, has_control, incomplete_rounds
from tools.folders import COUNTS, STEADY_RULE, Columns, Folder, cells_of, rounds_in_words
from tools.pages import Line, Panel, draw, number, table
from tools.results import Page, Part

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
    "lifetime-1800": ("lifetime 30 min", "churn, mean lifetime 30 minutes", f"{_CHURN} 1800"),
    "lifetime-600": ("lifetime 10 min", "churn, mean lifetime 10 minutes", f"{_CHURN} 600"),
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


class Seen(Folder):
    """A system in a world."""

    @property
    def begin(self) -> int | None:
        """The first round of the steady state; None if there is none.

        After a mass failure no state is steady, and all rounds are looked at but the first.
        """
        return 1 if self.path.name.startswith(_QUARTER) else super().begin

    def share(self, count: str) -> float:
        """Return the share of all deliveries, in per cent."""
        return 100 * float(self.steady[count].sum()) / max(1, self.steady["due"].sum())

    @property
    def duplicates(self) -> float:
        """Duplicates for each first copy."""
        sums = self.steady[list(COUNTS)].sum()
        return float(sums["duplicates"]) / max(1, sums["first_copies"])

    @property
    def has_control(self) -> bool:
        """True if the system simulates control messages."""
        return self.system == "scribe" or has_control(self.measures, self.system)

    def mean(self, line: pd.Series) -> float:
        """Return the mean of a measure by rounds over the steady state."""
        return float(line[line.index >= self.first].mean())

    def multicast(self, name: str, complete: bool = True) -> pd.Series:
        """Return a measure of the system's multicasts, by rounds in which multicasts reach members;
        with `complete`, all members.

        The rounds are those whose publications count.
        """
        measure = f"{self.system}.{name}"
        line = self.of(measure)
        partial = line.index.isin(incomplete_rounds(self.measures, measure)) & complete
        return line[(line > 0) & (line.index >= 1) & (line.index <= self.last) & ~partial]

    def link_stress(self, which: str) -> float:
        """Return the mean of a number of link stress over the rounds in which it is measured.

        That of control is per second.
        """
        scribes = f"link_stress.{which.replace('control.', 'maintenance.')}"
        line = self.of(scribes if self.system == "scribe" else f"{self.system}.link_stress.{which}")
        line = line[(line > 0) & (line.index >= self.first)]
        found = float(line.mean()) if len(line) else 0.0
        return found / self.round_seconds if which.startswith("control.") else found


#: Scenario and system of the page -> the system in its world.
Found = Mapping[tuple[str, str], Seen]


def seen(out: Path) -> Found:
    """Return the worlds that are there."""
    every = {
        (scenario, kind): Seen(out / f"{scenario}-{delivery}", system)
        for scenario in _SCENARIOS
        for kind, (system, delivery) in _KINDS.items()
    }
    return {key: one for key, one in every.items() if one.is_complete and len(one.told)}


_COLUMNS: Columns = {
    "in time, %": lambda one: one.share("in_time"),
    "in time, median group, %": lambda one: one.median_group,
    "lost, %": lambda one: one.share("lost"),
    "RAD, median group": lambda one: one.mean(one.multicast("rad.median")),
    "RAD, largest group": lambda one: one.mean(one.multicast("rad.largest")),
    "duplicates per delivery": lambda one: one.duplicates,
    "control messages per node and second": lambda one: one.mean(one.control),
    "link stress of payload, mean": lambda one: one.link_stress("payload.mean_existing"),
    "link stress of payload, maximum": lambda one: one.link_stress("payload.max"),
    "link stress of control, maximum": lambda one: one.link_stress("control.max"),
}


def numbers(found: Found) -> list[str]:
    """Return the table: a row for each system under each events."""
    rows = []
    for (scenario, kind), one in found.items():
        about = [_SCENARIOS[scenario][0], kind, rounds_in_words([one.begin], one.last)]
        cells = [
            NOT_SIMULATED if "control" in head and not one.has_control else cell
            for head, cell in zip(_COLUMNS, cells_of(_COLUMNS, [one]), strict=True)
        ]
        rows.append([*about, *cells])
    return table(["events", "system", "rounds", *_COLUMNS], rows)


#: The rows of the figure: what is drawn -> the label of its axis.
_ROWS = {
    "delivered": "delivered, %",
    "rad.median": "RAD, median group",
    "rad.largest": "RAD, largest group",
}


def figure(found: Found, file: Path) -> None:
    """Write the figure, by the round of publication: the share delivered, and RAD."""
    panels, words = [], []
    scenarios = [one for one in _SCENARIOS if any(scenario == one for scenario, _ in found)]
    for row, (drawn, heading) in enumerate(_ROWS.items()):
        for place, scenario in enumerate(scenarios):
            lines = list(_lines(found, scenario, drawn))
            axes: dict[str, Any] = {"ylim": (0, None if row else 104)}
            axes |= {"xlabel": "round of publication"} if row == len(_ROWS) - 1 else {}
            axes |= {} if place else {"ylabel": heading}
            below = place == min(1, len(scenarios) - 1) and not row  # below the lines of churn
            legend = {"fontsize": 5.5, "loc": "lower left"} if below else None
            title = "" if row else _SCENARIOS[scenario][1].replace(", mean", ",\nmean")
            at = 0.07 + place * 0.315, 0.7 - row * 0.305, 0.27, 0.22
            panels.append(Panel(at, lines, axes, title, legend))
            for label, line, _ in lines:
                mean = f"{heading}, mean of the rounds {number(line.mean())}"
                told = mean if row else f"least {number(line.min())} %"
                words.append(f"{scenario}, {label}: {told}")
    heading = "Deliveries in their round, and RAD: systems under the same events"
    draw(file, (7.6, 5.6), panels, heading, "; ".join(words))


def _lines(found: Found, scenario: str, drawn: str) -> Iterator[Line]:
    """Yield label, values by rounds, and style; delivery changes no ratio."""
    for style, kind in enumerate(_KINDS):
        one, reliable = found.get((scenario, kind)), kind == _RELIABLE
        if one is None:
            continue
        if drawn == "delivered":
            sums = one.told.groupby("round")[list(COUNTS)].sum()
            got = sums["in_time"] + (sums["late"] if reliable else 0)  # in time as best effort
            yield kind + ", in the end" * reliable, 100 * got / sums["due"], style
        elif not reliable and len(line := one.multicast(drawn, complete=False)):
            yield kind, line, style


_TEXT = f"""\
This page compares systems in worlds with the same events: the same nodes fail and arrive, and in each round the same source of each group publishes. At the start there are {{nodes}} nodes, which are members of {{groups}} groups; all worlds have the same seed. A *round* of the world takes {{longest}}. `make peers-living` writes the page.

![Share of deliveries by rounds, and RAD]({FIGURE})

{{table}}

*Events*: with *failure*, {_SCENARIOS[_QUARTER][1]} of {FAILURE[0]}. In the other worlds, nodes fail and arrive in {CHURN[0]} rounds; the table has their mean lifetime. *Rounds* are those whose publications count. With *failure*, all rounds from 1 on count whose deadline is in the world. {STEADY_RULE}

*In time*: the share of the deliveries that arrive in the round of the publication. *Lost*: the share that has not arrived {FAILURE[1]} rounds later (with churn {CHURN[1]}). Shares up to 50 % are rounded to two digits.

*RAD* is that of one publication of each group in each round. The table leaves out the rounds in which a system does not reach all members (`-`: no round is left); in the figure, the RAD of such a round is that of the reached members. Delays are relative to IP multicast from the root (Scribe, Bayeux) or from the source (other systems; rules S25, S26, S34).

*Control messages* are all messages of a system except copies of publications. *Duplicates per delivery* are the duplicates for each first copy that arrives. *Link stress* is the number of packets on a link: those of one publication of each group (payload), or of one second (control).
"""


def _worlds(out: Path) -> list[str]:
    """Return the page of the worlds that are in OUT, without its title."""
    found = seen(out)
    every = list(found.values())
    configs = [one.config for one in every]
    sizes = sorted({config["initial"] or config["nodes"] for config in configs})
    groups = sorted({config["groups"] for config in configs})
    longest = max((one.manifest["round"]["has"] for one in every), key=len, default="")
    return _TEXT.format(
        nodes=", ".join(f"{size:,}" for size in sizes),
        groups=", ".join(f"{count:,}" for count in groups),
        longest=longest.replace(": ", ", and consists of ", 1).replace("; ", ", and of "),
        table="\n".join(numbers(found)),
    ).splitlines()


PEERS_LIVING = Page(
    commands(),
    {"worlds": Part("*/tables", _worlds)},
    figures=lambda out, folder: figure(seen(out), folder / FIGURE),
)
