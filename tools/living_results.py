"""Pastry in worlds: the experiments and the sections of ``docs/living_results.md``.

``python -m tools.living_results OUT [--only NAME ...] [--page FILE]``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.worlds.summary import steady_from
from tools import pages
from tools.folders import Folder
from tools.pages import Section, number, over_seeds, table

_GROWTH = "sweep --config data/sweep_growth.toml"
_FAILURE = "world --config data/world_mass_failure.toml"
_HOPS = "world --nodes 100000 --rounds 1 --lookups 200000"
_ADJACENT = "world --nodes 10000 --rounds 5 --lookups 50000 --generator adjacent-failure --adjacent"
_CHURN = "world --config data/world_churn.toml"
_REPAIRS = (("lazy", 16), ("none", 16), ("eager", 16), ("lazy", 32))

#: Folder in OUT -> command of scribe-spark.
EXPERIMENTS: dict[str, list[str]] = {
    name: command.split()
    for name, command in {
        "growth": _GROWTH,
        "introduced": f"{_GROWTH} --set maintenance=0 --set introduce=true",
        "sequential": f"{_GROWTH} --set growth=1.00001 --set maintenance=0",
        "cost": "sweep --config data/sweep_arrivals.toml",
        **{f"failure-{r}-{n}": f"{_FAILURE} --repair {r} --leaf-set {n}" for r, n in _REPAIRS},
        **{f"hops-{kind}": f"{_HOPS} --overlay {kind}" for kind in ("perfect", "arrivals")},
        **{f"adjacent-{count}": f"{_ADJACENT} {count}" for count in (7, 8)},
        "churn": _CHURN,
        **{f"churn-{seed}": f"{_CHURN} --seed {seed}" for seed in range(2, 6)},
    }.items()
}

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


def _growth(out: Path) -> dict[str, Any]:
    introduce = {"growth": "no", "introduced": "yes"}
    there = {name: word for name, word in introduce.items() if (out / name / "sweep").exists()}
    waves = pd.concat([_sweep(out / name).assign(introduce=word) for name, word in there.items()])
    one = _sweep(out / "sequential").set_index("metric")["value"]
    value = waves.set_index(["growth", "introduce", "maintenance", "metric"])["value"]
    names = [name for name in _SHOWN if name in one]
    compared = [name for name in _COMPARED if name in one]
    rows = [["one node", "-", "", *(number(one[name]) for name in names)]]
    for growth, word in sorted({index[:2] for index in value.index}):
        differences = {n: value[growth, word, 0, n] / one[n] - 1 for n in (*names, *compared)}
        most = max(abs(differences[name]) for name in compared)
        cells = (f"{100 * differences[name]:+.1f} %" for name in names)
        rows.append([f"{growth:g}", word, f"{100 * most:.1f} %", *cells])
    header = ["growth", "introduce", "largest", *(f"`{name}`" for name in names)]
    return {**Folder(out / "introduced").config, "table": table(header, rows)}


def _cost(out: Path) -> dict[str, Any]:
    value = _sweep(out / "cost").set_index(["nodes", "metric"])["value"]
    names = ("arrival_messages.mean", "arrival_messages.bound", "hops.mean", "stretch")
    rows = [
        [f"{n:,}", *(number(value[n, f"pastry.{name}"]) for name in (*names, "convergence.ratio"))]
        for n in sorted({nodes for nodes, _ in value.index})
    ]
    header = ["nodes", "messages", "3 x 2^b x log_2^b N", "hops", "stretch", "convergence"]
    return {"table": table(header, rows)}


#: Pastry's published share of routes with 0, 1, ... hops: 100,000 nodes, b = 4.
PUBLISHED_HOPS = (0.0, 0.0006, 0.0156, 0.1643, 0.6449, 0.1745)


def _hops(out: Path) -> dict[str, Any]:
    count = range(len(PUBLISHED_HOPS) + 1)
    mean = sum(hops * share for hops, share in enumerate(PUBLISHED_HOPS))
    rows = [["published", *(f"{share:.4f}" for share in (*PUBLISHED_HOPS, 0.0)), f"{mean:.2f}"]]
    for kind in ("perfect", "arrivals"):
        world = Folder(out / f"hops-{kind}")
        shares = [f"{world.of(f'hops.{hops}')[0]:.4f}" for hops in count]
        rows.append([kind, *shares, f"{world.of('lookups.hops')[0]:.2f}"])
    return {"table": table(["tables", *map(str, count), "mean"], rows)}


_FAILURE_HEADS = "repair | leaf set | hops before | round of the failure | next round | last round | lost per lookup, round 1 | delivered, round 1 | missing cells per node, last round | remote calls per failed node"


def _failure(out: Path) -> dict[str, Any]:
    rows = []
    for name in (n for n in EXPERIMENTS if n.startswith("failure-") and (out / n).exists()):
        world = Folder(out / name)
        live, calls = world.of("nodes.live"), world.of("messages.repair")[1:].sum() / 2
        hops = world.of("lookups.hops").iloc[[0, 1, 2, -1]]
        lost, delivered = (world.of(f"lookups.{what}")[1] for what in ("lost", "delivered"))
        cells = [*(f"{h:.2f}" for h in hops), f"{lost:.3f}", f"{delivered:.5f}"]
        cells += [f"{world.of('cells.missing').iloc[-1]:.2f}", f"{calls / (live[0] - live[1]):.0f}"]
        rows.append([*name.split("-")[1:], *cells])
    return {"table": table(_FAILURE_HEADS.split(" | "), rows)}


def _adjacent(out: Path) -> dict[str, Any]:
    shares = ("lookups.delivered", "lookups.right", "leaf_sets.right")
    rows = [
        [
            f"{count}",
            f"{at}",
            *(f"{Folder(out / f'adjacent-{count}').of(s)[at]:.5f}" for s in shares),
        ]
        for count in (7, 8)
        for at in (1, 2)
    ]
    header = ["failed nodes", "round", "delivered", "at the right root", "correct leaf sets"]
    return {"table": table(header, rows)}


_CHURNED = (
    *("lookups.delivered", "lookups.right", "lookups.hops", "lookups.lost"),
    *("cells.missing", "cells.dead", "cells.delay", "cells.nearest_delay"),
)


def _churn(out: Path) -> dict[str, Any]:
    names = (name for name in EXPERIMENTS if name.startswith("churn") and (out / name).exists())
    seeds = [Folder(out / name).measures for name in names]
    rows = [
        [f"{part.index[0]}-{part.index[-1]}", *(f"{part[name].mean():.4g}" for name in _CHURNED)]
        for part in (seeds[0].iloc[:20], seeds[0].iloc[-20:])
    ]
    rows.append(
        [f"steady, {len(seeds)} seeds", *(_steady([s[n] for s in seeds]) for n in _CHURNED)]
    )
    return {"table": table(["rounds", *(f"`{name}`" for name in _CHURNED)], rows)}


def _steady(seeds: Sequence[pd.Series]) -> str:
    """Return a cell: the mean over the steady states of the seeds, and where they begin."""
    begins = [steady_from(line.to_numpy()) for line in seeds]
    if None in begins:
        return "not settled"
    means = [line.iloc[begin:].mean() for line, begin in zip(seeds, begins, strict=True)]
    return f"{over_seeds(means, lambda mean: f'{mean:.4g}')} ({', '.join(map(str, begins))})"


_HEAD = """\
# Pastry's overlay in worlds, measured

This page compares Pastry in simulated [worlds](living.md) with published numbers. [measures_reference.md](measures_reference.md) defines the measures. `make living` writes the page.
"""

_SECTIONS = (
    Section("introduced", """
## Nodes that arrive in waves

{nodes:,} nodes, {groups} groups, seed {seed}. In Pastry, one node arrives at a time; a wave increases the number of nodes by the factor *growth*. *Introduce*: the nodes of a wave learn of each other. A percentage is the difference from arrivals of one node; *largest* is the largest difference of all means and medians.

{table}
""", _growth),
    Section("cost", """
## Messages of an arrival

Means over all arrivals of a run with the default waves. The third column is the bound that Pastry's authors state. *Hops* and *stretch* (delay of a route, divided by the delay of the direct way) are those of CREATE messages. *Convergence*: the mean distance that two messages travel before their routes meet, divided by the mean distance between their senders.

{table}
""", _cost),
    Section("hops-perfect", """
## Hops at 100,000 nodes

Shares of 200,000 lookups of random keys, by the number of their hops.

{table}
""", _hops),
    Section("failure-lazy-16", """
## 10 % of 5,000 nodes fail at once

The first four columns of numbers are mean hops of 200,000 lookups in a round. Published are 2.73 before the failure, 2.96 after it without repair of routing tables, and 2.74 with repair. *Remote calls*: questions with their answers that repair leaf sets and routing tables; published: 57 for each failed node.

{table}
""", _failure),
    Section("adjacent-7", """
## Nodes with adjacent nodeIds fail at once

10,000 nodes, leaf sets of 16, 50,000 lookups in a round. The nodes fail in round 1, and their neighbours detect this in round 2.

{table}
""", _adjacent),
    Section("churn", """
## Sustained churn

10,000 live nodes; in each round of 30 s, 1 % of them fail and are replaced; 2,000 lookups a round. Means over twenty rounds of seed 1. Last row: the steady state of each measure ([rules.md](rules.md)), mean over the seeds ± their standard deviation, and its first round in each seed.

{table}
""", _churn),
)  # fmt: skip


def page(out: Path, file: Path | None = None) -> str:
    """Return ``docs/living_results.md``, of the experiments that are there."""
    return _HEAD + pages.sections(out, _SECTIONS)


main = partial(pages.main, "Measure Pastry in worlds.", EXPERIMENTS, page)

if __name__ == "__main__":
    main(sys.argv[1:])
