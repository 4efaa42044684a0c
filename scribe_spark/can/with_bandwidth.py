"""The floods of CAN multicast with the clock with bandwidth, instead of `Dissemination`.

References
----------
docs/rules.md, C7 to C11, W1 to W6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scribe_spark.bandwidth import ARRIVALS as FIRST_COPIES
from scribe_spark.bandwidth import COPIES as ALL_COPIES
from scribe_spark.bandwidth import ROOMS
from scribe_spark.bandwidth.runs import Clock, clock_of
from scribe_spark.bandwidth.schedule import Channels
from scribe_spark.can.flooding import goes_on
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, EDGES
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Inbox, Tables

_NO_EDGES = {name: whole_numbers() for name in ("group", "node", "peer", "face")}


@dataclass(frozen=True)
class _Neighbours:
    """Returns the links between neighbours for the clock; picklable."""

    clock: Clock

    def __call__(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `bandwidth.runs.Read`."""
        edges = tables.get(EDGES, _NO_EDGES)
        node, peer = edges["node"].astype(np.int64), edges["peer"].astype(np.int64)
        room = edges["group"].astype(np.int64) * ROOMS
        return {
            "room": room,
            "node": node,
            "to_room": room,
            "peer": peer,
            "delay_us": self.clock.delay(node, peer),
            "mesh": np.ones(len(node), dtype=bool),
            "order": np.zeros(len(node), dtype=np.int64),
            "face": edges["face"].astype(np.int64),
        }


#: The columns of first copies, and of all copies.
_FIRST = ("publication", "room", "node", "at_us", "hops", "sender", "face")
_COPY = (*_FIRST, "first", "sent_us")


@dataclass(frozen=True)
class _Write:
    """Converts the clock's results to the tables of `Dissemination`; picklable.

    Attributes
    ----------
    at_us : ndarray of int64, shape (P,)
        The publication time of each publication, from which the times of first copies count.
    """

    at_us: np.ndarray

    def __call__(self, tables: Tables) -> None:
        """See `bandwidth.runs.Write`."""
        for ours, theirs, names in (
            (FIRST_COPIES, ARRIVALS, _FIRST),
            (ALL_COPIES, ARRIVED_COPIES, _COPY),
        ):
            came = tables.pop(ours)
            at_us = came["at_us"] - self.at_us[came["publication"]]
            came = {**came, "group": came["room"] // ROOMS, "at_us": at_us}
            tables[theirs] = {name: came[name] for name in ("group", *names) if name != "room"}


def flood_with_bandwidth(
    stages: Any,
    tables: BucketTables,
    channels: Channels,
    sources: np.ndarray,
    processing_us: int,
) -> None:
    """Flood the CANs of groups from the sources of publications.

    Parameters
    ----------
    stages : Simulation
        See `systems.System`.
    tables : BucketTables
        The tables with the edges between neighbours.
    channels : Channels
        The channels, sorted by source.
    sources : ndarray of int64, shape (C,)
        The positions of the channels' sources.
    processing_us : int
        Used instead of the validation time if that is 0.
    """
    clock = clock_of(stages, held_back=False, spares=False)
    clock = replace(clock, validation_us=clock.validation_us or processing_us)
    published = clock.publications(stages.publications, sources[channels.of], channels.of)
    read, write, called = _Neighbours(clock), _Write(published.at_us), "CAN with bandwidth"
    clock.play(
        *(tables, published, read, write, called), rule=goes_on, carried=("face",), kept=_COPY
    )
