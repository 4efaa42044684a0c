"""Records of the measured multicasts in a world's round.

References
----------
docs/rules.md, G22, S25 to S27.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import find_sorted
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables, append
from scribe_spark.gossipsub.publication import Arrivals, Messages
from scribe_spark.living import CARRIED, DELIVERED, Multicasts
from scribe_spark.multicast import TIME


@dataclass(frozen=True)
class Noted:
    """Records the tables `living.DELIVERED` and `living.CARRIED` in a heartbeat."""

    multicasts: Multicasts  # the multicasts; their publications are indices of messages
    elapsed_us: int  # the time from the publications to the start of the heartbeat, in microseconds
    copies: bool  # True if copies are recorded, too

    def note_arrivals(
        self, tables: Tables, messages: Messages, got: Arrivals, heartbeat: int, size: int
    ) -> None:
        """Record the first copies of a heartbeat."""
        message, node = np.divmod(got.key, size)
        new = (got.heartbeat == heartbeat) & (got.hops > 0) & self._measured(message)
        if not new.any():
            return
        delay_us = got.at + self.elapsed_us if messages.clock == TIME else got.way
        rows = {"publication": message, "node": node, "hops": got.hops, "delay_us": delay_us}
        rows = {name: column[new] for name, column in rows.items()}
        append(tables, DELIVERED, {"group": messages.topic[rows["publication"]], **rows})

    def note_copies(self, tables: Tables, messages: Messages, sent: Columns) -> None:
        """Record the copies that were sent in a heartbeat: ``message, sender, node, lost``."""
        if not self.copies:
            return
        own = self._measured(sent["message"])
        if own.any():
            message = sent["message"][own]
            ends = {"sender": sent["sender"][own], "to": sent["node"][own]}
            rows = {"group": messages.topic[message], "publication": message, **ends}
            rows["lost"] = sent["lost"][own]
            append(tables, CARRIED, rows)

    def _measured(self, message: np.ndarray) -> np.ndarray:
        """Return True for messages that are measured multicasts."""
        return find_sorted(self.multicasts.publication, message) >= 0


def known_ways(tables: Mapping[str, Columns], key: np.ndarray, size: int) -> np.ndarray:
    """Return `Arrivals.way` of first copies of earlier heartbeats, by the clock of hops.

    The value is 0 if nothing is recorded.
    """
    way = np.zeros(len(key), dtype=np.int64)
    if DELIVERED in tables:
        noted = tables[DELIVERED]
        known = noted["publication"] * size + noted["node"]
        order = np.argsort(known)
        row = find_sorted(known[order], key)
        way[row >= 0] = noted["delay_us"][order[row[row >= 0]]]
    return way
