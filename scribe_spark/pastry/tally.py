"""Counts of messages by kind, those that met a dead node apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns
from scribe_spark.errors import shown
from scribe_spark.pastry.arrivals.observer import MESSAGES, TRAFFIC, Observer, counted
from scribe_spark.pastry.traffic import Between, Traffic, ends_of

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
    """Counts of the messages of each kind in a round.

    ``lost KIND`` are those of a kind that met a dead node.

    Parameters
    ----------
    kinds : tuple of str
        :data:`MESSAGE_KINDS`, and those of an application on Pastry.
    traffic : Traffic, optional
        Where senders and receivers are remembered; without it they are not even computed.
    in_buckets : bool
        Whether the observer keeps senders and receivers in the buckets.
    """

    def __init__(
        self,
        kinds: tuple[str, ...] = MESSAGE_KINDS,
        traffic: Traffic | None = None,
        in_buckets: bool = False,
    ) -> None:
        self.kinds, self.traffic = kinds, traffic
        self._in_buckets = in_buckets or traffic is not None
        self._counts: Counter[str] = Counter()

    @property
    def observer(self) -> Observer:
        """The observer that counts these kinds in buckets; :meth:`take` adds the counts up."""
        return Observer(self.kinds, traffic=self._in_buckets)

    def take(self, taken: Mapping[str, Columns]) -> None:
        """Count what buckets have counted: the tables `MESSAGES` and `TRAFFIC`."""
        if MESSAGES in taken:
            sums = counted(taken[MESSAGES], len(self.kinds))
            for kind, messages, lost in zip(self.kinds, *sums, strict=True):
                self._counts[kind] += int(messages)
                self._counts[f"lost {kind}"] += int(lost)
        if self.traffic is not None and TRAFFIC in taken:
            columns = taken[TRAFFIC]
            for index in distinct(columns["kind"]):
                mine = columns["kind"] == index
                self.traffic.note(self.kinds[index], columns["sender"][mine], columns["to"][mine])

    def add(
        self,
        kind: str,
        messages: int | np.integer,
        lost: int | np.integer = 0,
        *,
        between: Between,
    ) -> None:
        """Count messages, of which some were lost.

        Parameters
        ----------
        between : callable
            Gives the sender and the receiver of each message, in any order.

        Raises
        ------
        ValueError
            An unknown kind; or not as many senders and receivers as messages.
        """
        if kind not in self.kinds:
            raise ValueError(f"{shown(kind)} is not among the kinds of messages")
        self._counts[kind] += int(messages)
        self._counts[f"lost {kind}"] += int(lost)
        if self.traffic is not None:
            self.traffic.note(kind, *ends_of(kind, messages, between))

    def send(self, kind: str, arrives: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
        """Count a message for each element; False where it was lost."""
        lost = arrives.size - np.count_nonzero(arrives)
        self.add(kind, arrives.size, lost, between=lambda: (sender, to))

    def by_kind(self) -> dict[str, int]:
        """Messages by kind, without the kinds that did not occur."""
        return {kind: count for kind, count in sorted(self._counts.items()) if count}
