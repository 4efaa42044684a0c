"""What there is of groups between two rounds: sorted tables of arrays, by (group, node).

A node is its position in the ring as in `OverlayState`, a group its index in `Groups`.  With K
nodes the key of a pair is ``group * K + node``, that of an edge ``(group * K + parent) * K +
child``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scribe_spark.core.arrays import NONE, SortedTable, codes, flags, whole_numbers
from scribe_spark.pastry.overlay_state import NEVER
from scribe_spark.scribe.upcalls import CAUSES, NOTHING

__all__ = [
    "CAUSES",
    "NOTHING",
    "Addresses",
    "Children",
    "Copies",
    "DeadRoots",
    "FAILED",
    "Entries",
    "Got",
    "Kept",
    "Lacking",
    "Missing",
    "Publications",
    "Repairs",
    "Resent",
    "ScribeState",
    "cause",
]


def cause(name: str) -> int:
    """The number of one of :data:`CAUSES`."""
    return CAUSES.index(name)


#: The numbers of those of them that are failures.
FAILED = (cause("parent failed"), cause("root failed"))


@dataclass
class Entries(SortedTable):
    """What a node of a group's tree knows of the group; by (group, node).

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

    def enter(self, keys: np.ndarray, number: int, why: str) -> None:
        """Nodes enter trees in a round (Figure 3, line 4)."""
        new: dict[str, Any] = dict.fromkeys(self.columns(), NONE)
        new |= {"entered": number, "cause": cause(why), "extra": NOTHING}
        self.insert(keys, **new | dict.fromkeys(("member", "root", "tried"), False))

    def waiting(self) -> np.ndarray:
        """The rows of those that wait."""
        return np.flatnonzero((self.parent < 0) & ~self.root)


@dataclass
class Children(SortedTable):
    """The children tables; by (group, node, child).

    Attributes
    ----------
    number : ndarray of int64
        The child's join number.
    refreshed : ndarray of int64
        The round of its JOIN or last refresh.
    """

    number: np.ndarray = field(default_factory=whole_numbers)
    refreshed: np.ndarray = field(default_factory=whole_numbers)


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
    """Children of dead nodes that no root has reached again yet; `place` is their (group, node)."""

    died: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    place: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class Publications:
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
class Missing:
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


@dataclass(frozen=True)
class Got:
    """Nodes that have had a publication whose deadline has not come: to count duplicates."""

    group: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class ScribeState:
    """All groups in all nodes; kernels write into it.

    Attributes
    ----------
    size : int
        K, how many nodes are known.
    incarnation : ndarray of int64, shape (K,)
        The round of a node's last arrival or recovery, or NEVER.
    kept : Kept
    strangers : SortedTable
        (group, node): a JOIN without the right credentials that nobody has refused yet.
    created : ndarray of bool, shape (G,)
        Groups that were created at some time.
    values : dict of int to ndarray of int64
        What an application keeps in the groups' states.
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
    children: Children = field(default_factory=Children)
    copies: Copies = field(default_factory=Copies)
    addresses: Addresses = field(default_factory=Addresses)
    kept: Kept = field(default_factory=Kept)
    strangers: SortedTable = field(default_factory=SortedTable)
    values: dict[int, np.ndarray] = field(default_factory=dict)
    dead_roots: DeadRoots = field(default_factory=DeadRoots)
    repairs: Repairs = field(default_factory=Repairs)
    publications: Publications = field(default_factory=Publications)
    missing: Missing = field(default_factory=Missing)
    resent: Resent = field(default_factory=Resent)
    lacking: Lacking = field(default_factory=Lacking)
    got: Got = field(default_factory=Got)

    @classmethod
    def empty(cls, nodes: int, groups: int) -> ScribeState:
        """No group has been created yet.

        Parameters
        ----------
        nodes : int
            All that are known, dead ones too.

        Raises
        ------
        ValueError
            If keys of edges would not fit into 63 bits.
        """
        if groups * nodes * nodes >= 2**63:
            raise ValueError(f"{groups} groups among {nodes} nodes are too many")
        created = np.zeros(groups, dtype=bool)
        newest = np.full(groups, NONE, dtype=np.int64)
        return cls(nodes, np.full(nodes, NEVER, dtype=np.int64), created, newest)
