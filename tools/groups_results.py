"""Scribe's trees in worlds: what ``docs/groups_results.md`` has (see ``texts/groups.txt``).

Most experiments are a command of scribe-spark, some with events that are written to OUT/inputs
before; one steps a world in Python (:mod:`tools.groups_root`).
"""

from collections import Counter
from collections.abc import Sequence
from math import inf, log  # noqa: F401
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.core import draws
from scribe_spark.core.paths import replace_file
from scribe_spark.worlds.summary import TOLERANCE, WINDOW  # noqa: F401
from tools import folders, groups_root
from tools.folders import COUNTS, Columns, Folder, cells_of, rounds_in_words  # noqa: F401
from tools.pages import Panel, draw, per_cent

Worlds = Sequence[Folder]

# --- the experiments

#: Nodes -> how often some of them fail; the first round in which they do, and rounds between.
WAVES = {1_000: 20, 10_000: 5, 100_000: 2}
_FIRST, _BETWEEN = 4, 6

#: Groups that are lost are created again in this round, and so many nodes join each in the next.
_CREATED, _JOINING = 12, 50


def failures(nodes: int) -> pd.DataFrame:
    """Return events: every few rounds one of 500 nodes fails, which are drawn."""
    few, waves = nodes // 500, WAVES[nodes]
    drawn = draws.distinct_below(nodes, few * waves, 1, "few failures", nodes)
    order = np.argsort(draws.bits_np(1, "order of failures", drawn))
    rounds = np.repeat(_FIRST + _BETWEEN * np.arange(waves), few)
    return pd.DataFrame({"round": rounds, "node": drawn[order], "event": "fail"})


def created_again(out: Path) -> pd.DataFrame:
    """Return the events of ``holders-5``, after which each lost group is created and joined again.

    Its members try to join in every round by themselves; the nodes that join by events are others.
    """
    world = Folder(out / "holders-5")
    events = world.table("events").convert_dtypes()
    failed = events.loc[events["event"] == "fail", "node"].to_numpy(np.int64)
    alive = np.setdiff1d(world.table("nodes")["node"].to_numpy(), failed)
    start = (events["round"] == 0) & events["event"].isin(["create", "join"])
    joined, rows = events[start & (events["event"] == "join")], []
    for group in sorted({*world.publications.loc[world.is_lost, "group"]}):
        members = joined.loc[joined["group"] == group, "node"].to_numpy(np.int64)
        raw = draws.stream(1, "created again by", int(group))
        creator = alive[draws.whole_numbers(raw, len(alive), 1)[0]]
        rows.append((_CREATED, creator, "create", group))
        others = np.setdiff1d(alive, members)
        few = min(_JOINING, len(others))
        drawn = others[draws.distinct_below(len(others), few, 1, "joins again", int(group))]
        rows += [(_CREATED + 1, node, "join", group) for node in drawn]
    columns = ["round", "node", "event", "group"]
    more = pd.DataFrame(rows, columns=columns).convert_dtypes()
    # what happens at the start is no part of a table of events
    return pd.concat([events[~start], more])[columns]


def run(out: Path, name: str, words: list[str]) -> None:
    """Run an experiment that is not complete.

    Its events are the same whenever they are made: a world that is complete is recognised by the
    digests of its tables.
    """
    if name == "root":
        groups_root.run(out / name)
        return
    events = None
    if name == "created-again":
        folders.run(out, "holders-5", GROUPS.command("holders-5"))
        events = created_again(out)
    elif name.startswith("local-"):
        events = failures(int(name.removeprefix("local-")))
    if events is not None:
        file = out / "inputs" / name / "events.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, events.to_csv(index=False).encode())
        words = [*words, "--events", str(file)]
    folders.run(out, name, words)


# --- failures


def _total(worlds: Worlds, measure: str) -> float:
    return sum(world.total(measure) for world in worlds)


def _groups_lost(worlds: Worlds) -> float:
    return sum(world.of("scribe.groups.lost").max() for world in worlds)


def _alive(worlds: Worlds) -> pd.DataFrame:
    """Return the publications of groups that are not lost."""
    return pd.concat([world.publications[~world.is_lost] for world in worlds])


def _counted(worlds: Worlds) -> pd.Series:
    """Return what becomes of the deliveries of groups that are not lost."""
    return _alive(worlds)[list(COUNTS)].sum()


def _waits(worlds: Worlds) -> Counter[int]:
    """Return the numbers of failures by the rounds until they are repaired."""
    return sum((Counter(world.spread("scribe.repaired")) for world in worlds), Counter[int]())


def _failed(world: Folder) -> int:
    """Return the round in which most nodes fail."""
    return int(world.of("nodes.live").diff().idxmin())


def _lost_with_groups(worlds: Worlds) -> float:
    """Return the lost deliveries of groups that are lost, from the failure on."""
    gone = (one.publications[one.is_lost].query(f"round >= {_failed(one)}") for one in worlds)
    return sum(some["lost"].sum() for some in gone)


def _reached_again(worlds: Worlds) -> float:
    """Return the most rounds until all is delivered in its round, from then on to the end."""
    most = 0.0
    for world in worlds:
        sums = _alive([world]).groupby("round")[["expected", "in_time"]].sum()
        short = sums.index[sums["in_time"] < sums["expected"]].max()
        if short >= _failed(world):
            most = max(most, inf if short == sums.index.max() else short + 1 - _failed(world))
    return most


def _ten(world: Folder, *parts: tuple[int, int]) -> list[str]:
    """Return the share delivered in time to the ten largest groups in each of some rounds."""
    ten = world.publications[world.publications["group"] <= 10]
    some = (ten.loc[ten["round"].between(*ends), ["in_time", "expected"]].sum() for ends in parts)
    return [per_cent(sums["in_time"], sums["expected"]) for sums in some]


def _ends(worlds: Worlds) -> list[float]:
    """Return the entries of children tables in the end, and the nodes with a parent."""
    ends = [(world.of("scribe.children").iloc[-1], world.table("memberships")) for world in worlds]
    return [sum(n for n, _ in ends), sum(tree["parent"].notna().sum() for _, tree in ends)]


# --- churn

#: Rounds at the end whose publications have not had all their time.
_DEADLINE = 10
_KINDS = "payload heartbeat refresh JOIN LEAVE MULTICAST acknowledgement retransmission replica"


def _came_later(world: Folder) -> float:
    """Return the deliveries after the deadline in the rounds that count."""
    name = "scribe.deliveries.late"
    later = (n for n in world.spread(name) if n > _DEADLINE)
    return float(sum(world.steadily(f"{name}.{n}").sum() for n in later))


_DELIVERIES: Columns = {
    "expected": lambda world: world.sum("expected"),
    "in time, %": lambda world: world.share("in_time"),
    "median group, %": lambda world: world.median_group,
    "late, %": lambda world: world.share("late"),
    "lost": lambda world: world.sum("lost"),
    "came later": _came_later,
    "died": lambda world: world.steadily("scribe.publications.source died").sum(),
    "duplicates": lambda world: world.sum("duplicates"),
    "out of order": lambda world: world.steadily("scribe.deliveries.out_of_order").sum(),
    "orphans, mean": lambda world: world.steadily("scribe.orphans").mean(),
    "groups lost, most": lambda world: world.steadily("scribe.groups.lost").max(),
}


def _by_lifetime(out: Path) -> dict[int, list[Folder]]:
    """Return mean lifetime -> the worlds of all seeds."""
    found: dict[int, list[Folder]] = {}
    for world in Folder.find(out, "churn-*"):
        found.setdefault(int(world.path.name.split("-")[1]), []).append(world)
    return dict(sorted(found.items()))


def _rounds(seeds: Worlds) -> str:
    return rounds_in_words([world.begin for world in seeds], seeds[0].last)


def _detection(world: Folder) -> float:
    """Return the heartbeats and refreshes per live node and second of the rounds that count."""
    sent = sum(world.steadily(f"messages.{kind}") for kind in ("heartbeat", "refresh")).sum()
    return sent / world.steadily("nodes.live").sum() / world.round_seconds


def _churn_figure(out: Path, folder: Path) -> None:
    """Write the figure of churn, of the first seed of each lifetime."""
    shares: dict[str, pd.Series] = {}
    messages: dict[str, pd.Series] = {}
    for life, (first, *_) in _by_lifetime(out).items():
        label, last = f"lifetime {life}", first.last
        in_time, expected = (first.of(f"scribe.publications.{n}") for n in ("in_time", "expected"))
        shares[label] = (in_time / expected).loc[1:last]
        messages[label] = first.rate(_KINDS.split()).loc[1:last]
    axes = {"xlabel": "round", "ylabel": "delivered in time, share of expected"}
    rates = axes | {"ylabel": "Scribe's messages per live node and second", "ylim": (0, None)}
    panels = [Panel(shares, axes), Panel(messages, rates, "lower right")]
    heading = "Sustained churn: deliveries in time and messages, by rounds"
    if shares:
        draw(folder / "figure-groups-churn.svg", heading, [panels])


GROUPS = folders.page_of("groups", globals(), figures=_churn_figure, play=run)
