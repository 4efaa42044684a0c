"""SHA-256 of a Parquet table's rows, whatever their order and however the files are laid out.

Computed here with pyarrow and numpy alone, so that the digest of today's table can be compared with
that of a table which was written long ago by other code.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def read_folder(folder: Path) -> pa.Table:
    """Read all Parquet files of a table; dictionary-encoded columns are decoded."""
    table = pq.read_table(folder)
    plain = [
        pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(plain))


def columns_of(table: pa.Table) -> dict[str, str]:
    """Name -> Arrow type of every column."""
    return {field.name: str(field.type) for field in table.schema}


def digest_table(table: pa.Table, columns: dict[str, str]) -> dict[str, Any]:
    """Digest the named columns (name -> Arrow type) of a table: ``rows, sha256``.

    The digest covers names, types, values bit by bit, and which of them are NULL.  It does not
    depend on the order of rows or of the table's columns, nor on columns that are not named.  If a
    column is missing or has another type, the result says so in place of a digest.
    """
    found = columns_of(table)
    for name, kind in columns.items():
        if found.get(name) != kind:
            what = f"is {found[name]}, not {kind}" if name in found else "is missing"
            return {"rows": table.num_rows, "sha256": f"column {name} {what}"}
    encoded = [_encode(table.column(name)) for name in columns]
    # np.lexsort takes the least significant key first
    keys = [key for valid, values, _ in reversed(encoded) for key in (values, valid)]
    order = np.lexsort(keys)
    digest = hashlib.sha256()
    for (name, kind), (valid, values, texts) in zip(columns.items(), encoded, strict=True):
        for text in (name, kind, *texts):
            digest.update(len(text.encode()).to_bytes(8, "little") + text.encode())
        digest.update(valid[order].tobytes())
        digest.update(values[order].astype("<i8").tobytes())
    return {"rows": table.num_rows, "sha256": digest.hexdigest()}


def _encode(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Encode a column: which values are valid (uint8), the values (int64), distinct texts.

    The value is the bits of a number, the place of a text among the sorted texts, or 0 for NULL.
    """
    valid = column.is_valid().to_numpy().astype(np.uint8)
    if pa.types.is_string(column.type):
        codes = column.combine_chunks().dictionary_encode()
        found = codes.dictionary.to_pylist()
        texts = sorted(found)
        place = np.array([texts.index(text) for text in found] or [0], dtype=np.int64)
        return valid, np.where(valid, place[codes.indices.fill_null(0).to_numpy()], 0), texts
    if pa.types.is_floating(column.type):
        numbers = column.fill_null(0.0).to_numpy().astype(np.float64)
        numbers = np.where(np.isnan(numbers), np.nan, numbers)  # all NaNs have the same bits
        return valid, numbers.view(np.int64), []
    if pa.types.is_integer(column.type):
        return valid, column.fill_null(0).to_numpy().astype(np.int64), []
    if pa.types.is_boolean(column.type):
        return valid, column.fill_null(False).to_numpy().astype(np.int64), []
    raise TypeError(f"no digest of {column.type}")
