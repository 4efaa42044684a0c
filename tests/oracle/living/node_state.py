"""What one node knows: its leaf set and its routing table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .ring import MASK, RING, clockwise, digit, shared_digits

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
