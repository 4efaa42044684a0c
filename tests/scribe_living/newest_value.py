"""A second application on the upcalls: members have the newest publication of their group.

As in a ticker only the newest value counts.  Every node of a tree keeps the newest publication that
it has had, and passes no older one on.  A new child is sent it at once; a JOIN that repairs carries
what the child has, so that it gets nothing twice.

References
----------
JSAC 2002, Section III.B.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import NONE, SortedTable, whole_numbers
from scribe_spark.scribe.memory import AtNodes, Remembering
from scribe_spark.scribe.upcalls import NOTHING, Calls, Emitted

__all__ = ["Newest"]


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

    def fault_handler(self, calls: Calls, joins: pd.DataFrame) -> np.ndarray:
        """What the node has had."""
        rows = self.rows(calls)
        newest = self.had.newest[rows]
        return np.where(newest == NONE, NOTHING, newest)

    def join_handler(self, calls: Calls, joins: pd.DataFrame) -> Emitted:
        """A child that has less gets the newest."""
        call, extra = joins["call"].to_numpy(), joins["extra"].to_numpy()
        rows = self.rows(calls)
        newest = self.had.newest[rows[call]]
        lacks = (newest != NONE) & ((extra == NOTHING) | (extra < newest))
        message = np.arange(lacks.sum())
        payloads = {"call": call[lacks], "child": joins["source"].to_numpy()[lacks]}
        inside = {"number": newest[lacks], "publication": newest[lacks]}
        return Emitted(
            pd.DataFrame({**payloads, "message": message}),
            pd.DataFrame({"number": newest[lacks], "start": NOTHING, "floor": NONE}),
            pd.DataFrame({"message": message, **inside}),
        )

    def forward_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> Emitted:
        """What is newer than all before goes on, all else ends here."""
        rows = self.rows(calls)
        came = np.full(len(rows), NONE)
        np.maximum.at(came, contents["call"].to_numpy(), contents["publication"].to_numpy())
        self.fresh = came > self.had.newest[rows]
        self.had.newest[rows] = np.maximum(came, self.had.newest[rows])
        goes = self.fresh[calls.children["call"].to_numpy()]
        return Emitted(calls.children[goes].assign(message=NONE))

    def message_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> pd.DataFrame:
        """A user gets what is newer than all before."""
        return contents.loc[self.fresh[contents["call"].to_numpy()], ["call", "publication"]]
