"""Link stress: packets per directed link when each group multicasts one message.

References
----------
JSAC 2002, Section IV.D (Figure 10), IV.F (Figure 14).
"""

from __future__ import annotations

from collections.abc import Callable

from scribe_spark.measures.distributions import values_of
from scribe_spark.measures.formulas import PACKET_NUMBERS, PacketNumber
from scribe_spark.measures.histogram import Histogram
from scribe_spark.measures.measure import (
    Distribution,
    Found,
    Measure,
    Metric,
    RunTables,
    every_system,
)
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems import System


def _packets(run: RunTables) -> Batches:
    return values_of(run, "link_stress", "packets")


def packet_metrics(
    measure: str,
    figure: str,
    what: str,
    systems: Callable[[System], bool],
    histogram: Callable[[Found, str], Histogram | None] | None = None,
) -> tuple[Metric, ...]:
    """Return the five metrics of packets per directed link, over slots and existing links."""

    def own(found: Found, system: str) -> Histogram | None:
        return found.histograms.get((system, measure))

    packets_of = own if histogram is None else histogram

    def metric(name: str, number: PacketNumber) -> Metric:
        def of(found: Found, system: str) -> float | None:
            packets = packets_of(found, system)
            return None if packets is None else number.of(packets, found.size)

        definition = number.definition.format(what=what)
        return Metric(f"{measure}.{name}", number.unit, figure, definition, of, systems)

    return tuple(metric(name, number) for name, number in PACKET_NUMBERS.items())


def _messages(found: Found, system: str) -> float | None:
    packets = found.histograms.get((system, "link_stress"))
    return None if packets is None else packets.sum


LINK_STRESS = Measure(
    "link_stress",
    distributions=(Distribution("link_stress", "10", _packets),),
    metrics=(
        *packet_metrics(
            "link_stress",
            "10",
            "packets on a directed link, when each group gets one message",
            every_system,
        ),
        Metric(
            "messages",
            "packets",
            "10",
            "Packets on all links together, when each group gets one message.",
            _messages,
            every_system,
        ),
        Metric(
            "links.existing",
            "directed links",
            "10",
            "Directed links that exist: core links, and two LAN links for each node.",
            lambda found: found.size.existing_links,
        ),
        Metric(
            "links.paper_slots",
            "directed links",
            "10",
            "The paper's count of links: directed core links, and 100 LAN slots a router, in both "
            "directions.",
            lambda found: found.size.paper_slots,
        ),
    ),
)
