"""Delay, node stress and link stress of a round's multicasts, one message after the other.

The definitions are S25 to S27 of docs/rules.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from statistics import mean, median

from .. import multicast_measures as measures
from ..multicast_measures import Delay
from .upcalls import Publication
from .world import Run

#: (a, b) -> the links of the unicast route between two nodes' routers
Links = Callable[[int, int], Iterable[Hashable]]


def multicasts(run: Run) -> dict[int, tuple[Publication, int]]:
    """Of each group that had one: the first publication of the last round that a root took.

    And where it begins: at the root, or at its source.
    """
    first: dict[int, tuple[Publication, int]] = {}
    for publication, root in run.scribe.taken:
        start = root if run.scribe.settings.source == "root" else publication[2]
        first.setdefault(publication[1], (publication, start))
    return first


def other_members(run: Run, group: int, start: int) -> list[int]:
    """All members but the one where the multicast begins."""
    nodes = run.seen[-1].members.get(group, frozenset())
    return [node for node in nodes if node != start]


def way(run: Run, publication: Publication, node: int) -> list[int]:
    """The nodes from a member up to the root, and back to where the multicast begins."""
    nodes, group = [node], publication[1]
    while (parent := run.scribe.entries[group][nodes[-1]].parent) is not None:
        nodes.append(parent)
    before = run.scribe.ways[publication] if run.scribe.settings.source != "root" else nodes[-1:]
    assert before[-1] == nodes[-1]
    return nodes + before[-2::-1]


def deliveries(run: Run, delay: Delay) -> Iterator[tuple[int, int, int, int]]:
    """Group, member, hops and delay of each delivery of the round's multicasts."""
    sent = multicasts(run)
    for publication, node in run.seen[-1].ordered:
        first, start = sent.get(publication[1], (None, None))
        if first == publication and node != start:
            path = way(run, publication, node)
            assert path[-1] == start
            spent = sum(delay(a, b) for a, b in zip(path[1:], path, strict=False))
            yield publication[1], node, len(path) - 1, spent


def carried(run: Run) -> list[tuple[int, int, int]]:
    """Group, sender and receiver of each copy of the round's multicasts; lost ones too."""
    first = {publication for publication, _ in multicasts(run).values()}
    return [(one[1], sender, to) for one, sender, to in run.scribe.carried if one in first]


def delay_measures(run: Run, delay: Delay) -> dict[str, float]:
    """After a round."""
    reached: dict[int, dict] = defaultdict(dict)
    for group, node, hops, spent in deliveries(run, delay):
        reached[group][node] = hops, spent
    starts = {group: start for group, (_, start) in multicasts(run).items()}
    found = measures.delay_measures(starts, run.seen[-1].members, reached, delay)
    return {f"scribe.{name}": value for name, value in found.items()}


def tables(run: Run, delay: Delay) -> dict[str, list[tuple]]:
    """What a run leaves of its multicasts: (system, group, parent, child) and deliveries, sorted.

    A delivery is (system, group, node, hops, microseconds).
    """
    edges = [("scribe", *one) for one in carried(run)]
    delivered = [("scribe", *one) for one in deliveries(run, delay)]
    for group, (_, root) in multicasts(run).items():
        for node in other_members(run, group, root):
            for system in ("ip_multicast", "naive_unicast"):
                edges.append((system, group, root, node))
                delivered.append((system, group, node, 1, delay(root, node)))
    return {"tree_edges": sorted(edges), "deliveries": sorted(delivered)}


def node_stress_measures(run: Run) -> dict[str, float]:
    """After a round."""
    entries = [
        (group, node) for group, node, entry in run.scribe.all_entries() for _ in entry.children
    ]
    live = run.scribe.overlay.live
    found = measures.node_stress(entries, live)
    copies = [(group, to) for group, _, to in carried(run)]
    roots = {publication[1]: root for publication, root in reversed(run.scribe.taken)}
    found |= measures.duplicates(copies, roots, live)
    return {f"scribe.{name}": value for name, value in found.items()}


def packets(run: Run, links: Links) -> dict[str, Counter[Hashable]]:
    """System -> packets on each link."""
    found: dict[str, Counter[Hashable]] = {
        name: Counter() for name in ("scribe", "naive_unicast", "ip_multicast")
    }
    for _, sender, to in carried(run):
        found["scribe"].update(route(sender, to, links))
    for group, (_, root) in multicasts(run).items():
        routes = [route(root, node, links) for node in other_members(run, group, root)]
        for one in routes:
            found["naive_unicast"].update(one)
        found["ip_multicast"].update({link for one in routes for link in one})
    return found


def route(a: int, b: int, links: Links) -> list[Hashable]:
    """All links that a message uses, the LAN's too."""
    return [("up", a), *links(a, b), ("down", b)]


def link_stress_measures(run: Run, links: Links, existing: int, slots: int) -> dict[str, float]:
    """After a round; of a network with so many links, and slots by the paper's count."""
    if not multicasts(run):
        return {}
    found = {}
    for system, on_links in packets(run, links).items():
        values = sorted(on_links.values())
        found[f"{system}.messages"] = sum(values)
        found[f"{system}.link_stress.max"] = max(values, default=None)
        for end, all_links in (("", slots), ("_existing", existing)):
            everywhere = [0] * (all_links - len(values)) + values
            found[f"{system}.link_stress.mean{end}"] = mean(everywhere)
            found[f"{system}.link_stress.median{end}"] = median(everywhere)
    return {name: value for name, value in found.items() if value is not None}
