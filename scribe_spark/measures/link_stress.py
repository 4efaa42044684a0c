"""Link stress: packets per directed link when each group multicasts one message.

References
----------
JSAC 2002, Section IV.D (Figure 10), IV.F (Figure 14).
"""

from __future__ import annotations

from scribe_spark.measures.distributions import column_of, histogram_metrics, number_of, own
from scribe_spark.measures.formulas import PACKET_NUMBERS
from scribe_spark.measures.measure import Distribution, Measure, Metric, every_system

LINK_STRESS = Measure(
    "link_stress",
    distributions=(Distribution("link_stress", "10", column_of("link_stress", "packets")),),
    metrics=(
        *histogram_metrics(
            "link_stress",
            "10",
            "packets on a directed link, when each group gets one message",
            every_system,
            PACKET_NUMBERS,
        ),
        Metric(
            "messages",
            "packets",
            "10",
            "Packets on all links together, when each group gets one message.",
            number_of(own("link_stress"), lambda packets, _: packets.sum),
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
            "The paper's number of directed links (*slots*).",
            lambda found: found.size.paper_slots,
        ),
    ),
)
