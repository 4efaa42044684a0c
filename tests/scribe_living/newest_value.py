"""A second application on the upcalls: members have the newest publication of their group.

As in a ticker only the newest value counts.  Every node of a tree keeps the newest publication that
it has had, and passes no older one on.  A new child is sent it at once; a JOIN that repairs carries
what the child has, so that it gets nothing twice.

References
----------
JSAC 2002, Section III.B.2.
"""

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import NONE, SortedTable, whole_numbers
from scribe_spark.engine.packing import Columns, take
from scribe_spark.systems.scribe.memory import AtNodes, Remembering
from scribe_spark.systems.scribe.upcalls import NOTHING, Calls, Emitted


@dataclass
class _Had(AtNodes):
    """The newest publication that nodes of trees have had, or NONE."""

    newest: np.ndarray = field(default_factory=whole_numbers)


class Newest(Remembering):
    """The application; publications are in the order of their names: of rounds, then sources.

    Parameters
    ----------
    nodes : int
        How many nodes are known.
    """

    def __init__(self, nodes: int) -> None:
        self.had = _Had()
        self.fresh = np.empty(0, dtype=bool)  # of the calls of the last forwardHandler
        super().__init__(nodes, self.had, SortedTable())

    def fault_handler(self, calls: Calls, joins: Columns) -> np.ndarray:
        """What the node has had."""
        rows = self.rows(calls)
        newest = self.had.newest[rows]
        return np.where(newest == NONE, NOTHING, newest)

    def join_handler(self, calls: Calls, joins: Columns) -> Emitted:
        """A child that has less gets the newest."""
        call, extra = joins["call"], joins["extra"]
        rows = self.rows(calls)
        newest = self.had.newest[rows[call]]
        lacks = (newest != NONE) & ((extra == NOTHING) | (extra < newest))
        message = np.arange(lacks.sum())
        payloads = {"call": call[lacks], "child": joins["source"][lacks]}
        inside = {"number": newest[lacks], "publication": newest[lacks]}
        n = len(message)
        own = {"number": newest[lacks], "start": np.full(n, NOTHING), "floor": np.full(n, NONE)}
        return Emitted({**payloads, "message": message}, own, {"message": message, **inside})

    def forward_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Emitted:
        """What is newer than all before goes on, all else ends here."""
        rows = self.rows(calls)
        came = np.full(len(rows), NONE)
        np.maximum.at(came, contents["call"], contents["publication"])
        self.fresh = came > self.had.newest[rows]
        self.had.newest[rows] = np.maximum(came, self.had.newest[rows])
        goes = self.fresh[calls.children["call"]]
        return Emitted({**take(calls.children, goes), "message": np.full(goes.sum(), NONE)})

    def message_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Columns:
        """A user gets what is newer than all before."""
        fresh = self.fresh[contents["call"]]
        return {name: contents[name][fresh] for name in ("call", "publication")}
