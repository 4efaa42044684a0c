"""Scribe and GossipSub under the same failures and the same churn: a table and a figure.

``python -m tools.peers_living OUT [--only NAME ...] [--page docs/peers_living.md]``

Each world is a folder of OUT; what is complete is not played again.  ``--page`` writes the page of
what is there, and ``figure-peers-living.svg`` beside it.  ``make peers-living NODES=10000`` plays
smaller worlds, with as many groups fewer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.report.style import RC, curve_style
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from tools.groups_tables import COUNTS, complete, number, of, per_cent, rounds
from tools.pages import main as page_main
from tools.pages import table

__all__ = ["commands", "figure", "main", "page"]

NODES = int(os.environ.get("SCRIBE_NODES") or 100_000)  # as make exports it
GROUPS = max(1, NODES * 1_500 // 100_000)
FIGURE = "figure-peers-living.svg"

#: Rounds of a world, and after how many a delivery counts as lost: with a mass failure, and with
#: churn, whose rounds take several times as long.
FAILURE, CHURN = (16, 8), (10, 5)

#: Scribe's messages that are copies of publications; all other kinds are control.
_PAYLOAD = ("payload", "retransmission", "MULTICAST")

_SCENARIOS = {
    "quarter-fails": "a quarter of the nodes fails in round 3",
    "lifetime-200": "churn, mean lifetime 200 rounds",
    "lifetime-60": "churn, mean lifetime 60 rounds",
    "lifetime-20": "churn, mean lifetime 20 rounds",
}

#: Ending of a world's folder -> the systems that are looked at in it: as tables name them, and as
#: the page does.
_DELIVERIES = {
    "best-effort": {"scribe": "Scribe, best effort", "gossipsub": "GossipSub"},
    "reliable": {"scribe": "Scribe, reliable"},
}

_LABELS = [label for systems in _DELIVERIES.values() for label in systems.values()]


def commands(nodes: int = NODES, groups: int = GROUPS) -> dict[str, list[str]]:
    """Return the command of each world, by the name of its folder."""
    found = {}
    for scenario in _SCENARIOS:
        for delivery in _DELIVERIES:
            if scenario == "quarter-fails":
                lasts = FAILURE
                events = ["mass-failure+publications", "--share", "0.25", "--event-round", "3"]
                size = ["--nodes", f"{nodes}"]
            else:
                lasts = CHURN
                lifetime = scenario.removeprefix("lifetime-")
                events = ["churn+publications", "--lifetime", lifetime]
                size = ["--nodes", f"{nodes * 6 // 5}", "--initial", f"{nodes}"]
            systems = ["scribe"] if delivery == "reliable" else ["scribe", "gossipsub"]
            found[f"{scenario}-{delivery}"] = [
                *(
                    "world",
                    *size,
                    "--groups",
                    f"{groups}",
                    "--rounds",
                    f"{lasts[0]}",
                    "--lookups",
                    "0",
                ),
                *("--generator", *events, "--deadline", f"{lasts[1]}", "--link-stress-period", "5"),
                *("--delivery", delivery, "--systems", ",".join(systems)),
            ]
    return found


@dataclass(frozen=True)
class Seen:
    """A system in a world.

    Attributes
    ----------
    scenario : str
        What happens.
    system : str
        Its name in tables.
    label : str
    nodes : int
        Alive at the start.
    measures : DataFrame
        Rounds by measures.
    publications : DataFrame
        ``round`` and `COUNTS`, a row for each publication whose deadline has come.
    """

    scenario: str
    system: str
    label: str
    nodes: int
    measures: pd.DataFrame
    publications: pd.DataFrame

    @property
    def control(self) -> pd.Series:
        """Control messages per live node, by rounds: without Pastry's own."""
        if self.system != "scribe":
            return of(self.measures, f"{self.system}.control")
        kinds = [kind for kind in SCRIBE_KINDS if kind not in _PAYLOAD]
        sent = sum(of(self.measures, f"messages.{kind}") for kind in kinds)
        return sent / self.measures["nodes.live"]

    @property
    def of_pastry(self) -> pd.Series:
        """Messages that keep the overlay, per live node, by rounds; GossipSub needs none."""
        if self.system != "scribe":
            return pd.Series(0.0, index=self.measures.index)
        sent = sum(of(self.measures, f"messages.{kind}") for kind in MESSAGE_KINDS)
        return sent / self.measures["nodes.live"]

    def link_stress(self, which: str) -> float:
        """Return the mean of a number of link stress over the rounds in which it is measured."""
        name = f"link_stress.{which}"
        if self.system != "scribe":
            name = f"{self.system}.{name}"
        else:
            name = name.replace(".control.", ".maintenance.")
        line = of(self.measures, name)
        line = line[line > 0]
        return float(line.mean()) if len(line) else 0.0


def seen(out: Path) -> list[Seen]:
    """Return each system in each world that is there, scenario by scenario."""
    found = []
    for scenario in _SCENARIOS:
        for delivery, systems in _DELIVERIES.items():
            for name in complete(out, [f"{scenario}-{delivery}"]):
                measures = rounds(out / name)
                given = pd.read_parquet(out / name / "tables" / "publications")
                config, last = config_of(out / name), measures.index.max()
                deadline, nodes = config["deadline"], config["initial"] or config["nodes"]
                for system, label in systems.items():
                    # those of the last rounds have had less time than the others
                    had_time = given["round"].between(1, last - deadline)
                    mine = given[(given["system"] == system) & had_time]
                    found.append(Seen(scenario, system, label, nodes, measures, mine))
    return found


def config_of(folder: Path) -> dict[str, Any]:
    """Return all fields of a world."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    return manifest["resolved"]


def numbers(found: Sequence[Seen]) -> list[str]:
    """Return the table: a row for each system in each world."""
    header = [
        *(
            "events",
            "nodes",
            "system",
            "expected",
            "in time",
            "late",
            "lost",
            "duplicates a delivery",
        ),
        *("control messages", "of Pastry", "payload, link stress mean", "max"),
        *("control, link stress mean", "max"),
    ]
    rows = []
    for one in found:
        sums = {count: int(one.publications[count].sum()) for count in COUNTS}
        expected = max(1, sums["expected"])
        delivered = max(1, sums["in_time"] + sums["late"])
        shares = [per_cent(sums[count], expected) for count in ("in_time", "late", "lost")]
        stress = [one.link_stress(f"{of_what}.{which}") for of_what in ("payload", "control")
                  for which in ("mean_existing", "max")]  # fmt: skip
        rows.append(
            [
                *(
                    _SCENARIOS[one.scenario],
                    f"{one.nodes:,}",
                    one.label,
                    f"{sums['expected']:,}",
                    *shares,
                ),
                *map(number, (sums["duplicates"] / delivered, one.control.mean())),
                number(one.of_pastry.mean()),
                *map(number, stress),
            ]
        )
    return table(header, rows)


def figure(found: Sequence[Seen]) -> str:
    """Return the figure as SVG: what share was delivered, by the round of publication."""
    from matplotlib import style

    with style.context(["default", RC]):
        drawing = new_figure(7.6, 2.3)
        words = []
        scenarios = [one for one in _SCENARIOS if any(s.scenario == one for s in found)]
        for place, scenario in enumerate(scenarios):
            axes = drawing.add_axes((0.07 + place * 0.235, 0.2, 0.2, 0.62))
            for one in (s for s in found if s.scenario == scenario):
                by_round = one.publications.groupby("round")[list(COUNTS)].sum()
                reliable = one.label == "Scribe, reliable"  # in time it is as best effort
                got = by_round["in_time"] + (by_round["late"] if reliable else 0)
                share = 100 * got / by_round["expected"]
                label = f"{one.label}, in the end" if reliable else one.label
                axes.plot(share.index, share, label=label, **curve_style(_LABELS.index(one.label)))
                words.append(f"{scenario}, {label}: least {number(share.min())} %")
            axes.set_title(_SCENARIOS[scenario].replace(", mean", ",\nmean"), fontsize=6)
            axes.set(xlabel="round of publication", ylim=(0, 104))
            if not place:
                axes.set(ylabel="delivered, %")
                axes.legend(fontsize=5.5, frameon=False, loc="lower right")
        heading = "Deliveries in their round: Scribe and GossipSub under the same events"
        return svg_element(drawing, "peers-living", heading, "; ".join(words))


def page(out: Path, file: Path) -> str:
    """Return the page of the worlds that are in OUT; write the figure beside it."""
    found = seen(out)
    replace_file(file.parent / FIGURE, figure(found).encode())
    return "\n".join(
        [
            "# Scribe and GossipSub while nodes come and fail",
            "",
            "Written by `make peers-living` (`NODES=10000` is a smaller one). Both systems live in "
            "the same worlds: the same nodes fail and arrive, the same members join, the same "
            "sources publish, one publication of each group in a round. "
            "Groups are of the paper's sizes, 1,500 for 100,000 nodes.",
            "",
            f"![Share of deliveries by rounds, in time or in the end]({FIGURE})",
            "",
            *numbers(found),
            "",
            "*In time*: in the round of the publication, by the clock by hops (Scribe) or by time "
            "(GossipSub): both end within a round. "
            f"*Late*: in one of the {FAILURE[1]} rounds after it (with churn {CHURN[1]}); "
            "*lost*: not by then. *Control messages* are per live node and round: for Scribe all "
            "but payloads and their retransmissions, for GossipSub GRAFT, PRUNE, IHAVE, IWANT, "
            "IDONTWANT and what opens connections. *Of Pastry*: what keeps the overlay on which "
            "Scribe stands (keep-alives of leaf sets above all), which every application on "
            "Pastry shares; GossipSub has no overlay but its connections, and its discovery of "
            "peers is outside of the model. *Link stress*: packets on each link that exists, in "
            "the rounds in which it was measured (every fifth).",
            "",
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    page_main(arguments, __doc__ or "", commands(), page)


if __name__ == "__main__":
    main(sys.argv[1:])
