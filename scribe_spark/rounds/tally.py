"""Counts of messages by kind, and of those that met a dead node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scribe_spark.engine import Columns
from scribe_spark.rounds.observer import MESSAGES, Observer, counted


class Tally:
    """Counts the messages of each kind in a round; ``lost KIND`` counts those that met a dead node.

    `kinds` are the kinds that are counted; buckets record the senders and receivers of those in
    `recorded` and, with `groups`, also the groups of messages.
    """

    def __init__(
        self, kinds: tuple[str, ...], recorded: tuple[str, ...] = (), groups: bool = False
    ) -> None:
        self.kinds, self._recorded, self._groups = kinds, recorded, groups
        self._counts: Counter[str] = Counter()

    @property
    def observer(self) -> Observer:
        """The observer that counts these kinds in buckets; :meth:`take` adds its counts."""
        return Observer(self.kinds, self._recorded, self._groups)

    def take(self, taken: Mapping[str, Columns]) -> None:
        """Add the counts of all buckets: the tables `MESSAGES`."""
        if MESSAGES in taken:
            sums = counted(taken[MESSAGES], len(self.kinds))
            for kind, messages, lost in zip(self.kinds, *sums, strict=True):
                self._counts[kind] += int(messages)
                self._counts[f"lost {kind}"] += int(lost)

    def by_kind(self) -> dict[str, int]:
        """Return the number of messages by kind, without kinds that did not occur."""
        return {kind: count for kind, count in sorted(self._counts.items()) if count}
