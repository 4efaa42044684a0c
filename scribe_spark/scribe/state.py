"""The state of a bucket's nodes about groups: sorted tables of arrays, by (group, node).

A node is given by its ring position, a group by its index in `Groups`.  With K nodes, the key of a
pair (group, node) is ``group * K + node``, and the key of an edge is ``(group * K + parent) * K +
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
    """Return the index of a cause in :data:`CAUSES`."""
    return CAUSES.index(name)


#: The causes that are failures.
FAILED = (cause("parent failed"), cause("root failed"))


def _rows() -> np.ndarray:
    return np.empty(0, dtype=np.int32)


_FLAGS = ("member", "root", "tried", "moved", "heeded")


@dataclass
class Entries(SortedTable):
    """The knowledge of a tree node about the group, by (group, node).

    A node without a parent that is not the root *waits*: it sends a JOIN in every round.

    Attributes
    ----------
    entered : ndarray of int64
        The round in which the node entered the tree.
    cause : ndarray of int8
        The cause of the node's next JOIN, an index of :data:`CAUSES`.
    member : ndarray of bool
    joined : ndarray of int64
        The round in which the node became a member.
    root : ndarray of bool
    parent : ndarray of int64
    number : ndarray of int64
        The join number: the round of the node's last JOIN.
    heard : ndarray of int64
        The last round in which the node heard from its parent.
    tried : ndarray of bool
        True if the node has sent a JOIN since it entered the tree.
    extra : ndarray of int64
        The data that the application added to this round's JOIN, or :data:`NOTHING`.
    path : ndarray of int32
        The row of `ScribeState.paths` with the nodes above, as the parent told last, or NONE.
    moved : ndarray of bool
        True if the path has changed since the children were told.
    heeded : ndarray of bool
        True if the node heard from its parent in this round, by a heartbeat or a payload.
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
        """Add nodes to trees (Figure 3, line 4)."""
        new: dict[str, Any] = dict.fromkeys(self.columns(), NONE)
        new |= {"entered": number, "cause": cause(why), "extra": NOTHING}
        self.insert(keys, **new | dict.fromkeys(_FLAGS, False))

    def waiting(self) -> np.ndarray:
        """Return the rows of the nodes that wait."""
        return np.flatnonzero((self.parent < 0) & ~self.root)


@dataclass
class ChildrenTable(SortedTable):
    """The children tables; by (group, node, child).

    Attributes
    ----------
    number : ndarray of int64
        The child's join number.
    refreshed : ndarray of int64
        The round of the child's JOIN or last refresh.
    got_payload : ndarray of bool
        True if a payload was sent to the child in this round.
    """

    number: np.ndarray = field(default_factory=whole_numbers)
    refreshed: np.ndarray = field(default_factory=whole_numbers)
    got_payload: np.ndarray = field(default_factory=flags)


@dataclass
class Copies(SortedTable):
    """The copies of group states at roots and replicas; by (group, node).

    Of two copies, the one with the greater (epoch, version) is newer.

    Attributes
    ----------
    epoch, version : ndarray of int64
        The round in which the group was created; the number of changes of its state since.
    creator : ndarray of int64
    value : ndarray of int64
        The index in `ScribeState.values` of what the application stores, or NONE.
    root, incarnation : ndarray of int64
        The node that the owner of the copy considers the root, and the round of that node's last
        arrival or recovery.
    """

    epoch: np.ndarray = field(default_factory=whole_numbers)
    version: np.ndarray = field(default_factory=whole_numbers)
    creator: np.ndarray = field(default_factory=whole_numbers)
    value: np.ndarray = field(default_factory=whole_numbers)
    root: np.ndarray = field(default_factory=whole_numbers)
    incarnation: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Replicas(SortedTable):
    """The states that roots know to be at their replicas; by (group, root, leaf).

    Attributes
    ----------
    epoch, version : ndarray of int64
        The version of the state at the leaf, see `Copies`.
    incarnation : ndarray of int64
        The round of the leaf's last arrival or recovery.
    """

    epoch: np.ndarray = field(default_factory=whole_numbers)
    version: np.ndarray = field(default_factory=whole_numbers)
    incarnation: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Addresses(SortedTable):
    """The roots whose addresses sources have cached; by (group, source)."""

    root: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Unacknowledged:
    """Publications that sources send again until a root acknowledges them.

    Attributes
    ----------
    group : ndarray of int64
    publication : ndarray of int64
        See `Publications`.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class DeadRoots(SortedTable):
    """Roots that died recently, with the round of their death; by (group, node)."""

    died: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Repairs:
    """Children of dead nodes that no root has reached again; `pair` is the key (group, child)."""

    died: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    pair: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Publications(Rows):
    """Publications whose deadline has not passed.

    Attributes
    ----------
    group : ndarray of int64
    publication : ndarray of int64
        The id: ``round << 32 | number of the source``.
    fate : ndarray of int8
        An index of `sources.FATES`.
    duplicates : ndarray of int64
        The number of duplicate deliveries to members.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    fate: np.ndarray = field(default_factory=codes)
    duplicates: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Undelivered(Rows):
    """Members that did not receive a publication in its round.

    Attributes
    ----------
    group, publication : ndarray of int64
        See `Publications`.
    node : ndarray of int64
    late : ndarray of int64
        The later round in which the member received it, or NONE.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    late: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class AcceptedLate:
    """Publications that a root accepted in a later round than that of publication.

    Attributes
    ----------
    group, publication : ndarray of int64
        See `Publications`.
    taken : ndarray of int64
        The round in which a root accepted the publication.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    taken: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Behind(SortedTable):
    """Members that have not received the newest publication of their group; by (group, node).

    Attributes
    ----------
    newest : ndarray of int64
        The newest publication that the member has received since its join, or NONE.
    """

    newest: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Received(SortedTable):
    """Publications that nodes received and whose deadline has not passed, to count duplicates.

    The table is used between rounds; `duplicates` defines its keys.
    """


@dataclass
class Values:
    """The values that an application stores in group states: lists of numbers, concatenated.

    Attributes
    ----------
    lengths : ndarray of int64, shape (v,)
        The length of each list.
    numbers : ndarray of int64
        The numbers of all lists.
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
        """Return the numbers of lists: positions in `index`, and numbers; NONE is an empty list."""
        first = offsets_of(self.lengths)
        there = np.flatnonzero(index >= 0)
        which, at = expand(first[index[there]], first[index[there] + 1])
        return there[which], self.numbers[at]

    def keep(self, index: np.ndarray) -> None:
        """Keep the lists at `index`, in that order."""
        _, numbers = self.of(index)
        self.lengths, self.numbers = self.lengths[index], numbers


@dataclass
class Paths:
    """Paths to the root, as nodes were told: the nodes from the parent to the root, then NONE.

    Nodes that were told the same path share a row.

    Attributes
    ----------
    nodes : ndarray of int32, shape (p, longest)
        A row for each of the p paths.
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
        """Return the paths in some rows; the path of NONE is empty."""
        if not len(self.nodes):
            return np.full((len(rows), 0), NONE, dtype=np.int32)
        return np.where((rows >= 0)[:, None], self.nodes[rows], np.int32(NONE))


@dataclass
class ScribeState:
    """The state of some nodes about all groups; kernels write to it.

    Attributes
    ----------
    size : int
        K, the number of nodes.
    incarnation : ndarray of int64, shape (K,)
        The round of each node's last arrival or recovery, or NEVER; all nodes know it.
    kept : Unacknowledged
    replicas : Replicas
    paths : Paths
    unknown_members : SortedTable
        The nodes, as (group, node), that sent a JOIN without the required credentials, and that
        nobody has refused yet.
    created : ndarray of bool, shape (G,)
        True for each group that was ever created.
    values : Values
    newest : ndarray of int64, shape (G,)
        The newest publication of each group that a root has accepted, or NONE; see `order`.
    dead_roots, repairs, publications, missing, resent, lacking, got
        Used by the measures only, like `newest`.
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
    kept: Unacknowledged = field(default_factory=Unacknowledged)
    unknown_members: SortedTable = field(default_factory=SortedTable)
    values: Values = field(default_factory=Values)
    dead_roots: DeadRoots = field(default_factory=DeadRoots)
    repairs: Repairs = field(default_factory=Repairs)
    publications: Publications = field(default_factory=Publications)
    missing: Undelivered = field(default_factory=Undelivered)
    resent: AcceptedLate = field(default_factory=AcceptedLate)
    lacking: Behind = field(default_factory=Behind)
    got: Received = field(default_factory=Received)


# --- tables of a bucket


class BucketState(ScribeState):
    """A `ScribeState` whose parts are read from the tables of a bucket on first use.

    Parameters
    ----------
    tables : Tables
    writes : iterable of str
        The parts that the caller may write; all others are read-only.
    size : int
        K, the number of nodes.
    incarnation : ndarray of int64, shape (K,)
        See `ScribeState`.
    groups : int
        G, the number of groups.
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
        """Store the writable parts that were read in the tables of the bucket."""
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
    """Return the name of the bucket's table that stores a part of `ScribeState`."""
    return f"{PREFIX}{part.replace('_', ' ')}"


#: The prefix of the names of Scribe's tables.
PREFIX = "scribe "

#: The parts of a `ScribeState` with their types; None is an array with a value per group.
PARTS: dict[str, type | None] = {
    "created": None,
    "newest": None,
    "entries": Entries,
    "children": ChildrenTable,
    "copies": Copies,
    "replicas": Replicas,
    "paths": Paths,
    "addresses": Addresses,
    "kept": Unacknowledged,
    "unknown_members": SortedTable,
    "values": Values,
    "dead_roots": DeadRoots,
    "repairs": Repairs,
    "publications": Publications,
    "missing": Undelivered,
    "resent": AcceptedLate,
    "lacking": Behind,
    "got": Received,
}
