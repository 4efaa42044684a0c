"""Dead entries of routing tables: dropping, repair, and periodic maintenance."""

from __future__ import annotations

from .draws import choose
from .node_state import NodeState
from .overlay import Overlay

#: (node, dead node that a message of its met)
Found = set[tuple[int, int]]


def drop_and_repair(overlay: Overlay, found: Found) -> None:
    """Drop all dead entries found, then repair their cells (unless `none`), all at once.

    Repairs read the tables after all drops and before any repair (rule P5).
    """
    holes = []
    for node, dead in sorted(found):
        state = overlay.states[node]
        row, column = state.cell_of(overlay.idents[dead])
        if node in overlay.live and state.cell(row, column) == dead:  # rule P18
            state.clear_cell(row, column)
            holes.append((state, row, column))
    if overlay.rules.table_repair == "none":
        return
    repaired = [(hole, ask_for_cell(overlay, *hole)) for hole in holes]
    for (state, _, _), candidates in repaired:
        for candidate in candidates:
            overlay.offer(state, candidate)


def ask_for_cell(overlay: Overlay, state: NodeState, row: int, column: int) -> list[int]:
    """Ask the live entries of the same row for their entry of the cell, then the next row's.

    Pastry 2001, Section 3. All of a row are asked and the nearest live answer is taken; with
    `repair_asks = first` one after the other, nearest first, until one helps (rule P20).
    """
    for asked_row in (row, row + 1):
        asked = sorted(
            overlay.alive_of(state.row(asked_row)),
            key=lambda node: overlay.nearness(state.node, node),
        )
        helped: list[int] = []
        for other in asked:
            overlay.note("repair", state.node, other)
            overlay.note("repair", other, state.node)  # the answer
            answer = overlay.states[other].cell(row, column)
            if answer is None or answer == state.node:
                continue
            overlay.note("check", state.node, answer)
            if answer in overlay.live:
                helped.append(answer)
                if overlay.rules.repair_asks == "first":
                    return helped
        if helped:
            return helped
    return []


def find_all_dead(overlay: Overlay) -> None:
    """`eager`: every entry whose death is older than its detection is found (rule P19)."""
    old = {
        node
        for node, (died, detection) in overlay.died.items()
        if overlay.round >= died + detection + 1
    }
    found = {
        (node, entry) for node in overlay.live for entry in overlay.states[node].entries() & old
    }
    drop_and_repair(overlay, found)


def maintain(overlay: Overlay, purpose: str, *key: object) -> None:
    """Each node asks one drawn entry of each non-empty row for its row; all at once.

    A drawn dead entry is a lost transmission: dropped, and repaired by the rule in force.
    """
    offers: list[tuple[NodeState, list[int]]] = []
    found: Found = set()
    for node in sorted(overlay.live):
        state = overlay.states[node]
        for row in sorted(state.rows):
            other = choose(overlay.draw, state.row(row), purpose, *key, node, row)
            if overlay.send("maintenance", node, other):
                overlay.note("maintenance", other, node)  # the answer
                offers.append((state, overlay.states[other].row(row)))
            else:
                found.add((node, other))
    drop_and_repair(overlay, found)
    for state, row_entries in offers:
        for candidate in row_entries:
            overlay.offer(state, candidate)
