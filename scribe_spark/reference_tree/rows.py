"""The columns of the reference tree's tables."""

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
    """Return a schema of columns that may be NULL."""
    return StructType([StructField(name, kind, True) for name, kind in columns.items()])


_INT, _LONG = IntegerType(), LongType()

#: The numbers of look-ups of a host, for its parent and for its children.
COUNTS = ("parent_lookups", "child_lookups")

#: A row for each host.  ``topmost_hi, topmost_lo`` is its topmost key, and ``depth`` is the depth
#: of this key in the reference tree; ``parent`` is NULL for the root.
PLACES = schema(
    node=_LONG,
    topmost_hi=_LONG,
    topmost_lo=_LONG,
    depth=_INT,
    parent=_LONG,
    **dict.fromkeys(COUNTS, _LONG),
)

#: Partial rows of :data:`PLACES`; ``ended`` is true if all searches of the host ended in its
#: bucket.
PIECES = StructType([*PLACES.fields, StructField("ended", BooleanType(), True)])

#: A row for each look-up: the host that asked, the key, the owner of the key, and ``purpose``:
#: whether the host searched for its ``parent`` or its ``children``.
LOOKUPS = schema(node=_LONG, key_hi=_LONG, key_lo=_LONG, owner=_LONG, purpose=StringType())
