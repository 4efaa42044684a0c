"""Measures of a world: publications, repair, messages by round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .upcalls import Publication
from .world import Run, Snapshot, is_orphan


@dataclass(frozen=True)
class PublicationResult:
    """What became of a publication; in time + late + lost + open = expected."""

    publication: Publication
    fate: str
    expected: int
    in_time: int
    late: int
    lost: int
    open: int
    first_copies: int
    duplicates: int


def publications(run: Run) -> list[PublicationResult]:
    """Of every publication that was not refused, and whose source did not die with it.

    Its fate is the last one that it had.  Expected are the members at the end of each round from
    the publication to the deadline (or the last round played), the source too. What was not
    delivered by then is lost, but open if the deadline comes after the last round.
    """
    seen = {snapshot.round: snapshot for snapshot in run.seen}
    delivered = {
        (publication, node): at
        for at, snapshot in sorted(seen.items(), reverse=True)
        for publication, node in snapshot.deliveries
    }
    fates = {publication: fate for one in run.seen for publication, fate in one.fates}
    results = []
    for publication, fate in fates.items():
        if fate in ("refused", "source died"):
            continue
        first, group, _ = publication
        deadline = first + run.scribe.settings.deadline
        until = min(deadline, max(seen))
        expected = frozenset.intersection(
            *(seen[at].members.get(group, frozenset()) for at in range(first, until + 1))
        )
        when = [delivered.get((publication, node), until + 1) for node in expected]
        in_time, missing = when.count(first), sum(at > until for at in when)
        results.append(
            PublicationResult(
                publication,
                fate,
                len(expected),
                in_time,
                len(when) - in_time - missing,
                missing if deadline <= max(seen) else 0,
                missing if deadline > max(seen) else 0,
                sum(one.first_copies.get(publication, 0) for one in run.seen),
                sum(one.duplicates.get(publication, 0) for one in run.seen),
            )
        )
    return results


def joins_by_cause(snapshot: Snapshot) -> dict[str, int]:
    """JOINs that nodes sent in a round, those of new forwarders counted apart."""
    return dict(sorted(Counter(cause for _, _, cause in snapshot.joins).items()))


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
