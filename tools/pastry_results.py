"""Pages of Pastry's overlay and of trees over it.

``docs/living_results.md``; a figure and a table of ``docs/living.md``; the tables of
``docs/reference_tree.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from scribe_spark.report.style import label_of
from scribe_spark.worlds.summary import WINDOW, first_steady, measures_by_round, steady_from
from tools.folders import Folder, of, rounds_in_words
from tools.pages import Panel, draw, number, over_seeds, table
from tools.results import Page, Part

# --- Pastry in worlds

_GROWTH = "sweep --config data/sweep_growth.toml"
_FAILURE = "world --config data/world_mass_failure.toml"
_HOPS = "world --nodes 100000 --rounds 1 --lookups 200000"
_ADJACENT = "world --nodes 10000 --rounds 5 --lookups 50000 --generator adjacent-failure --adjacent"
_CHURN = "world --config data/world_churn.toml"
_REPAIRS = (("lazy", 16), ("none", 16), ("eager", 16), ("lazy", 32))

_SHOWN = (
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean"),
    *("scribe.messages", "scribe.children_entries.max", "scribe.link_stress.max"),
)
_COMPARED = (
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean", "scribe.children_tables.mean"),
    *("scribe.children_entries.mean", "scribe.messages", "pastry.stretch", "pastry.hops.mean"),
)


def _sweep(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "sweep")


_GROWTH_SETTING = """\
These runs have {nodes:,} nodes, {groups} groups and seed {seed}. The first row has values; the other rows have differences from these values, in %. *Largest* is the largest difference, without its sign, of eight measures: `scribe.rad.median`, `scribe.rmd.median`, `scribe.messages`, `pastry.stretch`, and the means `scribe.rdp.mean`, `scribe.children_tables.mean`, `scribe.children_entries.mean` and `pastry.hops.mean`."""


def _growth(out: Path) -> list[str]:
    introduce = {"growth": "no", "introduced": "yes"}
    there = {name: word for name, word in introduce.items() if (out / name / "sweep").exists()}
    waves = pd.concat([_sweep(out / name).assign(introduce=word) for name, word in there.items()])
    one = _sweep(out / "sequential").set_index("metric")["value"]
    value = waves.set_index(["growth", "introduce", "maintenance", "metric"])["value"]
    names, compared = ([n for n in some if n in one] for some in (_SHOWN, _COMPARED))
    rows = [["one node", "-", "", *(number(one[name]) for name in names)]]
    for growth, word in sorted({index[:2] for index in value.index}):
        differences = {n: value[growth, word, 0, n] / one[n] - 1 for n in (*names, *compared)}
        most = max(abs(differences[name]) for name in compared)
        cells = (f"{100 * differences[name]:+.1f}" for name in names)
        rows.append([f"{growth:g}", word, f"{100 * most:.1f}", *cells])
    header = ["growth", "introduce", "largest", *(f"`{name}`" for name in names)]
    setting = _GROWTH_SETTING.format(**Folder(out / "introduced").config)
    return [setting, "", *table(header, rows)]


_COST_SETTING = """\
*Messages* is the mean over all arrivals of a run with the default waves. The third column is the number of messages that Pastry's authors expect, with a logarithm to the base 2^b = 16. *Hops* and *stretch* are those of the CREATE messages, which go from the creator of a group to its root; *stretch* is the delay of all these routes together, divided by the delay of the direct routes. *Convergence* is the mean delay of the JOINs of two members until their routes meet, divided by the mean delay between these two members."""

_COSTS = {
    "messages": "arrival_messages.mean",
    "3 x 2^b x log_2^b N": "arrival_messages.bound",
    **{"hops": "hops.mean", "stretch": "stretch", "convergence": "convergence.ratio"},
}


def _cost(out: Path) -> list[str]:
    value = _sweep(out / "cost").set_index(["nodes", "metric"])["value"]
    every = sorted({nodes for nodes, _ in value.index})
    cells = ([number(value[n, f"pastry.{name}"]) for name in _COSTS.values()] for n in every)
    rows = ([f"{n:,}", *row] for n, row in zip(every, cells, strict=True))
    return [_COST_SETTING, "", *table(["nodes", *_COSTS], rows)]


_HOPS_SETTING = """\
A *lookup* is a message to a random key. The table has the shares of 200,000 lookups that take 0, 1, ... 6 hops."""

#: Pastry's published share of routes with 0, 1, ... hops: 100,000 nodes, b = 4.
PUBLISHED_HOPS = (0.0, 0.0006, 0.0156, 0.1643, 0.6449, 0.1745, 0.0)


def _hops(out: Path) -> list[str]:
    mean = sum(hops * share for hops, share in enumerate(PUBLISHED_HOPS))
    rows = [["published", *(f"{share:.4f}" for share in PUBLISHED_HOPS), f"{mean:.2f}"]]
    for kind in ("perfect", "arrivals"):
        world = Folder(out / f"hops-{kind}")
        shares = (f"{world.of(f'hops.{hops}')[0]:.4f}" for hops in range(len(PUBLISHED_HOPS)))
        rows.append([kind, *shares, f"{world.of('lookups.hops')[0]:.2f}"])
    header = ["tables", *map(str, range(len(PUBLISHED_HOPS))), "mean"]
    return [_HOPS_SETTING, "", *table(header, rows)]


_FAILURE_SETTING = """\
The columns from *hops before* to *last round* have the mean number of hops of 200,000 lookups in a round. The column *repair* has the setting `--repair`: a node replaces the dead nodes in its routing table when a message meets them (lazy), never (none), or also one round after the detection (eager). The published mean numbers of hops are 2.73 before the failure, 2.96 after the failure without repair, and 2.74 with repair. The published number of *remote calls*, questions with answers that repair tables, is 57 for each failed node."""

_FAILURE_HEADS = "repair | leaf set | hops before | round of the failure | next round | last round | lost per lookup, round 1 | delivered, round 1 | missing cells per node, last round | remote calls per failed node"


def _failure(out: Path) -> list[str]:
    rows = []
    for name in (n for n in _PASTRY if n.startswith("failure-") and (out / n).exists()):
        world = Folder(out / name)
        live, calls = world.of("nodes.live"), world.of("messages.repair")[1:].sum() / 2
        cells = [f"{hops:.2f}" for hops in world.of("lookups.hops").iloc[[0, 1, 2, -1]]]
        cells += [f"{world.of('lookups.lost')[1]:.3f}", f"{world.of('lookups.delivered')[1]:.5f}"]
        cells += [f"{world.of('cells.missing').iloc[-1]:.2f}", f"{calls / (live[0] - live[1]):.0f}"]
        rows.append([*name.split("-")[1:], *cells])
    return [_FAILURE_SETTING, "", *table(_FAILURE_HEADS, rows)]


_ADJACENT_SETTING = """\
These worlds have 10,000 nodes, leaf sets of 16 nodes, and 50,000 lookups in each round. The nodes fail in round 1, and their neighbours on the ring detect the failures in round 2."""


def _adjacent(out: Path) -> list[str]:
    names = ("lookups.delivered", "lookups.right", "leaf_sets.right")
    every = [(Folder(out / f"adjacent-{count}"), count, at) for count in (7, 8) for at in (1, 2)]
    rows = ([f"{c}", f"{at}", *(f"{one.of(n)[at]:.5f}" for n in names)] for one, c, at in every)
    header = "failed nodes | round | delivered | at the right root | correct leaf sets"
    return [_ADJACENT_SETTING, "", *table(header, rows)]


_CHURN_SETTING = """\
This world has 10,000 live nodes. In each round of 30 s, 1 % of the nodes fail and are replaced, and 2,000 lookups are sent. The numbers are means over twenty rounds of seed 1; the last row has the steady state of each measure ([rules.md](rules.md)), as a mean over the seeds ± their standard deviation, and its first round in each seed."""

_CHURNED = (
    *("lookups.delivered", "lookups.right", "lookups.hops", "lookups.lost"),
    *("cells.missing", "cells.dead", "cells.delay", "cells.nearest_delay"),
)


def _churn(out: Path) -> list[str]:
    names = (name for name in _PASTRY if name.startswith("churn") and (out / name).exists())
    seeds = [Folder(out / name).measures for name in names]
    rows = [
        [f"{part.index[0]}-{part.index[-1]}", *(f"{part[name].mean():.4g}" for name in _CHURNED)]
        for part in (seeds[0].iloc[:20], seeds[0].iloc[-20:])
    ]
    steady = (_steady([seed[name] for seed in seeds]) for name in _CHURNED)
    rows.append([f"steady, {len(seeds)} seeds", *steady])
    return [_CHURN_SETTING, "", *table(["rounds", *(f"`{name}`" for name in _CHURNED)], rows)]


def _steady(seeds: Sequence[pd.Series]) -> str:
    """Return a cell: the mean over the steady states of the seeds, and where they begin."""
    begins = [steady_from(line.to_numpy()) for line in seeds]
    if None in begins:
        return "not settled"
    means = [line.iloc[begin:].mean() for line, begin in zip(seeds, begins, strict=True)]
    return f"{over_seeds(means, lambda mean: f'{mean:.4g}')} ({', '.join(map(str, begins))})"


_PASTRY = {
    "growth": _GROWTH,
    "introduced": f"{_GROWTH} --set maintenance=0 --set introduce=true",
    "sequential": f"{_GROWTH} --set growth=1.00001 --set maintenance=0",
    "cost": "sweep --config data/sweep_arrivals.toml",
    **{f"failure-{r}-{n}": f"{_FAILURE} --repair {r} --leaf-set {n}" for r, n in _REPAIRS},
    **{f"hops-{kind}": f"{_HOPS} --overlay {kind}" for kind in ("perfect", "arrivals")},
    **{f"adjacent-{count}": f"{_ADJACENT} {count}" for count in (7, 8)},
    "churn": _CHURN,
    **{f"churn-{seed}": f"{_CHURN} --seed {seed}" for seed in range(2, 6)},
}

LIVING = Page(
    _PASTRY,
    {
        "growth": Part("introduced", _growth),
        "cost": Part("cost", _cost),
        "hops": Part("hops-perfect", _hops),
        "failure": Part("failure-lazy-16", _failure),
        "adjacent": Part("adjacent-7", _adjacent),
        "churn": Part("churn", _churn),
    },
)

# --- trees under churn, with and without the bottleneck remover

_POINTS = {"variants=plain": "Scribe", "variants=bottleneck": "with the bottleneck remover"}

#: Measure -> the label of its axis, in the figure.
_DRAWN = {
    "scribe.rad.median": "RAD, median over the groups",
    "scribe.rmd.median": "RMD, median over the groups",
    "scribe.children_entries.max": "children of a node, most",
}

#: The measures whose lines say when a world has settled.
_SETTLE = ("scribe.multicasts.reached", "scribe.rad.median", "scribe.depth.mean")

#: Measure -> head of its column.
_TOLD = {
    "scribe.multicasts.reached": "share of members reached",
    "scribe.rad.median": "RAD, median group",
    "scribe.rmd.median": "RMD, median group",
    "scribe.depth.mean": "hops to a member, mean",
    "scribe.children_entries.mean": "children of a node, mean",
    "scribe.children_entries.max": "children of a node, most",
    "scribe.link_stress.mean_existing": "link stress, mean",
    "scribe.link_stress.max": "link stress, maximum",
    "scribe.joins.shed": "JOINs of dropped children in a round",
}


def _by_trees(out: Path) -> dict[str, list[pd.DataFrame]]:
    """Return the measures by rounds of the worlds of all seeds, by the label of their trees."""
    found: dict[str, list[pd.DataFrame]] = {}
    for name in RAD_UNDER_CHURN.experiments:
        for point, label in _POINTS.items():
            if (world := Folder(out / name / point)).is_complete:
                found.setdefault(label, []).append(measures_by_round(world.table("rounds")))
    return found


def _bottleneck(out: Path) -> list[str]:
    """Return a table of round 0 and of the mean over the steady state."""
    rows = []
    for label, seeds in _by_trees(out).items():
        begins = [first_steady([of(one, name) for name in _SETTLE]) for one in seeds]
        starts = [-WINDOW if begin is None else begin for begin in begins]
        settled = rounds_in_words(begins, seeds[0].index[-1])
        steady = [one.iloc[start:] for one, start in zip(seeds, starts, strict=True)]
        when = settled if None in begins else f"mean of rounds {settled}"
        for of_rounds, some in (("round 0", [one.iloc[:1] for one in seeds]), (when, steady)):
            cells = (over_seeds([float(of(one, name).mean()) for one in some]) for name in _TOLD)
            rows.append([label, f"{len(seeds)}", of_rounds, *cells])
    return ["", *table(["trees", "seeds", "rounds", *_TOLD.values()], rows), ""]


def _draw_bottleneck(out: Path, folder: Path) -> None:
    """Draw the means over the seeds by rounds."""
    labels = _by_trees(out)
    lines = {
        name: {
            label: pd.concat([of(one, name) for one in seeds], axis=1).mean(axis=1)
            for label, seeds in labels.items()
        }
        for name in _DRAWN
    }
    panels = [
        Panel(
            (0.07 + place * 0.325, 0.19, 0.25, 0.72),
            [(label, line, style) for style, (label, line) in enumerate(lines[name].items())],
            {"xlabel": "round", "ylabel": what, "ylim": (0, None)},
            legend={"fontsize": 6, "loc": "center right"} if place == len(_DRAWN) - 1 else None,
        )
        for place, (name, what) in enumerate(_DRAWN.items())
    ]
    means = {
        label: ", ".join(f"{what} {number(lines[n][label].mean())}" for n, what in _DRAWN.items())
        for label in labels
    }
    words = "; ".join(f"{label}: {told}" for label, told in means.items())
    file = folder / "figure-rad-under-churn.svg"
    draw(file, (7.2, 2.5), panels, "RAD, RMD and node stress under churn, by rounds", words)


#: OUT has the sweep of each seed.
RAD_UNDER_CHURN = Page(
    {
        f"seed-{seed}": f"world --config data/world_rad_under_churn.toml --seed {seed}"
        for seed in range(1, 6)
    },
    {"rad_under_churn": Part("seed-*", _bottleneck)},
    figures=_draw_bottleneck,
)

# --- Costa and Frey's reference tree

#: Of the paper's numbers of hosts, those in the table.
_SHOWN_HOSTS = (10, 120)
_EVENTS = ("connection", "disconnection")


class _Rows:
    """Values of measures with their counts."""

    def __init__(self, *tables: pd.DataFrame) -> None:
        self.table = pd.concat(tables)

    @classmethod
    def read(cls, out: Path, names: str) -> _Rows:
        """Read the experiments of some names that are there."""
        there = [out / name / "tables" / "reference_tree" for name in names.split()]
        return cls(*(pd.read_parquet(one) for one in there if one.exists()))

    def of(self, *measures: str) -> pd.DataFrame:
        """Return the rows of some measures."""
        return self.table[self.table["measure"].isin(measures)]

    def mean(self, *measures: str) -> float:
        """Return the mean of some measures together."""
        mine = self.of(*measures)
        return float((mine["value"] * mine["count"]).sum() / mine["count"].sum())

    def degrees(self) -> list[str]:
        """Return the shares of the hosts with 1, 2, 3 and more neighbours, in %."""
        counts = self.of("degree").groupby("value")["count"].sum()
        cells = [f"{100 * counts.get(n, 0) / counts.sum():.1f}" for n in (1, 2, 3)]
        above = counts[counts.index > 3].sum()
        return [*cells, f"{100 * above / counts.sum():.2f}" if above else "0"]

    def faults(self) -> int:
        """Return the events after which the tree was wrong."""
        mine = self.of(*(f"faults.{event}" for event in _EVENTS))
        return int((mine["value"] * mine["count"]).sum())


_PAPER_SETTING = """\
*Figures 3 and 4* of Costa and Frey, with 2,000 connections and as many disconnections for each number of hosts. *Degree*: number of a host's neighbours. *Area*: means with / without the host that joined or left. The row *independent check* has the ranges of a second program. *Computing*: hosts that compute their neighbours anew, at connections / disconnections. *Faults*: events after which the tree was not the tree computed from nothing."""
_PAPER_HEADS = "hosts | degree 1, % | degree 2, % | degree 3, % | more, % | area, connections | area, disconnections | computing | faults"


def _paper(out: Path) -> list[str]:
    every = _Rows.read(out, "paper").table
    areas = "3.2-3.6 / 2.2-2.6"
    rows = [["independent check", "39", "24-39", "21-37", "0", areas, areas, "", ""]]
    for hosts, some in every[every["hosts"].isin(_SHOWN_HOSTS)].groupby("hosts"):
        of, names = _Rows(some), ("area", "area_without")
        cells = [" / ".join(f"{of.mean(f'{n}.{e}'):.2f}" for n in names) for e in _EVENTS]
        cells += [" / ".join(f"{of.mean(f'hosts.{e}'):.2f}" for e in _EVENTS), f"{of.faults()}"]
        rows.append([f"{hosts}", *of.degrees(), *cells])
    return [_PAPER_SETTING, "", *table(_PAPER_HEADS, rows)]


_DEGREES = """\
*More children* (120 hosts, 256 keys): with up to {most} children, at most {share} % of the hosts have more neighbours than the bound (children + 1); the largest degree is {largest}. The cause: if a child of a host's topmost key is not the topmost key of its owner, the hosts below this child become children of the host. {right}"""

_ALWAYS_RIGHT = "The tree was right after every event."


def _degrees(out: Path) -> list[str]:
    """Return how far degrees of trees of more children exceed their bound."""
    rows = _Rows.read(out, "degrees-pastry")
    degrees = rows.of("degree")
    above = degrees["value"] > degrees["children"] + 1
    settings = [degrees["assignment"], degrees["children"]]
    shares = (degrees["count"] * above).groupby(settings).sum()
    shares /= degrees["count"].groupby(settings).sum()
    found = {"most": rows.table["children"].max(), "share": f"{100 * shares.max():.2f}"}
    faults = rows.faults()
    found["right"] = f"The tree was wrong after {faults} events." if faults else _ALWAYS_RIGHT
    return [_DEGREES.format(**found, largest=degrees["value"].max())]


_SCALING_SETTING = """\
*Large trees* (binary tree, random 128-bit ids). *Area*: with the host that joined or left, over all events, mean ± standard error. *Look-ups*: those by which a host finds its parent and its children."""
_SCALING_HEADS = "assignment | N | degree 1, % | degree 2, % | degree 3, % | more, % | depth, mean | depth, largest | log2 N | area | events | faults | look-ups for the parent | for children"


def _scaling(out: Path) -> list[str]:
    every = _Rows.read(out, "scaling-chord scaling-pastry").table
    shown = every[(every["assignment"] == "pastry") | (every["hosts"] == every["hosts"].max())]
    rows, names = [], [f"area.{event}" for event in _EVENTS]
    for (assignment, hosts), some in shown.groupby(["assignment", "hosts"]):
        of = _Rows(some)
        areas, mean, depth = of.of(*names), of.mean(*names), of.of("depth")["value"]
        events = int(areas["count"].sum())
        squares = ((areas["value"] - mean) ** 2 * areas["count"]).sum() / max(events - 1, 1)
        cells = [f"{of.mean('depth'):.2f}", f"{int(depth.max())}", f"{math.log2(hosts):.2f}"]
        cells += [
            f"{mean:.2f} ± {math.sqrt(squares / events):.2f}",
            f"{events:,}",
            f"{of.faults()}",
        ]
        cells += [f"{of.mean(f'{what}_lookups'):.2f}" for what in ("parent", "child")]
        rows.append([f"`{assignment}`", f"{hosts:,}", *of.degrees(), *cells])
    return [_SCALING_SETTING, "", *table(_SCALING_HEADS, rows)]


def _trees(out: Path) -> list[str]:
    """Return the three parts of the page whose experiments are there."""
    every = {"paper": _paper, "degrees-pastry": _degrees, "scaling-*": _scaling}
    found = (lines(out) for needs, lines in every.items() if any(out.glob(needs)))
    return ["", *(line for part in found for line in (*part, ""))]


#: Metric of a system -> head of its column.
_BESIDE = {
    "rad.median": "RAD, median group",
    "latency.p50": "delay, median, ms",
    "depth.mean": "hops to a member, mean",
    "messages": "packets",
    "link_stress.max": "link stress, maximum",
}
_ROOT_FAILS = "reference_tree.failure.depth_0.links"
_BESIDE_WORDS = """\
In this run of {nodes:,} nodes and {groups} groups, a route in the reference tree has {times} times as many hops as in Scribe's trees, and hops ignore distances. So the tree is slow and causes much traffic. But a failure changes few links, also at the root."""


def _beside(out: Path) -> list[str]:
    """Return the table of the reference tree and of Scribe's trees in one run."""
    run, rows = Folder(out / "beside"), []
    for system, suffix in (("reference_tree", ""), ("scribe", ".scribe")):
        values = [run.value(name, system) for name in _BESIDE]
        rows.append([label_of(system), *map(number, [*values, run.number(_ROOT_FAILS + suffix)])])
    tree, scribe = (run.value("depth.mean", one) or 1 for one in ("reference_tree", "scribe"))
    lines = table(["system", *_BESIDE.values(), "links that change if the root fails"], rows)
    return [*lines, "", _BESIDE_WORDS.format(**run.config, times=number(tree / scribe))]


REFERENCE_TREE = Page(
    {
        "paper": "reference-tree",
        "degrees-pastry": "reference-tree --hosts 120 --children 2,3,4,7,15 --assignment pastry",
        "scaling-chord": "reference-tree --hosts '' --scaling 1000,10000,100000,1000000",
        "scaling-pastry": "reference-tree --hosts '' --scaling 1000,10000,100000 --connections 200 --assignment pastry --dht routed",
        "beside": "run --nodes 10000 --groups 150 --seed 1 --overlay perfect --variants reference_tree",
    },
    {
        "trees": Part("*/tables/reference_tree", _trees),
        "beside": Part("beside/metrics.json", _beside),
    },
)
