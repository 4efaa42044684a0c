"""Measure the living overlay, and write ``docs/living_results.md`` of it.

``python -m tools.living_results OUT [--only NAME ...] [--page FILE]``

Each experiment is a command of scribe-spark with a folder of its own in OUT; one that is complete
is not run again.  With ``--page`` nothing is run: the page is written from what is in OUT.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from scribe_spark.worlds.steady import steady_from
from tools import pages
from tools.groups_tables import number, over_seeds
from tools.pages import table

_GROWTH = ["sweep", "--config", "data/sweep_growth.toml"]
_FAILURE = ["world", "--config", "data/world_mass_failure.toml"]
_HOPS = ["world", "--nodes", "100000", "--rounds", "1", "--lookups", "200000"]
_ADJACENT = ["world", "--nodes", "10000", "--rounds", "5", "--lookups", "50000"]
_ADJACENT += ["--generator", "adjacent-failure", "--adjacent"]

#: Seeds of worlds under churn, besides the first.
_CHURN_SEEDS = range(2, 6)

#: Folder in OUT -> command of scribe-spark.
EXPERIMENTS: dict[str, list[str]] = {
    "growth": _GROWTH,
    "introduced": [*_GROWTH, "--set", "maintenance=0", "--set", "introduce=true"],
    "sequential": [*_GROWTH, "--set", "growth=1.00001", "--set", "maintenance=0"],
    "cost": ["sweep", "--config", "data/sweep_arrivals.toml"],
    **{
        f"failure-{repair}-{leaves}": [*_FAILURE, "--repair", repair, "--leaf-set", str(leaves)]
        for repair, leaves in (("lazy", 16), ("none", 16), ("eager", 16), ("lazy", 32))
    },
    **{f"hops-{kind}": [*_HOPS, "--overlay", kind] for kind in ("perfect", "arrivals")},
    **{f"adjacent-{count}": [*_ADJACENT, str(count)] for count in (7, 8)},
    "churn": ["world", "--config", "data/world_churn.toml"],
    **{
        f"churn-{seed}": ["world", "--config", "data/world_churn.toml", "--seed", f"{seed}"]
        for seed in _CHURN_SEEDS
    },
}

#: Pastry's published share of routes with 0, 1, ... hops: 100,000 nodes, b = 4.
PUBLISHED_HOPS = (0.0, 0.0006, 0.0156, 0.1643, 0.6449, 0.1745)

#: Pastry's published mean hops before the failure of 10 % of 5,000 nodes, after it without repair
#: of routing tables, and with it.
PUBLISHED_FAILURE = {"before": 2.73, "none": 2.96, "lazy": 2.74}

_HEAD = """\
# Pastry's overlay in worlds, measured

This page compares Pastry in simulated [worlds](living.md) with published numbers. [measures_reference.md](measures_reference.md) defines the measures. `make living` writes the page.
"""


def page(out: Path) -> str:
    """Return ``docs/living_results.md``, of the experiments that are there."""
    sections = {
        "introduced": _growth,
        "cost": _cost,
        "hops-perfect": _hops,
        "failure-lazy-16": _failure,
        "adjacent-7": _adjacent,
        "churn": _churn,
    }
    return _HEAD + "".join(f"{line}\n" for line in pages.sections_of(out, sections))


def _growth(out: Path) -> list[str]:
    introduce = {"growth": "no", "introduced": "yes"}
    there = {name: word for name, word in introduce.items() if (out / name / "sweep").exists()}
    waves = pd.concat([_sweep(out / name).assign(introduce=word) for name, word in there.items()])
    shown = json.loads((out / "introduced" / "manifest.json").read_text("utf-8"))["resolved"]
    one = _sweep(out / "sequential").set_index("metric")["value"]
    value = waves.set_index(["growth", "introduce", "maintenance", "metric"])["value"]
    points = sorted({index[:2] for index in value.index})
    names = [name for name in _SHOWN if name in one]
    compared = [name for name in _COMPARED if name in one]
    text = [
        *("", "## Nodes that arrive in waves", ""),
        f"{shown['nodes']:,} nodes, {shown['groups']} groups, seed {shown['seed']}. In Pastry, one "
        "node arrives at a time; a wave increases the number of nodes by the factor *growth*. "
        "*Introduce*: the nodes of a wave learn of each other. A percentage is the difference from "
        "arrivals of one node; *largest* is the largest difference of all means and medians.",
        "",
    ]
    header = ["growth", "introduce", "largest", *(f"`{name}`" for name in names)]
    rows = [["one node", "-", "", *(number(one[name]) for name in names)]]
    for growth, introduce in points:
        differences = {n: value[growth, introduce, 0, n] / one[n] - 1 for n in (*names, *compared)}
        most = max(abs(differences[name]) for name in compared)
        cells = [f"{growth:g}", introduce, f"{100 * most:.1f} %"]
        rows.append([*cells, *(f"{100 * differences[name]:+.1f} %" for name in names)])
    return text + table(header, rows)


_SHOWN = (
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean"),
    *("scribe.messages", "scribe.children_entries.max", "scribe.link_stress.max"),
)
_COMPARED = (
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean", "scribe.children_tables.mean"),
    *("scribe.children_entries.mean", "scribe.messages", "pastry.stretch", "pastry.hops.mean"),
)


def _cost(out: Path) -> list[str]:
    value = _sweep(out / "cost").set_index(["nodes", "metric"])["value"]
    text = [
        *("", "## Messages of an arrival", ""),
        "Means over all arrivals of a run with the default waves. The third column is the bound that "
        "Pastry's authors state. *Hops* and *stretch* (delay of a route, divided by the delay of the "
        "direct way) are those of CREATE messages. *Convergence*: the mean distance that two messages "
        "travel before their routes meet, divided by the mean distance between their senders.",
        "",
    ]
    header = ["nodes", "messages", "3 x 2^b x log_2^b N", "hops", "stretch", "convergence"]
    rows = []
    for nodes in sorted({at for at, _ in value.index}):
        names = ("arrival_messages.mean", "arrival_messages.bound", "hops.mean", "stretch")
        cells = [number(value[nodes, f"pastry.{n}"]) for n in (*names, "convergence.ratio")]
        rows.append([f"{nodes:,}", *cells])
    return text + table(header, rows)


def _hops(out: Path) -> list[str]:
    found = {kind: _rounds(out / f"hops-{kind}")[0] for kind in ("perfect", "arrivals")}
    count = range(len(PUBLISHED_HOPS) + 1)
    text = [
        *("", "## Hops at 100,000 nodes", ""),
        "Shares of 200,000 lookups of random keys, by the number of their hops.",
        "",
    ]
    mean = sum(hops * share for hops, share in enumerate(PUBLISHED_HOPS))
    published = [f"{share:.4f}" for share in (*PUBLISHED_HOPS, 0.0)]
    rows = [["published", *published, f"{mean:.2f}"]]
    for kind, measures in found.items():
        shares = [f"{measures.get(f'hops.{hops}', 0.0):.4f}" for hops in count]
        rows.append([kind, *shares, f"{measures['lookups.hops']:.2f}"])
    return text + table(["tables", *map(str, count), "mean"], rows)


def _failure(out: Path) -> list[str]:
    text = [
        *("", "## 10 % of 5,000 nodes fail at once", ""),
        "The first four columns of numbers are mean hops of 200,000 lookups in a round. Published "
        f"are {PUBLISHED_FAILURE['before']} before the failure, {PUBLISHED_FAILURE['none']} after it "
        f"without repair of routing tables, and {PUBLISHED_FAILURE['lazy']} with repair. *Remote "
        "calls*: questions with their answers that repair leaf sets and routing tables; published: "
        "57 for each failed node.",
        "",
    ]
    header = [
        *("repair", "leaf set", "hops before", "round of the failure", "next round", "last round"),
        *("lost per lookup, round 1", "delivered, round 1", "missing cells per node, last round"),
        "remote calls per failed node",
    ]
    table_rows = []
    for name in (n for n in EXPERIMENTS if n.startswith("failure-") and (out / n).exists()):
        rounds = _rounds(out / name)
        _, repair, leaves = name.split("-")
        failed = rounds[0]["nodes.live"] - rounds[1]["nodes.live"]
        calls = sum(of.get("messages.repair", 0) for of in rounds[1:]) / 2 / failed
        hops = [rounds[i]["lookups.hops"] for i in (0, 1, 2, -1)]
        lost, delivered = (rounds[1][f"lookups.{what}"] for what in ("lost", "delivered"))
        cells = [*(f"{h:.2f}" for h in hops), f"{lost:.3f}", f"{delivered:.5f}"]
        cells += [f"{rounds[-1]['cells.missing']:.2f}", f"{calls:.0f}"]
        table_rows.append([repair, leaves, *cells])
    return text + table(header, table_rows)


def _adjacent(out: Path) -> list[str]:
    text = [
        *("", "## Nodes with adjacent nodeIds fail at once", ""),
        "10,000 nodes, leaf sets of 16, 50,000 lookups in a round. The nodes fail in round 1, and "
        "their neighbours detect this in round 2.",
        "",
    ]
    header = ["failed nodes", "round", "delivered", "at the right root", "correct leaf sets"]
    rows = []
    for name in ("adjacent-7", "adjacent-8"):
        for at, of in list(enumerate(_rounds(out / name)))[1:3]:
            shares = ("lookups.delivered", "lookups.right", "leaf_sets.right")
            rows.append([name.split("-")[1], str(at), *(f"{of[s]:.5f}" for s in shares)])
    return text + table(header, rows)


def _churn(out: Path) -> list[str]:
    measured = pd.DataFrame(_rounds(out / "churn")).fillna(0.0)
    ends = [measured.iloc[:20], measured.iloc[-20:]]
    measures = [
        *("lookups.delivered", "lookups.right", "lookups.hops", "lookups.lost"),
        *("cells.missing", "cells.dead", "cells.delay", "cells.nearest_delay"),
    ]
    text = [
        *("", "## Sustained churn", ""),
        "10,000 live nodes; in each round of 30 s, 1 % of them fail and are replaced; 2,000 lookups "
        "a round. Means over twenty rounds of seed 1. Last row: the steady state of each measure "
        "([rules.md](rules.md)), mean over the seeds ± their standard deviation, and its first "
        "round in each seed.",
        "",
    ]
    rows = [
        [f"{part.index[0]}-{part.index[-1]}", *(f"{part[name].mean():.4g}" for name in measures)]
        for part in ends
    ]
    seeds = [pd.DataFrame(_rounds(one)).fillna(0.0) for one in _churned(out)]
    rows.append([f"steady, {len(seeds)} seeds", *(_steady(seeds, name) for name in measures)])
    return text + table(["rounds", *(f"`{name}`" for name in measures)], rows)


def _churned(out: Path) -> list[Path]:
    """Return the folders of the worlds under churn, seed by seed."""
    names = ["churn", *(f"churn-{seed}" for seed in _CHURN_SEEDS)]
    return [out / name for name in names if (out / name).exists()]


def _steady(seeds: Sequence[pd.DataFrame], measure: str) -> str:
    """Return a cell: the mean over the steady states of the seeds, and where they begin."""
    begins = [steady_from(one[measure].to_numpy()) for one in seeds]
    if None in begins:
        return "not settled"
    means = [one[measure].iloc[begin:].mean() for one, begin in zip(seeds, begins, strict=True)]
    cell = over_seeds(means, lambda value: f"{value:.4g}")
    return f"{cell} ({', '.join(map(str, begins))})"


def _sweep(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "sweep")


def _rounds(folder: Path) -> list[Mapping[str, float]]:
    """Measure -> value, round by round."""
    rows = pd.read_parquet(folder / "tables" / "rounds")
    measured = rows.pivot(index="round", columns="measure", values="value").sort_index()
    return [row.dropna().to_dict() for _, row in measured.iterrows()]


def main(arguments: Sequence[str]) -> None:
    about = "Measure the living overlay."
    pages.main(arguments, about, EXPERIMENTS, lambda out, _: page(out))


if __name__ == "__main__":
    main(sys.argv[1:])
