"""Link stress of a round: packets on each directed link, of payload and of maintenance.

A message is a packet on its sender's LAN up-link, on every core link of the unicast route, and on
its receiver's LAN down-link, as in the link stress of a run.  One to a dead node crosses the same
links, and one of a node to itself crosses none.  Every message that a round counts is in it, except
lookups.  Acknowledgements are not messages of the model: a sender knows that a message is lost.

References
----------
docs/rules.md, "Measures, by round"; JSAC 2002, Section IV.D.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.underlay.size import Size

__all__ = [
    "KINDS",
    "LINK_STRESS_MEASURES",
    "LinkStress",
    "packets_between",
    "packets_on_every_link",
    "traffic_measures",
]

_PAYLOAD = ("MULTICAST", "payload", "retransmission")
_NEITHER = ("lookup",)

#: The kinds of messages that are payload, and those that maintain the overlay and the trees (JOINs,
#: and repairs of what payload or lookups found dead, too).
KINDS: dict[str, tuple[str, ...]] = {
    "payload": _PAYLOAD,
    "maintenance": tuple(
        kind for kind in MESSAGE_KINDS + SCRIBE_KINDS if kind not in _PAYLOAD + _NEITHER
    ),
}

_PREFIX = "link_stress."

#: Every measure -> its unit; see :meth:`LinkStress.measures`.
LINK_STRESS_MEASURES: dict[str, str] = {
    f"{_PREFIX}{of}.{name}": unit
    for of in KINDS
    for name, unit in (("mean", "per slot"), ("mean_existing", "per link"), ("max", "per link"))
}


@dataclass(frozen=True)
class LinkStress:
    """In which rounds link stress is measured, and what the network has.

    Attributes
    ----------
    period : int
        In the last of every so many rounds; 0 for never.
    core_links : int
        Directed links between routers.
    routers : int
    """

    period: int
    core_links: int
    routers: int

    def is_measured(self, number: int) -> bool:
        """Whether it is measured in a round."""
        return self.period > 0 and (number + 1) % self.period == 0

    def measures(
        self, traffic: Traffic, router: np.ndarray, nodes: int, kernel: Kernel
    ) -> dict[str, float]:
        """Measure -> value, after a round.

        ``mean`` over the paper's link slots (left out where there are fewer slots than links),
        ``mean_existing`` over all directed links, with the LAN links of all nodes that are alive or
        have died, and ``max``; each of ``link_stress.payload`` and ``link_stress.maintenance``.

        Parameters
        ----------
        router : ndarray of int64, shape (K,)
            Index of each node's router.
        nodes : int
            How many are alive or have died.
        """
        found = traffic_measures(self, KINDS, traffic, router, nodes, kernel)
        return {f"{_PREFIX}{name}": value for name, value in found.items()}


def traffic_measures(
    network: LinkStress,
    kinds_of: Mapping[str, Iterable[str]],
    traffic: Traffic,
    router: np.ndarray,
    nodes: int,
    kernel: Kernel,
) -> dict[str, float]:
    """Return ``NAME.mean, NAME.mean_existing, NAME.max`` of the messages of some kinds.

    Parameters
    ----------
    kinds_of : mapping of str to iterable of str
        The kinds of messages that each name stands for.
    router, nodes
        As of `LinkStress.measures`.
    """
    size = Size(nodes, network.routers, network.core_links)
    found: dict[str, float] = {}
    for name, kinds in kinds_of.items():
        packets = packets_on_every_link(traffic, kinds, router, kernel)
        total = sum(int(part.sum()) for part in packets)
        if size.has_slot_for_each_link:
            found[f"{name}.mean"] = total / size.paper_slots
        found[f"{name}.mean_existing"] = total / size.existing_links
        found[f"{name}.max"] = float(max(part.max(initial=0) for part in packets))
    return found


def packets_on_every_link(
    traffic: Traffic, kinds: Iterable[str], router: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packets on the links that carry messages of some kinds.

    Parameters
    ----------
    router : ndarray of int64, shape (K,)
        Index of each node's router.

    Returns
    -------
    up, down : ndarray of int64, shape (K,)
        On the nodes' LAN links.
    core : ndarray of int64, shape (L,)
        On the links between routers that carry some.
    """
    return packets_between(*traffic.between(kinds), router, kernel)


def packets_between(
    sender: np.ndarray, to: np.ndarray, router: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packets on up-links, down-links and core links, as :func:`packets_on_every_link` has them."""
    away = sender != to
    sender, to = sender[away], to[away]
    up, down = (np.bincount(node, minlength=len(router)) for node in (sender, to))
    routers = int(router.max(initial=0)) + 1
    routes, packets = np.unique(router[sender] * routers + router[to], return_counts=True)
    _, _, core = kernel.link_packets(*np.divmod(routes, routers), packets)
    return up, down, core
