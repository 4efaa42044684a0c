"""Tables that experiments on worlds with groups need: access lists and events.

All are made again, and are the same, whenever an experiment is run: a world that is complete is
recognised by the digests of its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark import WorldConfig, draws
from scribe_spark.core.paths import replace_file
from scribe_spark.worlds import extent_of, world_groups

__all__ = [
    "CREATED_AGAIN", "REFUSED", "TRIES", "WAVES", "created_again", "failures", "flags",
    "local_world", "not_tried", "refused",
]  # fmt: skip

#: The world of refused credentials.
REFUSED: dict[str, Any] = {
    "nodes": 10_000, "groups": 150, "seed": 1, "rounds": 10, "lookups": 0,
}  # fmt: skip

#: JOINs that are refused, and as many publications; the rounds in which they are tried.
TRIES, _ROUNDS = 6_000, range(2, 8)

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
    """The flags of the command line that give a config."""
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in config.items()]
    return [text for pair in pairs for text in pair]


def _write(file: Path, table: pd.DataFrame) -> None:
    replace_file(file, table.to_csv(index=False).encode())


# --- refused credentials


def refused(out: Path, folder: Path, config: Mapping[str, Any] = REFUSED) -> list[str]:
    """Lists that permit the members at the start alone, and tries of other nodes."""
    del out
    return _refused(folder, config, TRIES)


def not_tried(out: Path, folder: Path, config: Mapping[str, Any] = REFUSED) -> list[str]:
    """The same world without the tries."""
    del out
    return _refused(folder, config, 0)


def _refused(folder: Path, config: Mapping[str, Any], tries: int) -> list[str]:
    """Every group has a publication in each round; the first group, of all nodes, has no list."""
    made = WorldConfig(**config)
    groups = world_groups(made, extent_of(made))
    assert groups is not None
    members = pd.DataFrame(dict(zip(("group", "node"), groups.members.pairs, strict=True)))
    listed = members[members["group"] > 1]
    lists = [listed.assign(right=right) for right in ("join", "multicast")]
    _write(folder / "access.csv", pd.concat(lists))
    tables = [_publications(members, made)]
    if tries:
        tables += [_tries(members, made, event, tries) for event in ("join", "publish")]
    _write(folder / "events.csv", pd.concat(tables)[["round", "node", "event", "group"]])
    return ["--access", str(folder / "access.csv"), "--events", str(folder / "events.csv")]


def _publications(members: pd.DataFrame, config: WorldConfig) -> pd.DataFrame:
    """One of a drawn member in each round, from the first after the start on."""
    tables = []
    for group, of in members.groupby("group"):
        raw = draws.stream(config.seed, "permitted source", int(group))
        rounds = np.arange(1, config.world.rounds)
        drawn = draws.whole_numbers(raw, len(of), len(rounds))
        source = of["node"].to_numpy()[drawn]
        tables.append(pd.DataFrame({"round": rounds, "node": source, "group": group}))
    return pd.concat(tables).assign(event="publish")


def _tries(members: pd.DataFrame, config: WorldConfig, event: str, count: int) -> pd.DataFrame:
    """Pairs of a group with a list and a node that it does not name, each once."""
    nodes, groups = config.overlay.nodes, int(members["group"].max())
    pairs = np.arange(2 * nodes, (groups + 1) * nodes)  # group * nodes + node, from group 2 on
    named = members["group"].to_numpy() * nodes + members["node"].to_numpy()
    pairs = pairs[~np.isin(pairs, named)]
    drawn = pairs[draws.distinct_below(len(pairs), count, config.seed, f"refused {event}", 0)]
    rounds = np.resize(np.array(_ROUNDS), count)
    table = {"round": rounds, "node": drawn % nodes, "group": drawn // nodes}
    return pd.DataFrame(table).assign(event=event)


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
    """The events of ``holders-5``, after which each lost group is created and joined again.

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
