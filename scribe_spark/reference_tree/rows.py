"""Tables of the reference tree: their columns."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)


def schema(**columns: DataType) -> StructType:
    """Columns that may be NULL."""
    return StructType([StructField(name, kind, True) for name, kind in columns.items()])


_INT, _LONG = IntegerType(), LongType()

#: Look-ups of a host: for its parent, and for its children.
COUNTS = ("parent_lookups", "child_lookups")

#: A row for each host.  ``topmost_hi, topmost_lo`` is its topmost key and ``depth`` that key's
#: depth; ``parent`` is NULL at the root.
PLACES = schema(
    node=_LONG,
    topmost_hi=_LONG,
    topmost_lo=_LONG,
    depth=_INT,
    parent=_LONG,
    **dict.fromkeys(COUNTS, _LONG),
)

#: Parts of places: ``ended`` says that all searches of the host have.
PIECES = StructType([*PLACES.fields, StructField("ended", BooleanType(), True)])

#: A row for each look-up: who asked for which key, who owns it, and whether the asker was looking
#: for its ``parent`` or for ``children``.
LOOKUPS = schema(node=_LONG, key_hi=_LONG, key_lo=_LONG, owner=_LONG, purpose=StringType())
