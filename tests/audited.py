"""An audit of worlds that knows no kernel and no oracle: what events and results must agree on."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import pandas as pd

RING = 2**128

#: The systems that send payload again, so that no member lacks it after a failure.
REPEATING = "scribe", "plumtree"

#: (group, node) -> parent (-1: none), whether it is a member, whether it is the root.
Trees = Mapping[tuple[int, int], tuple[int, bool, bool]]


class Book:
    """Who is alive and who is a member, by the events alone.

    Parameters
    ----------
    initial : int
        The first numbers are alive at the start.
    may_join : callable, optional
        Whether a list lets a node (group, node) join; everybody without it.
    """

    def __init__(
        self, initial: int, may_join: Callable[[int, int], bool] = lambda group, node: True
    ) -> None:
        self.live, self.members = set(range(initial)), set[tuple[int, int]]()
        self._may_join = may_join

    def note(self, events: Iterable[tuple[int, str, int | None]]) -> None:
        """Note the events of a round: node, event, group."""
        events = list(events)
        for node, event, _ in events:
            if event in ("fail", "leave"):
                self.live.discard(node)
                self.members = {one for one in self.members if one[1] != node}
            if event in ("arrive", "recover"):
                self.live.add(node)
        for node, event, group in events:
            if event == "join" and self._may_join(group, node):
                self.members.add((group, node))
            if event == "quit":
                self.members.discard((group, node))


def faults(
    book: Book,
    trees: Trees,
    idents: Mapping[int, int],
    keys: Mapping[int, int],
    lost: Collection[int],
) -> list[str]:
    """What is wrong after the last round, when all is repaired; `lost`: groups without state."""
    members = {place for place, (_, member, _) in trees.items() if member}
    found = [f"{place}: is a member, or is none" for place in members ^ book.members]
    for (group, node), (parent, _, root) in trees.items():
        if node not in book.live:
            found.append(f"{group, node}: is dead, and in the tree")
        if parent >= 0 and (parent not in book.live or (group, parent) not in trees):
            found.append(f"{group, node}: its parent {parent} is dead or not in the tree")
        if group not in lost and parent < 0 and not root:
            found.append(f"{group, node}: has no parent")
        if (group, node) != top_of(trees, group, node) and root:
            found.append(f"{group, node}: a root has a parent")
        if top_of(trees, group, node) is None:
            found.append(f"{group, node}: is in a cycle")
    for group, key in keys.items():
        roots = [node for (one, node), (_, _, root) in trees.items() if one == group and root]
        nearest = min(book.live, key=lambda node: (distance(key, idents[node]), idents[node]))
        if group not in lost and roots != [nearest]:
            found.append(f"group {group}: roots {roots}, and the nearest live node is {nearest}")
    return found


def distance(a: int, b: int) -> int:
    """The shorter way around the ring."""
    return min((a - b) % RING, (b - a) % RING)


def top_of(trees: Trees, group: int, node: int) -> tuple[int, int] | None:
    """Where going up ends; None if it does not."""
    seen = set()
    while node not in seen:
        seen.add(node)
        parent = trees[group, node][0] if (group, node) in trees else -1
        if parent < 0:
            return group, node
        node = parent
    return None


def faults_of_tables(out: Path, initial: int, keys: Mapping[int, int]) -> list[str]:
    """What is wrong in the tables of a world's folder; no group may have been lost."""
    events, memberships, nodes, publications = (
        pd.read_parquet(out / "tables" / name)
        for name in ("events", "memberships", "nodes", "publications")
    )
    book = Book(initial)
    for _, of_round in events.sort_values("round", kind="stable").groupby("round"):
        rows = of_round[["node", "event", "group"]].itertuples(index=False)
        book.note((int(n), str(e), None if pd.isna(g) else int(g)) for n, e, g in rows)
    trees = {
        (int(row.group), int(row.node)): (
            -1 if pd.isna(row.parent) else int(row.parent), bool(row.member), bool(row.root)
        )
        for row in memberships.itertuples()
    }  # fmt: skip
    idents = {
        int(row.node): (int(row.id_hi) % 2**64) << 64 | int(row.id_lo) % 2**64
        for row in nodes.itertuples()
    }
    lost = publications[(publications["lost"] > 0) & publications["system"].isin(REPEATING)]
    return faults(book, trees, idents, keys, ()) + [f"lost: {row}" for row in lost.itertuples()]
