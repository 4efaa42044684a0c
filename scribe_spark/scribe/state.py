"""The knowledge of a bucket's nodes about groups: sorted tables of arrays, by (group, node).

A node is its position in the ring as in `OverlayState`, a group its index in `Groups`.  With K
nodes the key of a pair is ``group * K + node``, that of an edge ``(group * K + parent) * K +
child``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    Rows,
    SortedTable,
    codes,
    expand,
    flags,
    offsets_of,
    whole_numbers,
)
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import Lent, concatenate, count_rows, overlay
from scribe_spark.scribe.upcalls import CAUSES, NOTHING


def cause(name: str) -> int:
    """The number of one of :data:`CAUSES`."""
    return CAUSES.index(name)


#: The numbers of those of them that are failures.
FAILED = (cause("parent failed"), cause("root failed"))


def _rows() -> np.ndarray:
    return np.empty(0, dtype=np.int32)


_FLAGS = ("member", "root", "tried", "moved", "heeded")


@dataclass
class Entries(SortedTable):
    """The knowledge of a node of a group's tree about the group; by (group, node).

    A node without parent that is not the root *waits*: it sends a JOIN in every round.

    Attributes
    ----------
    entered : ndarray of int64
        The round in which it entered the tree.
    cause : ndarray of int8
        Of its next JOIN, an index of :data:`CAUSES`.
    member : ndarray of bool
    joined : ndarray of int64
        The round of the join.
    root : ndarray of bool
    parent : ndarray of int64
    number : ndarray of int64
        Its join number: the round in which its last JOIN was sent.
    heard : ndarray of int64
        The last round in which it heard its parent.
    tried : ndarray of bool
        Whether it has sent a JOIN since it entered the tree.
    extra : ndarray of int64
        What an application has added to the JOIN of this round, or :data:`NOTHING`.
    path : ndarray of int32
        The row of `ScribeState.paths` with those above it, as it was told last, or NONE.
    moved : ndarray of bool
        Whether the path has changed since it was told to the children.
    heeded : ndarray of bool
        Whether it has heard its parent in this round, by a heartbeat or a payload.
    """

    entered: np.ndarray = field(default_factory=whole_numbers)
    cause: np.ndarray = field(default_factory=codes)
    member: np.ndarray = field(default_factory=flags)
    joined: np.ndarray = field(default_factory=whole_numbers)
    root: np.ndarray = field(default_factory=flags)
    parent: np.ndarray = field(default_factory=whole_numbers)
    number: np.ndarray = field(default_factory=whole_numbers)
    heard: np.ndarray = field(default_factory=whole_numbers)
    tried: np.ndarray = field(default_factory=flags)
    extra: np.ndarray = field(default_factory=whole_numbers)
    path: np.ndarray = field(default_factory=_rows)
    moved: np.ndarray = field(default_factory=flags)
    heeded: np.ndarray = field(default_factory=flags)

    def enter(self, keys: np.ndarray, number: int, why: str) -> None:
        """Nodes enter trees in a round (Figure 3, line 4)."""
        new: dict[str, Any] = dict.fromkeys(self.columns(), NONE)
        new |= {"entered": number, "cause": cause(why), "extra": NOTHING}
        self.insert(keys, **new | dict.fromkeys(_FLAGS, False))

    def waiting(self) -> np.ndarray:
        """The rows of those that wait."""
        return np.flatnonzero((self.parent < 0) & ~self.root)


@dataclass
class ChildrenTable(SortedTable):
    """The children tables; by (group, node, child).

    Attributes
    ----------
    number : ndarray of int64
        The child's join number.
    refreshed : ndarray of int64
        The round of its JOIN or last refresh.
    got_payload : ndarray of bool
        Whether a payload was sent to it in this round.
    """

    number: np.ndarray = field(default_factory=whole_numbers)
    refreshed: np.ndarray = field(default_factory=whole_numbers)
    got_payload: np.ndarray = field(default_factory=flags)


@dataclass
class Copies(SortedTable):
    """The groups' states at roots and replicas; by (group, node).

    Of two copies the newer one has the greater (epoch, version).

    Attributes
    ----------
    epoch, version : ndarray of int64
        The round in which the group was created; how often its state has changed since.
    creator : ndarray of int64
    value : ndarray of int64
        Which of `ScribeState.values` an application keeps there, or NONE.
    root, incarnation : ndarray of int64
        Whom the node takes for the root, and the round of that one's last arrival or recovery.
    """

    epoch: np.ndarray = field(default_factory=whole_numbers)
    version: np.ndarray = field(default_factory=whole_numbers)
    creator: np.ndarray = field(default_factory=whole_numbers)
    value: np.ndarray = field(default_factory=whole_numbers)
    root: np.ndarray = field(default_factory=whole_numbers)
    incarnation: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Replicas(SortedTable):
    """The knowledge of roots about their replicas; by (group, root, leaf): the state at the leaf.

    Attributes
    ----------
    epoch, version : ndarray of int64
        Of the state, as of `Copies`.
    incarnation : ndarray of int64
        Of the leaf.
    """

    epoch: np.ndarray = field(default_factory=whole_numbers)
    version: np.ndarray = field(default_factory=whole_numbers)
    incarnation: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Addresses(SortedTable):
    """The roots' addresses that sources keep; by (group, source)."""

    root: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Kept:
    """Publications that their sources send again, until a root has acknowledged them.

    Attributes
    ----------
    group : ndarray of int64
    publication : ndarray of int64
        As of `Publications`.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class DeadRoots(SortedTable):
    """Roots that died a short time ago, and in which round; by (group, node)."""

    died: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Repairs:
    """Children of dead nodes that no root has reached again yet; `pair` is their (group, node)."""

    died: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    pair: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Publications(Rows):
    """Publications whose deadline has not come.

    Attributes
    ----------
    group : ndarray of int64
    publication : ndarray of int64
        ``round << 32 | number of the source``.
    fate : ndarray of int8
        An index of `sources.FATES`.
    duplicates : ndarray of int64
        How often members have got it again.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    fate: np.ndarray = field(default_factory=codes)
    duplicates: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Missing(Rows):
    """Members that did not get a publication in its round.

    Attributes
    ----------
    group, publication : ndarray of int64
        As of `Publications`.
    node : ndarray of int64
    late : ndarray of int64
        The round in which it got it after all, or NONE.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    late: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Resent:
    """Publications that roots have taken in a later round than that in which they were published.

    Attributes
    ----------
    group, publication : ndarray of int64
        As of `Publications`.
    taken : ndarray of int64
        The round in which a root has taken it.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    taken: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Lacking(SortedTable):
    """Members that have not got the newest publication of their group; by (group, node).

    Attributes
    ----------
    newest : ndarray of int64
        The newest that they have got since their join, as of `Publications`; or NONE.
    """

    newest: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Got(SortedTable):
    """Nodes that have had a publication whose deadline has not come: to count duplicates.

    Between two rounds; `duplicates` says what the keys are.
    """


@dataclass
class Values:
    """Values of an application in the groups' states: lists of numbers, one after the other.

    Attributes
    ----------
    lengths : ndarray of int64, shape (v,)
    numbers : ndarray of int64
    """

    lengths: np.ndarray = field(default_factory=whole_numbers)
    numbers: np.ndarray = field(default_factory=whole_numbers)

    def __len__(self) -> int:
        return len(self.lengths)

    def add(self, lengths: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Add lists; return their indices."""
        index = len(self.lengths) + np.arange(len(lengths))
        self.lengths = np.r_[self.lengths, lengths]
        self.numbers = np.r_[self.numbers, numbers]
        return index

    def of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of lists: which of `index`, and the number; NONE has none."""
        first = offsets_of(self.lengths)
        there = np.flatnonzero(index >= 0)
        which, at = expand(first[index[there]], first[index[there] + 1])
        return there[which], self.numbers[at]

    def keep(self, index: np.ndarray) -> None:
        """Keep only some lists, which are numbered anew."""
        _, numbers = self.of(index)
        self.lengths, self.numbers = self.lengths[index], numbers


@dataclass
class Paths:
    """The ways up from nodes, as they were told: nodes from the parent to the root, then NONE.

    Those that were told the same together share a row.

    Attributes
    ----------
    nodes : ndarray of int32, shape (p, longest)
    """

    nodes: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, nodes: np.ndarray) -> np.ndarray:
        """Add paths; return their rows."""
        rows = len(self.nodes) + np.arange(len(nodes), dtype=np.int32)
        nodes = nodes[:, : int((nodes >= 0).sum(axis=1).max(initial=0))]
        joined = concatenate([{"": self.nodes}, {"": nodes.astype(np.int32)}])
        self.nodes = joined[""]
        return rows

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the paths of rows; that of NONE is empty."""
        if not len(self.nodes):
            return np.full((len(rows), 0), NONE, dtype=np.int32)
        return np.where((rows >= 0)[:, None], self.nodes[rows], np.int32(NONE))


@dataclass
class ScribeState:
    """The knowledge of some nodes about all groups; kernels write into it.

    Attributes
    ----------
    size : int
        K, how many nodes there are.
    incarnation : ndarray of int64, shape (K,)
        The round of a node's last arrival or recovery, or NEVER; all nodes know it.
    kept : Kept
    replicas : Replicas
    paths : Paths
    unknown_members : SortedTable
        (group, node): a JOIN without the right credentials that nobody has refused yet.
    created : ndarray of bool, shape (G,)
        Groups that were created at some time.
    values : Values
    newest : ndarray of int64, shape (G,)
        The newest publication of each group that a root has taken, or NONE; see `order`.
    dead_roots, repairs, publications, missing, resent, lacking, got
        For the measures alone, as `newest`.
    """

    size: int
    incarnation: np.ndarray
    created: np.ndarray
    newest: np.ndarray
    entries: Entries = field(default_factory=Entries)
    children: ChildrenTable = field(default_factory=ChildrenTable)
    copies: Copies = field(default_factory=Copies)
    replicas: Replicas = field(default_factory=Replicas)
    paths: Paths = field(default_factory=Paths)
    addresses: Addresses = field(default_factory=Addresses)
    kept: Kept = field(default_factory=Kept)
    unknown_members: SortedTable = field(default_factory=SortedTable)
    values: Values = field(default_factory=Values)
    dead_roots: DeadRoots = field(default_factory=DeadRoots)
    repairs: Repairs = field(default_factory=Repairs)
    publications: Publications = field(default_factory=Publications)
    missing: Missing = field(default_factory=Missing)
    resent: Resent = field(default_factory=Resent)
    lacking: Lacking = field(default_factory=Lacking)
    got: Got = field(default_factory=Got)


# --- tables of a bucket


class BucketState(ScribeState):
    """A `ScribeState` that is read off the tables of a bucket, part by part, when asked for.

    Parameters
    ----------
    tables : Tables
    writes : iterable of str
        The parts that the caller may write into; all others cannot be written to.
    size : int
        K.
    incarnation : ndarray of int64, shape (K,)
    groups : int
        G.
    """

    def __init__(
        self,
        tables: Tables,
        writes: Iterable[str],
        size: int,
        incarnation: np.ndarray,
        groups: int,
    ) -> None:
        self.size, self.incarnation = size, incarnation
        self._tables, self._writes, self._groups = tables, frozenset(writes), groups

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(name)
        part = self._read(name)
        setattr(self, name, part)
        return part

    def _read(self, name: str) -> Any:
        kind, table = PARTS[name], table_of(name)
        if kind is None:  # an array of all groups
            if table in self._tables:
                return self._lend(name, self._tables[table])["value"]
            if name == "created":
                return np.zeros(self._groups, dtype=bool)
            return np.full(self._groups, NONE, dtype=np.int64)
        if issubclass(kind, Values):
            tables = [f"{table} {part}" for part in ("lengths", "numbers")]
            if tables[0] not in self._tables:
                return kind()
            return kind(*(self._lend(name, self._tables[one])["value"] for one in tables))
        if table not in self._tables:
            return kind()
        columns = self._lend(name, self._tables[table])
        return kind().borrow(columns) if issubclass(kind, SortedTable) else kind(**columns)

    def _lend(self, name: str, columns: Columns) -> Columns:
        return Lent(columns, name in self._writes)

    def put_back(self) -> None:
        """Write the parts that have been read, of those that may be written, into the tables."""
        for name in PARTS:
            if name in self._writes and name in self.__dict__:
                self._write(name, self.__dict__[name])

    def _write(self, name: str, part: Any) -> None:
        table = table_of(name)
        if isinstance(part, np.ndarray):
            self._tables[table] = {"value": part}
        elif isinstance(part, Values):
            for one in ("lengths", "numbers"):
                self._put(f"{table} {one}", {"value": getattr(part, one)})
        elif isinstance(part, SortedTable) and table in self._tables:
            self._put(table, overlay(self._tables[table], part.read()))
        else:
            self._put(table, {one.name: getattr(part, one.name) for one in fields(part)})

    def _put(self, table: str, columns: Columns) -> None:
        if count_rows(columns):
            self._tables[table] = columns
        elif table in self._tables:
            del self._tables[table]


def table_of(part: str) -> str:
    """Return the name of the table of a bucket with a part of its `ScribeState`."""
    return f"{PREFIX}{part.replace('_', ' ')}"


#: How the names of Scribe's tables begin.
PREFIX = "scribe "

#: What a `ScribeState` consists of, but for what all nodes know; None: an array of all groups.
PARTS: dict[str, type | None] = {
    "created": None,
    "newest": None,
    "entries": Entries,
    "children": ChildrenTable,
    "copies": Copies,
    "replicas": Replicas,
    "paths": Paths,
    "addresses": Addresses,
    "kept": Kept,
    "unknown_members": SortedTable,
    "values": Values,
    "dead_roots": DeadRoots,
    "repairs": Repairs,
    "publications": Publications,
    "missing": Missing,
    "resent": Resent,
    "lacking": Lacking,
    "got": Got,
}
