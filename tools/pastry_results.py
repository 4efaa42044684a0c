"""Pages of Pastry's overlay and of trees over it.

``docs/living_results.md``; a figure and a table of ``docs/groups_results.md``; the tables of
``docs/reference_tree.md``.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from scribe_spark.report.style import label_of
from scribe_spark.worlds.summary import WINDOW, first_steady, measures_by_round, steady_from
from tools.folders import Folder, of, rounds_in_words
from tools.pages import Page, Panel, draw, number, over_seeds, table, tabled

# --- Pastry in worlds

_GROWTH = "sweep --config data/sweep_growth.toml"
_FAILURE = "world --config data/world_mass_failure.toml"
_HOPS = "world --nodes 100000 --rounds 1 --lookups 200000"
_ADJACENT = "world --nodes 10000 --rounds 5 --lookups 50000 --generator adjacent-failure --adjacent"
_CHURN = "world --config data/world_churn.toml"
_REPAIRS = (("lazy", 16), ("none", 16), ("eager", 16), ("lazy", 32))

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

#: The measures of waves of arrivals in the table; those of the column "largest".
_SHOWN = (
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean"),
    *("scribe.messages", "scribe.children_entries.max", "scribe.link_stress.max"),
)
_COMPARED = (
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean", "scribe.children_tables.mean"),
    *("scribe.children_entries.mean", "scribe.messages", "pastry.stretch", "pastry.hops.mean"),
)


def _growth(out: Path) -> list[str]:
    introduce = {"growth": "no", "introduced": "yes"}
    waves = {
        word: pd.read_parquet(out / name / "sweep")
        .query("maintenance == 0")
        .set_index(["growth", "metric"])["value"]
        for name, word in introduce.items()
        if (out / name / "sweep").exists()
    }
    one = pd.read_parquet(out / "sequential" / "sweep").set_index("metric")["value"]
    rows = [["one node", "-", "", *(number(one[name]) for name in _SHOWN)]]
    found = [(growth, word) for word, value in waves.items() for growth in {*value.index.levels[0]}]
    for growth, word in sorted(found):
        differences = 100 * (waves[word][growth] / one - 1)
        most = differences[[*_COMPARED]].abs().max()
        cells = (f"{differences[name]:+.1f}" for name in _SHOWN)
        rows.append([f"{growth:g}", word, f"{most:.1f}", *cells])
    return table(["growth", "introduce", "largest", *(f"`{name}`" for name in _SHOWN)], rows)


_COSTS = {
    "messages": "arrival_messages.mean",
    "3 x 2^b x log_2^b N": "arrival_messages.bound",
    **{"hops": "hops.mean", "stretch": "stretch", "convergence": "convergence.ratio"},
}


def _cost(out: Path) -> list[str]:
    by_nodes = pd.read_parquet(out / "cost" / "sweep").groupby("nodes")
    found = ((nodes, of.set_index("metric")["value"]) for nodes, of in by_nodes)
    rows = ([f"{n:,}", *(number(of[f"pastry.{m}"]) for m in _COSTS.values())] for n, of in found)
    return table(["nodes", *_COSTS], rows)


#: Pastry's published share of routes with 0, 1, ... hops: 100,000 nodes, b = 4.
PUBLISHED_HOPS = (0.0, 0.0006, 0.0156, 0.1643, 0.6449, 0.1745, 0.0)


def _hops(out: Path) -> list[str]:
    mean = sum(hops * share for hops, share in enumerate(PUBLISHED_HOPS))
    rows = [["published", *(f"{share:.4f}" for share in PUBLISHED_HOPS), f"{mean:.2f}"]]
    for kind in ("perfect", "arrivals"):
        world = Folder(out / f"hops-{kind}")
        shares = (f"{world.of(f'hops.{hops}')[0]:.4f}" for hops in range(len(PUBLISHED_HOPS)))
        rows.append([kind, *shares, f"{world.of('lookups.hops')[0]:.2f}"])
    return table(["tables", *map(str, range(len(PUBLISHED_HOPS))), "mean"], rows)


def _calls(world: Folder) -> float:
    """Return the remote calls, questions with answers, for each failed node."""
    live = world.of("nodes.live")
    return world.of("messages.repair")[1:].sum() / 2 / (live[0] - live[1])


_FAILURES = {
    "repair": lambda world: world.path.name.split("-")[1],
    "leaf set": lambda world: world.path.name.split("-")[2],
    "hops before": lambda world: f"{world.of('lookups.hops')[0]:.2f}",
    "round of the failure": lambda world: f"{world.of('lookups.hops')[1]:.2f}",
    "next round": lambda world: f"{world.of('lookups.hops')[2]:.2f}",
    "last round": lambda world: f"{world.of('lookups.hops').iloc[-1]:.2f}",
    "lost per lookup, round 1": lambda world: f"{world.of('lookups.lost')[1]:.3f}",
    "delivered, round 1": lambda world: f"{world.of('lookups.delivered')[1]:.5f}",
    "missing cells per node, last round": lambda world: f"{world.of('cells.missing').iloc[-1]:.2f}",
    "remote calls per failed node": lambda world: f"{_calls(world):.0f}",
}


def _failure(out: Path) -> list[str]:
    there = (out / name for name in _PASTRY if name.startswith("failure-"))
    return tabled(_FAILURES, (Folder(folder) for folder in there if folder.exists()))


def _adjacent(out: Path) -> list[str]:
    names = ("lookups.delivered", "lookups.right", "leaf_sets.right")
    every = [(Folder(out / f"adjacent-{count}"), count, at) for count in (7, 8) for at in (1, 2)]
    rows = ([f"{c}", f"{at}", *(f"{one.of(n)[at]:.5f}" for n in names)] for one, c, at in every)
    return table("failed nodes | round | delivered | at the right root | correct leaf sets", rows)


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


LIVING = Page(
    _PASTRY,
    {
        "growth": ("introduced", _growth),
        "cost": ("cost", _cost),
        "hops": ("hops-perfect", _hops),
        "failure": ("failure-lazy-16", _failure),
        "adjacent": ("adjacent-7", _adjacent),
        "churn": ("churn", _churn),
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
    found = {label: Folder.find(out, f"seed-*/{point}") for point, label in _POINTS.items()}
    return {
        label: [measures_by_round(world.table("rounds")) for world in worlds]
        for label, worlds in found.items()
        if worlds
    }


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
    return table(["trees", "seeds", "rounds", *_TOLD.values()], rows)


def _draw_bottleneck(out: Path, folder: Path) -> None:
    """Draw the means over the seeds by rounds."""
    panels: list[Panel] = []
    for name, what in _DRAWN.items():
        lines = {
            label: pd.concat([of(one, name) for one in seeds], axis=1).mean(axis=1)
            for label, seeds in _by_trees(out).items()
        }
        axes = {"xlabel": "round", "ylabel": what, "ylim": (0, None)}
        panels.append(Panel(lines, axes, None if panels else "lower right"))
    heading = "RAD, RMD and node stress under churn, by rounds"
    draw(folder / "figure-rad-under-churn.svg", heading, [panels])


#: OUT has the sweep of each seed.
RAD_UNDER_CHURN = Page(
    {
        f"seed-{seed}": f"world --config data/world_rad_under_churn.toml --seed {seed}"
        for seed in range(1, 6)
    },
    {"rad_under_churn": ("seed-*", _bottleneck)},
    figures=_draw_bottleneck,
)

# --- Costa and Frey's reference tree

#: Of the paper's numbers of hosts, those in the table.
_SHOWN_HOSTS = (10, 120)
_EVENTS = ("connection", "disconnection")


class _Rows:
    """Values of measures with their counts."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    @classmethod
    def read(cls, out: Path, names: str) -> "_Rows":
        """Read the experiments of some names that are there."""
        there = [out / name / "tables" / "reference_tree" for name in names.split()]
        return cls(pd.concat(pd.read_parquet(one) for one in there if one.exists()))

    def of(self, *measures: str) -> pd.DataFrame:
        """Return the rows of some measures."""
        return self.table[self.table["measure"].isin(measures)]

    def total(self, *measures: str) -> float:
        """Return the sum of some measures."""
        return float((self.of(*measures)["value"] * self.of(*measures)["count"]).sum())

    def mean(self, *measures: str) -> float:
        """Return the mean of some measures together."""
        return self.total(*measures) / self.of(*measures)["count"].sum()

    def means(self, *measures: str) -> str:
        """Return a cell of means."""
        return " / ".join(f"{self.mean(name):.2f}" for name in measures)

    def degrees(self) -> list[str]:
        """Return the shares of the hosts with 1, 2, 3 and more neighbours, in %."""
        counts = self.of("degree").groupby("value")["count"].sum()
        cells = [f"{100 * counts.get(n, 0) / counts.sum():.1f}" for n in (1, 2, 3)]
        above = counts[counts.index > 3].sum()
        return [*cells, f"{100 * above / counts.sum():.2f}" if above else "0"]

    def faults(self) -> str:
        """Return the events after which the tree was wrong."""
        return f"{self.total(*(f'faults.{event}' for event in _EVENTS)):.0f}"


_PAPER_HEADS = "hosts | degree 1, % | degree 2, % | degree 3, % | more, % | area, connections | area, disconnections | computing | faults"


def _paper(out: Path) -> list[str]:
    every = _Rows.read(out, "paper").table
    areas = "3.2-3.6 / 2.2-2.6"
    rows = [["independent check", "39", "24-39", "21-37", "0", areas, areas, "", ""]]
    for hosts, some in every[every["hosts"].isin(_SHOWN_HOSTS)].groupby("hosts"):
        of = _Rows(some)
        cells = [of.means(f"area.{event}", f"area_without.{event}") for event in _EVENTS]
        cells += [of.means(*(f"hosts.{event}" for event in _EVENTS)), of.faults()]
        rows.append([f"{hosts}", *of.degrees(), *cells])
    return table(_PAPER_HEADS, rows)


_DEGREES = """\
*More children* (120 hosts, 256 keys): with up to {most} children, at most {share:.2f} % of the hosts have more neighbours than the bound (children + 1); the largest degree is {largest}. The cause: if a child of a host's topmost key is not the topmost key of its owner, the hosts below this child become children of the host. {right}"""

_ALWAYS_RIGHT = "The tree was right after every event."


def _degrees(out: Path) -> list[str]:
    """Return how far degrees of trees of more children exceed their bound."""
    rows = _Rows.read(out, "degrees-pastry")
    degrees, faults = rows.of("degree"), rows.faults()
    above = degrees["count"] * (degrees["value"] > degrees["children"] + 1)
    settings = [degrees["assignment"], degrees["children"]]
    shares = above.groupby(settings).sum() / degrees["count"].groupby(settings).sum()
    found = {"most": rows.table["children"].max(), "share": 100 * shares.max()}
    right = _ALWAYS_RIGHT if faults == "0" else f"The tree was wrong after {faults} events."
    return [_DEGREES.format(**found, largest=degrees["value"].max(), right=right)]


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
        cells = [f"`{assignment}`", f"{hosts:,}", *of.degrees(), of.means("depth")]
        cells += [f"{int(depth.max())}", f"{math.log2(hosts):.2f}"]
        cells += [f"{mean:.2f} ± {math.sqrt(squares / events):.2f}", f"{events:,}", of.faults()]
        rows.append([*cells, of.means("parent_lookups"), of.means("child_lookups")])
    return table(_SCALING_HEADS, rows)


#: Metric of a system -> head of its column.
_BESIDE = {
    "rad.median": "RAD, median group",
    "latency.p50": "delay, median, ms",
    "depth.mean": "hops to a member, mean",
    "messages": "packets",
    "link_stress.max": "link stress, maximum",
}
_ROOT_FAILS = "reference_tree.failure.depth_0.links"


def _beside(out: Path) -> list[str]:
    """Return the table of the reference tree and of Scribe's trees in one run."""
    run, rows = Folder(out / "beside"), []
    for system, suffix in (("reference_tree", ""), ("scribe", ".scribe")):
        values = [run.value(name, system) for name in _BESIDE]
        rows.append([label_of(system), *map(number, [*values, run.number(_ROOT_FAILS + suffix)])])
    return table(["system", *_BESIDE.values(), "links that change if the root fails"], rows)


REFERENCE_TREE = Page(
    {
        "paper": "reference-tree",
        "degrees-pastry": "reference-tree --hosts 120 --children 2,3,4,7,15 --assignment pastry",
        "scaling-chord": "reference-tree --hosts '' --scaling 1000,10000,100000,1000000",
        "scaling-pastry": "reference-tree --hosts '' --scaling 1000,10000,100000 --connections 200 --assignment pastry --dht routed",
        "beside": "run --nodes 10000 --groups 150 --seed 1 --overlay perfect --variants reference_tree",
    },
    {
        "trees": ("paper", _paper),
        "degrees": ("degrees-pastry", _degrees),
        "scaling": ("scaling-*", _scaling),
        "beside": ("beside/metrics.json", _beside),
    },
)
