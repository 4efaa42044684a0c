"""Leaf set exchange: who got a new leaf sends its leaf set to its leaves, round by round."""

from __future__ import annotations

from collections.abc import Iterable

from .overlay import Overlay


def exchange(overlay: Overlay, started: Iterable[int]) -> int:
    """Exchange until no node gets a new leaf; the number of rounds in which something was sent.

    All messages of a round carry the leaf sets from before it. A node that is sent a leaf set by
    one that it does not hold itself answers with its own (rule P12): without that, more than
    l/2 nodes of a wave between two old neighbours would never hear of each other.
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
        gained |= {node for node, sets in answers.items() if take(overlay, node, *sets)}
        senders = gained
    return rounds


def take(overlay: Overlay, node: int, *sets: set[int]) -> bool:
    """Take what is alive of some leaf sets; whether the node got a new leaf."""
    state = overlay.states[node]
    heard = set().union(*sets) - state.leaves() - {node}
    return state.take_leaves(overlay.alive_of(heard), overlay.idents)
