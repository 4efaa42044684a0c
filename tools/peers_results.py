"""Scribe among its peers: the experiments and the tables of ``docs/peers.md``.

Each system is run beside Scribe, and all begin with the same overlay and groups: what a run takes
longer than that of Scribe alone is what the system takes.  A claim of a paper is put as a few
cases, each of which holds or does not.  It is true where all hold, false where none does; else it
depends.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.cli.sessions import open_session
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.arrays import depths, numbered
from scribe_spark.core.paths import replace_file
from scribe_spark.experiments import Simulation
from scribe_spark.systems.registry import TREE, all_systems, find_system
from tools import folders
from tools.folders import Folder
from tools.pages import HEADS, number

#: The runs of the first table, each about the system in its name.
RUNS = (
    *("scribe", "bayeux", "bayeux_leaf_set", "bayeux_partitions", "flooding", "can", "gossipsub"),
    *("plumtree", "nice", "splitstream"),
)

#: What the run `bayeux` has besides its tables: how long edges of trees are.
LENGTHS = "edge_lengths.json"


def run(out: Path, name: str, words: list[str]) -> None:
    """Run an experiment that is not complete."""
    folders.run(out, name, words)
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

_COLUMNS = [metric for metric in HEADS if metric != "depth.mean"]
_RADS = ("rad.median", "rad.largest", "link_stress.max", "messages", "duplicates.mean")
_SHORT = ("latency.p50", "latency.p99", *_RADS, "join_messages.max", "state.max")

Peers = Mapping[str, Folder]


def _peers(out: Path) -> Peers:
    """Return the experiments that are there, each with the system that it is about."""
    every = {
        name: Folder(out / name, name.partition("_")[0] if name in RUNS else "scribe")
        for name in PEERS.experiments
    }
    return {name: peer for name, peer in every.items() if peer.is_complete}


def _system_cells(peer: Folder, system: str, metrics: Iterable[str]) -> list[str]:
    """Return the label of a system and its metrics."""
    known = find_system(system)
    values = {metric: peer.value(metric, system) for metric in metrics}
    if known is not None and known.family == TREE and "duplicates.mean" in values:
        values["duplicates.mean"] = values["duplicates.mean"] or 0  # it hands over its edges
    return [system if known is None else known.label, *map(number, values.values())]


def _seconds(peer: Folder) -> float:
    return sum(phase["seconds"] for phase in peer.manifest["phases"])


def _run_cells(name: str, peer: Folder, alone: float) -> list[str]:
    """Return the cells of a run, whose system has flags, and perhaps the clock of hops."""
    label, *cells = _system_cells(peer, peer.system, _COLUMNS)
    *_, flags = PEERS.experiments[name].partition(peer.system + " ")
    mine = (row for metric, row in peer.metrics.items() if metric.startswith(f"{peer.system}."))
    by_hops = {*filter(None, (row["clock"] for row in mine))} == {"hops"}
    label += f" ({flags.replace('--', '')})" * bool(flags) + " by hops" * by_hops
    seconds = f"{_seconds(peer):.0f} ({_seconds(peer) - alone:+.0f})"
    return [label, *cells, seconds.replace("-", "\N{MINUS SIGN}")]


def _smaller(runs: Sequence[Folder]) -> Iterator[list[str]]:
    """Yield a row of each system of the runs with all systems; a cell has the values of all."""
    for system in all_systems():
        every = (_system_cells(run, system.name, _SHORT) for run in runs)
        (label, *_), *cells = zip(*every, strict=True)
        if any(cell.strip("-0") for of_runs in cells for cell in of_runs):
            yield [label, *map("/".join, cells)]


# --- claims

#: Whether a claim holds in one of the ways to put it to the test, and in which numbers.
Case = tuple[bool, str]
Cases = Callable[[Peers], Iterable[Case]]

#: A claim of a paper: its source, its words, the runs that it needs, what its numbers are (with
#: settings of the last of these runs), and its cases.
Claim = tuple[str, str, str, str, Cases]


def _judged(claims: Iterable[Claim], peers: Peers) -> Iterator[list[str]]:
    """Yield a row of the page's table for each claim whose runs are there."""
    for source, claim, needs, about, cases_of in claims:
        if all(name in peers for name in needs.split()):
            cases = list(cases_of(peers))
            told = "; ".join(words for _, words in cases if words)
            about = about.format(**peers[needs.split()[-1]].config) if told else ""
            held = {holds for holds, _ in cases}
            verdict = "depends" if len(held) == 2 else "true" if True in held else "false"
            yield [source, claim, about + told, f"*{verdict if held else 'not measured'}*"]


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
        for name, metric in product(runs, metrics):
            mine, scribe = peers[name].value(metric), peers[name].value(metric, "scribe")
            if mine is not None and scribe is not None:
                words = f"{_JOINING.get(metric)} {number(mine)}, Scribe {number(scribe)}"
                yield holds(mine, scribe), words if metric in _JOINING else ""

    return cases


def _roots(peer: Folder) -> pd.DataFrame:
    """Return ``group, root, size, others``: the groups, and their members besides the root."""
    groups = peer.table("groups", ["group", "root", "size"])
    members = peer.table("members", ["group", "node"])
    at_root = members.merge(groups, left_on=["group", "node"], right_on=["group", "root"])
    groups["others"] = groups["size"] - groups["group"].isin(at_root["group"])
    return groups[groups["others"] > 0]


def _at_root(rows: pd.DataFrame, roots: pd.DataFrame, node: str) -> pd.DataFrame:
    """Return the rows about roots, with the columns of these."""
    return rows.merge(roots, left_on=["group", node], right_on=["group", "root"])


def _lists(peer: Folder) -> pd.DataFrame:
    """Return ``group, node, entries`` of member lists."""
    lists = peer.table("system_state", ["group", "node", "kind", "entries"])
    return lists[lists["kind"] == "member list"].drop(columns="kind")


def _root_lists_all(peers: Peers) -> Iterator[Case]:
    for name in ("bayeux", "bayeux_partitions"):
        if name in peers:
            roots = _roots(peers[name])
            lists = _at_root(_lists(peers[name]), roots, "node")
            all_of = int((lists["entries"] >= lists["others"]).sum())
            yield all_of == len(roots), f"{share(all_of, len(roots))} ({name})"


def _first_hop_lists(peers: Peers) -> Iterator[Case]:
    """Nodes that the root sends to in groups of 1,000 members and more, all and those of row 0."""
    peer = peers["bayeux"]
    edges = peer.table("tree_edges", ["group", "parent", "child"])
    first = _at_root(edges, _roots(peer).query("size >= 1000"), "parent")
    if not len(first):
        return
    lists = _lists(peer).rename(columns={"node": "child"})
    lists = first.merge(lists, on=["group", "child"], how="left").fillna({"entries": 0})
    b = int(peer.config["b"])
    nodes = peer.table("nodes", ["node", "id_hi"]).set_index("node")["id_hi"]
    digit = nodes.astype("uint64") // 2 ** (64 - b)
    differs = lists["root"].map(digit) != lists["child"].map(digit)
    far = "those with another first digit than the root"
    for words, some in (("all such nodes", lists), (far, lists[differs])):
        if len(some):
            ratio = float((some["entries"] * 2**b / some["size"]).mean())
            yield 0.5 <= ratio <= 2, f"over {words} {number(ratio)} x |G|/b"


def _all_at_root(peers: Peers) -> Iterator[Case]:
    roots = _roots(peers["bayeux"])
    control = peers["bayeux"].table("control", ["group", "receiver", "kind", "messages"])
    joins = _at_root(control[control["kind"] == "JOIN"], roots, "receiver")
    taken, sent = int(joins["messages"].sum()), int(roots["others"].sum())
    yield taken == sent, f"{share(taken, sent)} of JOINs end at the root"


def _partitioning(peers: Peers) -> Iterator[Case]:
    k = int(peers["bayeux_partitions"].config["bayeux_partitions"])
    for metric, what in (("join_messages.max", "messages"), ("state.max", "entries")):
        before, after = (peers[name].value(metric) for name in ("bayeux", "bayeux_partitions"))
        if before is not None and after:
            yield before / after <= k, f"1/{number(before / after)} of the {what}"


def _long_links(peers: Peers) -> Iterator[Case]:
    for system, near_leaves in (("bayeux", True), ("scribe", False)):
        ms = peers["bayeux"].json(LENGTHS)[system]
        words = f"{system}: edges at the root {number(ms['first'])} ms, to leaves"
        yield (ms["last"] > ms["first"]) == near_leaves, f"{words} {number(ms['last'])} ms"


def _root_failures(peers: Peers) -> Iterator[Case]:
    for system, survives in (("bayeux", False), ("scribe", True)):
        rounds = peers["bayeux_roots"].table("publications", ["due", "lost", "round"], system)
        last = rounds.loc[rounds["due"] > 0, "round"].max()
        lost, due = rounds.loc[rounds["round"] == last, ["lost", "due"]].sum()
        yield (lost == 0) == survives, f"{system}: {share(lost, due)} of the last deliveries lost"


def _scribe_keeps_little(peers: Peers) -> Iterator[Case]:
    peer = peers["scribe"]
    mean, most = peer.value("state.mean") or 0, peer.value("state.max") or 0
    memberships, largest = (peer.metrics[f"groups.size.{one}"]["value"] for one in ("sum", "max"))
    a_node = memberships / int(peer.config["nodes"])
    words = f"{number(mean)} entries a node, of {number(a_node)} memberships a node"
    yield mean <= 2 * a_node, words
    words = f"{number(most)} at the busiest, the largest group has {number(largest)}"
    yield most <= largest / 10, words


def _joins_are_local(peers: Peers) -> Iterator[Case]:
    """Yield the share of JOINs that end below the root, by the size of groups."""
    roots = _roots(peers["scribe"])
    edges = peers["scribe"].table("tree_edges", ["group", "parent"])
    taken = _at_root(edges, roots, "parent").groupby("group").size()
    for low, high in ((2, 99), (100, 999), (1000, math.inf)):
        some = roots[roots["size"].between(low, high)]
        if len(some):
            others = int(some["others"].sum())
            here = int(taken.reindex(some["group"], fill_value=0).sum())
            size = f"{low:,} and more" if math.isinf(high) else f"{low} to {high}"
            below = share(others - min(here, others), others)
            yield here < others / 2, f"{below} in groups of {size}"


def _logarithmic(peers: Peers) -> Iterator[Case]:
    peer = peers["scribe"]
    nodes, digits = int(peer.config["nodes"]), 2 ** int(peer.config["b"])
    bound = math.log(nodes, digits)
    hops, entries = peer.number("pastry.hops.mean"), peer.number("pastry.table_entries.mean")
    if hops is not None:
        words = f"a route has {number(hops)} hops (log_{digits} {nodes:,} = {number(bound)})"
        yield hops <= math.ceil(bound), words
    if entries is not None:
        most = (digits - 1) * math.ceil(bound)
        yield entries <= most, f"a routing table has {number(entries)} entries"


def _members_forward(peers: Peers) -> Iterator[Case]:
    peer = peers["can"]
    members = peer.table("members", ["group", "node"])
    copies = peer.table("copies", ["group", "sender", "hop"]).query("hop > 1")
    parents = peer.table("tree_edges", ["group", "parent"], "scribe")
    for nodes, holds, words in (
        (copies[["group", "sender"]], operator.eq, "CAN: {} of those that forward are members"),
        (parents, operator.lt, "Scribe: {} of the parents"),
    ):
        every = nodes.drop_duplicates().set_axis(["group", "node"], axis=1)
        part = len(every.merge(members, on=["group", "node"]))
        yield holds(part, len(every)), words.format(share(part, len(every)))


def _contacts(peers: Peers) -> Iterator[Case]:
    """Yield the kinds of messages of which a node of each group gets one from every member."""
    sizes = peers["can"].table("groups", ["group", "size"]).query("size > 1")
    sizes = sizes.set_index("group")["size"]
    control = peers["can"].table("control", ["group", "receiver", "kind", "messages"])
    taken = control.groupby(["kind", "group", "receiver"])["messages"].sum()
    most = taken.groupby(["kind", "group"]).max()
    for kind in ("CONTACT", "JOIN"):
        if kind in most:
            mean = float((most[kind].reindex(sizes.index, fill_value=0) / sizes).mean())
            words = f"{kind}s at the busiest node of a group, per member: {number(mean)}"
            yield mean >= 0.9, words


#: In the order of the papers.
CLAIMS: tuple[Claim, ...] = (
    ("JSAC V", "algorithms to build and maintain the network have space and time costs of O(log N)", "scribe", "", _logarithmic),
    ("JSAC V", "[Bayeux] requires nodes to maintain more group membership information", "bayeux", "", _beside_scribe(_STATE, operator.gt, "bayeux")),
    ("JSAC V", "the root keeps a list of all group members", "bayeux", "roots that list all other members: ", _root_lists_all),
    ("NGC 4", "the routers one hop away from the [root] keep a list containing on average |G|/b members", "bayeux", "members on the list of such a node, in groups of 1,000 and more: ", _first_hop_lists),
    ("JSAC V", "it generates more traffic when handling group membership changes", "bayeux", "", _beside_scribe(_JOINING, operator.gt, "bayeux")),
    ("JSAC V", "all group management traffic must go through the root", "bayeux", "", _all_at_root),
    ("JSAC V", "[partitioning] only improves scalability by a small constant factor", "bayeux bayeux_partitions", "{bayeux_partitions} partitions: at the busiest node, ", _partitioning),
    ("JSAC V", "the expected amount of group membership information kept by each node is small", "scribe", "", _scribe_keeps_little),
    ("JSAC V", "group join and leave requests are handled locally", "scribe", "JOINs that end below the root: ", _joins_are_local),
    ("JSAC V", "Scribe and Bayeux have similar delay characteristics", "bayeux", "", _beside_scribe(_DELAYS, _similar, "bayeux")),
    ("JSAC V", "Bayeux induces a higher link stress than Scribe", "bayeux bayeux_leaf_set", "", _beside_scribe(_STRESS, operator.gt, "bayeux", "bayeux_leaf_set")),
    ("JSAC V", "many long links near the leaves in Bayeux, while in Scribe, [...] few long links near the root", "bayeux", "", _long_links),
    ("JSAC V", "[in CAN multicast] only group members forward multicast traffic for a group", "can", "", _members_forward),
    ("JSAC V", "the node [...] that supplies the contact node for the group and the contact node itself handle all join traffic", "can", "", _contacts),
    ("JSAC V", "Bayeux does not provide a mechanism to handle root failures whereas Scribe does", "bayeux_roots", "{nodes:,} nodes, the roots of the {roots} largest groups fail: ", _root_failures),
)  # fmt: skip


# --- flooding and trees, over CAN and over Pastry: of one group of all, and of many groups

_GRIDS = {"one group": "all", "1,500 groups": "groups"}
_GRID_RUNS = "all_pastry all_can groups_pastry groups_can"

#: Combination -> the overlay of its run, and its system there.
_COMBINATIONS = {
    "tree over Pastry": ("pastry", "scribe"),
    "flooding over Pastry": ("pastry", "flooding"),
    "tree over CAN": ("can", "scribe"),
    "flooding over CAN": ("pastry", "can"),
}

#: Head of a column -> its grid and its metric.
_GRID_COLUMNS = {
    f"{name}: {what}": (grid, metric)
    for (name, grid), rad in zip(_GRIDS.items(), ("RAD", "RAD, median group"), strict=True)
    for what, metric in {
        rad: "rad.median",
        "packets": "messages",
        "packets of joining": "control_packets",
    }.items()
}


def _value(peers: Peers, grid: str, combination: str, metric: str) -> float | None:
    overlay, system = _COMBINATIONS[combination]
    return peers[f"{grid}_{overlay}"].value(metric, system)


def _direction(pairs: Iterable[tuple[str, str]], metrics: str, holds: Holds, words: str = "") -> Cases:  # fmt: skip
    """Cases that one combination has less of some metrics than another one."""

    def cases(peers: Peers) -> Iterator[Case]:
        for pair, (name, grid), metric in product(pairs, _GRIDS.items(), metrics.split()):
            a, b = (_value(peers, grid, one, metric) for one in pair)
            if a is not None and b:
                yield holds(a, b), words and f"{name}: {words} {number(a / b)}"

    return cases


_TREES = [(f"tree over {overlay}", f"flooding over {overlay}") for overlay in ("Pastry", "CAN")]

#: The directions of the comparison of 2003; its text could not be had, and they are recalled.
DIRECTIONS: tuple[Claim, ...] = (
    ("INFOCOM 2003, abstract", "trees have lower delay and overhead than flooding over per-group overlays, whatever the overlay", _GRID_RUNS, "", _direction(_TREES, "rad.median messages", operator.lt)),
    ("INFOCOM 2003, recalled", "flooding over Pastry has about half the delay penalty of flooding over CAN", _GRID_RUNS, "", _direction([("flooding over Pastry", "flooding over CAN")], "rad.median", lambda a, b: _similar(a, b / 2), "ratio")),
    ("INFOCOM 2003, recalled", "trees over Pastry have 20 to 50 % less delay than trees over CAN", _GRID_RUNS, "", _direction([("tree over Pastry", "tree over CAN")], "rad.median", lambda a, b: 0.5 * b <= a <= 0.8 * b, "ratio")),
    ("INFOCOM 2003, abstract", "building an overlay for each group costs far more than joining trees", _GRID_RUNS, "", _direction(_TREES, "control_packets", lambda a, b: 2 * a < b)),
)  # fmt: skip

PEERS = folders.page_of("peers", globals(), play=run)
