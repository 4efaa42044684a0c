"""Deliveries of a round to the users of members."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Deliveries"]


@dataclass
class Deliveries:
    """What users of members got in a round, superstep by superstep.

    Attributes
    ----------
    group, publication, node : list of ndarray of int64
    hops, delay_us : list of ndarray of int64
        Of the message that each came with, from the root; see `multicast.Payloads`.
    again_group, again : list of ndarray of int64
        Group and publication of each that came to a member again.
    """

    group: list[np.ndarray] = field(default_factory=list)
    publication: list[np.ndarray] = field(default_factory=list)
    node: list[np.ndarray] = field(default_factory=list)
    hops: list[np.ndarray] = field(default_factory=list)
    delay_us: list[np.ndarray] = field(default_factory=list)
    again_group: list[np.ndarray] = field(default_factory=list)
    again: list[np.ndarray] = field(default_factory=list)

    def add(
        self,
        group: np.ndarray,
        publication: np.ndarray,
        node: np.ndarray,
        hops: np.ndarray,
        delay_us: np.ndarray,
    ) -> None:
        """Some more."""
        self.group.append(group)
        self.publication.append(publication)
        self.node.append(node)
        self.hops.append(hops)
        self.delay_us.append(delay_us)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All of them, in the order in which they came: group, publication, node."""
        return _joined(self.group), _joined(self.publication), _joined(self.node)

    def ways(self) -> tuple[np.ndarray, np.ndarray]:
        """Hops and delay of all of them, in the same order."""
        return _joined(self.hops), _joined(self.delay_us)

    def duplicates(self) -> tuple[np.ndarray, np.ndarray]:
        """Group and publication of each duplicate at a member."""
        return _joined(self.again_group), _joined(self.again)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
