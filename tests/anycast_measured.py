"""Measured values of anycasts beside bars: ``PYTHONPATH=.:tests python -m anycast_measured``.

The bars are values that an independent program measured (C, one topology); the program was not
tuned to them.  With ``--page docs/differences.md``, the rows also replace the table of the page.

A hundred drawn nodes outside of the tree send an anycast each, on the trees of a run on the preset
transit-stub network.  The rank is the share of the members that would accept, and to which the
delay from the origin is less than to the one found.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bars import Row, print_rows, write_rows
from pyspark.sql import SparkSession

from scribe_spark import Simulation, session
from scribe_spark.config import RunConfig
from scribe_spark.core import draws
from scribe_spark.systems.scribe.upcalls import Calls, ScribeApplication
from scribe_spark.underlay.protocol import node_delays

ORIGINS = 100
HEAD = (
    "| nodes, members, nodes of the tree | who accepts | messages, independent program "
    "| messages: mean, maximum | rank | holds |\n"
    "|---|---|---|---|---|---|"
)

#: Nodes, members -> messages if all, a tenth, one, or none accept (C).
REFERENCE = {
    (1_000, 100): ("2.1", "14.6", "69.6 (max 133)", "133.1"),
    (5_000, 1_000): ("1.9", "12.5", "613 (max 1,170)", "1,180.1"),
}


class Chosen(ScribeApplication):
    """Members that accept: an array of numbers of nodes, for each number of an anycast."""

    def __init__(self, chosen: np.ndarray, nodes: int) -> None:
        self._chosen = chosen

    def accept(self, calls: Calls, asked) -> np.ndarray:
        """See `ScribeApplication.accept`."""
        return (self._chosen[asked["number"]] == asked["node"][:, None]).any(axis=1)


def chosen_of(members: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield who accepts, and their numbers for each anycast."""
    drawn = np.argsort(draws.bits_np(seed, "accepts", np.arange(len(members))))
    yield "all", np.tile(members, (ORIGINS, 1))
    yield "a tenth", np.tile(members[drawn[: len(members) // 10]], (ORIGINS, 1))
    yield "one", members[drawn[np.arange(ORIGINS) % len(members)]][:, None]
    yield "none", np.full((ORIGINS, 1), -1)


def rows(spark: SparkSession, nodes: int, members: int, seed: int) -> Iterator[Row]:
    """Yield the rows of the table for a group."""
    config = RunConfig(nodes=nodes, groups=1, group_size=members, seed=seed)
    with Simulation(spark, config) as simulation:
        trees = simulation.built_trees
        edges = trees.edges().toPandas()
        inside = np.unique(edges[["parent", "child"]].to_numpy())
        of = trees.read_members().frame.toPandas()["node"].to_numpy()
        ring, kernel = trees.overlay.ring.facts.ring, trees.overlay.underlay.kernel
        outside = np.setdiff1d(ring.node, inside)
        drawn = draws.bits_np(seed, "origin", outside)
        origin = outside[np.argsort(drawn)[:ORIGINS]]
        table = pd.DataFrame({"group": 1, "node": origin, "number": np.arange(ORIGINS)})
        calls = spark.createDataFrame(table)
        place = ring.router[ring.positions(np.arange(nodes))]
        lan_us = trees.overlay.underlay.lan_us
        for bar, (who, chosen) in zip(REFERENCE[nodes, members], chosen_of(of, seed), strict=True):
            found = trees.anycast(calls, partial(Chosen, chosen)).toPandas().sort_values("number")
            ranks = []
            for number, accepted in found[["number", "accepted"]].dropna().to_numpy(dtype=int):
                ends = np.append(chosen[number], accepted)
                start = np.full(len(ends), place[origin[number]])
                delays = node_delays(kernel, lan_us, start, place[ends])
                ranks.append((delays[:-1] < delays[-1]).mean())
            if who == "none":
                holds = bool((found["visited"] == len(inside)).all())
            else:
                holds = bool(found["accepted"].notna().all()) and np.mean(ranks) < 0.35
            rank = f"{np.mean(ranks):.2f}" if ranks and who != "one" else "-"
            sent = f"{found['messages'].mean():,.1f}, {found['messages'].max():,} | {rank}"
            yield Row((f"{nodes:,}, {members:,}, {len(inside):,}", who), bar, sent, holds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path)
    given, spark = parser.parse_args(arguments), session()
    found = (row for group in REFERENCE for row in rows(spark, *group, given.seed))
    write_rows(given.page, "anycast", HEAD, print_rows(HEAD, found))


if __name__ == "__main__":
    main()
