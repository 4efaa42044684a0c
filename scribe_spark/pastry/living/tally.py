"""Counts of messages by kind, those that met a dead node apart."""

from __future__ import annotations

from collections import Counter

import numpy as np

from scribe_spark.pastry.arrivals.routes import Routes

__all__ = ["MESSAGE_KINDS", "Tally"]

#: Every kind of message in a world.  ``join`` is the request to the contact, and each transmission
#: of the join message.
MESSAGE_KINDS = (
    "probe",
    "join",
    "rows",
    "leaf set",
    "announcement",
    "exchange",
    "introduction",
    "maintenance",
    "repair",
    "check",
    "goodbye",
    "recovery",
    "keep-alive",
    "lookup",
)


class Tally:
    """How many messages of each kind were sent in a round.

    ``lost KIND`` are those of a kind that met a dead node.

    Parameters
    ----------
    kinds : tuple of str
        :data:`MESSAGE_KINDS`, and those of an application on Pastry.
    """

    def __init__(self, kinds: tuple[str, ...] = MESSAGE_KINDS) -> None:
        self._kinds = frozenset(kinds)
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, messages: int | np.integer, lost: int | np.integer = 0) -> None:
        """Count messages, of which some were lost.

        Raises
        ------
        ValueError
            An unknown kind.
        """
        if kind not in self._kinds:
            raise ValueError(f"{kind!r} is not among the kinds of messages")
        self._counts[kind] += int(messages)
        self._counts[f"lost {kind}"] += int(lost)

    def send(self, kind: str, arrives: np.ndarray) -> None:
        """Count a message for each element; False where it was lost."""
        self.add(kind, arrives.size, arrives.size - np.count_nonzero(arrives))

    def add_routes(self, kind: str, routes: Routes) -> None:
        """Count the transmissions of messages that were routed."""
        lost = routes.lost.sum()
        self.add(kind, routes.hops.sum() + lost, lost)

    def by_kind(self) -> dict[str, int]:
        """Messages by kind, without the kinds that did not occur."""
        return {kind: count for kind, count in sorted(self._counts.items()) if count}
