"""Measures of a world: publications, repair, messages; delay and stress of its multicasts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from statistics import mean, median

from .. import coverage
from .. import multicast_measures as measures
from ..coverage import Questions
from ..multicast_measures import Delay
from ..publications import PublicationResult, account
from .state import Publication
from .world import Run, Snapshot, is_orphan


def publications(run: Run) -> list[PublicationResult]:
    """Of every publication that was not refused, and whose source did not die with it."""
    seen = {snapshot.round: snapshot for snapshot in run.seen}
    fates = {publication: fate for one in run.seen for publication, fate in one.fates}
    results = []
    for publication, fate in fates.items():
        if fate in ("refused", "source died"):
            continue
        first, group, _ = publication
        deadline = first + run.scribe.settings.deadline
        rounds = [seen[at] for at in range(first, min(deadline, max(seen)) + 1)]
        delivered = {
            node: one.round
            for one in reversed(rounds)
            for name, node in one.deliveries
            if name == publication
        }
        copies = (
            sum(one.first_copies.get(publication, 0) for one in run.seen),
            sum(one.duplicates.get(publication, 0) for one in run.seen),
        )
        members = [one.members.get(group, ()) for one in rounds]
        is_due = deadline <= max(seen)
        results.append(account(publication, first, is_due, members, delivered, copies))
    return results


def late_deliveries(snapshot: Snapshot) -> dict[int, int]:
    """Rounds since the publication -> deliveries of a round; of publications of earlier rounds."""
    ages = Counter(snapshot.round - publication[0] for publication, _ in snapshot.ordered)
    return {age: count for age, count in sorted(ages.items()) if age}


def out_of_order(run: Run, numbered: bool) -> dict[int, list[tuple[Publication, int]]]:
    """Round -> deliveries after the same member has got a newer publication since it joined.

    Newer is what roots number later: what they take in a later round, and of one round in the order
    of `sources.in_order`; where nothing is numbered it is what was sent in a later round.
    """
    idents = run.scribe.overlay.idents
    taken = {one: seen.round for seen in run.seen for one, fate in seen.fates if fate == "sent"}
    got: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    found: dict[int, list[tuple[Publication, int]]] = {}
    for snapshot in run.seen:
        members = {(group, node) for group, nodes in snapshot.members.items() for node in nodes}
        got = {member: had for member, had in got.items() if member in members}
        found[snapshot.round] = []
        for publication, node in snapshot.ordered:
            at, group, source = publication
            place = (taken[publication], at, idents[source]) if numbered else (at,)
            had = got.setdefault((group, node), [])
            if any(other > place for other in had):
                found[snapshot.round].append((publication, node))
            had.append(place)
    return found


def failures(run: Run, number: int) -> list[int]:
    """Nodes that died in a round and were the parents of others."""
    return sorted(node for (died, node), under in run.affected.items() if died == number and under)


def attached(snapshot: Snapshot) -> set[tuple[int, int]]:
    """(group, node) of all that a payload from a live root of the group reaches."""
    under: dict[tuple[int, int], list[int]] = {}
    parents = {(group, node): parent for group, node, _, _, parent, _, _ in snapshot.entries}
    for group, node, child, _, _ in snapshot.children:
        if parents.get((group, child)) == node:
            under.setdefault((group, node), []).append(child)
    reached: set[tuple[int, int]] = set()
    front = [(group, node) for group, node, _, root, _, _, _ in snapshot.entries if root]
    while front:
        reached.update(front)
        front = [(at[0], child) for at in front for child in under.get(at, ())]
        front = [at for at in front if at not in reached]
    return reached


def rounds_until_repaired(run: Run) -> dict[tuple[int, int], int | None]:
    """(round, node that died) -> rounds until all that it had as children are reached again.

    A child that died or left the tree since counts no more; None: not by the last round.  Deaths
    of nodes without children are left out.
    """
    reached = {snapshot.round: attached(snapshot) for snapshot in run.seen}
    there = {
        snapshot.round: {(group, node) for group, node, *_ in snapshot.entries}
        for snapshot in run.seen
    }
    results: dict[tuple[int, int], int | None] = {}
    for (died, node), affected in sorted(run.affected.items()):
        if not affected:
            continue
        left = set(affected)
        results[died, node] = None
        for at in sorted(reached):
            if at < died:
                continue
            left &= there[at]
            if left <= reached[at]:
                results[died, node] = at - died
                break
    return results


def with_two_roots(snapshot: Snapshot) -> set[int]:
    """Groups that had several roots after a round: only on a broken ring."""
    roots = Counter(group for group, _, _, root, *_ in snapshot.entries if root)
    return {group for group, count in roots.items() if count > 1}


def calm(run: Run) -> set[int]:
    """Groups in which nothing is to be repaired: one root, and no orphan."""
    scribe = run.scribe
    return {
        group
        for group in scribe.groups
        if len(scribe.roots(group)) == 1
        and not any(is_orphan(scribe, group, node) for node in scribe.entries.get(group, ()))
    }


# --- delay, node stress and link stress of a round's multicasts (S25 to S27) ----------------------


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


def coverage_measures(run: Run, delay: Delay, asked: Questions) -> dict[str, float]:
    """After a round."""
    reached: dict[int, dict] = defaultdict(dict)
    for group, node, hops, spent in deliveries(run, delay):
        reached[group][node] = hops, spent
    starts = {group: start for group, (_, start) in multicasts(run).items()}
    found = coverage.coverage_measures(starts, run.seen[-1].members, reached, asked)
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
