"""The state of Scribe by (group, node), and what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..living.overlay import Overlay
from ..living.ring import closeness
from .groups import Group, GroupState, Settings
from .upcalls import Application, Join, Local, Publication

#: Why a node sends a JOIN of its own; the first of several in this order is taken.
CAUSES = (
    "own",
    "forwarder",
    "parent failed",
    "root failed",
    "parent left",
    "refused",
    "hand-over",
    "cycle",
    "shed",
    "collapse",
)


@dataclass(frozen=True)
class Answer:
    """The answer to a JOIN, on its way: who is the parent, and whom that knows above itself."""

    group: int
    source: int
    parent: int
    path: tuple[int, ...]
    by_root: bool


@dataclass
class Child:
    """An entry of a children table."""

    number: int  # the child's join number
    refreshed: int  # round of its JOIN or last refresh


@dataclass
class Entry:
    """What a node of a group's tree knows of the group.

    A node without parent that is not the root waits: it sends a JOIN in every round.
    """

    entered: int
    cause: str = "own"  # of its next JOIN
    member: bool = False
    joined: int = -1  # round of the join
    root: bool = False
    parent: int | None = None
    number: int = -1  # its join number
    heard: int = -1  # round of the last sign of life of the parent
    tried: bool = False  # has sent a JOIN before
    extra: int | None = None  # of the last JOIN
    path: tuple[int, ...] = ()  # from its parent up to the root, as it was told last
    children: dict[int, Child] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether it is in the tree, and has neither a parent nor is the root."""
        return self.parent is None and not self.root

    @property
    def needed(self) -> bool:
        """Whether it has to stay in the tree (LEAVE as docs/rules.md corrects it)."""
        return self.member or self.root or bool(self.children)


@dataclass
class Copy:
    """The group's state as the root or a replica has it; whom it takes for the root."""

    state: GroupState
    root: int
    incarnation: int


@dataclass
class Scribe:
    """All nodes' state, and the overlay that carries their messages."""

    overlay: Overlay
    groups: Mapping[int, Group]
    settings: Settings = field(default_factory=Settings)
    application: Application = field(default_factory=Application)
    # group -> node -> its entry, live nodes only
    entries: dict[int, dict[int, Entry]] = field(default_factory=dict)
    # (group, node) -> the group's state there
    copies: dict[tuple[int, int], Copy] = field(default_factory=dict)
    # (group, source) -> the root's address that it keeps
    addresses: dict[tuple[int, int], int] = field(default_factory=dict)
    # node -> round of its last arrival or recovery; absent: from the beginning
    incarnation: dict[int, int] = field(default_factory=dict)
    # publications that their sources send again, until a root has acknowledged them
    kept: set[Publication] = field(default_factory=set)
    # (group, node): a JOIN without the right credentials that nobody has refused yet
    strangers: set[tuple[int, int]] = field(default_factory=set)
    # (group, root) -> leaf -> age of the state that it has taken, and its incarnation then
    replicas: dict[tuple[int, int], dict[int, tuple]] = field(default_factory=dict)
    # (group, root): new, or its state has changed since it was sent to the replicas
    changed: set[tuple[int, int]] = field(default_factory=set)
    # answers to JOINs; they arrive in the next superstep
    answers: list[Answer] = field(default_factory=list)
    # (parent, JOIN) of children for which joinHandler has not been called yet
    added: list[tuple[int, Join]] = field(default_factory=list)
    # (group, parent, child): a payload was sent on that edge in this round
    paid: set[tuple[int, int, int]] = field(default_factory=set)
    # (publication, node): it has had it
    got: set[tuple[Publication, int]] = field(default_factory=set)
    # of the round, emptied at its beginning
    joins: list[tuple[int, int, str]] = field(default_factory=list)  # group, node, cause
    at_root: list[tuple[int, int]] = field(default_factory=list)  # group, new child of the root
    repairing: set[int] = field(default_factory=set)  # nodes that JOINs that repair were at
    refused: Counter[str] = field(default_factory=Counter)
    died: list[Publication] = field(default_factory=list)  # kept ones, with their sources
    deliveries: list[tuple[Publication, int]] = field(default_factory=list)  # in order
    duplicates: Counter[Publication] = field(default_factory=Counter)
    first_copies: Counter[Publication] = field(default_factory=Counter)
    taken: list[tuple[Publication, int]] = field(default_factory=list)  # by which root, in order
    ways: dict[Publication, list[int]] = field(default_factory=dict)  # from source to root
    carried: list[tuple[Publication, int, int]] = field(default_factory=list)
    # payloads: publication, sender, receiver; lost ones too

    @property
    def round(self) -> int:
        """The round being played."""
        return self.overlay.round

    def entry(self, group: int, node: int) -> Entry | None:
        """The node's entry for the group, if it is in the tree."""
        return self.entries.get(group, {}).get(node)

    def enter(self, group: int, node: int, cause: str) -> Entry:
        """A node enters the tree (Figure 3, line 4)."""
        entry = Entry(self.round, cause)
        self.entries.setdefault(group, {})[node] = entry
        return entry

    def all_entries(self) -> Iterator[tuple[int, int, Entry]]:
        """(group, node, entry) in order; the tables may change meanwhile."""
        for group in sorted(self.entries):
            for node in sorted(self.entries[group]):
                entry = self.entry(group, node)
                if entry is not None:
                    yield group, node, entry

    def known_path(self, group: int, node: int) -> tuple[int, ...]:
        """The node and whom it knows above itself: backwards the path from the root (rule S10)."""
        entry = self.entry(group, node)
        return (node, *entry.path) if entry is not None else (node,)

    def chain(self, group: int, node: int) -> list[int]:
        """The node, its parent, and so on, as far as live nodes of the tree are met.

        No node knows it: tests look at it.
        """
        chain: list[int] = []
        at: int | None = node
        while at is not None and at not in chain:
            entry = self.entry(group, at)
            if entry is None:
                break
            chain.append(at)
            at = entry.parent
        return chain or [node]

    def nearness(self, group: int, node: int) -> tuple[int, int]:
        """Order of "numerically closest to the groupId"."""
        return closeness(self.groups[group].key, self.overlay.idents[node])

    def leaves_by_nearness(self, group: int, node: int) -> list[int]:
        """A node's leaf set as it is, the numerically closest to the groupId first."""
        leaves = self.overlay.states[node].leaves()
        return sorted(leaves, key=lambda leaf: self.nearness(group, leaf))

    def roots(self, group: int) -> list[int]:
        """The nodes that take themselves for the group's root, by nodeId."""
        found = [node for node, entry in self.entries.get(group, {}).items() if entry.root]
        return sorted(found, key=lambda node: self.overlay.idents[node])

    def local(self, group: int, node: int) -> Local:
        """What an application sees of a node in the tree."""
        entry = self.entries[group][node]
        asked = entry.extra if entry.parent is not None and entry.number == self.round else None
        state = self.copies[group, node].state if entry.root else None
        return Local(
            self.round,
            group,
            node,
            entry.root,
            entry.entered,
            entry.joined if entry.member else -1,
            frozenset(entry.children),
            asked,
            state.epoch if state else None,
            state.application if state else None,
        )

    def forget(self, node: int) -> None:
        """All that a node has known dies with it (rule S3)."""
        for group in self.entries.values():
            group.pop(node, None)
        for table in (self.copies, self.addresses, self.replicas):
            for key in [key for key in table if key[1] == node]:
                del table[key]
        self.strangers = {pair for pair in self.strangers if pair[1] != node}
        self.died += [one for one in self.kept if one[2] == node]
        self.kept -= set(self.died)
        self.got = {pair for pair in self.got if pair[1] != node}
        self.application.node_died(node)
