"""The state of a bucket's nodes about groups: sorted tables of arrays, by (group, node).

A node is given by its ring position, a group by its index in `Groups`.  With K nodes, the key of a
pair (group, node) is ``group * K + node``, and the key of an edge is ``(group * K + parent) * K +
child``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    Rows,
    SortedTable,
    codes,
    flags,
    joined,
    whole_numbers,
)
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import Lent, concatenate, count_rows, overlay
from scribe_spark.systems.scribe.upcalls import CAUSES, NOTHING


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
    """The knowledge of a tree node about its group, by (group, node).

    A node without a parent that is not the root *waits*: it sends a JOIN in every round. The value
    of `path` is the row of `ScribeState.paths` with the nodes above, as the parent told last, and
    `extra` is the data that the application added to this round's JOIN, or :data:`NOTHING`.
    """

    entered: np.ndarray = field(default_factory=whole_numbers)  # round in which it entered the tree
    cause: np.ndarray = field(default_factory=codes)  # of its next JOIN, see CAUSES
    member: np.ndarray = field(default_factory=flags)
    joined: np.ndarray = field(default_factory=whole_numbers)  # round in which it became a member
    root: np.ndarray = field(default_factory=flags)
    parent: np.ndarray = field(default_factory=whole_numbers)
    number: np.ndarray = field(default_factory=whole_numbers)  # round of its last JOIN
    heard: np.ndarray = field(default_factory=whole_numbers)  # last round it heard its parent
    tried: np.ndarray = field(default_factory=flags)  # has sent a JOIN since it entered the tree
    extra: np.ndarray = field(default_factory=whole_numbers)
    path: np.ndarray = field(default_factory=_rows)
    moved: np.ndarray = field(default_factory=flags)  # the path changed since children were told
    heeded: np.ndarray = field(default_factory=flags)  # heard its parent in this round

    def enter(self, keys: np.ndarray, number: int, why: str) -> None:
        """Add nodes (keys) to trees (Figure 3, line 4); `why` is the cause of their JOINs."""
        new: dict[str, Any] = dict.fromkeys(self.columns(), NONE)
        new |= {"entered": number, "cause": cause(why), "extra": NOTHING}
        self.insert(keys, **new | dict.fromkeys(_FLAGS, False))

    def are_orphans(self) -> np.ndarray:
        """Return True for each node that is not the root and has heard no parent in this round."""
        return ~self.root & ((self.parent < 0) | ~self.heeded)

    def waiting(self) -> np.ndarray:
        """Return the rows of the nodes that wait."""
        return np.flatnonzero(self.waits(slice(None)))

    def waits(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return True for rows of nodes that wait."""
        return (self.parent[rows] < 0) & ~self.root[rows]


@dataclass
class ChildrenTable(SortedTable):
    """The children tables; by (group, node, child)."""

    number: np.ndarray = field(default_factory=whole_numbers)  # the child's join number
    refreshed: np.ndarray = field(default_factory=whole_numbers)  # round of its JOIN or refresh
    got_payload: np.ndarray = field(default_factory=flags)  # a payload was sent in this round


@dataclass
class Copies(SortedTable):
    """The copies of group states (a root's data of its group) at roots and replicas.

    The table is by (group, node). Of two copies, the one with the greater (epoch, version) is
    newer. An epoch is the round in which the group was created, a version the number of changes of
    its state since. The application stores the first `length` numbers of `values`, whose rows are
    padded. `root` is the node that the owner of the copy considers the root, `incarnation` the
    round of that node's last arrival or recovery.
    """

    epoch: np.ndarray = field(default_factory=whole_numbers)
    version: np.ndarray = field(default_factory=whole_numbers)
    creator: np.ndarray = field(default_factory=whole_numbers)
    length: np.ndarray = field(default_factory=whole_numbers)
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    root: np.ndarray = field(default_factory=whole_numbers)
    incarnation: np.ndarray = field(default_factory=whole_numbers)

    def put(self, keys: np.ndarray, **values: Any) -> None:
        """See `SortedTable`; the numbers of the application get rows of equal widths."""
        super().put(keys, **{**values, "values": self.widened(values["values"])})

    def widened(self, lists: np.ndarray) -> np.ndarray:
        """Return padded lists as wide as the rows of `values`, which may become wider."""
        none = np.empty((0, max(self.values.shape[1], lists.shape[1])), dtype=np.int64)
        if self.values.shape[1] < none.shape[1]:
            self.values = joined([self.values, none])
        return joined([lists, none]) if lists.shape[1] < none.shape[1] else lists

    def rows(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of some rows."""
        return {name: getattr(self, name)[rows] for name in self.columns()}


@dataclass
class Replicas(SortedTable):
    """The group states that roots know to be at replicas; by (group, root, leaf)."""

    epoch: np.ndarray = field(default_factory=whole_numbers)
    version: np.ndarray = field(default_factory=whole_numbers)
    incarnation: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Addresses(SortedTable):
    """The roots whose addresses sources have cached; by (group, source)."""

    root: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Unacknowledged(Rows):
    """Publications that sources send again until a root acknowledges them."""

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class DeadRoots(SortedTable):
    """Roots that died recently, by (group, node), with the round of their death."""

    died: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Repairs(Rows):
    """Children of dead nodes that no root has reached again: the key (group, child)."""

    died: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    pair: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class StoredPublications(Rows):
    """Publications whose deadline has not passed.

    The id of a publication is that of `publication_ids` (`rounds.group_events`); `first_copies`
    counts the members that received it, and `duplicates` the duplicate deliveries to members.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    first_copies: np.ndarray = field(default_factory=whole_numbers)
    duplicates: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Undelivered(Rows):
    """Members that lack a publication of its round; `late`: the round it came, or NONE."""

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    late: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class AcceptedLate(Rows):
    """Publications that roots accepted in a later round (`taken`) than their own."""

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    taken: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Questions(SortedTable):
    """Questions after the heartbeats of a round, at the parents; by (group, node, child)."""

    number: np.ndarray = field(default_factory=whole_numbers)  # the child's join number
    extra: np.ndarray = field(default_factory=whole_numbers)  # the data of faultHandler


@dataclass
class Newest(SortedTable):
    """The newest publications that members have received from applications; by (group, node)."""

    publication: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Received(SortedTable):
    """Received publications before their deadline, each a key, to count duplicates."""


@dataclass
class Paths:
    """Paths to the root, as nodes were told: from the parent to the root, then NONE; int32."""

    nodes: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, nodes: np.ndarray) -> np.ndarray:
        """Add the paths in the rows of `nodes`, with NONE after the end; return their new rows."""
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

    `incarnation` has the round of the last arrival or recovery of each of the `size` nodes, or
    NEVER; all nodes know it.  `created` marks the groups that were ever created.  `unknown_members`
    has the nodes, as (group, node), that sent a JOIN without the required credentials, and that
    nobody has refused yet.  Only the measures use the parts from `dead_roots` on.
    """

    size: int
    incarnation: np.ndarray
    created: np.ndarray
    entries: Entries = field(default_factory=Entries)
    children: ChildrenTable = field(default_factory=ChildrenTable)
    copies: Copies = field(default_factory=Copies)
    replicas: Replicas = field(default_factory=Replicas)
    paths: Paths = field(default_factory=Paths)
    addresses: Addresses = field(default_factory=Addresses)
    kept: Unacknowledged = field(default_factory=Unacknowledged)
    unknown_members: SortedTable = field(default_factory=SortedTable)
    questions: Questions = field(default_factory=Questions)
    dead_roots: DeadRoots = field(default_factory=DeadRoots)
    repairs: Repairs = field(default_factory=Repairs)
    publications: StoredPublications = field(default_factory=StoredPublications)
    missing: Undelivered = field(default_factory=Undelivered)
    resent: AcceptedLate = field(default_factory=AcceptedLate)
    newest: Newest = field(default_factory=Newest)
    got: Received = field(default_factory=Received)


# --- tables of a bucket

#: The parts of a `ScribeState` with their types; None is an array with a value per group.
PARTS: dict[str, Any] = {
    one.name: None if one.default_factory is MISSING else one.default_factory
    for one in fields(ScribeState)
    if one.name not in ("size", "incarnation")
}

#: The prefix of the names of Scribe's tables.
PREFIX = "scribe "


def table_of(part: str) -> str:
    """Return the name of the bucket's table that stores a part of `ScribeState`."""
    return f"{PREFIX}{part.replace('_', ' ')}"


#: The names of the bucket's tables that store a `ScribeState`.
STATE_TABLES = frozenset(map(table_of, PARTS))


class BucketState(ScribeState):
    """A `ScribeState` whose parts are read from the tables of a bucket on first use."""

    def __init__(
        self, tables: Tables, writes: Iterable[str], size: int, incarnation: np.ndarray, groups: int
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
        kind, table, columns = PARTS[name], table_of(name), None
        if table in self._tables:
            columns = Lent(self._tables[table], name in self._writes)
        if kind is None:  # an array of all groups
            return np.zeros(self._groups, bool) if columns is None else columns["value"]
        if columns is None:
            return kind()
        return kind().borrow(columns) if issubclass(kind, SortedTable) else kind(**columns)

    def put_back(self) -> None:
        """Store the parts that were read, and that may be written, in the bucket's tables."""
        for name in PARTS:
            if name in self._writes and name in self.__dict__:
                self._write(name, self.__dict__[name])

    def _write(self, name: str, part: Any) -> None:
        table = table_of(name)
        if isinstance(part, np.ndarray):
            self._tables[table] = {"value": part}
        elif isinstance(part, SortedTable) and table in self._tables:
            self._put(table, overlay(self._tables[table], part.read()))
        else:
            self._put(table, {one.name: getattr(part, one.name) for one in fields(part)})

    def _put(self, table: str, columns: Columns) -> None:
        if count_rows(columns):
            self._tables[table] = columns
        elif table in self._tables:
            del self._tables[table]
