"""The floods of CAN multicast with the clock with bandwidth, instead of `Dissemination`.

References
----------
docs/rules.md, C7 to C11, W1 to W6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scribe_spark.bandwidth.floods import ReadEdges, WriteFlood
from scribe_spark.bandwidth.runs import clock_of
from scribe_spark.bandwidth.schedule import Channels
from scribe_spark.can.flooding import goes_on
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, EDGES
from scribe_spark.engine.on_spark import BucketTables

#: The columns of edges that copies carry to their receivers.
_CARRIED = ("face",)


def flood_with_bandwidth(
    stages: Any,
    tables: BucketTables,
    channels: Channels,
    sources: np.ndarray,
    processing_us: int,
) -> None:
    """Flood the CANs of groups from the channels' sources; the channels are sorted by source.

    `processing_us` is used instead of the validation time if that is 0.
    """
    clock = clock_of(stages, held_back=False, spares=False)
    clock = replace(clock, validation_us=clock.validation_us or processing_us)
    published = clock.publications(stages.publications, sources[channels.of], channels.of)
    read = ReadEdges(clock, EDGES, _CARRIED)
    write = WriteFlood(published.at_us, ARRIVALS, ARRIVED_COPIES, _CARRIED)
    called = "CAN with bandwidth"
    clock.play(
        *(tables, published, read, write, called),
        rule=goes_on,
        carried=_CARRIED,
        kept=write.kept,
    )
