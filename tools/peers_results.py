"""Measure Scribe among its peers, and write the page of it.

``python -m tools.peers_results OUT`` runs the experiments that are not complete; ``--size N G``
with so many nodes and groups.  ``--page FILE`` writes ``docs/peers.md`` of those that are there,
and ``--readme FILE`` README's rows of it.

Each system is run beside Scribe, and all begin with the same overlay and groups: what a run takes
longer than that of Scribe alone is what the system takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scribe_spark.cli.sessions import open_session
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.paths import replace_file
from scribe_spark.experiments import Simulation
from scribe_spark.systems import TREE, find_system
from tools.groups_tables import number
from tools.pages import table, with_lines
from tools.peers_claims import CLAIMS, DIRECTIONS, grid_of, rows_of
from tools.peers_tables import LENGTHS, Peer, edge_lengths

__all__ = ["PEERS", "README_MARKS", "WORLDS", "main", "page", "readme_lines"]

_RUN = ["run", "--config", "data/peers.toml"]

#: Run -> its systems beside Scribe, and flags; it is about the first of them.
PEERS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "scribe": (("scribe", "naive_unicast"), []),
    "scribe_bottleneck": (("scribe_bottleneck",), []),
    "bayeux": (("bayeux",), []),
    "bayeux_leaf_set": (("bayeux",), ["--bayeux-hops", "leaf_set"]),
    "bayeux_partitions": (("bayeux",), ["--bayeux-partitions", "4"]),
    "flooding": (("flooding",), []),
    "can": (("can",), []),
    "can_corner": (("can",), ["--can-flooding", "corner"]),
    "can_optimal": (("can",), ["--can-flooding", "optimal"]),
    "can_2": (("can",), ["--can-dimensions", "2"]),
    "can_landmarks": (("can",), ["--can-landmarks", "4"]),
    "gossipsub": (("gossipsub",), []),
    "gossipsub_ethereum": (("gossipsub",), ["--gossipsub-preset", "ethereum"]),
    # flooding and trees, over Pastry and over CAN
    "all_pastry": (("flooding", "can"), ["--groups", "1"]),
    "all_can": (("scribe",), ["--groups", "1", "--overlay", "can"]),
    "groups_pastry": (("flooding", "can"), []),
    "groups_can": (("scribe",), ["--overlay", "can"]),
}

#: The nodes of the comparison of flooding and trees.
_GRID_NODES = 80_000
_GRID = ("all_pastry", "all_can", "groups_pastry", "groups_can")

#: World -> what it is called on the page, and its command.
WORLDS: dict[str, tuple[str, list[str]]] = {
    "bayeux_roots": (
        "the roots of 5 groups fail, best effort",
        [
            *("world", "--systems", "bayeux", "--nodes", "5000", "--groups", "100"),
            *("--rounds", "12", "--lookups", "0", "--deadline", "1", "--roots", "5"),
            *("--generator", "root-failure+publications", "--publish-rate", "1"),
        ],
    ),
}  # fmt: skip


# --- running


def command(name: str, size: Sequence[str] | None) -> list[str]:
    """Return the command of an experiment, perhaps with other numbers of nodes and groups."""
    if name in WORLDS:
        return [*WORLDS[name][1], *_sized(size, world=True)]
    systems, flags = PEERS[name]
    named = dict.fromkeys(("scribe", *systems))
    if name in _GRID and size is None:
        flags = ["--nodes", str(_GRID_NODES), *flags]
    return [*_RUN, "--systems", ",".join(named), *_sized(size), *flags]


def _sized(size: Sequence[str] | None, world: bool = False) -> list[str]:
    if size is None:
        return []
    nodes, groups = size
    flags = ["--nodes", nodes, "--groups", groups]
    return [*flags, "--initial", str(int(nodes) * 5 // 6)] if world else flags


def run(out: Path, names: Iterable[str], size: Sequence[str] | None) -> None:
    """Run the experiments that are not complete."""
    for name in names:
        folder = out / name
        flags = [*command(name, size), "--out", str(folder), "--resume"]
        subprocess.run([sys.executable, "-m", "scribe_spark.cli", *flags], check=True)
        if name == "bayeux" and not (folder / LENGTHS).exists():
            _write_lengths(Peer(folder, "bayeux"))


def _write_lengths(peer: Peer) -> None:
    """Write how long the edges of the trees of Bayeux and of Scribe are."""
    config, found = _config_of(peer), {}
    execution = Execution(out=str(peer.folder))
    with (
        open_session(execution, config.overlay.nodes, config.estimated_work) as spark,
        Simulation(spark, config) as simulation,
    ):
        kernel, lan_us = simulation.underlay.kernel, simulation.underlay.lan_us
        ends = ("parent_router", "child_router")
        for system in ("scribe", "bayeux"):
            edges = peer.table("tree_edges", ["group", "parent", "child", *ends], system)
            above, below = (kernel.index(edges[end].to_numpy()) for end in ends)
            found[system] = edge_lengths(edges, kernel.delays(above, below) + 2 * lan_us)
    replace_file(peer.folder / LENGTHS, json.dumps(found).encode())


def _config_of(peer: Peer) -> RunConfig:
    given = peer.manifest["resolved"].items()
    return RunConfig(**{name: value for name, value in given if value is not None})


# --- the page

#: Metric -> head of its column.
_COLUMNS = {
    "latency.p50": "latency, median, ms",
    "latency.p99": "latency, 99th percentile, ms",
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

_ABOUT = """\
# Scribe among its peers

This page compares multicast systems with the same nodes, network and groups: {nodes:,} nodes, {groups:,} groups, seed {seed}, perfect routing tables. [rules.md](rules.md) has the rules of each system. `make peers` writes the page.

Each group gets one message. Delays count in {clock}. The median group has at most {half} members, the largest {most:,}. [concepts.md](concepts.md#the-measures) defines RAD, RMD, RDP and link stress. *Node stress*: copies that a node sends to all groups. *Duplicates*: copies to members that already have the message. *Control messages*: those that a node receives while members join. *State*: entries that a node stores, such as children, neighbours and connections. *Seconds*: the time of a run with the system and Scribe; in brackets, the additional time in comparison with Scribe alone.
"""


def page(out: Path) -> str:
    """Return ``docs/peers.md``, of the experiments that are there."""
    peers = {name: Peer(out / name, systems[0]) for name, (systems, _) in PEERS.items()}
    peers |= {name: Peer(out / name, "scribe") for name in WORLDS}
    there = {name: peer for name, peer in peers.items() if peer.is_there}
    lines = [_about(there["scribe"]), *_table(there)]
    claims = rows_of(CLAIMS, there)
    if claims:
        lines += ["", "## What the papers say", "", _VERDICTS, ""]
        lines += table(["source", "claim", "measured", "verdict"], claims)
    directions = rows_of(DIRECTIONS, there)
    if directions:
        lines += ["", "## Flooding and trees, over CAN and over Pastry", "", _GRID_WORDS, ""]
        grid = grid_of(there)
        lines += [*table(grid[0], grid[1:]), ""] if grid else []
        lines += table(["source", "claim", "other measures", "verdict"], directions)
    lines += ["", "[peers_living.md](peers_living.md) compares the systems while nodes fail."]
    return "\n".join(lines) + "\n"


_VERDICTS = (
    "A claim is *true* if all measures agree with it, *false* if none does; otherwise it *depends*. "
    "Numbers are *similar* if they differ by at most 20 %. The column *measured* has only numbers "
    "that the first table does not have."
)
_GRID_WORDS = (
    "Authors of Scribe compared flooding and trees over CAN and Pastry (INFOCOM 2003). We know their "
    "claims from the abstract or from memory, not from the text. Here, "
    f"{_GRID_NODES:,} nodes form one group, or 1,500 groups."
)


def _about(scribe: Peer) -> str:
    config = scribe.manifest["resolved"]
    numbers = {name: int(config[name]) for name in ("nodes", "groups", "seed")}
    sizes = scribe.table("groups", ["size"])["size"]
    numbers |= {"half": int(sizes.median()), "most": int(sizes.max())}
    return _ABOUT.format(**numbers, clock="time unless a row says *by hops*")


def _table(peers: Mapping[str, Peer]) -> list[str]:
    """Return the table of all systems: a row for each run."""
    rows = [_row(peers["scribe"], system, "") for system in _IN_SCRIBES]
    alone = peers["scribe"].seconds
    for name, (systems, _) in PEERS.items():
        if name in peers and name not in _GRID and systems[0] not in _IN_SCRIBES:
            took = peers[name].seconds
            seconds = f"{took:.0f} ({took - alone:+.0f})".replace("-", "\N{MINUS SIGN}")
            rows.append(_row(peers[name], systems[0], seconds, name))
    rows[0][-1] = f"{alone:.0f}"
    return table(["system", *_COLUMNS.values(), "seconds"], rows)


def _row(peer: Peer, system: str, seconds: str, name: str = "") -> list[str]:
    values = [peer.value(metric, system) for metric in _COLUMNS]
    known = find_system(system)
    label = system if known is None else known.label
    flags = " ".join(PEERS[name][1]).replace("--", "") if name else ""
    told = [label, f"({flags})" if flags else "", "by hops" if peer.clock == "hops" else ""]
    cells = ["-" if value is None else number(value) for value in values]
    if known is not None and known.family == TREE:  # that hands over its edges
        cells = [
            "0" if metric == "duplicates.mean" and cell == "-" else cell
            for metric, cell in zip(_COLUMNS, cells, strict=True)
        ]
    return [" ".join(filter(None, told)), *cells, seconds]


#: The lines of README.md that are those of the page, in short.
README_MARKS = ("<!-- peers: written by `make peers` -->\n", "<!-- end of peers -->\n")

#: The runs whose rows README has, and its columns.
_README_RUNS = ("scribe", "bayeux", "can", "flooding", "gossipsub")
_README_COLUMNS = (
    *("latency.p50", "latency.p99", "rad.median", "rad.largest", "link_stress.max", "messages"),
    *("duplicates.mean", "join_messages.max", "state.max"),
)


def readme_lines(out: Path) -> list[str]:
    """The most telling rows of the table, of the systems that were run."""
    peers = [Peer(out / name, PEERS[name][0][0]) for name in _README_RUNS]
    there = [peer for peer in peers if peer.is_there]
    config = there[0].manifest["resolved"]
    names = list(_COLUMNS)
    heads = [_COLUMNS[name] for name in _README_COLUMNS]
    rows = []
    for peer in there:
        label, *cells, _ = _row(peer, peer.system, "")
        rows.append([label, *(cells[names.index(name)] for name in _README_COLUMNS)])
    nodes, groups = int(config["nodes"]), int(config["groups"])
    return table([f"{nodes:,} nodes, {groups:,} groups", *heads], rows)


def main(arguments: Sequence[str]) -> None:
    """Run experiments, or write the page of them."""
    parser = argparse.ArgumentParser(description="Measure Scribe among its peers.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*PEERS, *WORLDS], default=[*PEERS, *WORLDS])
    parser.add_argument("--size", nargs=2, metavar=("NODES", "GROUPS"), help="instead of the full")
    parser.add_argument("--page", type=Path, help="write this page of what is there; run nothing")
    parser.add_argument(
        "--readme", type=Path, help="with --page: write its lines in this file, too"
    )
    given = parser.parse_args(arguments)
    if given.page is None:
        run(given.out, given.only, given.size)
    else:
        replace_file(given.page, page(given.out).encode())
        if given.readme is not None:
            text = given.readme.read_text("utf-8")
            text = with_lines(text, README_MARKS, readme_lines(given.out))
            replace_file(given.readme, text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
