"""Scribe and other systems under the same failures and churn: a table and a figure.

``python -m tools.peers_living OUT [--only NAME ...] [--page docs/peers_living.md]``

Each world is a folder of OUT, of a scenario, its systems and a seed; a complete one is not played
again, so the command goes on where it was interrupted.  The worlds of the first seed come first.
``--page`` writes the page of what is there, and ``figure-peers-living.svg`` beside it.
``make peers-living NODES=10000`` plays smaller worlds, with as many groups fewer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.measures.incomplete import NOT_SIMULATED, has_control, incomplete_rounds
from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.worlds.steady import WINDOW
from tools.groups_tables import (
    COUNTS,
    STEADY_RULE,
    complete,
    in_time_by_group,
    number,
    of,
    over_seeds,
    rounds,
    rounds_in_words,
    settled,
    share_cell,
)
from tools.pages import main as page_main
from tools.pages import table

__all__ = ["commands", "figure", "main", "page"]

NODES = int(os.environ.get("SCRIBE_NODES") or 100_000)  # as make exports it
GROUPS = max(1, NODES * 1_500 // 100_000)
FIGURE = "figure-peers-living.svg"

#: Rounds of a world, and after how many a delivery counts as lost: with a mass failure, and with
#: churn.
FAILURE, CHURN = (16, 8), (60, 5)

#: Scribe's messages that are copies of publications; all other kinds are control.
_PAYLOAD = ("payload", "retransmission", "MULTICAST")

_QUARTER = "quarter-fails"
_SCENARIOS = {
    _QUARTER: "a quarter of the nodes fails in round 3",
    "lifetime-1800": "churn, mean lifetime 30 minutes",
    "lifetime-600": "churn, mean lifetime 10 minutes",
}
_BRIEFLY = {
    _QUARTER: "failure",
    "lifetime-1800": "lifetime 30 min",
    "lifetime-600": "lifetime 10 min",
}


@dataclass(frozen=True)
class _Kind:
    """A system as the page has it: its name in tables, and the worlds in which it lives."""

    label: str
    system: str
    worlds: tuple[str, ...]


#: The middle of a folder's name -> the delivery and the systems of the world, and its seeds.  A
#: world of all systems takes three times as long as Scribe alone, in which Scribe is the same.
_WORLDS = {
    "peers": ("best-effort", "scribe,gossipsub,bayeux", (1, 2)),
    "alone": ("best-effort", "scribe", (3, 4, 5)),
    "reliable": ("reliable", "scribe", (1, 2, 3, 4, 5)),
    "flooded": ("best-effort", "scribe,flooding,can", (1,)),
}

_KINDS = {
    "scribe": _Kind("Scribe, best effort", "scribe", ("peers", "alone")),
    "gossipsub": _Kind("GossipSub", "gossipsub", ("peers",)),
    "bayeux": _Kind("Bayeux", "bayeux", ("peers",)),
    "flooding": _Kind("Flooding over Pastry", "flooding", ("flooded",)),
    "can": _Kind("CAN multicast", "can", ("flooded",)),
    "reliable": _Kind("Scribe, reliable", "scribe", ("reliable",)),
}

_LABELS = [kind.label for kind in _KINDS.values()]


def commands(nodes: int = NODES, groups: int = GROUPS) -> dict[str, list[str]]:
    """Return the command of each world, by the name of its folder, the most telling ones first."""
    every = [
        (scenario, world, seed)
        for scenario in _SCENARIOS
        for world, (_, _, seeds) in _WORLDS.items()
        for seed in seeds
    ]
    first = sorted(every, key=lambda one: one[2] > 1)
    return {_folder(*one): _command(*one, nodes, groups) for one in first}


def _folders(scenario: str, kind: str) -> list[str]:
    """Return the folders of the worlds in which a system lives, by seeds."""
    return [
        _folder(scenario, world, seed)
        for world in _KINDS[kind].worlds
        for seed in _WORLDS[world][2]
    ]


def _folder(scenario: str, world: str, seed: int) -> str:
    return f"{scenario}-{world}-{seed}"


def _command(scenario: str, world: str, seed: int, nodes: int, groups: int) -> list[str]:
    lasts, size = CHURN, ["--nodes", f"{nodes * 6 // 5}", "--initial", f"{nodes}"]
    events = ["churn+publications", "--lifetime-seconds", scenario.removeprefix("lifetime-")]
    if scenario == _QUARTER:
        lasts, size = FAILURE, ["--nodes", f"{nodes}"]
        events = ["mass-failure+publications", "--share", "0.25", "--event-round", "3"]
    (played, deadline), (delivery, systems, _) = lasts, _WORLDS[world]
    return [
        *("world", *size, "--groups", f"{groups}", "--seed", f"{seed}", "--lookups", "0"),
        *("--rounds", f"{played}", "--deadline", f"{deadline}", "--link-stress-period", "5"),
        *("--generator", *events),
        *("--delivery", delivery, "--systems", systems),
        *("--measures", "delay"),
    ]


@dataclass(frozen=True)
class Seen:
    """A system in a world."""

    scenario: str
    system: str
    nodes: int
    seconds: float
    has: str
    measures: pd.DataFrame
    publications: pd.DataFrame

    @cached_property
    def begin(self) -> int | None:
        """The first round of the steady state; None if there is none.

        After a mass failure no state is steady, and all rounds are looked at but the first.
        """
        return 1 if self.scenario == _QUARTER else settled(self.publications, self.control)

    @property
    def steady(self) -> pd.DataFrame:
        """The publications of the steady state; of the last rounds where there is none."""
        return self.publications[self.publications["round"] >= self._begin]

    @property
    def _begin(self) -> int:
        last = int(self.publications["round"].max())
        return last + 1 - WINDOW if self.begin is None else self.begin

    def share(self, count: str) -> float:
        """Return the share of all deliveries, in per cent."""
        sums = self.steady[list(COUNTS)].sum()
        return 100 * float(sums[count]) / max(1, sums["expected"])

    @property
    def median_group(self) -> float:
        """The median over groups of the share delivered in time, in per cent."""
        return 100 * float(in_time_by_group(self.steady).median())

    @property
    def duplicates(self) -> float:
        """Duplicates for each first copy."""
        sums = self.steady[list(COUNTS)].sum()
        return float(sums["duplicates"]) / max(1, sums["first_copies"])

    @property
    def has_control(self) -> bool:
        """True if the system simulates control messages."""
        return self.system == "scribe" or has_control(self.measures, self.system)

    @property
    def control(self) -> pd.Series:
        """Control messages per live node and second, by rounds: without Pastry's own."""
        if self.system != "scribe":
            return of(self.measures, f"{self.system}.control")
        return self._per_second([kind for kind in SCRIBE_KINDS if kind not in _PAYLOAD])

    def _per_second(self, kinds: Sequence[str]) -> pd.Series:
        sent = sum((of(self.measures, f"messages.{kind}") for kind in kinds), start=0.0)
        return sent / self.measures["nodes.live"] / self.seconds

    def mean(self, line: pd.Series) -> float:
        """Return the mean of a measure by rounds over the steady state."""
        return float(line[line.index >= self._begin].mean())

    def multicast(self, name: str, complete: bool = True) -> pd.Series:
        """Return a measure of the system's multicasts, by rounds in which multicasts reach members;
        with `complete`, all members.

        The rounds are those whose publications count.
        """
        measure = f"{self.system}.{name}"
        line, last = of(self.measures, measure), int(self.publications["round"].max())
        partial = line.index.isin(incomplete_rounds(self.measures, measure)) & complete
        return line[(line > 0) & (line.index >= 1) & (line.index <= last) & ~partial]

    def link_stress(self, which: str) -> float:
        """Return the mean of a number of link stress over the rounds in which it is measured.

        That of control is per second.
        """
        name = f"link_stress.{which}"
        if self.system != "scribe":
            name = f"{self.system}.{name}"
        else:
            name = name.replace(".control.", ".maintenance.")
        line = of(self.measures, name)
        line = line[(line > 0) & (line.index >= self._begin)]
        found = float(line.mean()) if len(line) else 0.0
        return found / self.seconds if which.startswith("control.") else found


def seen(out: Path) -> dict[tuple[str, str], list[Seen]]:
    """Return scenario and kind -> the system in the world of each seed."""
    found: dict[tuple[str, str], list[Seen]] = {}
    for scenario in _SCENARIOS:
        for kind in _KINDS:
            names = _folders(scenario, kind)
            worlds = [_seen(out / name, scenario, kind) for name in complete(out, names)]
            if worlds and len(worlds[0].publications):
                found[scenario, kind] = worlds
    return found


def _seen(folder: Path, scenario: str, kind: str) -> Seen:
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    config: dict[str, Any] = manifest["resolved"]
    length, system = manifest["round"], _KINDS[kind].system
    given, measures = pd.read_parquet(folder / "tables" / "publications"), rounds(folder)
    is_due = (given["due"] == given["expected"]) & (given["round"] >= 1)
    mine = given[(given["system"] == system) & is_due]
    nodes = config["initial"] or config["nodes"]
    return Seen(scenario, system, nodes, length["seconds"], length["has"], measures, mine)


#: Measures of multicasts -> what the table and the figure call them.
_DELAYS = {
    "rad.median": "RAD, median group",
    "rad.largest": "RAD, largest group",
}


def _delay(name: str) -> Callable[[Seen], float]:
    return lambda one: one.mean(one.multicast(name))


#: Head of a column -> a number of a world.
_COLUMNS: dict[str, Callable[[Seen], float]] = {
    "in time, %": lambda one: one.share("in_time"),
    "in time, median group, %": lambda one: one.median_group,
    "lost, %": lambda one: one.share("lost"),
    **{label: _delay(name) for name, label in _DELAYS.items()},
    "duplicates per delivery": lambda one: one.duplicates,
    "control messages per node and second": lambda one: one.mean(one.control),
    "link stress of payload, mean": lambda one: one.link_stress("payload.mean_existing"),
    "link stress of payload, maximum": lambda one: one.link_stress("payload.max"),
    "link stress of control, maximum": lambda one: one.link_stress("control.max"),
}


def numbers(found: dict[tuple[str, str], list[Seen]]) -> list[str]:
    """Return the table: a row for each system under each events."""
    header = ["events", "system", "seeds", "rounds", *_COLUMNS]
    rows = []
    for (scenario, kind), worlds in found.items():
        last = int(worlds[0].publications["round"].max())
        told = [
            NOT_SIMULATED
            if "control" in name and not worlds[0].has_control
            else over_seeds([column(one) for one in worlds], share_cell if "%" in name else number)
            for name, column in _COLUMNS.items()
        ]
        rows.append(
            [
                *(_BRIEFLY[scenario], _KINDS[kind].label),
                *(f"{len(worlds)}", rounds_in_words([one.begin for one in worlds], last), *told),
            ]
        )
    return table(header, rows)


#: The rows of the figure: what is drawn -> the label of its axis.
_ROWS = {
    "delivered": "delivered, %",
    **{name: _DELAYS[name] for name in ("rad.median", "rad.largest")},
}


def figure(found: dict[tuple[str, str], list[Seen]]) -> str:
    """Return the figure as SVG, by the round of publication: the share delivered, and RAD."""

    with new_figure(7.6, 5.6) as drawing:
        words = []
        scenarios = [one for one in _SCENARIOS if any(scenario == one for scenario, _ in found)]
        for row, (drawn, heading) in enumerate(_ROWS.items()):
            for place, scenario in enumerate(scenarios):
                axes = drawing.add_axes((0.07 + place * 0.315, 0.7 - row * 0.305, 0.27, 0.22))
                lines = _lines(found, scenario) if not row else _ratios(found, scenario, drawn)
                for label, line in lines:
                    look = curve_style(_LABELS.index(label.removesuffix(", in the end")))
                    axes.plot(line.index, line, label=label, **look)
                    words.append(_words(scenario, label, drawn, line))
                if not row:
                    title = _SCENARIOS[scenario].replace(", mean", ",\nmean")
                    axes.set_title(title, fontsize=6)
                axes.set(ylim=(0, None if row else 104))
                if row == len(_ROWS) - 1:
                    axes.set(xlabel="round of publication")
                if not place:
                    axes.set(ylabel=heading)
                if place == min(1, len(scenarios) - 1) and not row:  # below the lines of churn
                    axes.legend(fontsize=5.5, frameon=False, loc="lower left")
        heading = "Deliveries in their round, and RAD: systems under the same events"
        return svg_element(drawing, "peers-living", heading, "; ".join(words))


def _words(scenario: str, label: str, drawn: str, line: pd.Series) -> str:
    """Describe a line of the figure."""
    if drawn == "delivered":
        return f"{scenario}, {label}: least {number(line.min())} %"
    return f"{scenario}, {label}: {_DELAYS[drawn]}, mean of the rounds {number(line.mean())}"


def _ratios(
    found: dict[tuple[str, str], list[Seen]], scenario: str, name: str
) -> Iterator[tuple[str, pd.Series]]:
    """Yield label and ratio by rounds, the mean over all seeds; delivery changes no ratio."""
    for kind in _KINDS:
        worlds = found.get((scenario, kind), []) if kind != "reliable" else []
        each = (one.multicast(name, complete=False) for one in worlds)
        lines = [line for line in each if len(line)]
        if lines:
            yield _KINDS[kind].label, pd.concat(lines).groupby(level=0).mean()


def _lines(
    found: dict[tuple[str, str], list[Seen]], scenario: str
) -> Iterator[tuple[str, pd.Series]]:
    """Yield label and share by rounds, over all seeds together."""
    for kind in _KINDS:
        if (scenario, kind) not in found:
            continue
        together = pd.concat([one.publications for one in found[scenario, kind]])
        by_round = together.groupby("round")[list(COUNTS)].sum()
        label, reliable = _KINDS[kind].label, kind == "reliable"  # in time it is as best effort
        got = by_round["in_time"] + (by_round["late"] if reliable else 0)
        yield f"{label}, in the end" if reliable else label, 100 * got / by_round["expected"]


def page(out: Path, file: Path) -> str:
    """Return the page of the worlds that are in OUT; write the figure beside it."""
    found = seen(out)
    replace_file(file.parent / FIGURE, figure(found).encode())
    lengths = list(dict.fromkeys(one.has for worlds in found.values() for one in worlds))
    longest = max(lengths, key=len, default="")
    return "\n".join(
        [
            "# Scribe and other systems while nodes arrive and fail",
            "",
            "This page compares systems in worlds with the same events: the same nodes fail and "
            "arrive, and in each round the same source of each group publishes. At the start there "
            f"are {_nodes(found)} nodes. *A round* is {longest}. `make peers-living` writes the "
            "page.",
            "",
            f"![Share of deliveries by rounds, and RAD]({FIGURE})",
            "",
            *numbers(found),
            "",
            *_legend(found),
            "",
        ]
    )


def _legend(found: dict[tuple[str, str], list[Seen]]) -> Iterator[str]:
    """Yield the paragraphs below the table."""
    yield (
        f"*Events*: {_SCENARIOS[_QUARTER]}; or churn with a mean lifetime. *Seeds*: the number of "
        f"worlds; {_seed_words(found)} A number is the mean over the seeds ± the standard "
        f"deviation between seeds. *Rounds*: the rounds whose publications count. {STEADY_RULE}"
    )
    yield ""
    yield (
        "*In time*: delivered in the round of the publication. *Lost*: not delivered within "
        f"{FAILURE[1]} more rounds (with churn {CHURN[1]})."
    )
    yield ""
    yield (
        "*RAD*: of one publication of each group in each round. The table leaves out the rounds in "
        "which a system does not reach all members (`-`: all rounds are such); in the figure, "
        "these rounds cover the reached members only. Delays are relative to IP multicast from the "
        "root (Scribe, Bayeux) or from the source (other systems; rules S25, S26, S34)."
    )
    yield ""
    yield (
        "*Control messages*: all messages of a system except copies of publications. *Duplicates "
        "per delivery*: duplicates for each first copy that arrives. *Link stress*: packets on a "
        "link, of one publication of each group (payload), and of one second (control)."
    )


def _nodes(found: dict[tuple[str, str], list[Seen]]) -> str:
    """Return the numbers of nodes at the start of the worlds."""
    sizes = sorted({one.nodes for worlds in found.values() for one in worlds})
    return ", ".join(f"{size:,}" for size in sizes)


def _seed_words(found: dict[tuple[str, str], list[Seen]]) -> str:
    """Tell the share of the planned worlds that there are, as each system sees them."""
    planned = sum(len(_folders(scenario, kind)) for scenario in _SCENARIOS for kind in _KINDS)
    there = sum(map(len, found.values()))
    return "all are there." if there == planned else f"{there} of {planned} are there."


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    page_main(arguments, __doc__ or "", commands(), page)


if __name__ == "__main__":
    main(sys.argv[1:])
