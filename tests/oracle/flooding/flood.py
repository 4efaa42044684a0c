"""Flooding by the rows of routing tables (rules F1 to F7), and seeded random cases."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..knowledge import Damage, overlay_of, random_damage
from ..pastry import Overlay
from ..random_cases import Case, random_case
from ..ring import digits

#: (row, digit): the nodes that share exactly the first `row` digits with a node, and have it next.
Range = tuple[int, int]


@dataclass(frozen=True)
class Copy:
    """A copy with a row, and the ranges that go along with it."""

    sender: int
    receiver: int
    hop: int
    sent: int
    arrives: int
    row: int
    brings: tuple[Range, ...]


def ring_of(overlay: Overlay, members: Iterable[int], source: int) -> Overlay:
    """Return the ring of a group's members and its source, with perfect tables (F1, F4)."""
    nodes = sorted({*members, source})
    return Overlay(
        {node: overlay.ids[node] for node in nodes},
        {node: overlay.router[node] for node in nodes},
        overlay.delay,
        overlay.b,
        overlay.leaf_set_size,
        overlay.lan_us,
    )


def flood(overlay: Overlay, source: int) -> list[Copy]:
    """Return what comes of a publication; labels are (dimension, direction).

    Without `delay`, by hops, each of which takes 1, and processing nothing.
    """
    rows = len(digits(0, overlay.b))
    copies = send(overlay, source, ranges(overlay, source, range(rows)), 0, 0)
    for copy in copies:  # grows while it is read
        mine = [*ranges(overlay, copy.receiver, range(copy.row + 1, rows)), *copy.brings]
        copies += send(overlay, copy.receiver, mine, copy.hop, copy.arrives)
    receivers = [source, *(copy.receiver for copy in copies)]
    assert len(receivers) == len(set(receivers)), "a node got a second copy"
    return copies


def ranges(overlay: Overlay, node: int, rows: Iterable[int]) -> list[Range]:
    """Return all ranges of some rows of a node."""
    own = digits(overlay.ids[node], overlay.b)
    return [(row, digit) for row in rows for digit in range(2**overlay.b) if digit != own[row]]


def send(overlay: Overlay, node: int, mine: list[Range], hops: int, now: int) -> list[Copy]:
    """Return the copies that a node sends for the ranges for which it is responsible (F2, F3)."""
    table = overlay.routing_table(node)
    filled = sorted(one for one in mine if one in table)
    along: dict[Range, list[Range]] = {one: [] for one in filled}
    for one in mine:
        if one in table:
            continue
        takers = [other for other in filled if other[0] >= one[0]]
        if takers:  # the least row, of these the least digit; else the range ends here
            along[takers[0]].append(one)
    return [
        Copy(
            node,
            table[one],
            hops + 1,
            now,
            now + overlay.proximity(node, table[one]),
            one[0],
            tuple(along[one]),
        )
        for one in filled
    ]


def deliveries(
    copies: Iterable[Copy], members: Iterable[int], source: int
) -> dict[int, tuple[int, int, int]]:
    """Return (hops, delay_us, first_from) of each member that got a copy (F5)."""
    others = set(members) - {source}
    return {
        copy.receiver: (copy.hop, copy.arrives, copy.sender)
        for copy in copies
        if copy.receiver in others
    }


def state(overlay: Overlay) -> dict[tuple[int, str], int]:
    """Return the entries of each (node, kind) of a ring, zeros left out (F6)."""
    found = {(node, "routing table"): len(overlay.routing_table(node)) for node in overlay.ids}
    found |= {(node, "leaf set"): len(overlay.leaf_set(node)) for node in overlay.ids}
    return {one: entries for one, entries in found.items() if entries}


def announcements(ring: Overlay) -> Counter[tuple[int, int, str]]:
    """Return the messages (sender, receiver, kind) of building a group's ring (F7)."""
    return Counter(
        (node, told, "announcement")
        for node in ring.ids
        for told in {*ring.routing_table(node).values(), *ring.leaf_set(node)}
    )


# --- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloodingCase:
    """A case, as plain data; `over` is group (perfect tables) or overlay (damaged ones, too)."""

    case: Case
    damage: Damage | None
    over: str
    sources: dict[int, int]

    def overlay(self) -> Overlay:
        """Return the run's overlay."""
        return overlay_of(self.case, self.case.routes(), self.damage)

    def ring(self, overlay: Overlay, group: int) -> Overlay:
        """Return the ring that the group's message floods."""
        if self.over == "overlay":
            return overlay
        return ring_of(overlay, self.case.members[group], self.sources[group])


def random_flooding(seed: int) -> FloodingCase:
    """Draw a case; sources are roots or members."""
    rng = random.Random(f"flooding {seed}")
    case = random_case(seed)
    case = replace(case, b=min(case.b, 4))
    over = rng.choice(["group", "overlay"])
    damage = random_damage(rng) if over == "overlay" and rng.random() < 0.5 else None
    overlay = case.overlay(case.routes())
    sources = {
        group: rng.choice([overlay.root(key), rng.choice(sorted(case.members[group]))])
        for group, key in case.keys.items()
    }
    return FloodingCase(case, damage, over, sources)
