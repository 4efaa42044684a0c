"""A router graph from Python code, in the form in which a config keeps it.

A GraphFrame, a `Topology`, or two DataFrames (vertices, edges) of Spark or pandas are read when the
config is made.  The record contains no Spark object, and has a digest by which runs are compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scribe_spark.core.errors import InputError, one_line, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: The columns that are read; other columns are ignored.
VERTEX_COLUMNS = ("id", "kind", "domain", "x", "y")
EDGE_COLUMNS = ("src", "dst", "delay_ms", "weight", "rate")

#: The greatest number of rows of each table; the driver keeps them, with about 40 bytes per row.
MOST_ROWS = 20_000_000

#: True if a column has missing values -> the largest whole number that its array has exactly.
_LARGEST = {False: 2**63 - 1, True: 2**53}


@dataclass(frozen=True, eq=False, repr=False)
class GivenGraph:
    """Unchecked vertices and edges of a graph on the driver; equal digests are equal graphs.

    Both tables have the columns of :data:`VERTEX_COLUMNS` and :data:`EDGE_COLUMNS` that the graph
    has; without vertices, the ends of the edges count.  `digest` (SHA-256) does not depend on the
    order of rows and the types of numbers; `source` is the type of the graph, for messages.
    """

    vertices: pd.DataFrame | None
    edges: pd.DataFrame
    source: str
    digest: str

    @classmethod
    def of(cls, graph: Any) -> GivenGraph:
        """Return the record of a GraphFrame, a Topology, or two DataFrames of Spark or pandas."""
        if isinstance(graph, GivenGraph):
            return graph
        if isinstance(graph, tuple | list) and len(graph) == 2:
            (vertices, edges), source = graph, "DataFrames"
        elif hasattr(graph, "vertices") and hasattr(graph, "edges"):
            vertices, edges, source = graph.vertices, graph.edges, type(graph).__name__
        else:
            raise _no_graph(graph)
        kept = None if vertices is None else _collect(vertices, VERTEX_COLUMNS, source)
        links = _collect(edges, EDGE_COLUMNS, source)
        return cls(kept, links, source, _digest(kept, links))

    def __str__(self) -> str:
        return f"graph:{self.digest[:16]}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenGraph) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _no_graph(value: Any) -> InputError:
    remedy = (
        "must be the name of a topology, the path of an edge list, or a graph: a GraphFrame, a "
        "Topology, or two DataFrames (vertices, edges)"
    )
    return InputError("topology", type(value).__name__, remedy)


def _collect(frame: Any, names: tuple[str, ...], source: str) -> pd.DataFrame:
    """Return the named columns of a DataFrame; all columns if none has such a name."""
    if not hasattr(frame, "columns"):
        raise _no_graph(frame)
    levels = [name for name in getattr(getattr(frame, "index", None), "names", []) if name in names]
    if levels:  # pandas may have a column as its index
        frame = frame.reset_index(levels)
    columns = list(frame.columns)
    wanted = [name for name in names if name in columns] or columns
    for name in wanted:
        if columns.count(name) > 1:
            raise InputError("topology", source, f"has the column {shown(name)} twice; keep one")
    if hasattr(frame, "toArrow"):  # Spark
        rows = _collect_typed(frame.select(*wanted).limit(MOST_ROWS + 1), source)
    else:
        rows = frame[wanted].reset_index(drop=True)
    if len(rows) > MOST_ROWS:
        remedy = f"has more than {MOST_ROWS:,} rows: too many for a network of routers"
        raise InputError("topology", source, remedy)
    return rows


def _collect_typed(frame: Any, source: str) -> pd.DataFrame:
    """Return the rows of a Spark DataFrame in Arrow's types, which keep units and integers."""
    import pandas as pd

    try:
        return frame.toArrow().to_pandas(types_mapper=pd.ArrowDtype)
    except TypeError as error:
        remedy = f"has a column that is not numeric ({one_line(error)}); convert it"
        raise InputError("topology", source, remedy) from None


def _digest(vertices: pd.DataFrame | None, edges: pd.DataFrame) -> str:
    import pandas as pd

    if vertices is None and {"src", "dst"} <= set(edges.columns):
        vertices = pd.DataFrame({"id": pd.concat([edges["src"], edges["dst"]]).unique()})
    digest = hashlib.sha256()
    for name, frame in (("vertices", vertices), ("edges", edges)):
        digest.update(f"{name}\n".encode())
        if frame is not None:
            _update(digest, frame)
    return digest.hexdigest()


def _update(digest: Any, frame: pd.DataFrame) -> None:
    """Add the non-empty columns of a frame to a digest, with rows in the order of their values."""
    import numpy as np

    columns = {name: _canonical(frame[name]) for name in frame if frame[name].notna().any()}
    digest.update(f"{len(frame)} rows of {sorted(map(str, columns))}\n".encode())
    if columns:
        ordered = [columns[name] for name in sorted(columns, key=str)]
        order = np.lexsort(ordered[::-1])
        for values in ordered:
            digest.update(values[order].tobytes())


def _canonical(column: pd.Series) -> np.ndarray:
    """Return numbers as float64 or, if exact for all, as int64; others as hashes of texts."""
    import numpy as np
    import pandas as pd

    is_whole = pd.api.types.is_integer_dtype(column.dtype)
    most = 0 if not is_whole else max(abs(int(column.min())), abs(int(column.max())))
    if not pd.api.types.is_numeric_dtype(column.dtype) or most > _LARGEST[column.hasnans]:
        texts = column.astype(object).where(column.notna(), None).map(repr)
        hashes = [hashlib.sha256(text.encode()).digest()[:8] for text in texts]
        return np.frombuffer(b"".join(hashes), dtype="<i8")
    if is_whole and not column.hasnans:
        return column.to_numpy(np.int64).astype("<i8")
    real = column.to_numpy(np.float64, na_value=np.nan)
    if (np.abs(real) < 2**53).all() and (real == np.floor(real)).all():
        return real.astype("<i8")
    return (real + 0.0).astype("<f8")  # -0.0 equals 0.0
