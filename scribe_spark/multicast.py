"""The tables of a multicast system in a run, from which measures are computed.

A system has *copies*, one row for each time that a node sends the message to a node, and
*deliveries*, one row for each member that receives it.  Trees are a special case: the copies of a
tree are its edges.

References
----------
JSAC 2002, Section IV (what is measured).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import sums_at
from scribe_spark.core.errors import InputError, listed
from scribe_spark.runtime.batches import Table

#: The kind of copies of the message itself; all other kinds are control messages.
PAYLOAD = "payload"

#: The clocks that decide which copy is a node's first: by TIME, a copy arrives after the delays of
#: its path; by HOPS, in the round after it was sent.
TIME, HOPS = "time", "hops"

#: Copies; ``hop`` is 1 for copies from the source, ``sent_us`` is NULL by the clock of hops,
#: ``first`` is true for the first payload that its receiver gets.
COPIES = (
    "group bigint, sender bigint, receiver bigint, sender_router bigint, receiver_router bigint, "
    "kind string, hop int, sent_us bigint, first boolean"
)

#: The edges of trees, which are their copies.
EDGES = "group bigint, parent bigint, child bigint, parent_router bigint, child_router bigint"

#: The first copy of each member that is not the source.
DELIVERIES = "group bigint, node bigint, hops int, delay_us bigint"

#: A further column of copies and deliveries if a group may have several publications.
PUBLICATION = "publication bigint"

#: The number of entries of a kind that a node keeps; the group is NULL if they belong to none.
STATE = "group bigint, node bigint, kind string, entries bigint"

#: The number of control messages of a kind that a node sends to another one while members join;
#: the group is NULL if they belong to none.
CONTROL = (
    "group bigint, sender bigint, receiver bigint, sender_router bigint, receiver_router bigint, "
    "kind string, messages bigint"
)

#: The edges of the picture of a group, which form a tree: edges of the least ``rank`` are
#: the widest (`declaration.Picture`); ``value`` is a number of the child (NaN: none).
PICTURE = f"{EDGES}, rank bigint, value double"

#: The costs of node failures, summed over the nodes at each depth of a tree.
FAILURES = "depth bigint, failures bigint, links bigint, acting bigint, messages bigint"

#: A table, or a function that makes it at its first use.
Made = Table | Callable[[], Table]


@dataclass(frozen=True)
class Multicast:
    """The tables of a multicast system; all its measures are computed from them.

    Each group gets one message, or several in a run with a schedule (`scheduled`).  A table is a
    DataFrame of Spark, `Batches` (Arrow batches), or a function without arguments that returns one
    of these; delays are in microseconds.

    Attributes
    ----------
    system : str
        The name of the system: ``scribe``, ``ip_multicast``, ``naive_unicast``, ...
    tree_edges : DataFrame, Batches, callable or None
        One row for each copy from node to node: ``group, parent, child, parent_router,
        child_router``.  Other columns are ignored.  None if copies form no trees.
    delivered : DataFrame, Batches or callable
        One row for each member but the source: ``group, node, hops, delay_us``.
    merged : bool
        True if routers duplicate packets: the routes of a group's edges, all from one source, are
        merged, each link carries one packet per group, and nodes keep no children tables.
    copies : DataFrame, Batches, callable or None
        One row for each copy of a system whose copies form no trees: ``group, sender, receiver,
        sender_router, receiver_router, kind, hop, sent_us, first``.
    state : DataFrame, Batches, callable or None
        The number of entries that nodes keep: ``group, node, kind, entries``.  None for a tree
        whose nodes keep only their children.
    control : DataFrame, Batches, callable or None
        The number of control messages while members join: ``group, sender, receiver,
        sender_router, receiver_router, kind, messages``.  None if joining is not modelled, or
        follows from the trees (`System.joins_by_edges`).
    picture : DataFrame, Batches, callable or None
        The edges of the system's picture, of one group: ``group, parent, child, parent_router,
        child_router, rank, value``.  None without a picture (`System.picture`).
    scheduled : bool
        True in a run with a schedule: `delivered` and `copies` have a column ``publication``, and
        systems with trees have `copies`, too.
    """

    system: str
    tree_edges: Made | None
    delivered: Made
    merged: bool = False
    copies: Made | None = None
    state: Made | None = None
    control: Made | None = None
    picture: Made | None = None
    scheduled: bool = False

    @cached_property
    def deliveries(self) -> Table:
        """The table `delivered`; if it is a function, its result, computed once."""
        return self._made("delivered")

    @cached_property
    def edges(self) -> Table | None:
        """The table `tree_edges` with its required columns and their types only."""
        return None if self.tree_edges is None else self._made("tree_edges")

    def table(self, name: str) -> Table | None:
        """Return ``copies``, ``state``, ``control`` or ``picture``; None if there is none."""
        return None if getattr(self, name) is None else self._made(name)

    def _made(self, name: str) -> Table:
        table, columns = getattr(self, name), _COLUMNS[name]
        if self.scheduled and name in _BY_PUBLICATION:
            columns = f"{columns}, {PUBLICATION}"
        return conformed(self.system, name, table() if callable(table) else table, columns)


#: The tables of a :class:`Multicast` -> their columns.
_COLUMNS = {
    "tree_edges": EDGES,
    "delivered": DELIVERIES,
    "copies": COPIES,
    "state": STATE,
    "control": CONTROL,
    "picture": PICTURE,
}

#: The tables with a row for each publication.
_BY_PUBLICATION = ("delivered", "copies")

#: Types of columns that are cast to the types of the tables; a value out of range becomes NULL,
#: which the check of rows refuses.
_WHOLE = {"tinyint", "smallint", "int", "bigint"}


def refuse(system: str, fault: str) -> InputError:
    """Return an InputError that names a system and the fault in its tables."""
    return InputError("systems", system, fault)


def conformed(system: str, name: str, table: Table, columns: str) -> Table:
    """Return a table of a system with exactly the columns wanted, without a Spark job.

    A column of `columns` (names and types) that is missing, doubled or of a wrong type is refused.
    """
    wanted = dict(column.split() for column in columns.split(", "))
    found = [(field.name, field.dataType.simpleString()) for field in table.schema.fields]
    count, types = Counter(name for name, _ in found), dict(found)
    for column, kind in wanted.items():
        if count[column] != 1:
            often = "no column" if column not in types else "several columns"
            needs = f"it needs {listed(wanted)}"
            raise refuse(system, f"hands over {name} with {often} {column}; {needs}")
        whole = kind in _WHOLE and types[column] in _WHOLE and isinstance(table, DataFrame)
        if types[column] != kind and not whole:
            fault = f"hands over {name} with column {column} of type {types[column]}"
            raise refuse(system, f"{fault}; cast it to {kind}")
    if found == list(wanted.items()):
        return table
    if not isinstance(table, DataFrame):
        return table.select(list(wanted))
    return table.select(
        *(
            name if types[name] == kind else F.col(name).try_cast(kind).alias(name)
            for name, kind in wanted.items()
        )
    )


def failure_sums(depth: np.ndarray, *costs: np.ndarray) -> pa.RecordBatch:
    """Return the costs of node failures, summed by the depth of the failed node: :data:`FAILURES`.

    `costs` are the numbers of links removed or created, of acting nodes, and of messages.
    """
    found, of = np.unique(depth, return_inverse=True)
    columns = [found, np.bincount(of)]
    columns += [sums_at(of, cost, len(found)) for cost in costs]
    names = [column.split()[0] for column in FAILURES.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)
