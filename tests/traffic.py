"""Senders and receivers of the messages of a round, by kind, as buckets have kept them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.engine import Columns
from scribe_spark.rounds.player import TRAFFIC

Ends = tuple[np.ndarray, np.ndarray]


@dataclass
class Traffic:
    """All messages of a round, those that were lost too.

    Attributes
    ----------
    ends : dict of str to (ndarray, ndarray)
        Positions of senders and receivers, by the kinds that occurred.
    """

    ends: dict[str, Ends] = field(default_factory=dict)

    def take(self, taken: Mapping[str, Columns], kinds: tuple[str, ...]) -> None:
        """Read the tables `TRAFFIC` of all buckets; `kinds` are those of the round's observer."""
        if TRAFFIC in taken:
            kind, sender, to = (taken[TRAFFIC][name] for name in ("kind", "sender", "to"))
            for index in np.unique(kind):
                self.ends[kinds[index]] = sender[kind == index], to[kind == index]

    def between(self, kinds: Iterable[str]) -> Ends:
        """Senders and receivers of all messages of some kinds."""
        none = np.empty(0, dtype=np.int32)
        ends = [(none, none), *(self.ends[kind] for kind in kinds if kind in self.ends)]
        sender, to = (np.concatenate(part) for part in zip(*ends, strict=True))
        return sender, to
