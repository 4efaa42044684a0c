"""Arrival of nodes (JSAC II.B): contacts, waves, and the exchange of leaf sets."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from ..ring import shared_digits
from .draws import choose, drawn_order
from .overlay import NodeState, Overlay
from .routing import Found, Message, drop_and_repair, maintain, route


def contact_of(overlay: Overlay, node: int) -> int:
    """The contact by the rule in force; probes are counted for `discovered` (rule P10)."""
    if overlay.rules.contact == "nearest":
        return nearest_live(overlay, node)
    if overlay.rules.contact == "latest":
        return latest_of_nearest(overlay, node)
    live = overlay.live_in_ring_order()
    drawn = choose(overlay.draw, live, "contact", overlay.round, node)
    return drawn if overlay.rules.contact == "random" else discover(overlay, node, drawn)


def nearest_live(overlay: Overlay, node: int) -> int:
    """The live node with the least (delay, nodeId)."""
    return min(overlay.live, key=lambda other: overlay.nearness(node, other))


def latest_of_nearest(overlay: Overlay, node: int) -> int:
    """Of the live nodes with the least delay the one that entered last (rule P30)."""
    return min(
        overlay.live,
        key=lambda other: (
            overlay.delay(node, other),
            -overlay.entered[other],
            overlay.idents[other],
        ),
    )


def discover(overlay: Overlay, node: int, start: int) -> int:
    """Nearby-node search from a live node; a node is probed (and counted) once."""
    probed: set[int] = set()

    def nearest(others: list[int]) -> int:
        """The nearest of some nodes; dead ones do not answer the probe."""
        for other in others:
            if other not in probed:
                probed.add(other)
                overlay.send("probe", node, other)
        return min(overlay.alive_of(others), key=lambda other: overlay.nearness(node, other))

    at = nearest([start, *sorted(overlay.states[start].leaves())])
    for row in range(overlay.states[at].last_row(), -1, -1):
        at = nearest([at, *overlay.states[at].row(row)])
    while True:
        nearer = nearest([at, *overlay.states[at].row(0)])
        if nearer == at:
            return at
        at = nearer


# --- exchange of leaf sets ------------------------------------------------------------------------


def exchange(overlay: Overlay, started: Iterable[int]) -> int:
    """Exchange until no node gets a new leaf; the number of rounds in which something was sent.

    All messages of a round carry the leaf sets from before it. A node that is sent a leaf set by
    one that it does not hold itself answers with its own (rule P12): without that, more than
    l/2 nodes of a wave between two old neighbours would never hear of each other. Who gets a new
    leaf from an answer offers its routing table to its leaf set, too (rule P33).
    """
    senders, rounds = set(started), 0
    while senders:
        rounds += 1
        inbox: dict[int, list[tuple[int, set[int]]]] = {}
        for sender in senders:
            leaves = overlay.states[sender].leaves()
            for leaf in leaves:
                if overlay.send("exchange", sender, leaf):
                    inbox.setdefault(leaf, []).append((sender, leaves))
        gained = {
            node
            for node, letters in inbox.items()
            if take(overlay, node, *({sender, *leaves} for sender, leaves in letters))
        }
        answers: dict[int, list[set[int]]] = {}
        for node, letters in inbox.items():
            own = overlay.states[node].leaves()
            for sender, _ in letters:
                if sender not in own:
                    overlay.note("exchange", node, sender)
                    answers.setdefault(sender, []).append(own)
        led = {node for node, sets in answers.items() if take(overlay, node, *sets)}
        for node in led:
            take(overlay, node, overlay.states[node].entries())
        gained |= led
        senders = gained
    return rounds


def take(overlay: Overlay, node: int, *sets: set[int]) -> bool:
    """Take what is alive of some leaf sets; whether the node got a new leaf."""
    state = overlay.states[node]
    heard = set().union(*sets) - state.leaves() - {node}
    return state.take_leaves(overlay.alive_of(heard), overlay.idents)


# --- arrival --------------------------------------------------------------------------------------


def arrive_all(overlay: Overlay, nodes: Iterable[int]) -> None:
    """Nodes arrive in the order of a draw, in waves by `growth`."""
    order = drawn_order(overlay.draw, nodes, overlay.idents, "arrival order", overlay.round)
    done = 0
    while done < len(order):
        size = wave_size(len(overlay.live), overlay.rules.growth)
        arrive(overlay, order[done : done + size])
        done += size


def wave_size(before: int, growth: float | None) -> int:
    """max(1, floor(n (growth - 1))), exactly for the decimal that was given (rule P13)."""
    if growth is None:
        return 1
    return max(1, int(before * (Fraction(str(growth)) - 1)))


def arrive(overlay: Overlay, wave: Sequence[int]) -> int:
    """One wave, all of whose nodes see the state before it; returns the rounds of the exchange."""
    if not overlay.live and len(wave) > 1:
        raise ValueError("the first node of all arrives alone")
    fresh = list(wave) if overlay.live else []
    messages = {node: join_message(overlay, node) for node in fresh}
    states = {node: first_state(overlay, node, messages.get(node)) for node in wave}
    found: Found = {pair for message in messages.values() for pair in message.met_dead}
    drop_and_repair(overlay, found)
    for state in states.values():
        overlay.enter(state)
    changed = announce(overlay, [states[node] for node in wave])
    rounds = exchange(overlay, changed | set(fresh))
    if overlay.rules.introduce:
        introduce(overlay, fresh, messages)
    for time in range(overlay.rules.maintenance):
        maintain(overlay, "wave maintenance", overlay.waves, time)
    overlay.waves += 1
    return rounds


def join_message(overlay: Overlay, node: int) -> Message:
    """The join message with key X, routed from the contact by the tables as they are."""
    contact = contact_of(overlay, node)
    overlay.send("join", node, contact)  # X asks its contact (rule P14)
    return route(overlay, contact, overlay.idents[node], "join")


def first_state(overlay: Overlay, node: int, message: Message | None) -> NodeState:
    """The state of X from the nodes of the route: rows, the route itself, Z's leaf set."""
    state = overlay.new_state(node)
    if message is None:  # the first node of all
        return state
    candidates = set(message.path)
    for supplier, rows in rows_sent(overlay, state.ident, message.path).items():
        overlay.note("rows", supplier, node)
        for row in rows:
            candidates.update(overlay.states[supplier].row(row))
    last = overlay.states[message.at]  # Z, also of an undeliverable join message (rule P15)
    overlay.note("leaf set", last.node, node)
    leaves = {last.node, *last.leaves()}
    for candidate in candidates | leaves:  # rule P8
        overlay.offer(state, candidate)
    state.take_leaves(overlay.alive_of(leaves), overlay.idents)
    return state


def rows_sent(overlay: Overlay, ident: int, path: Sequence[int]) -> dict[int, list[int]]:
    """Node of the route -> the rows that it sends to X: row i is sent by the first node that shares
    at least i digits with X.
    """
    shares = {node: shared_digits(overlay.idents[node], ident, overlay.rules.b) for node in path}
    sent: dict[int, list[int]] = {}
    for row in range(max(shares.values()) + 1):
        first = next(node for node in path if shares[node] >= row)
        sent.setdefault(first, []).append(row)
    return sent


def announce(overlay: Overlay, arrived: Sequence[NodeState]) -> set[int]:
    """X tells each node of its leaf set and table, with its row there; who got a new leaf."""
    heard: dict[int, set[int]] = {}
    told: dict[int, list[int]] = {}
    for state in arrived:
        for node in sorted(state.leaves() | state.entries()):
            if not overlay.send("announcement", state.node, node):
                continue
            told.setdefault(node, []).append(state.node)
            letter = heard.setdefault(node, set())
            letter.add(state.node)
            letter.update(row_with(state, node, overlay.idents[node]))
    for node, letter in heard.items():
        for candidate in letter:
            overlay.offer(overlay.states[node], candidate)
    return {node for node, new in told.items() if told_of_leaves(overlay, node, new)}


def told_of_leaves(overlay: Overlay, node: int, new: Sequence[int]) -> bool:
    """A node takes those that told it of themselves; whether one is now in its leaf set.

    Also where it was there before, dead and not detected yet (rule P11): what else would tell two
    neighbours of each other that come back in the same round?
    """
    state = overlay.states[node]
    state.take_leaves(new, overlay.idents)
    return not state.leaves().isdisjoint(new)


def row_with(state: NodeState, node: int, ident: int) -> list[int]:
    """The row of a routing table in which a node stands; nothing for one of the leaf set only."""
    row, column = state.cell_of(ident)
    return state.row(row) if state.cell(row, column) == node else []


def introduce(overlay: Overlay, wave: Sequence[int], messages: Mapping[int, Message]) -> None:
    """Nodes of a wave learn of those that came earlier in it, and tell them of themselves."""
    # 1. from the nodes of the routes, and from their own leaves; all by the state before
    leaves = {node: overlay.states[node].leaves() & set(wave[:at]) for at, node in enumerate(wave)}
    sent = {node: introduced_by_route(overlay, node, wave, messages[node]) for node in wave}
    new: dict[int, set[int]] = {}
    for node in wave:
        state = overlay.states[node]
        before = state.entries()
        for candidate in leaves[node] | sent[node]:
            overlay.offer(state, candidate)
        new[node] = state.entries() - before
    # 2. they tell who is new to them; all by the state after that
    heard: dict[int, set[int]] = {}
    for node in wave:
        for other in new[node] | leaves[node]:
            overlay.note("introduction", node, other)
            letter = heard.setdefault(other, set())
            letter.add(node)
            if other in new[node]:
                letter.update(row_with(overlay.states[node], other, overlay.idents[other]))
    for other, letter in heard.items():
        for candidate in letter:
            overlay.offer(overlay.states[other], candidate)


def introduced_by_route(
    overlay: Overlay, node: int, wave: Sequence[int], message: Message
) -> set[int]:
    """Return the cell (row * 2**b + col) of a node's table for another node: int64."""
    earlier, found = set(wave[: wave.index(node)]), set()
    for supplier, rows in rows_sent(overlay, overlay.idents[node], message.path).items():
        mates = {entry for row in rows for entry in overlay.states[supplier].row(row)} & earlier
        if mates:
            overlay.note("introduction", supplier, node)
        found |= mates
    return found
