"""The claims of papers about Scribe's peers, each with measured numbers and a verdict.

A claim is put as a few cases, each of which holds or does not.  It is true where all hold, false
where none does; else it depends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from tools.groups_tables import number
from tools.peers_tables import Peer, share

__all__ = ["CLAIMS", "DIRECTIONS", "Case", "Claim", "grid_of", "rows_of", "verdict"]

Peers = Mapping[str, Peer]

#: Two numbers are similar that differ by at most this share of the smaller one, and one is
#: significantly higher that exceeds the other by more than it.
SIMILAR = 0.2


@dataclass(frozen=True)
class Case:
    """One of the ways to put a claim to the test: whether it holds, and in which numbers."""

    holds: bool
    words: str


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    source: str
    words: str
    needs: tuple[str, ...]
    cases: Callable[[Peers], list[Case]]


def verdict(cases: Iterable[Case]) -> str:
    """Return ``true``, ``false`` or ``depends``; ``not measured`` of no case.

    Examples
    --------
    >>> verdict([Case(True, ""), Case(True, "")]), verdict([Case(True, ""), Case(False, "")])
    ('true', 'depends')
    """
    held = {case.holds for case in cases}
    if len(held) == 2:
        return "depends"
    return "not measured" if not held else "true" if held.pop() else "false"


def rows_of(claims: Iterable[Claim], peers: Peers) -> list[list[str]]:
    """Return a row of the page's table for each claim whose runs are there."""
    rows = []
    for claim in claims:
        if all(name in peers for name in claim.needs):
            cases = claim.cases(peers)
            told = "; ".join(filter(None, (case.words for case in cases)))
            rows.append([claim.source, claim.words, told, f"*{verdict(cases)}*"])
    return rows


# --- comparisons


def _beside_scribe(
    metrics: Mapping[str, str],
    holds: Callable[[float, float], bool],
    *runs: str,
) -> Callable[[Peers], list[Case]]:
    """Cases for each of some metrics and runs, of the run's system beside Scribe."""

    def cases(peers: Peers) -> list[Case]:
        found = []
        for name in runs:
            peer = peers[name]
            of = "" if len(runs) == 1 else f" ({name})"
            for metric, what in metrics.items():
                mine, scribes = peer.value(metric), peer.value(metric, "scribe")
                if mine is not None and scribes is not None:
                    words = f"{what}{of} {number(mine)}, Scribe {number(scribes)}"
                    found.append(Case(holds(mine, scribes), "" if metric in SHOWN else words))
        return found

    return cases


def _more(mine: float, other: float) -> bool:
    return mine > other


def _less(mine: float, other: float) -> bool:
    return mine < other


def _much_more(mine: float, other: float) -> bool:
    return mine > (1 + SIMILAR) * other


def _similar(mine: float, other: float) -> bool:
    return max(mine, other) <= (1 + SIMILAR) * min(mine, other)


#: Over the groups, most of which are small, and in the largest.
_PENALTIES = {
    "rad.median": "RAD, median",
    "rad.largest": "RAD, largest group",
    "rmd.median": "RMD, median",
    "rmd.largest": "RMD, largest group",
}
_DELAYS = {**_PENALTIES, "rdp.mean": "RDP in the largest group, mean"}
_STRESS = {
    "link_stress.mean_existing": "mean link stress",
    "link_stress.max": "maximum link stress",
}
#: Metrics that the page's first table shows; claims about them repeat no numbers.
SHOWN = {*_DELAYS, *_STRESS, "state.mean", "state.max"}
_BUILDING = {
    "control_packets": "packets of joining",
    "join_messages.max": "messages at the busiest node",
    "state.mean": "state a node",
}


# --- Bayeux


def _roots(peer: Peer) -> pd.DataFrame:
    """Return ``group, root, size, others``: the groups, and their members besides the root."""
    groups = peer.table("groups", ["group", "root", "size"])
    at_root = peer.table("members", ["group", "node"]).merge(
        groups, left_on=["group", "node"], right_on=["group", "root"]
    )
    groups["others"] = groups["size"] - groups["group"].isin(at_root["group"])
    return groups[groups["others"] > 0]


def _lists(peer: Peer) -> pd.DataFrame:
    """Return ``group, node, entries`` of member lists."""
    lists = peer.table("system_state", ["group", "node", "kind", "entries"])
    return lists[lists["kind"] == "member list"].drop(columns="kind")


def _root_lists_all(peers: Peers) -> list[Case]:
    found: list[Case] = []
    for name in ("bayeux", "bayeux_partitions"):
        if name not in peers:
            continue
        roots, lists = _roots(peers[name]), _lists(peers[name])
        at_root = roots.merge(lists, left_on=["group", "root"], right_on=["group", "node"])
        all_of = int((at_root["entries"] >= at_root["others"]).sum())
        begin = "" if found else "roots that list all other members: "
        words = f"{share(all_of, len(roots))} ({name})"
        found.append(Case(all_of == len(roots), begin + words))
    return found


def _first_hop_lists(peers: Peers) -> list[Case]:
    """Nodes that the root sends to in groups of 1,000 members and more, all and those of row 0."""
    peer, found = peers["bayeux"], []
    roots = _roots(peer).query("size >= 1000")
    if not len(roots):
        return []
    edges = peer.table("tree_edges", ["group", "parent", "child"])
    first = edges.merge(roots, left_on=["group", "parent"], right_on=["group", "root"])
    lists = _lists(peer).rename(columns={"node": "child"})
    lists = first.merge(lists, on=["group", "child"], how="left").fillna({"entries": 0})
    b = int(peer.manifest["resolved"]["b"])
    nodes = peer.table("nodes", ["node", "id_hi"]).set_index("node")["id_hi"]
    digit = nodes.astype("uint64") // 2 ** (64 - b)
    differs = lists["root"].map(digit) != lists["child"].map(digit)
    for words, some in (
        ("all that the root sends to", lists),
        ("those with another first digit than the root", lists[differs]),
    ):
        if len(some):
            ratio = float((some["entries"] * 2**b / some["size"]).mean())
            told = f"in groups of 1,000 and more, {words}: {number(ratio)} x |G|/b"
            found.append(Case(0.5 <= ratio <= 2, told))
    return found


def _all_at_root(peers: Peers) -> list[Case]:
    peer, found = peers["bayeux"], []
    roots = _roots(peer)
    control = peer.table("control", ["group", "receiver", "kind", "messages"])
    joins = control[control["kind"] == "JOIN"]
    taken = joins.groupby(["group", "receiver"])["messages"].sum().reset_index()
    at_root = roots.merge(taken, left_on=["group", "root"], right_on=["group", "receiver"])
    taken_there, sent = int(at_root["messages"].sum()), int(roots["others"].sum())
    found.append(Case(taken_there == sent, f"{share(taken_there, sent)} of JOINs end at the root"))
    return found


def _partitioning(peers: Peers) -> list[Case]:
    one, several = peers["bayeux"], peers["bayeux_partitions"]
    k = int(several.manifest["resolved"]["bayeux_partitions"])
    found: list[Case] = []
    for metric, what in (("join_messages.max", "messages"), ("state.max", "entries")):
        before, after = one.value(metric), several.value(metric)
        if before is not None and after:
            begin = "" if found else f"{k} partitions: at the busiest node, "
            words = f"1/{number(before / after)} of the {what}"
            found.append(Case(before / after <= k, begin + words))
    return found


def _scribe_keeps_little(peers: Peers) -> list[Case]:
    peer, found = peers["scribe"], []
    mean, most = peer.value("state.mean"), peer.value("state.max")
    memberships, largest = peer.number("groups.size.sum"), peer.number("groups.size.max")
    if mean is not None and memberships is not None:
        a_node = memberships / int(peer.manifest["resolved"]["nodes"])
        words = f"{number(mean)} entries a node, of {number(a_node)} memberships a node"
        found.append(Case(mean <= 2 * a_node, words))
    if most is not None and largest is not None:
        words = f"{number(most)} at the busiest, the largest group has {number(largest)}"
        found.append(Case(most <= largest / 10, words))
    return found


def _bounded(peers: Peers) -> list[Case]:
    peer = peers["scribe_bottleneck"]
    limit, most = int(peer.manifest["resolved"]["limit"]), peer.value("state.max")
    if most is None:
        return []
    return [Case(most <= limit, f"{number(most)} entries at the busiest node, limit {limit}")]


def _joins_are_local(peers: Peers) -> list[Case]:
    """Return the share of JOINs that end below the root, by the size of groups."""
    peer = peers["scribe"]
    roots = _roots(peer).set_index("group")
    edges = peer.table("tree_edges", ["group", "parent"], "scribe")
    at_root = edges["parent"] == edges["group"].map(roots["root"])
    taken = at_root.groupby(edges["group"]).sum().reindex(roots.index, fill_value=0)
    found: list[Case] = []
    for low, high in ((2, 99), (100, 999), (1000, math.inf)):
        some = roots[(roots["size"] >= low) & (roots["size"] <= high)]
        if len(some):
            others, here = int(some["others"].sum()), int(taken[some.index].sum())
            size = f"{low:,} and more" if math.isinf(high) else f"{low} to {high}"
            words = f"{share(others - min(here, others), others)} in groups of {size}"
            begin = "" if found else "JOINs that end below the root: "
            found.append(Case(here < others / 2, begin + words))
    return found


def _long_links(peers: Peers) -> list[Case]:
    found = []
    for system, near_leaves in (("bayeux", True), ("scribe", False)):
        ms = peers["bayeux"].lengths(system)
        holds = (ms["last"] > ms["first"]) == near_leaves
        words = f"{system}: edges at the root {number(ms['first'])} ms, to leaves"
        found.append(Case(holds, f"{words} {number(ms['last'])} ms"))
    return found


# --- CAN


def _members_forward(peers: Peers) -> list[Case]:
    peer = peers["can"]
    copies = peer.table("copies", ["group", "sender", "hop"])
    forwarding = copies[copies["hop"] > 1][["group", "sender"]].drop_duplicates()
    members = peer.table("members", ["group", "node"]).rename(columns={"node": "sender"})
    inside = len(forwarding.merge(members, on=["group", "sender"]))
    edges = peer.table("tree_edges", ["group", "parent"], "scribe").drop_duplicates()
    scribes = len(edges.merge(members.rename(columns={"sender": "parent"}), on=["group", "parent"]))
    return [
        Case(inside == len(forwarding), f"CAN: {share(inside, len(forwarding))} of those that "
             "forward are members"),
        Case(scribes < len(edges), f"Scribe: {share(scribes, len(edges))} of the parents"),
    ]  # fmt: skip


def _landmarks(
    metrics: Mapping[str, str], holds: Callable[[float, float], bool]
) -> Callable[[Peers], list[Case]]:
    """Cases for each of some metrics, of CAN with landmarks beside CAN without."""

    def cases(peers: Peers) -> list[Case]:
        found = []
        for metric, what in metrics.items():
            before, after = (peers[name].value(metric) for name in ("can", "can_landmarks"))
            if before is not None and after is not None:
                words = f"{what} {number(after)} with landmarks, {number(before)} without"
                found.append(Case(holds(after, before), words))
        return found

    return cases


def _contacts(peers: Peers) -> list[Case]:
    """Return the kinds of messages of which a node of each group gets one from every member."""
    peer, found = peers["can"], []
    sizes = peer.table("groups", ["group", "size"]).query("size > 1").set_index("group")["size"]
    control = peer.table("control", ["group", "receiver", "kind", "messages"])
    taken = control.groupby(["kind", "group", "receiver"])["messages"].sum()
    for kind in ("CONTACT", "JOIN"):
        if kind not in taken.index.get_level_values("kind"):
            continue
        most = taken[kind].groupby("group").max().reindex(sizes.index, fill_value=0)
        mean = float((most / sizes).mean())
        words = f"{kind}s at the busiest node of a group, per member: {number(mean)}"
        found.append(Case(mean >= 0.9, words))
    return found


# --- Pastry


def _logarithmic(peers: Peers) -> list[Case]:
    peer, found = peers["scribe"], []
    config = peer.manifest["resolved"]
    bound = math.log(int(config["nodes"]), 2 ** int(config["b"]))
    hops, entries = peer.number("pastry.hops.mean"), peer.number("pastry.table_entries.mean")
    if hops is not None:
        found.append(Case(hops <= math.ceil(bound), f"{number(hops)} hops, log {number(bound)}"))
    if entries is not None:
        most = (2 ** int(config["b"]) - 1) * math.ceil(bound)
        found.append(Case(entries <= most, f"{number(entries)} entries of a routing table"))
    return found


def _root_failures(peers: Peers) -> list[Case]:
    found = []
    for system, survives in (("bayeux", False), ("scribe", True)):
        rounds = peers["bayeux_roots"].table("publications", ["due", "lost", "round"], system)
        last = rounds[rounds["round"] == rounds.loc[rounds["due"] > 0, "round"].max()]
        lost, due = int(last["lost"].sum()), int(last["due"].sum())
        words = f"{system}: {share(lost, due)} lost of the last publications that are due"
        found.append(Case((lost == 0) == survives, words))
    return found


#: In the order of the papers.
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "JSAC V",
        "algorithms to build and maintain the network have space and time costs of O(log N)",
        ("scribe",),
        _logarithmic,
    ),
    Claim(
        "JSAC V",
        "[Bayeux] requires nodes to maintain more group membership information",
        ("bayeux",),
        _beside_scribe({"state.mean": "entries a node", "state.max": "at most"}, _more, "bayeux"),
    ),
    Claim(
        "JSAC V",
        "the root keeps a list of all group members",
        ("bayeux",),
        _root_lists_all,
    ),
    Claim(
        "NGC 4",
        "the routers one hop away from the [root] keep a list containing on average |G|/b members",
        ("bayeux",),
        _first_hop_lists,
    ),
    Claim(
        "JSAC V",
        "it generates more traffic when handling group membership changes",
        ("bayeux",),
        _beside_scribe(
            {"control_packets": "packets of joining", "join_messages.mean": "messages a node"},
            _more,
            "bayeux",
        ),
    ),
    Claim(
        "JSAC V",
        "all group management traffic must go through the root",
        ("bayeux",),
        _all_at_root,
    ),
    Claim(
        "JSAC V",
        "[partitioning] only improves scalability by a small constant factor",
        ("bayeux", "bayeux_partitions"),
        _partitioning,
    ),
    Claim(
        "JSAC V",
        "the expected amount of group membership information kept by each node is small",
        ("scribe",),
        _scribe_keeps_little,
    ),
    Claim(
        "JSAC V",
        "it can be bounded by a constant [...] by using the bottleneck removal algorithm",
        ("scribe_bottleneck",),
        _bounded,
    ),
    Claim(
        "JSAC V",
        "group join and leave requests are handled locally",
        ("scribe",),
        _joins_are_local,
    ),
    Claim(
        "JSAC V",
        "Scribe and Bayeux have similar delay characteristics",
        ("bayeux",),
        _beside_scribe(_DELAYS, _similar, "bayeux"),
    ),
    Claim(
        "JSAC V",
        "Bayeux induces a higher link stress than Scribe",
        ("bayeux", "bayeux_leaf_set"),
        _beside_scribe(_STRESS, _more, "bayeux", "bayeux_leaf_set"),
    ),
    Claim(
        "JSAC V",
        "many long links near the leaves in Bayeux, while in Scribe, [...] few long links near the "
        "root",
        ("bayeux",),
        _long_links,
    ),
    Claim(
        "JSAC V",
        "[in CAN multicast] only group members forward multicast traffic for a group",
        ("can",),
        _members_forward,
    ),
    Claim(
        "JSAC V",
        "it is significantly more expensive to build and maintain separate CAN overlays per group "
        "than Scribe multicast trees",
        ("can", "can_2"),
        _beside_scribe(_BUILDING, _much_more, "can", "can_2"),
    ),
    Claim(
        "JSAC V",
        "the delays [...] reported for CAN multicast are significantly higher than those observed "
        "for Scribe",
        ("can", "can_2"),
        _beside_scribe(_DELAYS, _much_more, "can", "can_2"),
    ),
    Claim(
        "JSAC V",
        "the [...] link stresses reported for CAN multicast are significantly higher",
        ("can", "can_2"),
        _beside_scribe(_STRESS, _much_more, "can", "can_2"),
    ),
    Claim(
        "JSAC V",
        "taking network topology into account when building CAN overlays is likely to reduce "
        "delays and link stresses",
        ("can", "can_landmarks"),
        _landmarks({**_DELAYS, **_STRESS}, _less),
    ),
    Claim(
        "JSAC V",
        "but it will increase the cost of overlay construction and maintenance further",
        ("can", "can_landmarks"),
        _landmarks(_BUILDING, _more),
    ),
    Claim(
        "JSAC V",
        "the node [...] that supplies the contact node for the group and the contact node itself "
        "handle all join traffic",
        ("can",),
        _contacts,
    ),
    Claim(
        "JSAC V",
        "Bayeux does not provide a mechanism to handle root failures whereas Scribe does",
        ("bayeux_roots",),
        _root_failures,
    ),
)


# --- flooding and trees, over CAN and over Pastry

_DELAY = ("rad.median",)

#: Flooding and trees over Pastry, flooding over CAN; and trees over CAN: of one group of all, and
#: of many groups.
_GRIDS = {"one group": "all", "1,500 groups": "groups"}


def _numbers(peers: Peers, grid: str, metric: str) -> dict[str, float | None]:
    """A metric of the four combinations: ``flooding pastry``, ``tree can`` and so on."""
    pastry, over_can = peers[f"{grid}_pastry"], peers[f"{grid}_can"]
    return {
        "tree pastry": pastry.value(metric, "scribe"),
        "flooding pastry": pastry.value(metric, "flooding"),
        "flooding can": pastry.value(metric, "can"),
        "tree can": over_can.value(metric, "scribe"),
    }


#: Metric of the comparison of flooding and trees -> head of its columns.
_GRID_METRICS = {
    "rad.median": "RAD, median group",
    "messages": "packets",
    "control_packets": "packets of joining",
}


def grid_of(peers: Peers) -> list[list[str]]:
    """Return the head and the rows of a table of flooding and trees; nothing without its runs."""
    if not all(name in peers for name in _GRID_RUNS):
        return []
    columns = [(words, grid, metric) for words, grid in _GRIDS.items() for metric in _GRID_METRICS]
    numbers = [_numbers(peers, grid, metric) for _, grid, metric in columns]
    rows = []
    for over, named in (("pastry", "Pastry"), ("can", "CAN")):
        for how in ("tree", "flooding"):
            values = [of[f"{how} {over}"] for of in numbers]
            cells = ["-" if value is None else number(value) for value in values]
            rows.append([f"{how} over {named}", *cells])
    heads = [f"{words}: {_GRID_METRICS[metric]}" for words, _, metric in columns]
    return [["", *heads], *rows]


def _direction(
    less: str, more: str, metrics: Iterable[str], holds: Callable[[float, float], bool]
) -> Callable[[Peers], list[Case]]:
    """Cases that one combination has less of some metrics than another one."""

    def cases(peers: Peers) -> list[Case]:
        found = []
        for grid in _GRIDS.values():
            for metric in metrics:
                of = _numbers(peers, grid, metric)
                a, b = of[less], of[more]
                again = grid == "all" and metric.endswith(".largest")  # the only group
                if a is not None and b is not None and not again:
                    found.append(Case(holds(a, b), ""))  # `grid_of` shows the numbers
        return found

    return cases


def _together(*several: Callable[[Peers], list[Case]]) -> Callable[[Peers], list[Case]]:
    return lambda peers: [case for cases in several for case in cases(peers)]


def _many_duplicates(peers: Peers) -> list[Case]:
    """Flooding a CAN of few dimensions beside one of more."""
    found = []
    for name in ("can_2", "can"):
        again = peers[name].value("duplicates.mean")
        if again is not None:
            dimensions = peers[name].manifest["resolved"]["can_dimensions"]
            found.append(Case(again > 0, f"d = {dimensions}: {number(again)} duplicates a member"))
    few, many = (peers[name].value("link_stress.max") for name in ("can_2", "can"))
    if few is not None and many is not None:
        words = f"maximum link stress {number(few)} with d = 2, {number(many)} with d = 6"
        found.append(Case(few > many, words))
    return found


_GRID_RUNS = ("all_pastry", "all_can", "groups_pastry", "groups_can")

#: The directions of the comparison of 2003; its text could not be had, and they are recalled.
DIRECTIONS: tuple[Claim, ...] = (
    Claim(
        "INFOCOM 2003, abstract",
        "trees have lower delay and overhead than flooding over per-group overlays, whatever the "
        "overlay",
        _GRID_RUNS,
        _together(
            _direction("tree pastry", "flooding pastry", (*_DELAY, "messages"),
                       lambda a, b: a < b),
            _direction("tree can", "flooding can", (*_DELAY, "messages"),
                       lambda a, b: a < b),
        ),
    ),
    Claim(
        "INFOCOM 2003, recalled",
        "flooding over Pastry has about half the delay penalty of flooding over CAN",
        _GRID_RUNS,
        _direction("flooding pastry", "flooding can", _DELAY, lambda a, b: a <= 0.75 * b),
    ),
    Claim(
        "INFOCOM 2003, recalled",
        "flooding a CAN has duplicates, and a high maximum link stress with few dimensions",
        ("can", "can_2"),
        _many_duplicates,
    ),
    Claim(
        "INFOCOM 2003, recalled",
        "trees over Pastry have 20 to 50 % less delay than trees over CAN",
        _GRID_RUNS,
        _direction("tree pastry", "tree can", _DELAY, lambda a, b: 0.5 * b <= a <= 0.8 * b),
    ),
    Claim(
        "INFOCOM 2003, abstract",
        "building an overlay for each group costs far more than joining trees",
        _GRID_RUNS,
        _together(
            _direction("tree pastry", "flooding pastry", ("control_packets",),
                       lambda a, b: 2 * a < b),
            _direction("tree can", "flooding can", ("control_packets",),
                       lambda a, b: 2 * a < b),
        ),
    ),
)  # fmt: skip
