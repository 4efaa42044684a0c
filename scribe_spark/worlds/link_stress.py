"""Link stress of a round: packets on each directed link, for payload and for maintenance.

A message is one packet on its sender's LAN up-link, on every core link of the unicast route, and on
its receiver's LAN down-link, as in the link stress of a run.  A message to a dead node uses the
same links; a message from a node to itself uses none.  All messages that a round counts are
included, except lookups.  Acknowledgements are not messages of the model: a sender knows that a
message is lost.

References
----------
docs/rules.md, "Measures, by round"; JSAC 2002, Section IV.D.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.measures.link_stress import PACKET_NUMBERS, PacketsOnLinks, packets_of
from scribe_spark.measures.measure import Size
from scribe_spark.pastry.states import MESSAGE_KINDS, NodeProgram
from scribe_spark.rounds.observer import TRAFFIC, Counted, Counts
from scribe_spark.rounds.player import Environment
from scribe_spark.systems.scribe.scribe import PAYLOAD_KINDS, SCRIBE_KINDS

_NEITHER = ("lookup",)

#: The kinds of payload messages, and the kinds of messages that maintain the overlay and the trees
#: (JOINs, and repairs of dead nodes that payload or lookups found, included).
KINDS: dict[str, tuple[str, ...]] = {
    "payload": PAYLOAD_KINDS,
    "maintenance": tuple(
        kind for kind in MESSAGE_KINDS + SCRIBE_KINDS if kind not in PAYLOAD_KINDS + _NEITHER
    ),
}

_PREFIX = "link_stress."

#: The statistics of `PACKET_NUMBERS` that are reported.
_NUMBERS = ("mean", "mean_existing", "max")


def packet_measures(names: Iterable[str]) -> dict[str, str]:
    """Return the measures of packets on links with their units, for each of `names`."""
    return {f"{_PREFIX}{of}.{name}": PACKET_NUMBERS[name].unit for of in names for name in _NUMBERS}


#: All measures with their units; see :meth:`LinkStress.measures`.
LINK_STRESS_MEASURES: dict[str, str] = packet_measures(KINDS)

#: The table of counts of links that :class:`MeasureLinks` writes; see `Counts`.
LINKS_MEASURED = "measured links"


@dataclass(frozen=True)
class LinkStress:
    """The rounds in which link stress is measured, and the number of core links.

    Link stress is measured in the last of every `period` rounds (0: never); `core_links` is the
    number of directed links between routers.
    """

    period: int
    core_links: int
    routers: int

    def is_measured(self, number: int) -> bool:
        """Return True if link stress is measured in a round."""
        return self.period > 0 and (number + 1) % self.period == 0

    def measures(self, counted: Counted, names: Iterable[str], nodes: int) -> dict[str, float]:
        """Return the values of measures after a round, from counts of links by packets.

        For each name there are ``link_stress.NAME.mean`` over the paper's link slots (left out if
        there are fewer slots than links), ``mean_existing`` over all directed links (with the LAN
        links of all `nodes` that are or were alive), and ``max``.
        """
        size = Size(nodes, self.routers, self.core_links)
        found: dict[str, float] = {}
        for of in names:
            on_links = counted.histogram(packets_of(of))
            for name in _NUMBERS:
                if name != "mean" or size.has_slot_for_each_link:
                    found[f"{_PREFIX}{of}.{name}"] = PACKET_NUMBERS[name].of(on_links, size) or 0.0
        return found


def is_traffic(name: str) -> bool:
    """Return True for names of tables in which messages are recorded, also with a prefix."""
    return re.search(rf"(^|/){TRAFFIC} [0-9]+$", name) is not None


def recorded_messages(
    environment: Environment, tables: Tables, keeps: bool
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield kind, senders, receivers and sizes of the messages that a bucket has recorded.

    The sizes are None for messages without sizes of their own. These are also the messages of
    systems that play within the round of the nodes. Without `keeps`, they are deleted.
    """
    for table in [name for name in tables if is_traffic(name)]:
        columns = tables[table]
        if not keeps:
            del tables[table]
        # each table is of one kind
        kind, size = environment.observer.kinds[columns["kind"][0]], columns.get("bytes")
        yield kind, columns["sender"], columns["to"], size


@dataclass(frozen=True)
class MeasureLinks(NodeProgram):
    """Count the links that a round's messages use, in the table :data:`LINKS_MEASURED`.

    `names` has, for each name of a measure, the kinds of messages that are counted; see
    `recorded_messages` for `keeps_messages`.
    """

    names: Mapping[str, tuple[str, ...]]
    keeps_messages: bool = False

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        environment, counts = self.environment, Counts()
        packets = PacketsOnLinks(environment.kernel, environment.bounds)
        if not superstep:
            ends: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in self.names}
            for kind, sender, to, _ in recorded_messages(environment, tables, self.keeps_messages):
                for name in [name for name, some in self.names.items() if kind in some]:
                    ends[name].append((sender, to))
            for name, parts in ends.items():
                if parts:
                    sender, to = (np.concatenate(part) for part in zip(*parts, strict=True))
                    packets.carry(name, environment.facts.ring.router, sender, to)
        for _, name, links in packets.receive(inbox):
            counts.add(packets_of(name), links["packets"])
        if columns := counts.columns():
            tables[f"{LINKS_MEASURED} {superstep}"] = columns
        return packets.outbox()
