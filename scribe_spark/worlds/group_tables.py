"""What a packed world tells of its groups: tables that can be queried, by numbers of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.core.arrays import NONE
from scribe_spark.core.keys import key_parts
from scribe_spark.engine import Columns
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.lives import NEVER
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.state import table_of
from scribe_spark.worlds.packed import unpacked

__all__ = [
    "INCARNATIONS",
    "QUERIED",
    "children",
    "incarnation_table",
    "memberships",
    "queried",
]

#: The packed table of the round of each node's last arrival or recovery: ``node, round``.
INCARNATIONS = "incarnations"


def incarnation_table(rounds: np.ndarray, known: Ring) -> pa.Table:
    """Return the table :data:`INCARNATIONS`."""
    came = np.flatnonzero(rounds != NEVER)
    return pa.table({"node": known.node[came], "round": rounds[came]})


def memberships(state: DataFrame) -> DataFrame:
    """`schemas.MEMBERSHIPS`: all nodes of all trees; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    """
    return unpacked(state, "entries", schemas.MEMBERSHIPS)


def children(state: DataFrame) -> DataFrame:
    """`schemas.CHILDREN`: all entries of all children tables; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    """
    return unpacked(state, "children", schemas.CHILDREN)


def _memberships(entries: Columns, groups: Groups, known: Ring) -> pa.Table:
    group, node = key_parts(entries["key"], ("group", "node"), len(known)).values()
    above = entries["parent"]
    parent = pa.array(known.node[above], mask=above == NONE)
    columns = [groups.number[group], known.node[node], parent, entries["member"], entries["root"]]
    return pa.table(columns, schemas.MEMBERSHIPS.names)


def _children(table: Columns, groups: Groups, known: Ring) -> pa.Table:
    parts = key_parts(table["key"], ("group", "parent", "child"), len(known))
    group, parent, child = parts.values()
    columns = [groups.number[group], known.node[parent], known.node[child]]
    return pa.table(columns, schemas.CHILDREN.names)


#: Tables of buckets that can be queried -> their names among the packed tables, and their rows.
QUERIED: dict[str, tuple[str, Callable[[Columns, Groups, Ring], pa.Table]]] = {
    table_of("entries"): ("entries", _memberships),
    table_of("children"): ("children", _children),
}


def queried(
    name: str, columns: Columns, groups: Groups, known: Ring
) -> Iterator[tuple[str, pa.Table]]:
    """Yield what can be queried of a table of a bucket, with its name; of most nothing."""
    if name in QUERIED:
        called, rows_of = QUERIED[name]
        yield called, rows_of(columns, groups, known)
