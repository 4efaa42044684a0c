"""Tables that experiments on worlds with groups need: their events.

All are made again, and are the same, whenever an experiment is run: a world that is complete is
recognised by the digests of its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark import draws
from scribe_spark.core.paths import replace_file

__all__ = [
    "CREATED_AGAIN", "WAVES", "created_again", "failures", "flags", "local_world",
]  # fmt: skip

#: `data/groups_root_failures.toml` without its generators: events are a table.
CREATED_AGAIN: dict[str, Any] = {
    "nodes": 10_000, "groups": 150, "seed": 1, "rounds": 20, "lookups": 0,
}  # fmt: skip

#: Nodes -> how often some of them fail, the first round in which they do, and rounds between.
WAVES = {1_000: 20, 10_000: 5, 100_000: 2}
_FIRST, _BETWEEN = 4, 6

#: Groups that are lost are created again in this round, and joined in the next.
_CREATED, _JOINING = 12, 50


def flags(config: Mapping[str, Any]) -> list[str]:
    """Return the flags of the command line for a config."""
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in config.items()]
    return [text for pair in pairs for text in pair]


def _write(file: Path, table: pd.DataFrame) -> None:
    replace_file(file, table.to_csv(index=False).encode())


# --- few failures


def local_world(nodes: int) -> dict[str, Any]:
    """A world in which few nodes fail: as many groups for each node whatever its size."""
    rounds = _FIRST + WAVES[nodes] * _BETWEEN
    groups = 15 * nodes // 1_000
    return {"nodes": nodes, "groups": groups, "seed": 1, "rounds": rounds, "lookups": 0}


def failures(out: Path, folder: Path, nodes: int) -> list[str]:
    """Every few rounds one of 500 nodes fails, which are drawn; nothing is published."""
    del out
    few, waves = nodes // 500, WAVES[nodes]
    drawn = draws.distinct_below(nodes, few * waves, 1, "few failures", nodes)
    order = np.argsort(draws.bits_np(1, "order of failures", drawn))
    rounds = np.repeat(_FIRST + _BETWEEN * np.arange(waves), few)
    table = pd.DataFrame({"round": rounds, "node": drawn[order], "event": "fail"})
    _write(folder / "events.csv", table)
    return ["--events", str(folder / "events.csv")]


# --- groups that were lost are created again


def created_again(out: Path, folder: Path) -> list[str]:
    """Write the events of ``holders-5``, after which each lost group is created and joined again.

    Its members try to join in every round by themselves; the nodes that join by events are others.
    """
    tables = out / "holders-5" / "tables"
    events = pd.read_parquet(tables / "events").convert_dtypes()
    nodes = pd.read_parquet(tables / "nodes")["node"].to_numpy()
    failed = events.loc[events["event"] == "fail", "node"].to_numpy(np.int64)
    alive = np.setdiff1d(nodes, failed)
    start = (events["round"] == 0) & events["event"].isin(["create", "join"])
    joined = events[start & (events["event"] == "join")]
    rows = []
    for group in lost_groups(out / "holders-5"):
        members = joined.loc[joined["group"] == group, "node"].to_numpy(np.int64)
        raw = draws.stream(1, "created again by", int(group))
        creator = alive[draws.whole_numbers(raw, len(alive), 1)[0]]
        rows.append((_CREATED, creator, "create", group))
        others = np.setdiff1d(alive, members)
        few = min(_JOINING, len(others))
        drawn = others[draws.distinct_below(len(others), few, 1, "joins again", int(group))]
        rows += [(_CREATED + 1, node, "join", group) for node in drawn]
    more = pd.DataFrame(rows, columns=["round", "node", "event", "group"])
    # what happens at the start is no part of a table of events
    both = pd.concat([events[~start], more.convert_dtypes()])
    _write(folder / "events.csv", both[["round", "node", "event", "group"]])
    return ["--events", str(folder / "events.csv")]


def lost_groups(folder: Path) -> np.ndarray:
    """The groups to which nothing is delivered at the end of a world, ascending."""
    table = pd.read_parquet(folder / "tables" / "publications")
    last = table[table["round"] == table["round"].max()]
    return np.sort(last.loc[last["in_time"] + last["late"] == 0, "group"].to_numpy())
