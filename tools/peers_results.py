"""Scribe among its peers: the experiments and the tables of ``docs/peers.md``.

Each system is run beside Scribe, and all begin with the same overlay and groups: what a run takes
longer than that of Scribe alone is what the system takes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.cli.sessions import open_session
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.arrays import depths, numbered
from scribe_spark.core.paths import replace_file
from scribe_spark.experiments import Simulation
from scribe_spark.systems.registry import TREE, all_systems, find_system
from tools import results
from tools.folders import Folder
from tools.pages import number, table
from tools.peers_claims import CLAIMS, DIRECTIONS, LENGTHS, grid_of, rows_of
from tools.results import Page, Part

#: Run -> its systems beside Scribe, and flags; it is about the first of them.
RUNS = {
    "scribe": "scribe,naive_unicast",
    "scribe_bottleneck": "scribe_bottleneck",
    "bayeux": "bayeux",
    "bayeux_leaf_set": "bayeux --bayeux-hops leaf_set",
    "bayeux_partitions": "bayeux --bayeux-partitions 4",
    "flooding": "flooding",
    "can": "can",
    "can_corner": "can --can-flooding corner",
    "can_optimal": "can --can-flooding optimal",
    "can_2": "can --can-dimensions 2",
    "can_landmarks": "can --can-landmarks 4",
    "gossipsub": "gossipsub",
    "gossipsub_ethereum": "gossipsub --gossipsub-preset ethereum",
    "plumtree": "plumtree",
    "nice": "nice",
    "splitstream": "splitstream",
    # flooding and trees, over Pastry and over CAN
    "all_pastry": "flooding,can --groups 1",
    "all_can": "scribe --groups 1 --overlay can",
    "groups_pastry": "flooding,can",
    "groups_can": "scribe --overlay can",
}

#: The nodes of the comparison of flooding and trees.
_GRID_NODES = 80_000
_GRID = ("all_pastry", "all_can", "groups_pastry", "groups_can")

#: All systems that groups of this size can have, in one run: run -> its flags.
_OTHERS = "bayeux,flooding,can,gossipsub,plumtree,nice,overcast,splitstream"
SMALLER = {
    "all_1000": f"scribe,naive_unicast,{_OTHERS},narada --nodes 1000 --groups 15",
    "all_5000": f"scribe,naive_unicast,{_OTHERS} --nodes 5000 --groups 75",
}

#: The roots of five groups fail.
_ROOTS = "bayeux_roots"
_ROOTS_FAIL = "world --systems scribe,bayeux --nodes 5000 --groups 100 --rounds 12 --lookups 0 --lost-after 1 --roots 5 --generator root-failure+publications --publish-rate 1"


# --- running


def _command(name: str) -> str:
    """Return the command of a run."""
    systems, _, flags = RUNS[name].partition(" ")
    named = ",".join(dict.fromkeys(["scribe", *systems.split(",")]))
    nodes = f"--nodes {_GRID_NODES} " if name in _GRID else ""
    return f"run --config data/peers.toml --systems {named} {nodes}{flags}"


def _commands_of_smaller() -> dict[str, str]:
    """Return the commands of the runs with all systems; tasks play deep trees faster than jobs."""
    begin = "run --config data/peers.toml --engine tasks --systems"
    return {name: f"{begin} {words}" for name, words in SMALLER.items()}


def _sized(name: str, size: Sequence[str]) -> str:
    """Return the flags of other numbers of nodes and groups; one group stays one group."""
    groups = "" if "--groups 1" in RUNS.get(name, "") else f" --groups {size[1]}"
    initial = f" --initial {int(size[0]) * 5 // 6}" if name == _ROOTS else ""
    return f"--nodes {size[0]}{groups}{initial}"


def run(out: Path, name: str, words: list[str]) -> None:
    """Run an experiment that is not complete."""
    results.run(out, name, words)
    if name == "bayeux" and not (out / name / LENGTHS).exists():
        _write_lengths(Folder(out / name, "bayeux"))


def _write_lengths(peer: Folder) -> None:
    """Write how long the edges of the trees of Bayeux and of Scribe are."""
    config = RunConfig(**{name: value for name, value in peer.config.items() if value is not None})
    found, ends = {}, ("parent_router", "child_router")
    execution = Execution(out=str(peer.path))
    with (
        open_session(execution, config.overlay.nodes, config.estimated_work) as spark,
        Simulation(spark, config) as simulation,
    ):
        kernel, lan_us = simulation.underlay.kernel, simulation.underlay.lan_us
        for system in ("scribe", "bayeux"):
            edges = peer.table("tree_edges", ["group", "parent", "child", *ends], system)
            above, below = (kernel.index(edges[end].to_numpy()) for end in ends)
            found[system] = edge_lengths(edges, kernel.delays(above, below) + 2 * lan_us)
    replace_file(peer.path / LENGTHS, json.dumps(found).encode())


def tree_shape(edges: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return how deep the lower ends of edges of trees are, and which of these have children."""
    group = np.r_[edges["group"], edges["group"]]
    place = numbered(group, np.r_[edges["parent"], edges["child"]])
    upper, lower = np.split(place, 2)
    above = np.full(place.max(initial=-1) + 1, -1)
    above[lower] = upper
    return depths(above)[lower], np.isin(lower, upper)


def edge_lengths(edges: pd.DataFrame, delay_us: np.ndarray) -> dict[str, float]:
    """Return mean delays D in ms: of the edges at the roots, and of those to the leaves."""
    depth, is_inner = tree_shape(edges)
    # an edge from a root to a leaf is at both ends
    some = {"first": (depth == 1) & is_inner, "last": (depth > 1) & ~is_inner}
    return {
        name: float(delay_us[one].mean() / 1000) if one.any() else float("nan")
        for name, one in some.items()
    }


# --- the page

#: Metric -> head of its column.
_COLUMNS = {
    "latency.p50": "delay, median, ms",
    "latency.p99": "delay, 99th percentile, ms",
    "rad.median": "RAD, median group",
    "rad.largest": "RAD, largest group",
    "rmd.median": "RMD, median group",
    "rmd.largest": "RMD, largest group",
    "rdp.mean": "RDP, mean of the largest group",
    "children_entries.mean": "node stress, mean",
    "children_entries.max": "node stress, maximum",
    "link_stress.mean_existing": "link stress, mean",
    "link_stress.max": "link stress, maximum",
    "messages": "packets",
    "duplicates.mean": "duplicates per delivery",
    "join_messages.max": "control messages, busiest node",
    "state.max": "state, busiest node",
    "state.mean": "state, mean",
}

#: Systems whose own numbers the runs of Scribe have.
_IN_SCRIBES = ("scribe", "ip_multicast", "naive_unicast")

_SETTING = """\
This page compares multicast systems with the same nodes, network and groups: {nodes:,} nodes, {groups:,} groups, seed {seed}, perfect routing tables. [rules.md](rules.md) has the rules of each system. `make peers` writes the page.

Each group gets one message. [concepts.md](concepts.md#the-measures) defines RAD, RMD, RDP and link stress. *RAD, median group* is the median of the RADs of all groups, half of which have at most {half:,.0f} members; *RAD, largest group* is that of the group of {most:,} members. *Link stress, mean* is over the links that exist; [results.md](results.md) divides by the paper's number of links instead. *Node stress* is the number of copies that a node sends for all groups together; in a tree, this is the number of its children. *Duplicates* are copies at nodes that already have the message. *Control messages* are those that a node receives while members join. *State* is the number of entries that a node stores, such as children, neighbours and connections. *Seconds* is the time of a run with the system and Scribe; in brackets is the additional time in comparison with Scribe alone.{hops}
"""

#: The end of a row's label if hops decide which copy is first, and what the page says of such rows.
_HOPS = "by hops"
_BY_HOPS = " In rows *by hops*, the first copy is the one with the fewest hops; in others, the earliest one."

_SMALLER_WORDS = (
    "A group has at most 5,000 members in Overcast and 1,024 in Narada "
    "([rules.md](rules.md#overcast)). A cell has the values of runs with {sizes}. The control "
    "messages of NICE, Overcast and Narada include the heartbeats of the first 250, 200 and "
    "1,700 s. The state of NICE, Overcast and SplitStream is their children only."
)


def _peers(out: Path) -> dict[str, Folder]:
    """Return the experiments that are there."""
    every = {name: _peer(out, name) for name in PEERS.experiments}
    return {name: peer for name, peer in every.items() if peer.is_complete}


def _systems(out: Path) -> list[str]:
    """Return the setting, and the table of all systems."""
    peers = _peers(out)
    sizes = peers["scribe"].table("groups", ["size"])["size"]
    rows, about = _rows(peers), {"half": sizes.median(), "most": sizes.max()}
    about["hops"] = _BY_HOPS if any(row[0].endswith(_HOPS) for row in rows) else ""
    lines = table(["system", *_COLUMNS.values(), "seconds"], rows)
    return [*_SETTING.format(**peers["scribe"].config, **about).splitlines(), "", *lines]


def _claims(out: Path) -> list[str]:
    """Return the table of what the papers say."""
    return table("source | claim | measured | verdict", rows_of(CLAIMS, _peers(out)))


def _grid(out: Path) -> list[str]:
    """Return the tables of flooding and trees, over both overlays."""
    peers = _peers(out)
    head, *grid = grid_of(peers) or [[]]
    directions = table("source | claim | RAD | verdict", rows_of(DIRECTIONS, peers))
    return [*([*table(head, grid), ""] if grid else []), *directions]


def _smaller(out: Path) -> list[str]:
    """Return the table of the runs with all systems; a cell has the values of all runs."""
    runs = [out / name for name in SMALLER if Folder(out / name).is_complete]
    sizes = ("{nodes:,} nodes and {groups:,} groups".format(**Folder(run).config) for run in runs)
    rows = []
    for system in all_systems():
        found = [_short(_row(Folder(run, system.name), system.name, "")) for run in runs]
        if any(cell.strip("-0") for row in found for cell in row[1:]):
            rows.append([system.label, *("/".join(one) for one in [*zip(*found, strict=True)][1:])])
    heads = _short(["system", *_COLUMNS.values()])
    return [_SMALLER_WORDS.format(sizes=" / ".join(sizes)), "", *table(heads, rows)]


def _short(row: Sequence[str]) -> list[str]:
    """Return the most telling cells of a row."""
    return [row[0], *(row[1 + [*_COLUMNS].index(name)] for name in _SHORT_COLUMNS)]


def _peer(out: Path, name: str) -> Folder:
    """Return a run and the system that it is about."""
    return Folder(out / name, re.split("[ ,]", RUNS.get(name, "scribe"))[0])


def _rows(peers: Mapping[str, Folder]) -> list[list[str]]:
    """Return the rows of all systems: one for each run."""
    rows = [_row(peers["scribe"], system, "") for system in _IN_SCRIBES]
    alone = peers["scribe"].seconds
    rows[0][-1] = f"{alone:.0f}"
    for name, peer in peers.items():
        if name in RUNS and name not in _GRID and peer.system not in _IN_SCRIBES:
            seconds = f"{peer.seconds:.0f} ({peer.seconds - alone:+.0f})"
            flags = RUNS[name].replace("--", "").split()[1:]
            rows.append(
                _row(peer, peer.system, seconds.replace("-", "\N{MINUS SIGN}"), " ".join(flags))
            )
    return rows


def _row(peer: Folder, system: str, seconds: str, flags: str = "") -> list[str]:
    known = find_system(system)
    label = system if known is None else known.label
    clocks = {row["clock"] for n, row in peer.metrics.items() if n.startswith(f"{peer.system}.")}
    by_hops = _HOPS if {*filter(None, clocks)} == {"hops"} else ""
    told = filter(None, [label, f"({flags})" if flags else "", by_hops])
    values = {metric: peer.value(metric, system) for metric in _COLUMNS}
    if known is not None and known.family == TREE:  # that hands over its edges
        values["duplicates.mean"] = values["duplicates.mean"] or 0
    return [" ".join(told), *map(number, values.values()), seconds]


#: The rows and the columns of README.md.
_README_RUNS = (
    *("scribe", "bayeux", "can", "flooding", "gossipsub", "plumtree", "nice", "splitstream"),
)
#: The columns of the table of smaller groups.
_SHORT_COLUMNS = (
    *("latency.p50", "latency.p99", "rad.median", "rad.largest", "link_stress.max", "messages"),
    *("duplicates.mean", "join_messages.max", "state.max"),
)
_README_COLUMNS = (
    *("latency.p50", "rad.median", "rad.largest", "link_stress.max", "messages"),
    "duplicates.mean",
)


def _readme(out: Path) -> list[str]:
    """Return the most telling rows of the table, of the systems that were run."""
    there = [peer for name in _README_RUNS if (peer := _peer(out, name)).is_complete]
    head = "{nodes:,} nodes, {groups:,} groups".format(**there[0].config)
    rows = [_row(peer, peer.system, "") for peer in there]
    shown = [0, *(1 + [*_COLUMNS].index(name) for name in _README_COLUMNS)]
    heads = [head, *(_COLUMNS[name] for name in _README_COLUMNS)]
    return table(heads, ([row[place] for place in shown] for row in rows))


PEERS = Page(
    {name: _command(name) for name in RUNS} | {_ROOTS: _ROOTS_FAIL} | _commands_of_smaller(),
    {
        "systems": Part("scribe", _systems),
        "claims": Part("scribe", _claims),
        "flooding_and_trees": Part("*_can", _grid),
        "smaller": Part("all_1000", _smaller),
    },
    play=run,
    sized=_sized,
    readme={"peers": Part("scribe", _readme)},
)
