"""Random choices by the smallest draws, for all nodes together (docs/rules.md, *draw*)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import index_in_run


@dataclass(frozen=True)
class Names:
    """The numbers of topics and nodes, which are keys of random draws."""

    topic: np.ndarray  # the number of each topic, by index
    node: np.ndarray  # the number of each node, by position
    seed: int

    def bits(
        self, purpose: str, heartbeat: int, topic: np.ndarray, *nodes: np.ndarray
    ) -> np.ndarray:
        """Return *draw*(purpose, heartbeat, topic, nodes) of topics and positions: uint64."""
        rows = [self.node[one] for one in nodes]
        return draws.bits_np(self.seed, purpose, heartbeat, self.topic[topic], *rows)

    def bits_of_peers(
        self,
        purpose: str,
        heartbeat: int,
        topic: np.ndarray,
        node: np.ndarray,
        of: np.ndarray,
        peer: np.ndarray,
    ) -> np.ndarray:
        """Return draws for peers; `of` has the row in (topic, node) of each peer: uint64."""
        return draws.more_bits(self.bits(purpose, heartbeat, topic, node)[of], self.node[peer])


def in_order(of: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the indices that sort rows by (`of`, `bits`), stably: int64."""
    most = int(of.max(initial=0))
    low = most.bit_length()
    # one number of `of` and the upper bits of the draw sorts three times as fast as two columns
    together = (of.astype(np.uint64) << np.uint64(64 - low)) if low else np.zeros(1, np.uint64)
    together = together | (bits >> np.uint64(low))
    order = np.argsort(together)
    ordered = together[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((bits, of))
    return order


def least(of: np.ndarray, bits: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the `count` rows with the smallest bits of each owner, sorted by (`of`, `bits`)."""
    likely = _likely(of, bits, count) if len(of) > _MANY else slice(None)
    order = in_order(of[likely], bits[likely])
    owner = of[likely][order]
    chosen = order[index_in_run(owner) < count[owner]]
    return chosen if isinstance(likely, slice) else likely[chosen]


#: Up to this number of rows, sorting all is faster than selecting candidates first.
_MANY = 2**16


def _likely(of: np.ndarray, bits: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return candidates that include the `count` smallest rows of each owner: int64, ascending.

    The candidates of an owner are the rows below a bound that is likely to select `count` of them;
    if it selects fewer, all rows of the owner are candidates.
    """
    rows = np.bincount(of, minlength=len(count))
    share = np.minimum((count + 2.5 * np.sqrt(count) + 1) / np.maximum(rows, 1), 1.0)
    most = (share * (2.0**64 - 2.0**11)).astype(np.uint64)
    most[share == 1.0] = np.uint64(2**64 - 1)
    below = bits <= most[of]
    found = np.bincount(of[below], minlength=len(count))
    few = found < np.minimum(count, rows)
    if few.any():
        below |= few[of]
    return np.flatnonzero(below)
