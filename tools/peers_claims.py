"""The claims of papers about Scribe's peers, each with measured numbers and a verdict.

A claim is put as a few cases, each of which holds or does not.  It is true where all hold, false
where none does; else it depends.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from tools.folders import Folder
from tools.pages import number

Peers = Mapping[str, Folder]

#: What the run `bayeux` has besides its tables: how long edges of trees are.
LENGTHS = "edge_lengths.json"


class Case(NamedTuple):
    """One of the ways to put a claim to the test: whether it holds, and in which numbers."""

    holds: bool
    words: str = ""


#: ``cases(peers)``: the cases of a claim.
Cases = Callable[[Peers], Iterable[Case]]


class Claim(NamedTuple):
    """A claim of a paper: its source, its words, the runs that it needs, and its cases."""

    source: str
    words: str
    needs: str
    cases: Cases


def verdict(cases: Iterable[Case]) -> str:
    """Return ``true``, ``false`` or ``depends``; ``not measured`` of no case.

    Examples
    --------
    >>> verdict([Case(True), Case(True)]), verdict([Case(True), Case(False)])
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
        if all(name in peers for name in claim.needs.split()):
            cases = list(claim.cases(peers))
            told = "; ".join(filter(None, (case.words for case in cases)))
            rows.append([claim.source, claim.words, told, f"*{verdict(cases)}*"])
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


# --- comparisons

#: Two numbers are similar that differ by at most this share of the smaller one, and one is
#: significantly higher that exceeds the other by more than it.
SIMILAR = 0.2


Holds = Callable[[float, float], bool]

_more: Holds = operator.gt
_less: Holds = operator.lt


def _much_more(mine: float, other: float) -> bool:
    return mine > (1 + SIMILAR) * other


def _similar(mine: float, other: float) -> bool:
    return max(mine, other) <= (1 + SIMILAR) * min(mine, other)


#: Metrics of claims, and what they are called.
_DELAYS = {
    "rad.median": "RAD, median",
    "rad.largest": "RAD, largest group",
    "rmd.median": "RMD, median",
    "rmd.largest": "RMD, largest group",
    "rdp.mean": "RDP in the largest group, mean",
}
_STRESS = {
    "link_stress.mean_existing": "mean link stress",
    "link_stress.max": "maximum link stress",
}
_STATE = {"state.mean": "entries a node", "state.max": "at most"}
_JOINING = {"control_packets": "packets of joining", "join_messages.mean": "messages a node"}
_BUILDING = {
    "control_packets": "packets of joining",
    "join_messages.max": "messages at the busiest node",
    "state.mean": "state a node",
}
#: Metrics that the page's first table shows; claims about them repeat no numbers.
SHOWN = {*_DELAYS, *_STRESS, *_STATE}


def _beside_scribe(metrics: Mapping[str, str], holds: Holds, *runs: str) -> Cases:
    """Cases for each of some metrics and runs, of the run's system beside Scribe."""

    def cases(peers: Peers) -> Iterator[Case]:
        for name in runs:
            of = "" if len(runs) == 1 else f" ({name})"
            for metric, what in metrics.items():
                values = peers[name].value(metric), peers[name].value(metric, "scribe")
                words = "" if metric in SHOWN else f"{what}{of} {{}}, Scribe {{}}"
                yield from _case(holds, words, *values)

    return cases


def _landmarks(metrics: Mapping[str, str], holds: Holds) -> Cases:
    """Cases for each of some metrics, of CAN with landmarks beside CAN without."""

    def cases(peers: Peers) -> Iterator[Case]:
        for metric, what in metrics.items():
            values = peers["can_landmarks"].value(metric), peers["can"].value(metric)
            yield from _case(holds, f"{what} {{}} with landmarks, {{}} without", *values)

    return cases


def _case(holds: Holds, words: str, mine: float | None, other: float | None) -> Iterator[Case]:
    """Yield the case of two numbers that are known; braces in the words stand for them."""
    if mine is not None and other is not None:
        yield Case(holds(mine, other), words.format(number(mine), number(other)))


# --- Bayeux


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
    joins = control[control["kind"] == "JOIN"]
    taken = joins.groupby(["group", "receiver"])["messages"].sum().reset_index()
    at_root = roots.merge(taken, left_on=["group", "root"], right_on=["group", "receiver"])
    taken_there, sent = int(at_root["messages"].sum()), int(roots["others"].sum())
    yield Case(taken_there == sent, f"{share(taken_there, sent)} of JOINs end at the root")


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


# --- Scribe and Pastry


def _scribe_keeps_little(peers: Peers) -> Iterator[Case]:
    peer = peers["scribe"]
    mean, most = peer.value("state.mean"), peer.value("state.max")
    memberships, largest = peer.number("groups.size.sum"), peer.number("groups.size.max")
    a_node = None if memberships is None else memberships / int(peer.config["nodes"])
    words = "{} entries a node, of {} memberships a node"
    yield from _case(lambda mine, other: mine <= 2 * other, words, mean, a_node)
    words = "{} at the busiest, the largest group has {}"
    yield from _case(lambda mine, other: mine <= other / 10, words, most, largest)


def _bounded(peers: Peers) -> Iterator[Case]:
    peer = peers["scribe_bottleneck"]
    limit, most = int(peer.config["limit"]), peer.value("state.max")
    if most is not None:
        yield Case(most <= limit, f"{number(most)} entries at the busiest node, limit {limit}")


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


# --- CAN


def _members_forward(peers: Peers) -> Iterator[Case]:
    peer = peers["can"]
    members = peer.table("members", ["group", "node"])
    copies = peer.table("copies", ["group", "sender", "hop"])
    senders = copies.loc[copies["hop"] > 1, ["group", "sender"]]
    parents = peer.table("tree_edges", ["group", "parent"], "scribe")
    for nodes, holds, words in (
        (senders, lambda part, of_all: part == of_all, "CAN: {} of those that forward are members"),
        (parents, _less, "Scribe: {} of the parents"),
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
    Claim("JSAC V", "algorithms to build and maintain the network have space and time costs of O(log N)", "scribe", _logarithmic),
    Claim("JSAC V", "[Bayeux] requires nodes to maintain more group membership information", "bayeux", _beside_scribe(_STATE, _more, "bayeux")),
    Claim("JSAC V", "the root keeps a list of all group members", "bayeux", _root_lists_all),
    Claim("NGC 4", "the routers one hop away from the [root] keep a list containing on average |G|/b members", "bayeux", _first_hop_lists),
    Claim("JSAC V", "it generates more traffic when handling group membership changes", "bayeux", _beside_scribe(_JOINING, _more, "bayeux")),
    Claim("JSAC V", "all group management traffic must go through the root", "bayeux", _all_at_root),
    Claim("JSAC V", "[partitioning] only improves scalability by a small constant factor", "bayeux bayeux_partitions", _partitioning),
    Claim("JSAC V", "the expected amount of group membership information kept by each node is small", "scribe", _scribe_keeps_little),
    Claim("JSAC V", "it can be bounded by a constant [...] by using the bottleneck removal algorithm", "scribe_bottleneck", _bounded),
    Claim("JSAC V", "group join and leave requests are handled locally", "scribe", _joins_are_local),
    Claim("JSAC V", "Scribe and Bayeux have similar delay characteristics", "bayeux", _beside_scribe(_DELAYS, _similar, "bayeux")),
    Claim("JSAC V", "Bayeux induces a higher link stress than Scribe", "bayeux bayeux_leaf_set", _beside_scribe(_STRESS, _more, "bayeux", "bayeux_leaf_set")),
    Claim("JSAC V", "many long links near the leaves in Bayeux, while in Scribe, [...] few long links near the root", "bayeux", _long_links),
    Claim("JSAC V", "[in CAN multicast] only group members forward multicast traffic for a group", "can", _members_forward),
    Claim("JSAC V", "it is significantly more expensive to build and maintain separate CAN overlays per group than Scribe multicast trees", "can can_2", _beside_scribe(_BUILDING, _much_more, "can", "can_2")),
    Claim("JSAC V", "the delays [...] reported for CAN multicast are significantly higher than those observed for Scribe", "can can_2", _beside_scribe(_DELAYS, _much_more, "can", "can_2")),
    Claim("JSAC V", "the [...] link stresses reported for CAN multicast are significantly higher", "can can_2", _beside_scribe(_STRESS, _much_more, "can", "can_2")),
    Claim("JSAC V", "taking network topology into account when building CAN overlays is likely to reduce delays and link stresses", "can can_landmarks", _landmarks({**_DELAYS, **_STRESS}, _less)),
    Claim("JSAC V", "but it will increase the cost of overlay construction and maintenance further", "can can_landmarks", _landmarks(_BUILDING, _more)),
    Claim("JSAC V", "the node [...] that supplies the contact node for the group and the contact node itself handle all join traffic", "can", _contacts),
    Claim("JSAC V", "Bayeux does not provide a mechanism to handle root failures whereas Scribe does", "bayeux_roots", _root_failures),
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

#: Metric of the comparison of flooding and trees -> head of its columns.
_GRID_METRICS = {
    "rad.median": "RAD, median group",
    "messages": "packets",
    "control_packets": "packets of joining",
}


def _value(peers: Peers, grid: str, combination: str, metric: str) -> float | None:
    overlay, system = _COMBINATIONS[combination]
    return peers[f"{grid}_{overlay}"].value(metric, system)


def grid_of(peers: Peers) -> list[list[str]]:
    """Return the head and the rows of a table of flooding and trees; nothing without its runs."""
    if not all(name in peers for name in _GRID_RUNS.split()):
        return []
    columns = [(words, metric) for words in _GRIDS for metric in _GRID_METRICS]
    heads = [f"{words}: {_GRID_METRICS[metric]}" for words, metric in columns]
    rows = [
        ["", *(head.replace("one group: RAD, median group", "one group: RAD") for head in heads)]
    ]
    for one in _COMBINATIONS:
        values = (_value(peers, _GRIDS[words], one, metric) for words, metric in columns)
        rows.append([one, *map(number, values)])
    return rows


def _direction(
    overlays: Iterable[tuple[str, str]], metrics: str, holds: Holds, words: str = ""
) -> Cases:
    """Cases that one combination has less of some metrics than another one.

    `words` tell the ratio of the two, as `grid_of` has the numbers.
    """

    def cases(peers: Peers) -> Iterator[Case]:
        for less, more in overlays:
            for name, grid in _GRIDS.items():
                for metric in metrics.split():
                    a, b = (_value(peers, grid, one, metric) for one in (less, more))
                    if a is not None and b:
                        yield Case(holds(a, b), words and f"{name}: {words} {number(a / b)}")

    return cases


def _many_duplicates(peers: Peers) -> Iterator[Case]:
    """Flooding a CAN of few dimensions beside one of more."""
    both = peers["can_2"], peers["can"]
    for peer in both:
        again, d = peer.value("duplicates.mean"), peer.config["can_dimensions"]
        if again is not None:
            yield Case(again > 0, f"d = {d}: {number(again)} duplicates a member")
    values = (peer.value("link_stress.max") for peer in both)
    yield from _case(_more, "maximum link stress {} with d = 2, {} with d = 6", *values)


_TREES = [(f"tree over {overlay}", f"flooding over {overlay}") for overlay in ("Pastry", "CAN")]

#: The directions of the comparison of 2003; its text could not be had, and they are recalled.
DIRECTIONS: tuple[Claim, ...] = (
    Claim("INFOCOM 2003, abstract", "trees have lower delay and overhead than flooding over per-group overlays, whatever the overlay", _GRID_RUNS, _direction(_TREES, "rad.median messages", _less)),
    Claim("INFOCOM 2003, recalled", "flooding over Pastry has about half the delay penalty of flooding over CAN", _GRID_RUNS, _direction([("flooding over Pastry", "flooding over CAN")], "rad.median", lambda a, b: _similar(a, b / 2), "ratio")),
    Claim("INFOCOM 2003, recalled", "flooding a CAN has duplicates, and a high maximum link stress with few dimensions", "can can_2", _many_duplicates),
    Claim("INFOCOM 2003, recalled", "trees over Pastry have 20 to 50 % less delay than trees over CAN", _GRID_RUNS, _direction([("tree over Pastry", "tree over CAN")], "rad.median", lambda a, b: 0.5 * b <= a <= 0.8 * b, "ratio")),
    Claim("INFOCOM 2003, abstract", "building an overlay for each group costs far more than joining trees", _GRID_RUNS, _direction(_TREES, "control_packets", lambda a, b: 2 * a < b)),
)  # fmt: skip
