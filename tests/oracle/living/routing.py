"""Routing a message by the tables as they are; dead entries, their repair, and maintenance."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..ring import closeness, shared_digits
from .draws import choose
from .overlay import NodeState, Overlay

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
    """Ask all live entries of the same row for their entry of the cell, else the next row's.

    Pastry 2001, Section 3; rule P20: the nearest live answer is taken.
    """
    for asked_row in (row, row + 1):
        helped: list[int] = []
        for other in overlay.alive_of(state.row(asked_row)):
            overlay.note("repair", state.node, other)
            overlay.note("repair", other, state.node)  # the answer
            answer = overlay.states[other].cell(row, column)
            if answer is None or answer == state.node:
                continue
            overlay.note("check", state.node, answer)
            if answer in overlay.live:
                helped.append(answer)
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
    """Each node asks one drawn entry of each row for its row; dead ones are dropped, repaired."""
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


# --- routing --------------------------------------------------------------------------------------


DELIVERED, UNDELIVERABLE, ON_ITS_WAY = "delivered", "undeliverable", "on its way"


@dataclass
class Message:
    """One message with a key on its route."""

    key: int
    path: list[int]
    lost: int = 0
    status: str = ON_ITS_WAY
    met_dead: list[tuple[int, int]] = field(default_factory=list)  # (sender, dead node)

    @property
    def at(self) -> int:
        """The node that has it."""
        return self.path[-1]

    @property
    def hops(self) -> int:
        """Transmissions that arrived."""
        return len(self.path) - 1


def candidates(overlay: Overlay, state: NodeState, key: int) -> Iterator[int]:
    """The next hops of Pastry's rule in the order of trying; the node itself means "deliver".

    1. Key within the leaf set's span: leaf set and the node itself, numerically closest first.
    2. Else the routing table's cell for the key,
    3. and then the rare case: whoever of leaf set and table shares a prefix at least as long and
       is numerically closer to the key than this node, numerically closest first.
    """
    idents = overlay.idents

    def close(node: int) -> tuple[int, int]:
        return closeness(key, idents[node])

    if state.in_span(key, idents):
        yield from sorted(state.leaves() | {state.node}, key=close)
        return
    entry = state.cell(*state.cell_of(key))
    if entry is not None:
        yield entry
    yield from sorted(closer(overlay, state, key) - {entry}, key=close)


def closer(overlay: Overlay, state: NodeState, key: int) -> set[int]:
    """Whom a node knows that shares a prefix at least as long with the key, and is closer to it."""
    idents = overlay.idents
    digits = shared_digits(state.ident, key, state.bits)
    own = closeness(key, state.ident)
    return {
        node
        for node in (state.leaves() | state.entries()) - {state.node}
        if shared_digits(idents[node], key, state.bits) >= digits
        and closeness(key, idents[node]) < own
    }


def drawn_candidates(
    overlay: Overlay, state: NodeState, key: int, drawn: Callable[[int], int]
) -> Iterator[int]:
    """The next hops of routing with randomisation, in the order of trying (rule P32).

    Who is closer to the key comes in the order of a draw of each; then those of `candidates`.
    """
    first = sorted(closer(overlay, state, key), key=lambda node: (drawn(node), node))
    yield from first
    yield from (node for node in candidates(overlay, state, key) if node not in first)


def hop(overlay: Overlay, message: Message, kind: str, order: Iterator[int] | None = None) -> None:
    """One step of a message: to the first live candidate, or delivered, or undeliverable."""
    sender = message.at
    if order is None:
        order = candidates(overlay, overlay.states[sender], message.key)
    for node in order:
        if node == sender:
            message.status = DELIVERED
            return
        if overlay.send(kind, sender, node):
            if node in message.path:  # a circle (rule P7)
                message.status = UNDELIVERABLE
            message.path.append(node)
            return
        message.lost += 1
        message.met_dead.append((sender, node))
    message.status = UNDELIVERABLE


def route(overlay: Overlay, start: int, key: int, kind: str) -> Message:
    """Route to the end; the tables are only read. What is to be dropped is in `met_dead`."""
    message = Message(key, [start])
    while message.status == ON_ITS_WAY:
        hop(overlay, message, kind)
    return message


def route_all(overlay: Overlay, sent: Sequence[tuple[int, int]], kind: str) -> list[Message]:
    """Route (start, key) messages of one round, then drop the dead entries found (rule P6)."""
    messages = [route(overlay, start, key, kind) for start, key in sent]
    drop_and_repair(overlay, {pair for message in messages for pair in message.met_dead})
    return messages
