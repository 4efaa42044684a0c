"""Pages of Pastry's overlay and of trees over it (see ``texts/``).

``docs/living_results.md``; a figure and a table of ``docs/groups_results.md``; the tables of
``docs/reference_tree.md``.
"""

from collections.abc import Iterator, Sequence
from math import log2  # noqa: F401
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark.report.style import label_of  # noqa: F401
from scribe_spark.worlds.summary import WINDOW, first_steady, measures_by_round, steady_from
from tools.folders import Folder, of, page_of, rounds_in_words
from tools.pages import HEADS, Panel, draw, over_seeds

# --- Pastry in worlds

_COMPARED = [
    *("scribe.rad.median", "scribe.rmd.median", "scribe.rdp.mean", "scribe.children_tables.mean"),
    *("scribe.children_entries.mean", "scribe.messages", "pastry.stretch", "pastry.hops.mean"),
]

#: Pastry's published share of routes with 0, 1, ... hops: 100,000 nodes, b = 4.
PUBLISHED_HOPS = (0.0, 0.0006, 0.0156, 0.1643, 0.6449, 0.1745, 0.0)
_PUBLISHED_MEAN = sum(hops * share for hops, share in enumerate(PUBLISHED_HOPS))


def _swept(folder: Path, by: str) -> pd.DataFrame:
    """Return the metrics of a sweep's points without maintenance, by the values of a field."""
    table = pd.read_parquet(folder / "sweep")
    if "maintenance" in table:
        table = table[table["maintenance"] == 0]
    return table.pivot(index=by, columns="metric", values="value")


def _waves(out: Path) -> list[tuple[Any, ...]]:
    """Return the growth of each wave, whether nodes introduce others, and the metrics."""
    every = [
        (growth, word, metrics)
        for name, word in (("growth", "no"), ("introduced", "yes"))
        if (out / name / "sweep").exists()
        for growth, metrics in _swept(out / name, "growth").iterrows()
    ]
    return sorted(every, key=lambda wave: wave[:2])


def _hops(world: Folder) -> list[float]:
    return [world.of(f"hops.{hops}")[0] for hops in range(len(PUBLISHED_HOPS))]


def _steady(worlds: Sequence[pd.DataFrame], names: Sequence[str]) -> Iterator[str]:
    """Yield the means over the steady states of the seeds, and where these begin."""
    for lines in ([world[name] for world in worlds] for name in names):
        begins = [steady_from(line.to_numpy()) for line in lines]
        means = [line.iloc[begin:].mean() for line, begin in zip(lines, begins, strict=True)]
        cell = f"{over_seeds(means, '{:.4g}'.format)} ({', '.join(map(str, begins))})"
        yield "not settled" if None in begins else cell


LIVING = page_of("living", globals())

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
    "multicasts.reached": "share of members reached",
    **{name: HEADS[name] for name in ("rad.median", "rmd.median", "depth.mean")},
    "children_entries.mean": "children of a node, mean",
    "children_entries.max": "children of a node, most",
    **{name: HEADS[name] for name in ("link_stress.mean_existing", "link_stress.max")},
    "joins.shed": "JOINs of dropped children in a round",
}


def _by_trees(out: Path) -> dict[str, list[pd.DataFrame]]:
    """Return the measures by rounds of the worlds of all seeds, by the label of their trees."""
    found = {label: Folder.find(out, f"seed-*/{point}") for point, label in _POINTS.items()}
    return {
        label: [measures_by_round(world.table("rounds")) for world in worlds]
        for label, worlds in found.items()
        if worlds
    }


def _bottleneck(out: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the measures in round 0 and their means over the steady state."""
    for label, seeds in _by_trees(out).items():
        begins = [first_steady([of(one, name) for name in _SETTLE]) for one in seeds]
        starts = [-WINDOW if begin is None else begin for begin in begins]
        settled = rounds_in_words(begins, seeds[0].index[-1])
        steady = [one.iloc[start:] for one, start in zip(seeds, starts, strict=True)]
        when = settled if None in begins else f"mean of rounds {settled}"
        for rounds, some in (("round 0", [one.iloc[:1] for one in seeds]), (when, steady)):
            values = [[float(of(one, f"scribe.{name}").mean()) for one in some] for name in _TOLD]
            yield label, len(seeds), rounds, values


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
RAD_UNDER_CHURN = page_of("rad-under-churn", globals(), figures=_draw_bottleneck)

# --- Costa and Frey's reference tree: values of measures with their counts


def _measured(out: Path, names: str) -> pd.DataFrame:
    there = [out / name / "tables" / "reference_tree" for name in names.split()]
    return pd.concat(pd.read_parquet(one) for one in there if one.exists())


def _total(table: pd.DataFrame, *measures: str) -> float:
    some = table[table["measure"].isin(measures)]
    return float((some["value"] * some["count"]).sum())


def _mean(table: pd.DataFrame, *measures: str) -> float:
    return _total(table, *measures) / table["count"][table["measure"].isin(measures)].sum()


def _means(table: pd.DataFrame, *measures: str) -> str:
    return " / ".join(f"{_mean(table, name):.2f}" for name in measures)


def _faults(table: pd.DataFrame) -> str:
    """Return the events after which the tree was wrong."""
    return f"{_total(table, 'faults.connection', 'faults.disconnection'):.0f}"


def _degrees(table: pd.DataFrame) -> list[str]:
    """Return the shares of the hosts with 1, 2, 3 and more neighbours, in %."""
    counts = table[table["measure"] == "degree"].groupby("value")["count"].sum()
    cells = [f"{100 * counts.get(n, 0) / counts.sum():.1f}" for n in (1, 2, 3)]
    above = counts[counts.index > 3].sum()
    return [*cells, f"{100 * above / counts.sum():.2f}" if above else "0"]


def _most_above(table: pd.DataFrame) -> float:
    """Return the greatest share of hosts with more neighbours than the bound, in %."""
    degrees = table[table["measure"] == "degree"]
    above = degrees["count"].where(degrees["value"] > degrees["children"] + 1, 0)
    by = [degrees["assignment"], degrees["children"]]
    return 100 * float((above.groupby(by).sum() / degrees["count"].groupby(by).sum()).max())


def _scaled(out: Path) -> Any:
    """Return the rows of each assignment and number of hosts; of chord's, of the greatest one."""
    every = _measured(out, "scaling-chord scaling-pastry")
    shown = (every["assignment"] == "pastry") | (every["hosts"] == every["hosts"].max())
    return every[shown].groupby(["assignment", "hosts"])


def _areas(table: pd.DataFrame) -> tuple[float, float, int]:
    """Return the mean area of an event, its standard error, and the number of events."""
    names = ("area.connection", "area.disconnection")
    areas, mean = table[table["measure"].isin(names)], _mean(table, *names)
    events = int(areas["count"].sum())
    squares = ((areas["value"] - mean) ** 2 * areas["count"]).sum() / max(events - 1, 1)
    return mean, (squares / events) ** 0.5, events


REFERENCE_TREE = page_of("reference-tree", globals())
