"""Senders and receivers of the messages of a round, by kind: what the underlay carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

#: Senders and receivers of messages (positions), computed only where somebody wants them.
Between = Callable[[], tuple[np.ndarray, np.ndarray]]


class Traffic:
    """Senders and receivers of all messages of a round; those that were lost are among them."""

    def __init__(self) -> None:
        self._ends: defaultdict[str, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)

    def note(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Remember messages: positions of nodes, one pair for each message."""
        if len(sender):
            self._ends[kind].append((sender.astype(np.int32), to.astype(np.int32)))

    def kinds(self) -> list[str]:
        """Return the kinds of which there were messages, in alphabetical order."""
        return sorted(self._ends)

    def between(self, kinds: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Senders and receivers of all messages of some kinds: int32, shape (m,) each."""
        none = np.empty(0, dtype=np.int32)
        ends = [(none, none), *(pair for kind in kinds for pair in self._ends.get(kind, ()))]
        sender, to = (np.concatenate(part) for part in zip(*ends, strict=True))
        return sender, to

    def named(self, number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return kind, sender and receiver of all messages; `number` has nodes' by position."""
        ends = {kind: self.between([kind]) for kind in self.kinds()}
        kinds = np.repeat(np.array(list(ends), dtype=str), [len(one[0]) for one in ends.values()])
        sender, to = self.between(ends)
        return kinds, number[sender], number[to]


def ends_of(
    kind: str, messages: int | np.integer, between: Between
) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and receivers of messages that are counted.

    Raises
    ------
    ValueError
        Not as many as messages.
    """
    sender, to = between()
    if not len(sender) == len(to) == messages:
        raise ValueError(f"{messages} {kind}, from {len(sender)} nodes to {len(to)}")
    return sender, to


def both_ways(asker: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Senders and receivers of questions and their answers."""
    return np.r_[asker, asked], np.r_[asked, asker]
