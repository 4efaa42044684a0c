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

from scribe_spark.scribe.living.sorted_table import NONE, SortedTable, whole_numbers
from scribe_spark.scribe.living.upcalls import NOTHING, Application, Calls, Emitted

__all__ = ["Newest"]


@dataclass
class _Had(SortedTable):
    """The newest publication that nodes of trees have had, or NONE; by (group, node)."""

    entered: np.ndarray = field(default_factory=whole_numbers)
    newest: np.ndarray = field(default_factory=whole_numbers)


class Newest(Application):
    """The application; publications are in the order of their names: of rounds, then sources.

    Parameters
    ----------
    nodes : int
        How many nodes are known.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes, self.had = nodes, _Had()
        self.fresh = np.empty(0, dtype=bool)  # of the calls of the last forwardHandler

    def fault_handler(self, calls: Calls, joins: pd.DataFrame) -> np.ndarray:
        """What the node has had."""
        rows = self._rows(calls)
        newest = self.had.newest[rows]
        return np.where(newest == NONE, NOTHING, newest)

    def join_handler(self, calls: Calls, joins: pd.DataFrame) -> Emitted:
        """A child that has less gets the newest."""
        call, extra = joins["call"].to_numpy(), joins["extra"].to_numpy()
        rows = self._rows(calls)
        newest = self.had.newest[rows[call]]
        lacks = (newest != NONE) & ((extra == NOTHING) | (extra < newest))
        message = np.arange(lacks.sum())
        parcels = {"call": call[lacks], "child": joins["source"].to_numpy()[lacks]}
        inside = {"number": newest[lacks], "publication": newest[lacks]}
        return Emitted(
            pd.DataFrame({**parcels, "message": message}),
            pd.DataFrame({"number": newest[lacks], "start": NOTHING, "floor": NONE}),
            pd.DataFrame({"message": message, **inside}),
        )

    def forward_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> Emitted:
        """What is newer than all before goes on, all else ends here."""
        rows = self._rows(calls)
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

    def nodes_died(self, nodes: np.ndarray) -> None:
        """What the nodes have had is gone."""
        self.had.keep(~np.isin(self.had.key % self.nodes, nodes))

    def tables(self) -> dict[str, pd.DataFrame]:
        """All of the memory."""
        group, node = np.divmod(self.had.key, self.nodes)
        columns = {"entered": self.had.entered, "newest": self.had.newest}
        return {"had": pd.DataFrame({"group": group, "node": node, **columns})}

    def restore(self, tables: dict[str, pd.DataFrame]) -> None:
        """Take back what :meth:`tables` gave."""
        had = tables["had"]
        place = (had["group"] * self.nodes + had["node"]).to_numpy()
        self.had.insert(place, entered=had["entered"].to_numpy(), newest=had["newest"].to_numpy())

    def _rows(self, calls: Calls) -> np.ndarray:
        """The rows of calls; who has entered the tree anew begins anew."""
        place = (calls.here["group"] * self.nodes + calls.here["node"]).to_numpy()
        entered = calls.here["entered"].to_numpy()
        new = ~self.had.has(place)
        self.had.insert(place[new], entered=entered[new], newest=NONE)
        rows = self.had.find(place)
        stale = self.had.entered[rows] != entered
        self.had.entered[rows[stale]], self.had.newest[rows[stale]] = entered[stale], NONE
        return rows
