"""Floods along edges, played by the clock with bandwidth: its input, and its results.

The results have the tables of `dissemination.Dissemination`, which the clock replaces.

References
----------
docs/rules.md, W1 to W6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bandwidth.runs import Clock
from scribe_spark.bandwidth.setting import ROOMS
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Inbox, Tables

#: The columns of first copies, and the columns of all copies, in addition to the carried ones.
_FIRST = ("publication", "room", "node", "at_us", "hops", "sender")
_COPY = (*_FIRST, "first", "sent_us")


@dataclass(frozen=True)
class ReadEdges:
    """Converts a table of edges to links of the clock; picklable."""

    clock: Clock
    #: The name of the table: ``group, node, peer`` and the carried columns; each group is a topic.
    edges: str
    carried: tuple[str, ...] = ()  # the columns of edges that copies carry to their receivers

    def __call__(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `runs.Read`."""
        names = ("group", "node", "peer", *self.carried)
        edges = tables[self.edges] if self.edges in tables else dict.fromkeys(names, _NOTHING)
        of = {name: edges[name].astype(np.int64) for name in names}
        node, peer, room = of["node"], of["peer"], of.pop("group") * ROOMS
        return {
            **of,
            "room": room,
            "to_room": room,
            "delay_us": self.clock.delay(node, peer),
            "mesh": np.ones(len(node), dtype=bool),
            "order": np.zeros(len(node), dtype=np.int64),
        }


_NOTHING = whole_numbers()


@dataclass(frozen=True)
class WriteFlood:
    """Converts the clock's results to tables of first copies and of all copies; picklable."""

    #: (P,): the time of each publication in microseconds; the times of its first copies count from
    #: it.
    at_us: np.ndarray
    #: The names of the two tables.
    arrivals: str
    copies: str
    carried: tuple[str, ...] = ()  # See :class:`ReadEdges`

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the columns of copies that the clock must keep."""
        return (*_COPY, *self.carried)

    def __call__(self, tables: Tables) -> None:
        """See `runs.Write`."""
        for ours, theirs, names in (
            (ARRIVALS, self.arrivals, (*_FIRST, *self.carried)),
            (COPIES, self.copies, self.kept),
        ):
            came = tables.pop(ours)
            at_us = came["at_us"] - self.at_us[came["publication"]]
            came = {**came, "group": came["room"] // ROOMS, "at_us": at_us}
            tables[theirs] = {name: came[name] for name in ("group", *names) if name != "room"}
