"""The place of every host in the reference tree, and the look-ups that find it, also over Pastry.

Costa and Frey, Sections 3.3, 3.4, and 4.1 ("an abstract component with the ability to map keys onto
hosts").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import InputError, listed
from scribe_spark.core.progress import Progress
from scribe_spark.core.u128 import Numbers, halves, halves_of
from scribe_spark.engine.facts import Ring, distribute_facts
from scribe_spark.overlay import Application, Overlay
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import describe_jobs
from scribe_spark.systems.reference_tree.hash_table import ASSIGNMENTS, CHORD, HashTable
from scribe_spark.systems.reference_tree.search import LookUps, climb, explore
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: A row for each host.  ``topmost_hi, topmost_lo`` is its topmost key, and ``depth`` is the depth
#: of this key in the reference tree; ``parent`` is NULL for the root; the last two are the numbers
#: of look-ups of the host, for its parent and for its children.
PLACES = (
    "node bigint, topmost_hi bigint, topmost_lo bigint, depth int, parent bigint, "
    "parent_lookups bigint, child_lookups bigint"
)

#: A row for each look-up: the host that asked, the key, the owner of the key, and ``purpose``:
#: whether the host searched for its ``parent`` or its ``children``.
LOOKUPS = "node bigint, key_hi bigint, key_lo bigint, owner bigint, purpose string"

#: The approximate number of hosts whose places a task finds together.
_HOSTS = 2**15


def places(
    nodes: DataFrame,
    tree: ReferenceTree,
    assignment: str = CHORD,
    buckets: int | None = None,
    *,
    named: bool = False,
) -> DataFrame:
    """Return the place of every host in the reference tree, found by look-ups: `PLACES`.

    A look-up is one message to the owner of the key (``dht = abstract``). The result is
    materialised; free it with :func:`scribe_spark.runtime.blocks.release`.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``: the hosts, and their ids, which are less than 2**bits of `tree`.
    assignment : str
        The rule that assigns keys to hosts: ``chord`` or ``pastry``.
    buckets : int, optional
        The number of parts of the ring; it does not affect the result.
    named : bool
        True to return the look-ups (`LOOKUPS`) in place of the places.

    Raises
    ------
    InputError
        There are no hosts or more hosts than keys, or ids are equal or too large.
    """
    if assignment not in ASSIGNMENTS:
        raise InputError("assignment", assignment, f"is unknown; give one of {listed(ASSIGNMENTS)}")
    spark, router = nodes.sparkSession, F.lit(0).cast("bigint").alias("router")
    with describe_jobs(spark, "reference tree: hosts"):
        facts = distribute_facts(nodes.select("node", "id_hi", "id_lo", router))
    schema = cast(StructType, StructType.fromDDL(LOOKUPS if named else PLACES))
    wanted = to_arrow_schema(schema)
    try:
        _check_ids(facts.ring, tree)
        count = len(facts.ring)
        parts = min(-(-count // _HOSTS) if buckets is None else buckets, count)
        bounds = np.linspace(0, count, parts + 1).astype(np.int64)

        def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table = HashTable.of_ring(tree, assignment, facts.ring, np.arange(count))
            for part in (part for batch in batches for part in batch.column("id").to_pylist()):
                rows = np.arange(*bounds[part : part + 2])
                found = _lookups(table, rows) if named else place_of(table, rows)
                for name in {"node", "parent", "owner"} & found.keys():
                    at = found[name]
                    found[name] = pa.array(facts.ring.node[at], mask=at == NONE)
                columns = [pa.array(found[field.name], field.type) for field in wanted]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)

        with describe_jobs(spark, "reference tree: places"):
            rows = spark.range(0, parts, 1, parts).mapInArrow(find, schema)
            return materialise(rows)[0]
    finally:
        facts.release()


def place_of(table: HashTable, rows: np.ndarray) -> dict[str, Any]:
    """Return the places of the hosts in some rows: the columns of `PLACES`."""
    topmost, depth = table.topmost(rows)
    parent, up = climb(table, rows)
    *_, down = explore(table, rows)
    found = {"node": table.node[rows], **_halves("topmost", topmost), "depth": depth}
    return {**found, "parent": parent, "parent_lookups": up, "child_lookups": down}


def _lookups(table: HashTable, rows: np.ndarray) -> dict[str, Any]:
    """Return all look-ups of the hosts in some rows: the columns of `LOOKUPS`."""
    up, down = list[LookUps](), list[LookUps]()
    climb(table, rows, up)
    explore(table, rows, down)
    each = LookUps.join(*up, *down)
    of_parents = np.arange(len(each)) < sum(map(len, up))
    found = {"node": each.asker, **_halves("key", each.key), "owner": each.owner}
    return {**found, "purpose": np.where(of_parents, "parent", "children")}


def _halves(name: str, keys: Numbers) -> dict[str, np.ndarray]:
    hi, lo = halves_of(keys)
    return {f"{name}_hi": hi.view(np.int64), f"{name}_lo": lo.view(np.int64)}


def _check_ids(ring: Ring, tree: ReferenceTree) -> None:
    """Raise InputError if ids of a ring are equal or too large, or if there are no hosts."""

    def id_at(position: int) -> int:
        return int(ring.hi[position]) << 64 | int(ring.lo[position])

    count, bits = len(ring), tree.bits
    if not count:
        raise InputError("nodes", count, "must be at least 1")
    if count > 2**bits:
        raise InputError(
            "nodes", count, f"must be at most {2**bits}, the number of keys of {bits} bits"
        )
    if id_at(-1) >= 2**bits:
        raise InputError("id", id_at(-1), f"must be less than 2**{bits}, the number of keys")
    again = np.flatnonzero((ring.hi[1:] == ring.hi[:-1]) & (ring.lo[1:] == ring.lo[:-1]))
    if len(again):
        raise InputError("id", id_at(again[0]), "is the id of two hosts; ids must be unique")


def route_lookups(
    overlay: Overlay, asked: DataFrame, progress: Progress | None = None
) -> DataFrame:
    """Route look-ups (`LOOKUPS`) through an overlay of the same hosts (``dht = routed``).

    All travel at the same time, although a host would wait for each answer, because the keys do not
    depend on the routes.  The result has ``hops, delay_us`` of the questions, too; free it with
    `release`.  A message that ends at another host than the owner of its key is a RuntimeError.
    """
    key = halves("key")
    routed = overlay.route(
        Application(),
        asked.select("node", *key, "owner", "purpose"),
        name="look-ups",
        progress=progress,
    )
    arrived = routed.outcomes()
    strayed = arrived.where("node <> owner").count()
    if strayed:
        raise RuntimeError(f"{strayed} look-ups ended at a host that does not own the key")
    node = F.col("start").alias("node")
    result, _ = materialise(arrived.select(node, *key, "owner", "purpose", "hops", "delay_us"))
    routed.release()
    return result
