"""Departure, failure, detection, leaf set repair, recovery."""

from collections.abc import Iterable, Sequence

from .arrival import arrive, exchange, told_of_leaves
from .overlay import NodeState, Overlay


def fail(overlay: Overlay, node: int) -> None:
    """Silent failure: its leaf set learns of it `detection` rounds later."""
    overlay.exit(node, overlay.rules.detection)


def leave(overlay: Overlay, nodes: Sequence[int]) -> None:
    """Departures: goodbyes to the leaf sets, who know in this round's detection (rule P16)."""
    for node in nodes:
        overlay.exit(node, 0)
    for node in nodes:
        for leaf in overlay.states[node].leaves():
            overlay.send("goodbye", node, leaf)


def keep_alive(overlay: Overlay) -> None:
    """One keep-alive message a round from each live node to each of its leaves."""
    for node in overlay.live:
        for leaf in overlay.states[node].leaves():
            overlay.note("keep-alive", node, leaf)


def detect(overlay: Overlay) -> dict[int, list[str]]:
    """Live nodes drop the leaves whose death they now know; node -> sides that lost leaves."""
    known = {node for node, (died, wait) in overlay.died.items() if overlay.round >= died + wait}
    lost: dict[int, list[str]] = {}
    for node in sorted(overlay.live):
        state = overlay.states[node]
        for dead in sorted(state.leaves() & known):
            for side in state.drop_leaf(dead):
                if side not in lost.setdefault(node, []):
                    lost[node].append(side)
    return lost


def repair_leaf_sets(overlay: Overlay, lost: dict[int, list[str]]) -> None:
    """Repair until nothing changes (rule P21).

    In a round every side that lost leaves asks, all answers are leaf sets from before it, and a
    side whose question changed nothing asks no more.  Sides without a live leaf begin.
    """
    asking = {(node, side) for node, sides in lost.items() for side in sides}
    alone = {
        (node, side)
        for node, side in asking
        if not overlay.alive_of(overlay.states[node].side(side))
    }
    asking = (asking - alone) | ask_all(overlay, alone)
    while asking:
        asking = ask_all(overlay, asking)


def ask_all(overlay: Overlay, asking: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """A round of questions; the sides that it has changed."""
    heard = {
        (node, side): ask(overlay, overlay.states[node], side) for node, side in sorted(asking)
    }
    return {
        (node, side)
        for (node, side), candidates in heard.items()
        if overlay.states[node].fill(side, candidates, overlay.idents)
    }


def ask(overlay: Overlay, state: NodeState, side: str) -> list[int]:
    """Live candidates for a side: from its live leaf farthest out, or from the node next to it."""
    for leaf in reversed(state.side(side)):
        if overlay.send("repair", state.node, leaf):
            overlay.note("repair", leaf, state.node)  # the answer
            return checked(overlay, state, side, beyond(overlay, state, side, overlay.states[leaf]))
        # not detected yet: the next farthest
    nearest = search(overlay, state, side)
    if nearest is None:
        return []
    offered = {nearest.node} | beyond(overlay, state, side, nearest)
    return checked(overlay, state, side, offered)


def search(overlay: Overlay, state: NodeState, side: str) -> NodeState | None:
    """The live node nearest on a side that has no live leaf, as far as nodes know it (rule P31)."""

    def out(node: int) -> int:
        return state.order(side, overlay.idents[node])

    silent = set(state.side(side))  # asked already
    found, asked = None, state
    while asked is not None:
        known = asked.leaves() | asked.entries()
        named = known - silent - {state.node}
        if found is not None:
            named = {node for node in named if out(node) < out(found.node)}
        asked = None
        for node in sorted(named, key=out):
            if overlay.send("repair", state.node, node):
                overlay.note("repair", node, state.node)  # the answer
                found = asked = overlay.states[node]
                break
            silent.add(node)
    return found


def beyond(overlay: Overlay, state: NodeState, side: str, asked: NodeState) -> set[int]:
    """Of the asked leaf's leaf set: what lies beyond it on the side, and between it and the asker.

    The rest lies on the asker's other side, and would look like its farthest leaves (rule P22).
    """
    limit = state.order(side, asked.ident)
    between = {
        node
        for node in asked.leaves()
        if state.order(side, overlay.idents[node]) < limit and node != state.node
    }
    return set(asked.side(side)) | between


def checked(overlay: Overlay, state: NodeState, side: str, nodes: Iterable[int]) -> list[int]:
    """Check, nearest first, that candidates are alive, until the side is full; the live ones."""
    held = state.side(side)
    new = set(nodes) - set(held) - {state.node}
    alive, place = [], 0
    for node in sorted(new.union(held), key=lambda node: state.order(side, overlay.idents[node])):
        if place == state.half:
            break
        if node in new:
            overlay.note("check", state.node, node)
            if node not in overlay.live:
                continue
            alive.append(node)
        place += 1
    return alive


def recover(overlay: Overlay, nodes: Sequence[int]) -> int:
    """Nodes come back together, each with its old state; the rounds of the exchange.

    All see the state before the round's recoveries. The old routing table is kept (rule P23);
    one whose last known leaves are all dead arrives like a new node (rule P24).
    """
    back: list[NodeState] = []
    alone: list[int] = []
    for node in nodes:
        old, state = overlay.states[node], overlay.new_state(node)
        state.rows = old.rows
        heard: set[int] = set()
        for leaf in sorted(old.leaves()):
            if overlay.send("recovery", node, leaf):
                overlay.note("recovery", leaf, node)  # the answer
                heard |= {leaf, *overlay.states[leaf].leaves()}
        state.take_leaves(overlay.alive_of(heard), overlay.idents)
        if state.leaves():
            back.append(state)
        else:
            alone.append(node)
    for state in sorted(back, key=lambda state: state.ident):
        overlay.enter(state)
    changed = tell_leaf_set(overlay, back)
    rounds = exchange(overlay, changed | {state.node for state in back})
    for node in sorted(alone, key=lambda node: overlay.idents[node]):
        arrive(overlay, [node])
    return rounds


def tell_leaf_set(overlay: Overlay, states: Sequence[NodeState]) -> set[int]:
    """Each tells its new leaf set of itself, which takes it as leaf and entry; who got a leaf."""
    told: dict[int, list[int]] = {}
    for state in states:
        for leaf in sorted(state.leaves()):
            if overlay.send("announcement", state.node, leaf):
                overlay.offer(overlay.states[leaf], state.node)
                told.setdefault(leaf, []).append(state.node)
    return {leaf for leaf, new in told.items() if told_of_leaves(overlay, leaf, new)}
