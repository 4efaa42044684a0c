"""Choices by least draw, for all nodes at once (docs/rules.md, "GossipSub": *draw*)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import index_in_run


@dataclass(frozen=True)
class Names:
    """The numbers of topics and nodes, by which draws are keyed.

    Attributes
    ----------
    topic : ndarray of int64
        By index.
    node : ndarray of int64
        By position.
    seed : int
    """

    topic: np.ndarray
    node: np.ndarray
    seed: int

    def bits(
        self, purpose: str, heartbeat: int, topic: np.ndarray, *nodes: np.ndarray
    ) -> np.ndarray:
        """Return *draw*(purpose, heartbeat, topic, nodes): uint64.

        Parameters
        ----------
        topic : ndarray of int64
            Indices.
        nodes : ndarray of int64
            Positions, in the shape of `topic` each.
        """
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
        """Return the draws of many peers of each of some nodes: uint64, shape (m,).

        Parameters
        ----------
        topic, node : ndarray of int64, shape (n,)
        of : ndarray of int64, shape (m,)
            The index among the n of whom each is a peer.
        peer : ndarray of int64, shape (m,)
        """
        return draws.more_bits(self.bits(purpose, heartbeat, topic, node)[of], self.node[peer])


def in_order(of: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the rows in the order of (`of`, `bits`), of equal ones the earlier first: int64.

    Parameters
    ----------
    of : ndarray of int64
        Not negative.
    bits : ndarray of uint64
    """
    most = int(of.max(initial=0))
    low = most.bit_length()
    # the first bits of a draw and whose it is in one number, which sorts in a third of the time
    together = (of.astype(np.uint64) << np.uint64(64 - low)) if low else np.zeros(1, np.uint64)
    together = together | (bits >> np.uint64(low))
    order = np.argsort(together)
    ordered = together[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((bits, of))
    return order


def least(of: np.ndarray, bits: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the rows with the least bits of each: int64, in the order of (`of`, `bits`).

    Parameters
    ----------
    of : ndarray of int64, shape (m,)
        To which of n each row belongs.
    bits : ndarray of uint64, shape (m,)
    count : ndarray of int64, shape (n,)
        How many each takes at most.
    """
    likely = _likely(of, bits, count) if len(of) > _MANY else slice(None)
    order = in_order(of[likely], bits[likely])
    whose = of[likely][order]
    chosen = order[index_in_run(whose) < count[whose]]
    return chosen if isinstance(likely, slice) else likely[chosen]


#: So many rows take less time to sort than to look through for those that are not chosen.
_MANY = 2**16


def _likely(of: np.ndarray, bits: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return rows among which the `count` least of each are: int64, ascending.

    The rows of each are below a share of all draws that is likely to have `count` of them; those of
    which it has fewer have all their rows.
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
