"""The tables in which a run writes the rows of all its systems.

Tasks import this module, but none of the config's modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark.core.units import MICROSECONDS
from scribe_spark.multicast import Multicast
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.schemas import written

#: Tables that some systems have -> their names in `Multicast`.
HANDED = {
    "copies": "copies",
    "system_state": "state",
    "control": "control",
    "pictures": "picture",
}

#: Column that is saved in milliseconds -> its name in systems' tables.
IN_MICROSECONDS = {"delay_ms": "delay_us", "sent_ms": "sent_us"}


def tree_edges(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``tree_edges``: the edges of all systems that have trees."""
    made = [(system, system.edges) for system in systems]
    return Batches.union(
        _table(system, edges, "tree_edges") for system, edges in made if edges is not None
    )


def deliveries(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``deliveries``: the first copy of each member but the source."""
    return Batches.union(_table(one, one.deliveries, "deliveries") for one in systems)


def other_tables(systems: Iterable[Multicast]) -> Iterator[tuple[str, Batches]]:
    """Yield the tables that some systems have: copies, state, control messages and pictures."""
    for name, handed in HANDED.items():
        made = [(system, system.table(handed)) for system in systems]
        rows = [_table(system, of, name) for system, of in made if of is not None]
        if rows:
            yield name, Batches.union(rows)


def _table(system: Multicast, table: Table, name: str) -> Batches:
    """Return the table `name` of one system with the columns in which it is written."""
    schema = written(name, system.scheduled)
    same = {"system": system.system, "merged": system.merged}
    wanted = {column: IN_MICROSECONDS.get(column, column) for column in schema.names}
    wanted = {column: of for column, of in wanted.items() if column not in same}

    def rows(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        made = {
            n: pa.repeat(pa.scalar(v), len(batch)) for n, v in same.items() if n in schema.names
        }
        for column, of in wanted.items():
            values = batch.column(of)
            if column != of:
                values = pc.divide(values.cast(pa.float64()), float(MICROSECONDS))
            made[column] = values
        return made

    return Batches.of(table, list(wanted.values())).each(rows, schema)
