"""The overlay: what each node knows, who is alive, the rules in force, and what was counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..ring import MASK, RING, clockwise, digit, shared_digits
from .draws import Draw

LARGER, SMALLER = "larger", "smaller"


class NodeState:
    """The state of one node; everything it holds are node numbers.

    `larger` and `smaller` are the two sides of the leaf set, nearest first, at most `half` each.
    In a ring of fewer than 2 half other nodes the sides overlap: a node stands on both.
    `rows[r][c]` is the entry of row r and column c; an empty cell (and row) has no key.
    """

    __slots__ = ("bits", "half", "ident", "larger", "node", "rows", "smaller")

    def __init__(self, node: int, ident: int, bits: int, half: int) -> None:
        self.node, self.ident, self.bits, self.half = node, ident, bits, half
        self.larger: list[int] = []
        self.smaller: list[int] = []
        self.rows: dict[int, dict[int, int]] = {}

    # ---- leaf set

    def leaves(self) -> set[int]:
        """The leaf set."""
        return set(self.larger).union(self.smaller)

    def side(self, side: str) -> list[int]:
        """One side of the leaf set, nearest first."""
        return self.larger if side == LARGER else self.smaller

    def order(self, side: str, ident: int) -> int:
        """How far out a nodeId is on a side."""
        out = clockwise(self.ident, ident)
        return out if side == LARGER else RING - out

    def fill(self, side: str, candidates: Iterable[int], idents: Mapping[int, int]) -> bool:
        """Take into one side what is nearer than its farthest; whether the side changed."""
        held = self.side(side)
        limit = self.order(side, idents[held[-1]]) if len(held) >= self.half else RING
        ident, larger, new = self.ident, side == LARGER, set()
        for node in candidates:
            out = (idents[node] - ident) & MASK
            if not larger:
                out = (RING - out) & MASK
            if 0 < out < limit and node not in held:
                new.add(node)
        if not new:
            return False
        ordered = sorted([*held, *new], key=lambda node: self.order(side, idents[node]))
        setattr(self, side, ordered[: self.half])
        return True

    def take_leaves(self, candidates: Iterable[int], idents: Mapping[int, int]) -> bool:
        """Take candidates into both sides (rule P3); whether a new leaf was got."""
        candidates = list(candidates)
        before = self.leaves()
        changed = self.fill(LARGER, candidates, idents)
        changed = self.fill(SMALLER, candidates, idents) or changed
        return changed and not self.leaves() <= before

    def drop_leaf(self, node: int) -> list[str]:
        """Take a node out of the leaf set; the sides that lost it."""
        lost = [side for side in (LARGER, SMALLER) if node in self.side(side)]
        for side in lost:
            self.side(side).remove(node)
        return lost

    def in_span(self, key: int, idents: Mapping[int, int]) -> bool:
        """Whether the key lies on the arc from the farthest smaller to the farthest larger leaf.

        Where the two sides overlap the arcs meet, and every key is inside (rule P2).
        """
        for side in (LARGER, SMALLER):
            held = self.side(side)
            limit = self.order(side, idents[held[-1]]) if held else 0
            if key == self.ident or self.order(side, key) <= limit:
                return True
        return not self.larger and not self.smaller

    # ---- routing table

    def cell_of(self, ident: int) -> tuple[int, int]:
        """The cell (row, column) in which a node of that nodeId belongs."""
        row = shared_digits(self.ident, ident, self.bits)
        return row, digit(ident, row, self.bits)

    def cell(self, row: int, column: int) -> int | None:
        """The entry of a cell."""
        return self.rows.get(row, {}).get(column)

    def set_cell(self, row: int, column: int, node: int) -> None:
        """Write a cell."""
        self.rows.setdefault(row, {})[column] = node

    def clear_cell(self, row: int, column: int) -> None:
        """Empty a cell."""
        del self.rows[row][column]
        if not self.rows[row]:
            del self.rows[row]

    def row(self, row: int) -> list[int]:
        """The entries of a row, by column."""
        held = self.rows.get(row, {})
        return [held[column] for column in sorted(held)]

    def last_row(self) -> int:
        """The deepest row that has an entry; -1 without any."""
        return max(self.rows, default=-1)

    def cells(self) -> Iterator[tuple[int, int, int]]:
        """All (row, column, entry), sorted."""
        for row in sorted(self.rows):
            for column in sorted(self.rows[row]):
                yield row, column, self.rows[row][column]

    def entries(self) -> set[int]:
        """All nodes of the routing table."""
        return {node for row in self.rows.values() for node in row.values()}


# --- all nodes ------------------------------------------------------------------------------------


Delay = Callable[[int, int], int]


@dataclass(frozen=True)
class Rules:
    """Parameters of the protocol; what the texts leave open names its rule (docs/rules.md)."""

    b: int = 4
    l: int = 16  # noqa: E741  (the papers' letter)
    contact: str = "nearest"  # | latest (rule P30) | discovered | random
    introduce: bool = False  # rule P29
    growth: float | None = None  # None: one node a wave
    maintenance: int = 0  # m, after each wave
    maintenance_period: int = 0  # in a running world; 0: never
    detection: int = 1
    table_repair: str = "lazy"  # | none | eager


@dataclass
class Overlay:
    """The nodes that exist in the run, dead ones included.

    `delay(node, node)` is in whole microseconds; a dead node keeps the state that it had.  `died`
    has the round of death and the rounds until the leaf set knows; `entered` the place in the
    order of entering, 0 for nodes that were there from the start (rule P30); `sent` all messages,
    if wanted.
    """

    idents: Mapping[int, int]
    delay: Delay
    draw: Draw
    rules: Rules = field(default_factory=Rules)
    states: dict[int, NodeState] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    died: dict[int, tuple[int, int]] = field(default_factory=dict)
    entered: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    sent: list[tuple[str, int, int]] | None = None
    waves: int = 0
    round: int = 0

    # ---- population

    def new_state(self, node: int) -> NodeState:
        """An empty state for a node."""
        return NodeState(node, self.idents[node], self.rules.b, self.rules.l // 2)

    def enter(self, state: NodeState) -> None:
        """A node is alive from now on, with this state."""
        node = state.node
        self.states[node] = state
        self.live.add(node)
        self.died.pop(node, None)
        self.entered[node] = max(self.entered.values(), default=0) + 1

    def exit(self, node: int, detection: int) -> None:
        """A node is dead from now on."""
        self.live.discard(node)
        self.died[node] = (self.round, detection)

    def live_in_ring_order(self) -> list[int]:
        """The live nodes by nodeId: what draws of a live node index."""
        return sorted(self.live, key=self.idents.__getitem__)

    # ---- small rules that several steps share

    def nearness(self, node: int, other: int) -> tuple[int, int]:
        """Order of "nearest to node": delay, then the smaller nodeId."""
        return self.delay(node, other), self.idents[other]

    def alive_of(self, nodes: Iterable[int]) -> list[int]:
        """Those that may be taken into a leaf set or cell: the live ones (rule P4)."""
        return [node for node in nodes if node in self.live]

    def offer(self, state: NodeState, candidate: int) -> bool:
        """Give a live candidate to its cell, which keeps the least (delay, nodeId) (rule P9)."""
        if candidate == state.node or candidate not in self.live:
            return False
        row, column = state.cell_of(self.idents[candidate])
        held = state.cell(row, column)
        if held == candidate:
            return False
        if held is not None and self.nearness(state.node, held) < self.nearness(
            state.node, candidate
        ):
            return False
        state.set_cell(row, column, candidate)
        return True

    def note(self, kind: str, sender: int, to: int) -> None:
        """Count one message."""
        self.counts[kind] += 1
        if self.sent is not None:
            self.sent.append((kind, sender, to))

    def send(self, kind: str, sender: int, to: int, is_lost: bool = False) -> bool:
        """Count one message; whether it arrives (a message to a dead node is lost)."""
        self.note(kind, sender, to)
        if to in self.live and not is_lost:
            return True
        self.counts[f"lost {kind}"] += 1
        return False
