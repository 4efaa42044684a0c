"""Losses and jitter of copies on routes: draws say which copies are lost, and how late others are.

Rules: docs/rules.md, N1 to N6 and J4.
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

# --- jitter: rule J4

#: ``late(publication, links, delay_us)`` returns the additional delays of copies in microseconds.
#: Publications are indices; `links` have the positions ``node, peer``, and `delay_us` has the
#: delays of their routes.
Late = Callable[[np.ndarray, Columns, np.ndarray], np.ndarray]

_MILLION = 1_000_000


def jitter_keys(seed: int, group: np.ndarray, *name: np.ndarray | int) -> np.ndarray:
    """Return a random number for each publication of groups, which keys :func:`late_us`: uint64."""
    return draws.bits_np(seed, "jitter", group, *name)


def late_us(
    jitter: int, key: np.ndarray, sender: np.ndarray, receiver: np.ndarray, delay_us: np.ndarray
) -> np.ndarray:
    """Return additional delays in microseconds, at most `jitter` millionths of `delay_us`: int64.

    `key` has the `jitter_keys` of the copies' publications; sender and receiver are numbers of
    nodes.
    """
    bits = draws.more_bits(draws.more_bits(key, sender), receiver)
    return draws.scaled(bits, delay_us * jitter // _MILLION)


@dataclass(frozen=True)
class Jitter:
    """The jitter (additional delay) of copies between the nodes of a ring; picklable."""

    facts: KnowsRing
    kernel: Kernel

    @classmethod
    def of(cls, facts: KnowsRing, kernel: Kernel) -> Jitter | None:
        """Return the jitter of the network of a `kernel`; None without jitter."""
        return cls(facts, kernel) if kernel.jitter else None

    def late_us(
        self, key: np.ndarray, sender: np.ndarray, receiver: np.ndarray, delay_us: np.ndarray
    ) -> np.ndarray:
        """Return the additional delays of copies between positions; see :func:`late_us`."""
        node = self.facts.ring.node
        return late_us(self.kernel.jitter, key, node[sender], node[receiver], delay_us)

    def of_publications(self, key: np.ndarray) -> Late:
        """Return the jitter of copies of publications, whose keys `key` (p,) are `jitter_keys`."""
        return partial(self._late, key)

    def _late(
        self, key: np.ndarray, publication: np.ndarray, links: Columns, delay_us: np.ndarray
    ) -> np.ndarray:
        return self.late_us(key[publication], links["node"], links["peer"], delay_us)


def publication_keys(seed: int, group: np.ndarray, name: np.ndarray | int) -> np.ndarray:
    """Return a number for each publication of groups, which keys :func:`are_lost`: uint64."""
    return draws.bits_np(seed, "loss", group, name)


def are_lost(key: np.ndarray, share: np.ndarray | float, *numbers: np.ndarray) -> np.ndarray:
    """Return True for each copy that is lost with the probability `share`: rule N1.

    `key` (k,) has the `publication_keys` of copies; `numbers` are further keys, such as senders.
    """
    for row in numbers:
        key = draws.more_bits(key, row)
    return (key >> np.uint64(11)) * 2.0**-53 < share


def loses(kernel: Kernel) -> bool:
    """Return True if the network loses packets, or nodes withhold copies."""
    nobody = np.empty(0, dtype=np.int64)
    return kernel.withheld is not None or kernel.losses(nobody, nobody) is not None


class Lost:
    """A function that says which copies of publications are lost; subclasses are picklable.

    A copy is a row of two arguments: the index of its publication, and its link with the positions
    ``node`` (the sender), ``peer`` (the receiver) and perhaps other columns.
    """

    def __call__(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """Return True for each copy that is sent and does not arrive: rule N1."""
        raise NotImplementedError

    def withheld(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """Return True for each copy that its sender does not send (rule N6); by default none."""
        return np.zeros(len(publication), dtype=bool)

    @property
    def withholds_announcements(self) -> bool:
        """True if nodes that withhold copies also send no announcements of them: rule N6."""
        return False


@dataclass(frozen=True)
class Losses:
    """The losses of messages on routes, and a `share` of all messages; picklable."""

    facts: KnowsRing
    kernel: Kernel
    share: float = 0.0

    @classmethod
    def of(cls, facts: KnowsRing, kernel: Kernel, share: float = 0.0) -> Losses | None:
        """Return the losses of a network and of a share of all copies; None if all arrive."""
        return cls(facts, kernel, share) if share > 0 or loses(kernel) else None

    def lost(
        self, key: np.ndarray, sender: np.ndarray, receiver: np.ndarray, *more: np.ndarray
    ) -> np.ndarray:
        """Return True for each message lost between two positions; `key`, `more` key draws."""
        ring = self.facts.ring
        share: np.ndarray | float
        share, of_route = self.share, self.kernel.losses(ring.router[sender], ring.router[receiver])
        if of_route is not None:
            share = 1 - (1 - share) * (1 - of_route)
        return are_lost(key, share, ring.node[sender], ring.node[receiver], *more)

    def withholds(self, sender: np.ndarray) -> np.ndarray:
        """Return True for each position of a node that forwards no copies: rule N6."""
        withheld = self.kernel.withheld
        if withheld is None:
            return np.zeros(len(sender), dtype=bool)
        return withheld.of_nodes(self.facts.ring.node[sender])

    @property
    def withholds_announcements(self) -> bool:
        withheld = self.kernel.withheld
        return withheld is not None and withheld.announcements


@dataclass(frozen=True)
class LostByDraws(Lost):
    """The losses of copies between nodes; `key` and `more` (columns of links) key the draws."""

    losses: Losses
    key: np.ndarray
    source: np.ndarray
    more: tuple[str, ...] = ()

    def __call__(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        further = (links[name] for name in self.more)
        return self.losses.lost(self.key[publication], links["node"], links["peer"], *further)

    def withheld(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        sender = links["node"]
        return self.losses.withholds(sender) & (sender != self.source[publication])

    @property
    def withholds_announcements(self) -> bool:
        return self.losses.withholds_announcements


def lost_copies(
    facts: KnowsRing,
    kernel: Kernel,
    seed: int,
    group: np.ndarray,
    name: np.ndarray,
    source: np.ndarray,
    more: tuple[str, ...] = (),
) -> Lost | None:
    """Return the losses of copies of publications; None if the network loses no copies: rule N1.

    A publication has the number of its group, a name unique in the group, and a source (a
    position); `more` are columns of links that are further keys of the draws.
    """
    if (losses := Losses.of(facts, kernel)) is None:
        return None
    return LostByDraws(losses, publication_keys(seed, group, name), source, more)


def late_copies(
    facts: KnowsRing, kernel: Kernel, seed: int, group: np.ndarray, *name: np.ndarray | int
) -> Late | None:
    """Return the jitter of copies of publications (see :func:`lost_copies`), or None."""
    if (jitter := Jitter.of(facts, kernel)) is None:
        return None
    return jitter.of_publications(jitter_keys(seed, group, *name))
