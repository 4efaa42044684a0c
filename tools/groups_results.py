"""Scribe's trees in worlds: the experiments and the tables of ``docs/groups_results.md``.

Most experiments are a command of scribe-spark, some with events that are written to OUT/inputs
before; one steps a world in Python (:mod:`tools.groups_root`).
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.core import draws
from scribe_spark.core.paths import replace_file
from scribe_spark.worlds.summary import TOLERANCE, WINDOW
from tools import groups_root, pages
from tools.folders import COUNTS, Columns, Folder, cells_of, rounds_in_words
from tools.pages import Page, Panel, draw, number, over_seeds, per_cent, table

# --- the experiments

#: Nodes -> how often some of them fail; the first round in which they do, and rounds between.
WAVES = {1_000: 20, 10_000: 5, 100_000: 2}
_FIRST, _BETWEEN = 4, 6

_SEEDS = range(1, 6)
_MASS = "world --config data/groups_mass_failure.toml"
_CHURN = "world --config data/groups_churn.toml --lifetime"
_HOLDERS = "world --config data/groups_root_failures.toml --holders"
_SEED_1 = "--seed 1 --lookups 0"

#: Folder in OUT -> command of scribe-spark; none for the world that is stepped in Python.
EXPERIMENTS = {
    **{f"mass-{seed}": f"{_MASS} --seed {seed}" for seed in _SEEDS},
    **{f"mass-{seed}-replicas-8": f"{_MASS} --seed {seed} --replicas 8" for seed in _SEEDS},
    "mass-best-effort": f"{_MASS} --delivery best-effort",
    "root": "",
    **{f"holders-{count}": f"{_HOLDERS} {count}" for count in (1, 4, 5)},
    # data/groups_root_failures.toml without its generators: events are a table
    "created-again": f"world --nodes 10000 --groups 150 --rounds 20 {_SEED_1}",
    "crowd": "world --config data/groups_flash_crowd.toml",
    **{
        f"local-{nodes}": f"world --nodes {nodes} --groups {15 * nodes // 1_000} "
        f"--rounds {_FIRST + waves * _BETWEEN} {_SEED_1}"
        for nodes, waves in WAVES.items()
    },
    **{f"churn-{n}-{s}": f"{_CHURN} {n} --seed {s}" for s in _SEEDS for n in (20, 60, 200)},
    "waited-20": f"{_CHURN} 20 --lost-after 20",
}


def failures(out: Path, nodes: int) -> pd.DataFrame:
    """Return events: every few rounds one of 500 nodes fails, which are drawn."""
    few, waves = nodes // 500, WAVES[nodes]
    drawn = draws.distinct_below(nodes, few * waves, 1, "few failures", nodes)
    order = np.argsort(draws.bits_np(1, "order of failures", drawn))
    rounds = np.repeat(_FIRST + _BETWEEN * np.arange(waves), few)
    return pd.DataFrame({"round": rounds, "node": drawn[order], "event": "fail"})


#: Groups that are lost are created again in this round, and so many nodes join each in the next.
_CREATED, _JOINING = 12, 50


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


#: Experiment -> its events, which are the same whenever they are made: a world that is complete is
#: recognised by the digests of its tables.
_EVENTS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "created-again": created_again,
    **{f"local-{nodes}": partial(failures, nodes=nodes) for nodes in WAVES},
}


def run(out: Path, name: str, words: list[str]) -> None:
    """Run an experiment that is not complete."""
    if name == "root":
        groups_root.run(out / name)
        return
    if name == "created-again":
        pages.run(out, "holders-5", GROUPS.command("holders-5"))
    if name in _EVENTS:
        file = out / "inputs" / name / "events.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, _EVENTS[name](out).to_csv(index=False).encode())
        words = [*words, "--events", str(file)]
    pages.run(out, name, words)


# --- many nodes fail

Worlds = Sequence[Folder]

_DISORDER = "scribe.deliveries.out_of_order"
_MASS_HEADS = "delivery | k | seeds | rounds until reached again, most | lost deliveries | expected deliveries | duplicates | out of order | late | repaired after N rounds | groups lost | deliveries lost with them"


def _mass(out: Path) -> list[str]:
    found: dict[tuple[str, int], list[Folder]] = {}
    for world in Folder.find(out, "mass-*"):
        found.setdefault((world.config["delivery"], world.config["replicas"]), []).append(world)
    rows = []
    for (delivery, k), worlds in sorted(found.items()):
        seeds = sorted(one.config["seed"] for one in worlds)
        again = max(map(_reached_again, worlds))
        alive = _alive(worlds)[list(COUNTS)].sum().map(number)
        repaired = (f"{n}: {number(count)}" for n, count in sorted(_waits(worlds).items()))
        gone = (one.publications[one.is_lost].query(f"round >= {_failed(one)}") for one in worlds)
        cells = [
            *(delivery.replace("-", " "), str(k)),
            str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
            "never" if math.isinf(again) else number(again),
            *(alive["lost"], alive["due"], alive["duplicates"]),
            *(number(sum(one.total(_DISORDER) for one in worlds)), alive["late"]),
            ", ".join(repaired),
            number(sum(one.of("scribe.groups.lost").max() for one in worlds)),
        ]
        rows.append([*cells, number(sum(one["lost"].sum() for one in gone))])
    return table(_MASS_HEADS, rows)


def _failed(world: Folder) -> int:
    """Return the round in which most nodes fail."""
    return int(world.of("nodes.live").diff().idxmin())


def _alive(worlds: Worlds) -> pd.DataFrame:
    """Return the publications of groups that are not lost."""
    return pd.concat([world.publications[~world.is_lost] for world in worlds])


def _waits(worlds: Worlds) -> Counter[int]:
    """Return the numbers of failures by the rounds until they are repaired."""
    return sum((Counter(world.spread("scribe.repaired")) for world in worlds), Counter[int]())


def _reached_again(world: Folder) -> float:
    """Return the rounds from the failure to the first from which on all is delivered in its round."""
    sums, failed = _alive([world]).groupby("round")[["expected", "in_time"]].sum(), _failed(world)
    short = sums.index[(sums.index >= failed) & (sums["in_time"] < sums["expected"])]
    if not len(short):
        return 0
    return math.inf if short.max() == sums.index.max() else int(short.max()) + 1 - failed


# --- roots and holders fail

_ROOT_ROWS = {
    "members of the group": "{members:,}",
    "children of its root": "{children:,}",
    "nodes that have another parent after the repair, without the new root": "{rejoined:,}",
    "of these, not children of the failed root": "{rejoined_no_children:,}",
    "children of the failed root that have not joined again": "{children_not_rejoined:,}",
    "the new root is the live node nearest to the groupId": "{is_nearest}",
    "JOINs and publications by nodes that the list does not name": "{tried} and {tried}",
    "refused by the new root's tree": "{refused[JOIN]:,.0f} and {refused[MULTICAST]:,.0f}",
    "members in the end, of the arrived nodes that the list names": "{joined_named:,} of {named:,}",
    "members that get a publication by one of these in time, source included": "{permitted[in_time]:,} of {permitted[expected]:,}",
}


def _root(out: Path) -> list[str]:
    found = Folder(out / "root").json("result.json")
    found["is_nearest"] = "yes" if found["new_root"] == found["nearest"] else "**no**"
    rows = [[words, numbers.format(**found)] for words, numbers in _ROOT_ROWS.items()]
    return table(["", "measured"], rows)


_FAIL = {
    "holders-1": "the root",
    "holders-4": "4 of 5 holders",
    "holders-5": "all 5 holders",
    "created-again": "all 5; created again in round 12, joined by 50 others each in round 13",
}
_PARTS = ((4, 4), (5, 6), (7, 7), (8, 11), (12, 12), (13, 13), (14, 19))
_HOLDERS_HEADS = "fail | nodes | groups lost | round 4 | 5-6 | 7 | 8-11 | 12 | 13 | 14-19 | JOINs refused: no group"


def _holders(out: Path) -> list[str]:
    rows = []
    for world in (world for name in _FAIL for world in Folder.find(out, name)):
        lost = world.of("scribe.groups.lost")
        most, last = number(lost.max()), number(lost.iloc[-1])
        cells = [_FAIL[world.path.name], number(-world.of("nodes.live").diff().min())]
        cells += [most if most == last else f"{most}, then {last}", *_ten(world, *_PARTS)]
        rows.append([*cells, number(world.total("scribe.refused.no group"))])
    return table(_HOLDERS_HEADS, rows)


def _ten(world: Folder, *parts: tuple[int, int]) -> list[str]:
    """Return the share delivered in time to the ten largest groups in each of some rounds."""
    ten = world.publications[world.publications["group"] <= 10]
    some = (ten.loc[ten["round"].between(*ends), ["in_time", "expected"]].sum() for ends in parts)
    return [per_cent(sums["in_time"], sums["expected"]) for sums in some]


# --- churn

#: Rounds at the end whose publications have not had all their time.
_DEADLINE = 10

_CHURN_SETTING = f"""\
`data/groups_churn.toml`: 10,000 live nodes, 150 groups, reliable delivery, one publication a group in each round of 30 s. In each round, one of L nodes fails silently, where L is the *lifetime* in rounds; a node that arrives replaces the failed node and joins its groups (20, 60 and 200 rounds are 10, 30 and 100 minutes). In worlds with churn, rounds before the [steady state](rules.md#measures-by-round) do not count; from the steady state on, means of {WINDOW} rounds stay within {TOLERANCE:.0%}. *Not settled*: there is no steady state, and the last {WINDOW} rounds count. Numbers are means over the seeds ± the standard deviation between seeds. *Median group*: the median over groups of the share in time. *Lost*: not delivered after {_DEADLINE} rounds; *came later*: delivered after that. *Died*: publications whose source failed before a root had them."""

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
    "out of order": lambda world: world.steadily(_DISORDER).sum(),
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


def _churn(out: Path) -> list[str]:
    rows = [
        [number(life), f"{len(seeds)}", _rounds(seeds), *cells_of(_DELIVERIES, seeds)]
        for life, seeds in _by_lifetime(out).items()
    ]
    lines = [_CHURN_SETTING, "", *table(["lifetime", "seeds", "rounds", *_DELIVERIES], rows)]
    for world in Folder.find(out, "waited-20"):
        lost, expected = (number(world.sum(name)) for name in ("lost", "expected"))
        lines += ["", f"A lifetime of 20 again, one seed, with a deadline of {2 * _DEADLINE} rounds; rounds {_rounds([world])}: {lost} of {expected} deliveries lost."]  # fmt: skip
    return lines


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


# --- a flash crowd


def _crowd(out: Path) -> list[str]:
    (world,) = Folder.find(out, "crowd")
    at = int(world.of("scribe.members").diff().idxmax())
    own, forwarder, at_root = (
        world.of(f"scribe.joins.{cause}")[at] for cause in ("own", "forwarder", "at_root")
    )
    tree = world.table("memberships").query("group == 1")
    root = tree.loc[tree["root"], "node"].iloc[0]
    in_time, expected = (
        world.of(f"scribe.publications.{name}")[at + 1] for name in ("in_time", "expected")
    )
    rows = {
        "JOINs sent by nodes that join": number(own),
        "messages JOIN (hops) for each node that joins": number(
            world.of("messages.JOIN")[at] / own
        ),
        "JOINs that are answered by the root": f"{number(at_root)} ({per_cent(at_root, own + forwarder)})",
        "children of the root in the end": number((tree["parent"] == root).sum()),
        "in time in the next round": per_cent(in_time, expected),
    }
    return table(["", "measured"], rows.items())


# --- the claims of JSAC 2002, Section III.B


def _yes(is_so: bool, words: str, otherwise: str = "No") -> str:
    return f"{'Yes' if is_so else otherwise}: {words}"


def _implicit(worlds: Worlds) -> str:
    heartbeats, payloads = (worlds[0].of(f"messages.{kind}") for kind in ("heartbeat", "payload"))
    before, after = heartbeats[4], heartbeats.iloc[-1]
    words = f"{number(payloads[4])} copies and {number(before)} heartbeats in the round before the failure"
    return _yes(not before, words + (f"; {number(after)} heartbeats in the last round, in lost groups" if after else ""))  # fmt: skip


def _repaired(worlds: Worlds) -> str:
    waits = _waits(worlds)
    if not waits:
        return ""
    all_, first = sum(waits.values()), min(waits)
    gone = sum(world.of("scribe.groups.lost").max() for world in worlds)
    words = f"of {number(sum(world.total('scribe.failures') for world in worlds))} failures"
    words += f" (all but those in {number(gone)} lost groups)" if gone else ""
    return f"{number(all_)} {words} repaired, {per_cent(waits[first], all_)} after {first} rounds, the last after {max(waits)}"


def _survives(worlds: Worlds) -> str:
    four, five = (world.of("scribe.groups.lost").max() for world in worlds)
    lost = f"{number(four)} of 10 groups are lost if 4 of 5 holders fail"
    return _yes(not four, f"{lost}, {number(five)} if all fail")


def _children_join(worlds: Worlds) -> str:
    found = worlds[0].json("result.json")
    exact = not found["children_not_rejoined"] and not found["rejoined_no_children"]
    words = "{rejoined:,} of {members:,} members; the root had {children:,} children"
    return _yes(exact, words.format(**found), "Not exactly")


def _new_root(worlds: Worlds) -> str:
    found = worlds[0].json("result.json")
    refused = (f"{number(count)} {kind}s" for kind, count in sorted(found["refused"].items()))
    words = f"it refused {' and '.join(refused)} of nodes that are not on the access list"
    return _yes(found["new_root"] == found["nearest"], words)


def _senders(worlds: Worlds) -> str:
    (in_time,), lost = _ten(worlds[0], (7, 10**6)), worlds[0].total("messages.lost MULTICAST")
    words = f"{in_time} in time from 2 rounds after the failure on"
    return _yes(in_time == "100 %", f"{words}; before, {number(lost)} MULTICASTs met a dead node")


def _discarded(worlds: Worlds) -> str:
    entries = sum(world.of("scribe.children").iloc[-1] for world in worlds)
    children = sum(world.table("memberships")["parent"].notna().sum() for world in worlds)
    words = f"{number(entries)} entries and {number(children)} children 14 rounds after a quarter"
    return _yes(entries == children, f"{words} of the nodes failed", "Not all")


def _detection(worlds: Worlds) -> str:
    parts = []
    for life, seeds in _by_lifetime(worlds[0].path.parent).items():
        sent = (sum(one.steadily(f"messages.{kind}") for kind in ("heartbeat", "refresh")).sum() / one.steadily("nodes.live").sum() / one.round_seconds for one in seeds)  # fmt: skip
        parts.append(f"{over_seeds([*sent])} (lifetime {life})")
    return f"Heartbeats and refreshes per live node and second: {', '.join(parts)}"


def _local(worlds: Worlds) -> str:
    parts = []
    for world in worlds:
        nodes = int(world.path.name.removeprefix("local-"))
        involved = world.total("scribe.repair.nodes") / world.total("scribe.failures")
        per_log = number(involved / math.log(nodes, 16))
        parts.append(f"{number(involved)} of {nodes:,} ({per_log} log_16 N)")
    return f"Nodes per failure: {', '.join(parts)}"


def _out_of_order(worlds: Worlds) -> str:
    return f"{number(sum(world.total(_DISORDER) for world in worlds))} out of order"


def _best_effort(worlds: Worlds) -> str:
    lost, due = _alive(worlds[:1])[["lost", "due"]].sum()
    words = f"{per_cent(lost, due)} of deliveries lost, {_out_of_order(worlds)}"
    return _yes(lost > 0, words)


def _reliable(worlds: Worlds) -> str:
    lost, twice, late = map(number, _alive(worlds)[["lost", "duplicates", "late"]].sum())
    return f"{lost} lost, {twice} delivered twice, {_out_of_order(worlds)}, {late} late"


def _replicated(worlds: Worlds) -> str:
    without, again = _ten(worlds[0], (8, 11), (14, 19))
    return f"Yes: {without} delivered without holders, {again} after a new CREATE"


#: A quotation, the experiments that it needs, and the answer of these, which may be empty.
_CLAIMS: tuple[tuple[str, str, Callable[[Worlds], str]], ...] = (
    ("Multicast messages serve as an implicit heartbeat signal", "mass-?", _implicit),
    ("Pastry will route the message to a new parent", "mass-?", _repaired),
    ("Scribe can also tolerate the failure of multicast tree roots", "holders-4 holders-5", _survives),
    ("its immediate children detect the failure and join again through Pastry", "root", _children_join),
    ("Pastry routes the join messages to a new root [...]", "root", _new_root),
    ("Multicast senders likewise discover the new rendez-vous point", "holders-1", _senders),
    ("Children table entries are discarded unless they are periodically refreshed", "mass-?", _discarded),
    ("fault detection is done by sending messages to a small number of nodes", "churn-*", _detection),
    ("only a small number of nodes (O(log_2^b N)) is involved", "local-*", _local),
    ("Scribe may fail to deliver messages or may deliver them out of order", "mass-best-effort", _best_effort),
    ("an application can implement ordered, reliable delivery", "mass-?", _reliable),
    ("the root needs to be replicated", "created-again", _replicated),
)  # fmt: skip


def _claims(out: Path) -> list[str]:
    """Return the table of the claims whose experiments are there."""
    found = ((words, Folder.find(out, needs), answer) for words, needs, answer in _CLAIMS)
    answers = [(f'"{words}"', answer(worlds)) for words, worlds, answer in found if worlds]
    return table("claim | measured", [row for row in answers if row[1]])


GROUPS = Page(
    EXPERIMENTS,
    {
        "mass": ("mass-*/tables/rounds", _mass),
        "root": ("root/result.json", _root),
        "holders": ("holders-*/tables/rounds", _holders),
        "churn": ("churn-*/tables/rounds", _churn),
        "crowd": ("crowd/tables/rounds", _crowd),
        "claims": ("*/*", _claims),
    },
    figures=_churn_figure,
    play=run,
)
