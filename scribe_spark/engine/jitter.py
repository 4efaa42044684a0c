"""Jitter of copies: every copy of a publication takes longer by a draw of its own.

Rule: docs/rules.md, J4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from scribe_spark.core import draws
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import Columns
from scribe_spark.underlay.protocol import Kernel

#: ``late(publication, links, delay_us)`` returns the additional delays of copies in microseconds.
#: Publications are indices; `links` have the positions ``node, peer``, and `delay_us` has the
#: delays of their routes.
Late = Callable[[np.ndarray, Columns, np.ndarray], np.ndarray]

_MILLION = 1_000_000


def jitter_keys(seed: int, group: np.ndarray, *name: np.ndarray | int) -> np.ndarray:
    """Return the keys of publications for :func:`late_us`: uint64.

    `group` has the numbers of the groups, `name` what names a publication in its group.
    """
    return draws.bits_np(seed, "jitter", group, *name)


def late_us(
    jitter: int, key: np.ndarray, sender: np.ndarray, receiver: np.ndarray, delay_us: np.ndarray
) -> np.ndarray:
    """Return the additional delays of copies in microseconds: int64, shape (k,).

    `jitter` is the greatest one in millionths of a copy's `delay_us`; `sender` and `receiver` are
    the numbers of nodes.
    """
    bits = draws.more_bits(draws.more_bits(key, sender), receiver)
    return draws.scaled(bits, delay_us * jitter // _MILLION)


@dataclass(frozen=True)
class Jitter:
    """The jitter of copies between the nodes of a ring; picklable."""

    facts: KnowsRing
    kernel: Kernel

    @classmethod
    def of(cls, facts: KnowsRing, kernel: Kernel) -> Jitter | None:
        """Return the jitter of a network; None without jitter."""
        return cls(facts, kernel) if kernel.jitter else None

    def late_us(
        self, key: np.ndarray, sender: np.ndarray, receiver: np.ndarray, delay_us: np.ndarray
    ) -> np.ndarray:
        """Return the additional delays of copies between positions; see :func:`late_us`."""
        node = self.facts.ring.node
        return late_us(self.kernel.jitter, key, node[sender], node[receiver], delay_us)

    def of_publications(self, key: np.ndarray) -> Late:
        """Return the jitter of publications with some keys, shape (p,)."""
        return partial(self._late, key)

    def _late(
        self, key: np.ndarray, publication: np.ndarray, links: Columns, delay_us: np.ndarray
    ) -> np.ndarray:
        return self.late_us(key[publication], links["node"], links["peer"], delay_us)
