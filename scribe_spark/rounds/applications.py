"""Users' applications of the systems of a world: their memory, and the upcall of failures
(docs/rules.md, O14).

A system notes the failures that nodes notice; at the end of a round of the world, the application
of each bucket is told those of its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import AT, append

#: The table of failures that nodes have noticed in a round: ``group`` (an index), ``node`` and
#: ``neighbour`` (positions).
NOTICED = "noticed failures"

#: The beginning of the names of the tables with the memory of applications.
MEMORY = "application "


class WorldApplication:
    """The interface of a user's application of any system of a world; this base does nothing.

    There is an application for each bucket of nodes.  It is copied, and made anew for each step, so
    it has to keep its memory in :meth:`tables`.
    """

    def neighbours_failed(self, system: str, number: int, failures: Columns) -> None:
        """Called after a round in which nodes have given up silent neighbours.

        A node also gives up a live neighbour from which no message comes any more.

        Parameters
        ----------
        system : str
            The name of the system whose neighbours they are.
        number : int
            The number of the round of the world.
        failures : Columns
            ``group, node, neighbour``, by users' numbers and sorted: the node that has given up a
            neighbour in a group; the node may have failed later in the round.
        """

    def tables(self) -> dict[str, Columns]:
        """Return the memory, for the next step of the same nodes."""
        return {}

    def restore(self, tables: Mapping[str, Columns]) -> None:
        """Set the memory to what :meth:`tables` returned."""


@dataclass(frozen=True)
class Applications:
    """The factory of the application of each bucket, whose memory is in the bucket's tables."""

    make: Callable[[int], Any]
    nodes: int
    system: str = ""  # its name, for `TellApplication`

    def of(self, tables: Tables) -> Any:
        """Return the bucket's application with its saved memory."""
        made = self.make(self.nodes)
        names = [name for name in tables if name.startswith(MEMORY)]
        if names:
            found = {name.removeprefix(MEMORY): tables[name] for name in names}
            made.restore({**made.tables(), **found})  # tables without rows are not saved
        return made

    def put_back(self, application: Any, tables: Tables) -> None:
        """Store the memory of an application in the bucket's tables."""
        for name, columns in application.tables().items():
            if count_rows(columns):
                tables[f"{MEMORY}{name}"] = columns
            else:
                tables.pop(f"{MEMORY}{name}", None)


def note_failures(
    tables: Tables, group: np.ndarray, node: np.ndarray, neighbour: np.ndarray
) -> None:
    """Note in a bucket that nodes (positions) have given up neighbours in groups (indices)."""
    if len(node):
        append(tables, NOTICED, {"group": group, "node": node, "neighbour": neighbour})


@dataclass(frozen=True)
class TellApplication:
    """The program that sends noticed failures to the nodes' buckets, and calls the applications."""

    bounds: np.ndarray
    facts: KnowsRing
    applications: Applications
    number: int  # of the round of the world
    group: np.ndarray  # (G,): the numbers of the groups
    silent: ClassVar[bool] = False

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Send the rows of :data:`NOTICED`, then tell them."""
        if not superstep:
            noticed = tables.pop(NOTICED, None)
            return {} if noticed is None else {NOTICED: {AT: noticed["node"], **noticed}}
        if NOTICED in inbox:
            came, number = inbox[NOTICED], self.facts.ring.node
            rows = {"group": self.group[came["group"]]}
            rows |= {name: number[came[name]] for name in ("node", "neighbour")}
            order = np.lexsort((rows["neighbour"], rows["node"], rows["group"]))
            application = self.applications.of(tables)
            failures = {name: column[order] for name, column in rows.items()}
            application.neighbours_failed(self.applications.system, self.number, failures)
            self.applications.put_back(application, tables)
        return {}
