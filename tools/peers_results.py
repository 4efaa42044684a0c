"""Scribe among its peers: the experiments and the tables of ``docs/peers.md``.

Each system is run beside Scribe, and all begin with the same overlay and groups: what a run takes
longer than that of Scribe alone is what the system takes.  A claim of a paper is put as a few
cases, each of which holds or does not.  It is true where all hold, false where none does; else it
depends.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from scribe_spark.cli.sessions import open_session
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.arrays import depths, numbered
from scribe_spark.core.paths import replace_file
from scribe_spark.experiments import Simulation
from scribe_spark.systems.registry import TREE, all_systems, find_system
from tools import pages
from tools.folders import Folder
from tools.pages import Page, number, table

#: Run -> its systems beside Scribe, and flags; it is about the first of them.
RUNS = {
    "scribe": "scribe,naive_unicast",
    "bayeux": "bayeux",
    "bayeux_leaf_set": "bayeux --bayeux-hops leaf_set",
    "bayeux_partitions": "bayeux --bayeux-partitions 4",
    "flooding": "flooding",
    "can": "can",
    "gossipsub": "gossipsub",
    "plumtree": "plumtree",
    "nice": "nice",
    "splitstream": "splitstream",
}

#: Flooding and trees, over Pastry and over CAN.
_GRID = {
    "all_pastry": "scribe,flooding,can --nodes 80000 --groups 1",
    "all_can": "scribe --nodes 80000 --overlay can --groups 1",
    "groups_pastry": "scribe,flooding,can --nodes 80000",
    "groups_can": "scribe --nodes 80000 --overlay can",
}

#: All systems that groups of this size can have, in one run; tasks play deep trees fastest.
_ALL = "scribe,naive_unicast,bayeux,flooding,can,gossipsub,plumtree,nice,overcast,splitstream"
SMALLER = {
    "all_1000": f"{_ALL},narada --nodes 1000 --groups 15 --engine tasks",
    "all_5000": f"{_ALL} --nodes 5000 --groups 75 --engine tasks",
}

#: The roots of five groups fail.
_ROOTS_FAIL = "world --systems scribe,bayeux --nodes 5000 --groups 100 --rounds 12 --lookups 0 --lost-after 1 --roots 5 --generator root-failure+publications --publish-rate 1"

_BESIDE = {name: f"scribe,{words}".replace("scribe,scribe", "scribe") for name, words in RUNS.items()}  # fmt: skip
_EXPERIMENTS = {
    name: f"run --config data/peers.toml --systems {words}"
    for name, words in (_BESIDE | _GRID | SMALLER).items()
}

#: What the run `bayeux` has besides its tables: how long edges of trees are.
LENGTHS = "edge_lengths.json"


def run(out: Path, name: str, words: list[str]) -> None:
    """Run an experiment that is not complete."""
    pages.run(out, name, words)
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


def edge_lengths(edges: pd.DataFrame, delay_us: np.ndarray) -> dict[str, float]:
    """Return mean delays D in ms: of the edges at the roots, and of those to the leaves."""
    group = np.r_[edges["group"], edges["group"]]
    place = numbered(group, np.r_[edges["parent"], edges["child"]])
    upper, lower = np.split(place, 2)
    above = np.full(place.max(initial=-1) + 1, -1)
    above[lower] = upper
    depth, is_inner = depths(above)[lower], np.isin(lower, upper)
    # an edge from a root to a leaf is at both ends
    some = {"first": (depth == 1) & is_inner, "last": (depth > 1) & ~is_inner}
    return {name: float(pd.Series(delay_us[one]).mean() / 1000) for name, one in some.items()}


# --- tables of systems

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
_RADS = ("rad.median", "rad.largest", "link_stress.max", "messages", "duplicates.mean")
_README = ("latency.p50", *_RADS)
_SHORT = ("latency.p50", "latency.p99", *_RADS, "join_messages.max", "state.max")
_README_RUNS = (
    *("scribe", "bayeux", "can", "flooding", "gossipsub", "plumtree", "nice", "splitstream"),
)

Peers = Mapping[str, Folder]


def _peers(out: Path) -> Peers:
    """Return the experiments that are there, each with the system that it is about."""
    every = {
        name: Folder(out / name, RUNS.get(name, "scribe").split()[0].split(",")[0])
        for name in PEERS.experiments
    }
    return {name: peer for name, peer in every.items() if peer.is_complete}


def _cells(peer: Folder, system: str, metrics: Iterable[str] = _COLUMNS) -> list[str]:
    """Return the label of a system and its metrics."""
    known = find_system(system)
    values = {metric: peer.value(metric, system) for metric in metrics}
    if known is not None and known.family == TREE and "duplicates.mean" in values:
        values["duplicates.mean"] = values["duplicates.mean"] or 0  # it hands over its edges
    return [system if known is None else known.label, *map(number, values.values())]


def _seconds(peer: Folder) -> float:
    return sum(phase["seconds"] for phase in peer.manifest["phases"])


def _systems(out: Path) -> list[str]:
    peers = _peers(out)
    alone = _seconds(peers["scribe"])
    rows = [[*_cells(peers["scribe"], "scribe"), f"{alone:.0f}"]]
    rows += [[*_cells(peers["scribe"], one), ""] for one in ("ip_multicast", "naive_unicast")]
    for name in [name for name in RUNS if name in peers and name != "scribe"]:
        label, *cells = _cells(peers[name], peers[name].system)
        _, _, flags = RUNS[name].replace("--", "").partition(" ")
        clocks = {row["clock"] for metric, row in peers[name].metrics.items()
                  if metric.startswith(f"{peers[name].system}.")}  # fmt: skip
        label += f" ({flags})" * (flags != "") + " by hops" * ({*filter(None, clocks)} == {"hops"})
        seconds = f"{_seconds(peers[name]):.0f} ({_seconds(peers[name]) - alone:+.0f})"
        rows.append([label, *cells, seconds.replace("-", "\N{MINUS SIGN}")])
    return table(["system", *_COLUMNS.values(), "seconds"], rows)


def _smaller(out: Path) -> list[str]:
    """Return the table of the runs with all systems; a cell has the values of all runs."""
    runs = [Folder(out / name) for name in SMALLER if Folder(out / name).is_complete]
    rows = []
    for system in all_systems():
        (label, *_), *cells = zip(*(_cells(run, system.name, _SHORT) for run in runs), strict=True)
        if any(cell.strip("-0") for of_runs in cells for cell in of_runs):
            rows.append([label, *map("/".join, cells)])
    return table(["system", *(_COLUMNS[name] for name in _SHORT)], rows)


def _readme(out: Path) -> list[str]:
    """Return the most telling rows of the table, of the systems that were run."""
    peers = _peers(out)
    head = "{nodes:,} nodes, {groups:,} groups".format(**peers["scribe"].config)
    there = (peers[name] for name in _README_RUNS if name in peers)
    rows = (_cells(peer, peer.system, _README) for peer in there)
    return table([head, *(_COLUMNS[name] for name in _README)], rows)


# --- claims


class Case(NamedTuple):
    """One of the ways to put a claim to the test: whether it holds, and in which numbers."""

    holds: bool
    words: str = ""


#: ``cases(peers)``: the cases of a claim.
Cases = Callable[[Peers], Iterable[Case]]

#: A claim of a paper: its source, its words, the runs that it needs, and its cases.
Claim = tuple[str, str, str, Cases]


def verdict(cases: Iterable[Case]) -> str:
    """Return ``true``, ``false`` or ``depends``; ``not measured`` of no case."""
    held = {case.holds for case in cases}
    if len(held) == 2:
        return "depends"
    return "not measured" if not held else "true" if held.pop() else "false"


def rows_of(claims: Iterable[Claim], peers: Peers) -> list[list[str]]:
    """Return a row of the page's table for each claim whose runs are there."""
    rows = []
    for source, words, needs, cases_of in claims:
        if all(name in peers for name in needs.split()):
            cases = list(cases_of(peers))
            told = "; ".join(filter(None, (case.words for case in cases)))
            rows.append([source, words, told, f"*{verdict(cases)}*"])
    return rows


def share(part: float, of_all: float) -> str:
    """Return a share in per cent; what is rounded to 100 % can be told from it.

    Examples
    --------
    >>> share(1, 3), share(3, 3), share(99_999, 100_000)
    ('33.3 %', '100 %', '99.999 %')
    """
    if not of_all:
        return "-"
    text = f"{100 * part / of_all:.3g}"
    return f"{text} %" if text != "100" or part == of_all else f"{100 * part / of_all:.6g} %"


Holds = Callable[[float, float], bool]


def _similar(mine: float, other: float) -> bool:
    """Two numbers are similar that differ by at most a fifth of the smaller one."""
    return max(mine, other) <= 1.2 * min(mine, other)


#: Metrics of claims.  The page's first table shows them, and claims about them repeat no numbers.
_DELAYS = ("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean")
_STRESS = ("link_stress.mean_existing", "link_stress.max")
_STATE = ("state.mean", "state.max")
#: The others, and what they are called.
_JOINING = {"control_packets": "packets of joining", "join_messages.mean": "messages a node"}


def _beside_scribe(metrics: Iterable[str], holds: Holds, *runs: str) -> Cases:
    """Cases for each of some metrics and runs, of the run's system beside Scribe."""

    def cases(peers: Peers) -> Iterator[Case]:
        for name in runs:
            for metric in metrics:
                mine, scribe = peers[name].value(metric), peers[name].value(metric, "scribe")
                if mine is not None and scribe is not None:
                    words = f"{_JOINING.get(metric)} {number(mine)}, Scribe {number(scribe)}"
                    yield Case(holds(mine, scribe), words if metric in _JOINING else "")

    return cases


def _roots(peer: Folder) -> pd.DataFrame:
    """Return ``group, root, size, others``: the groups, and their members besides the root."""
    groups = peer.table("groups", ["group", "root", "size"])
    at_root = peer.table("members", ["group", "node"]).merge(
        groups, left_on=["group", "node"], right_on=["group", "root"]
    )
    groups["others"] = groups["size"] - groups["group"].isin(at_root["group"])
    return groups[groups["others"] > 0]


def _lists(peer: Folder) -> pd.DataFrame:
    """Return ``group, node, entries`` of member lists."""
    lists = peer.table("system_state", ["group", "node", "kind", "entries"])
    return lists[lists["kind"] == "member list"].drop(columns="kind")


def _root_lists_all(peers: Peers) -> Iterator[Case]:
    begin = "roots that list all other members: "
    for name in ("bayeux", "bayeux_partitions"):
        if name in peers:
            roots, lists = _roots(peers[name]), _lists(peers[name])
            at_root = roots.merge(lists, left_on=["group", "root"], right_on=["group", "node"])
            all_of = int((at_root["entries"] >= at_root["others"]).sum())
            yield Case(all_of == len(roots), f"{begin}{share(all_of, len(roots))} ({name})")
            begin = ""


def _first_hop_lists(peers: Peers) -> Iterator[Case]:
    """Nodes that the root sends to in groups of 1,000 members and more, all and those of row 0."""
    peer = peers["bayeux"]
    roots = _roots(peer).query("size >= 1000")
    if not len(roots):
        return
    edges = peer.table("tree_edges", ["group", "parent", "child"])
    first = edges.merge(roots, left_on=["group", "parent"], right_on=["group", "root"])
    lists = _lists(peer).rename(columns={"node": "child"})
    lists = first.merge(lists, on=["group", "child"], how="left").fillna({"entries": 0})
    b = int(peer.config["b"])
    nodes = peer.table("nodes", ["node", "id_hi"]).set_index("node")["id_hi"]
    digit = nodes.astype("uint64") // 2 ** (64 - b)
    differs = lists["root"].map(digit) != lists["child"].map(digit)
    far = "those with another first digit than the root"
    begin = "members on the list of such a node, in groups of 1,000 and more: "
    for words, some in (("all such nodes", lists), (far, lists[differs])):
        if len(some):
            ratio = float((some["entries"] * 2**b / some["size"]).mean())
            yield Case(0.5 <= ratio <= 2, f"{begin}over {words} {number(ratio)} x |G|/b")
            begin = ""


def _all_at_root(peers: Peers) -> Iterator[Case]:
    roots = _roots(peers["bayeux"])
    control = peers["bayeux"].table("control", ["group", "receiver", "kind", "messages"])
    joins = control[control["kind"] == "JOIN"].merge(
        roots, left_on=["group", "receiver"], right_on=["group", "root"]
    )
    taken, sent = int(joins["messages"].sum()), int(roots["others"].sum())
    yield Case(taken == sent, f"{share(taken, sent)} of JOINs end at the root")


def _partitioning(peers: Peers) -> Iterator[Case]:
    k = int(peers["bayeux_partitions"].config["bayeux_partitions"])
    begin = f"{k} partitions: at the busiest node, "
    for metric, what in (("join_messages.max", "messages"), ("state.max", "entries")):
        before, after = (peers[name].value(metric) for name in ("bayeux", "bayeux_partitions"))
        if before is not None and after:
            yield Case(before / after <= k, f"{begin}1/{number(before / after)} of the {what}")
            begin = ""


def _long_links(peers: Peers) -> Iterator[Case]:
    for system, near_leaves in (("bayeux", True), ("scribe", False)):
        ms = peers["bayeux"].json(LENGTHS)[system]
        words = f"{system}: edges at the root {number(ms['first'])} ms, to leaves"
        yield Case((ms["last"] > ms["first"]) == near_leaves, f"{words} {number(ms['last'])} ms")


def _root_failures(peers: Peers) -> Iterator[Case]:
    config = peers["bayeux_roots"].config
    begin = f"{config['nodes']:,} nodes, the roots of the {config['roots']} largest groups fail: "
    for system, survives in (("bayeux", False), ("scribe", True)):
        rounds = peers["bayeux_roots"].table("publications", ["due", "lost", "round"], system)
        last = rounds.loc[rounds["due"] > 0, "round"].max()
        lost, due = rounds.loc[rounds["round"] == last, ["lost", "due"]].sum()
        words = f"{begin}{system}: {share(lost, due)} of the last deliveries lost"
        yield Case((lost == 0) == survives, words)
        begin = ""


def _scribe_keeps_little(peers: Peers) -> Iterator[Case]:
    peer = peers["scribe"]
    mean, most = peer.value("state.mean") or 0, peer.value("state.max") or 0
    memberships, largest = peer.metrics["groups.size.sum"], peer.metrics["groups.size.max"]
    a_node = memberships["value"] / int(peer.config["nodes"])
    words = f"{number(mean)} entries a node, of {number(a_node)} memberships a node"
    yield Case(mean <= 2 * a_node, words)
    words = f"{number(most)} at the busiest, the largest group has {number(largest['value'])}"
    yield Case(most <= largest["value"] / 10, words)


def _joins_are_local(peers: Peers) -> Iterator[Case]:
    """Yield the share of JOINs that end below the root, by the size of groups."""
    roots = _roots(peers["scribe"]).set_index("group")
    edges = peers["scribe"].table("tree_edges", ["group", "parent"])
    at_root = edges["parent"] == edges["group"].map(roots["root"])
    taken = at_root.groupby(edges["group"]).sum().reindex(roots.index, fill_value=0)
    begin = "JOINs that end below the root: "
    for low, high in ((2, 99), (100, 999), (1000, math.inf)):
        some = roots[(roots["size"] >= low) & (roots["size"] <= high)]
        if len(some):
            others, here = int(some["others"].sum()), int(taken[some.index].sum())
            size = f"{low:,} and more" if math.isinf(high) else f"{low} to {high}"
            words = f"{begin}{share(others - min(here, others), others)} in groups of {size}"
            yield Case(here < others / 2, words)
            begin = ""


def _logarithmic(peers: Peers) -> Iterator[Case]:
    peer = peers["scribe"]
    nodes, digits = int(peer.config["nodes"]), 2 ** int(peer.config["b"])
    bound = math.log(nodes, digits)
    hops, entries = peer.number("pastry.hops.mean"), peer.number("pastry.table_entries.mean")
    if hops is not None:
        words = f"a route has {number(hops)} hops (log_{digits} {nodes:,} = {number(bound)})"
        yield Case(hops <= math.ceil(bound), words)
    if entries is not None:
        most = (digits - 1) * math.ceil(bound)
        yield Case(entries <= most, f"a routing table has {number(entries)} entries")


def _members_forward(peers: Peers) -> Iterator[Case]:
    peer = peers["can"]
    members = peer.table("members", ["group", "node"])
    copies = peer.table("copies", ["group", "sender", "hop"])
    senders = copies.loc[copies["hop"] > 1, ["group", "sender"]]
    parents = peer.table("tree_edges", ["group", "parent"], "scribe")
    equal, less = operator.eq, operator.lt
    for nodes, holds, words in (
        (senders, equal, "CAN: {} of those that forward are members"),
        (parents, less, "Scribe: {} of the parents"),
    ):
        every = nodes.drop_duplicates().set_axis(["group", "node"], axis=1)
        part = len(every.merge(members, on=["group", "node"]))
        yield Case(holds(part, len(every)), words.format(share(part, len(every))))


def _contacts(peers: Peers) -> Iterator[Case]:
    """Yield the kinds of messages of which a node of each group gets one from every member."""
    peer = peers["can"]
    sizes = peer.table("groups", ["group", "size"]).query("size > 1").set_index("group")["size"]
    control = peer.table("control", ["group", "receiver", "kind", "messages"])
    for kind in ("CONTACT", "JOIN"):
        mine = control[control["kind"] == kind]
        if len(mine):
            taken = mine.groupby(["group", "receiver"])["messages"].sum()
            most = taken.groupby("group").max().reindex(sizes.index, fill_value=0)
            mean = float((most / sizes).mean())
            words = f"{kind}s at the busiest node of a group, per member: {number(mean)}"
            yield Case(mean >= 0.9, words)


#: In the order of the papers.
CLAIMS: tuple[Claim, ...] = (
    ("JSAC V", "algorithms to build and maintain the network have space and time costs of O(log N)", "scribe", _logarithmic),
    ("JSAC V", "[Bayeux] requires nodes to maintain more group membership information", "bayeux", _beside_scribe(_STATE, operator.gt, "bayeux")),
    ("JSAC V", "the root keeps a list of all group members", "bayeux", _root_lists_all),
    ("NGC 4", "the routers one hop away from the [root] keep a list containing on average |G|/b members", "bayeux", _first_hop_lists),
    ("JSAC V", "it generates more traffic when handling group membership changes", "bayeux", _beside_scribe(_JOINING, operator.gt, "bayeux")),
    ("JSAC V", "all group management traffic must go through the root", "bayeux", _all_at_root),
    ("JSAC V", "[partitioning] only improves scalability by a small constant factor", "bayeux bayeux_partitions", _partitioning),
    ("JSAC V", "the expected amount of group membership information kept by each node is small", "scribe", _scribe_keeps_little),
    ("JSAC V", "group join and leave requests are handled locally", "scribe", _joins_are_local),
    ("JSAC V", "Scribe and Bayeux have similar delay characteristics", "bayeux", _beside_scribe(_DELAYS, _similar, "bayeux")),
    ("JSAC V", "Bayeux induces a higher link stress than Scribe", "bayeux bayeux_leaf_set", _beside_scribe(_STRESS, operator.gt, "bayeux", "bayeux_leaf_set")),
    ("JSAC V", "many long links near the leaves in Bayeux, while in Scribe, [...] few long links near the root", "bayeux", _long_links),
    ("JSAC V", "[in CAN multicast] only group members forward multicast traffic for a group", "can", _members_forward),
    ("JSAC V", "the node [...] that supplies the contact node for the group and the contact node itself handle all join traffic", "can", _contacts),
    ("JSAC V", "Bayeux does not provide a mechanism to handle root failures whereas Scribe does", "bayeux_roots", _root_failures),
)  # fmt: skip


# --- flooding and trees, over CAN and over Pastry: of one group of all, and of many groups

_GRIDS = {"one group": "all", "1,500 groups": "groups"}
_GRID_RUNS = " ".join(_GRID)

#: Combination -> the overlay of its run, and its system there.
_COMBINATIONS = {
    "tree over Pastry": ("pastry", "scribe"),
    "flooding over Pastry": ("pastry", "flooding"),
    "tree over CAN": ("can", "scribe"),
    "flooding over CAN": ("pastry", "can"),
}

#: Head of a column -> its grid and its metric.
_GRID_COLUMNS = {
    "one group: RAD": ("all", "rad.median"),
    "one group: packets": ("all", "messages"),
    "one group: packets of joining": ("all", "control_packets"),
    "1,500 groups: RAD, median group": ("groups", "rad.median"),
    "1,500 groups: packets": ("groups", "messages"),
    "1,500 groups: packets of joining": ("groups", "control_packets"),
}


def _value(peers: Peers, grid: str, combination: str, metric: str) -> float | None:
    overlay, system = _COMBINATIONS[combination]
    return peers[f"{grid}_{overlay}"].value(metric, system)


def _direction(overlays: Iterable[tuple[str, str]], metrics: str, holds: Holds, words: str = "") -> Cases:  # fmt: skip
    """Cases that one combination has less of some metrics than another one."""

    def cases(peers: Peers) -> Iterator[Case]:
        for less, more in overlays:
            for name, grid in _GRIDS.items():
                for metric in metrics.split():
                    a, b = (_value(peers, grid, one, metric) for one in (less, more))
                    if a is not None and b:
                        yield Case(holds(a, b), words and f"{name}: {words} {number(a / b)}")

    return cases


_TREES = [(f"tree over {overlay}", f"flooding over {overlay}") for overlay in ("Pastry", "CAN")]

#: The directions of the comparison of 2003; its text could not be had, and they are recalled.
DIRECTIONS: tuple[Claim, ...] = (
    ("INFOCOM 2003, abstract", "trees have lower delay and overhead than flooding over per-group overlays, whatever the overlay", _GRID_RUNS, _direction(_TREES, "rad.median messages", operator.lt)),
    ("INFOCOM 2003, recalled", "flooding over Pastry has about half the delay penalty of flooding over CAN", _GRID_RUNS, _direction([("flooding over Pastry", "flooding over CAN")], "rad.median", lambda a, b: _similar(a, b / 2), "ratio")),
    ("INFOCOM 2003, recalled", "trees over Pastry have 20 to 50 % less delay than trees over CAN", _GRID_RUNS, _direction([("tree over Pastry", "tree over CAN")], "rad.median", lambda a, b: 0.5 * b <= a <= 0.8 * b, "ratio")),
    ("INFOCOM 2003, abstract", "building an overlay for each group costs far more than joining trees", _GRID_RUNS, _direction(_TREES, "control_packets", lambda a, b: 2 * a < b)),
)  # fmt: skip


def _claims(out: Path) -> list[str]:
    return table("source | claim | measured | verdict", rows_of(CLAIMS, _peers(out)))


def _grid(out: Path) -> list[str]:
    """Return the tables of flooding and trees, over both overlays."""
    peers = _peers(out)
    rows = ([one, *(number(_value(peers, grid, one, metric)) for grid, metric in _GRID_COLUMNS.values())]
            for one in _COMBINATIONS)  # fmt: skip
    directions = table("source | claim | RAD | verdict", rows_of(DIRECTIONS, peers))
    return [*table(["", *_GRID_COLUMNS], rows), "", *directions]


PEERS = Page(
    _EXPERIMENTS | {"bayeux_roots": _ROOTS_FAIL},
    {
        "systems": ("scribe", _systems),
        "claims": ("scribe", _claims),
        "flooding_and_trees": ("groups_can/metrics.json", _grid),
        "smaller": ("all_1000", _smaller),
    },
    play=run,
    readme={"peers": ("scribe", _readme)},
)
