"""Groups, the upcalls of JSAC III.B.2, the state of Scribe by (group, node), what was counted."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..living.overlay import Overlay
from ..ring import closeness

OPERATIONS = ("create", "join", "multicast")


@dataclass(frozen=True)
class Access:
    """Who may create, join, and multicast to a group; None: everybody."""

    create: frozenset[int] | None = None
    join: frozenset[int] | None = None
    multicast: frozenset[int] | None = None

    def allows(self, operation: str, node: int) -> bool:
        """Whether the node's credentials permit the operation."""
        allowed: Collection[int] | None = getattr(self, operation)
        return allowed is None or node in allowed


@dataclass(frozen=True)
class Group:
    """What a CREATE says of a group: its groupId and its access list."""

    key: int
    access: Access = field(default_factory=Access)


@dataclass(frozen=True)
class GroupState:
    """The state of a group, at its root and its replicas.

    A group that was lost and created again has another epoch, the round of its creation; `version`
    counts changes, and `application` is what the application keeps at the root.
    """

    creator: int
    epoch: int
    version: int
    access: Access
    application: object = None

    @property
    def age(self) -> tuple[int, int]:
        """Which of two copies is the newer one."""
        return self.epoch, self.version


@dataclass(frozen=True)
class Settings:
    """Parameters of Scribe in a living world; times are rounds."""

    parent_timeout: int = 2
    refresh: int = 2
    child_timeout: int = 4
    replicas: int = 5  # k, the root among them
    deadline: int = 5  # rounds after which an undelivered publication counts as lost
    limit: int | None = None  # of children, over all groups; None: no bottleneck remover
    collapse: bool = False
    source: str = "root"  # | routed | direct: where measured multicasts begin (rule S25)
    lazy: bool = False  # then `limit` is that of lazy growth, too
    remover: bool = True  # whether nodes above the limit drop children
    capacities: tuple[int, ...] | None = None  # every node's own limit instead
    shed: tuple[str, str, str] = ("largest", "farthest", "remaining")  # group, child, table

    def limit_of(self, node: int) -> int:
        """How many children a node may have, where there are limits."""
        assert self.limit is not None
        return self.limit if self.capacities is None else self.capacities[node]

    def check(self, leaf_set_size: int) -> None:
        """Refuse what contradicts itself (rule S23)."""
        for name in ("parent_timeout", "refresh", "child_timeout", "replicas"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be 1 or more")
        if self.child_timeout <= self.refresh:
            raise ValueError("child_timeout must be larger than refresh")
        if self.replicas > leaf_set_size // 2:
            raise ValueError("replicas must be at most half of the leaf set size")
        if self.deadline < 0:
            raise ValueError("deadline must not be negative")


# --- upcalls --------------------------------------------------------------------------------------


#: (round, group, source): at most one publication of a source to a group in a round.
Publication = tuple[int, int, int]


@dataclass(frozen=True)
class Join:
    """A JOIN message.  `extra` is what faultHandler adds: an integer, or None."""

    group: int
    source: int
    number: int  # the join number: the round in which it was sent
    cause: str
    extra: int | None = None


@dataclass(frozen=True)
class Local:
    """What a node knows of itself in a group when Scribe calls the application.

    It entered the tree in round `entered` and joined in round `joined` (-1: no member). `asked` is
    what its own JOIN of this round carried, if it was answered.  At the root there are the group's
    epoch and the application's state.
    """

    round: int
    group: int
    node: int
    root: bool
    entered: int
    joined: int
    children: frozenset[int]
    asked: int | None = None
    epoch: int | None = None
    state: object = None


@dataclass(frozen=True)
class Payload:
    """The content of a MULTICAST message as an application made it.

    `number` is the least number in it (messages that reach a node together are taken in this
    order), `publications` are those that it carries.
    """

    number: int
    publications: tuple[Publication, ...]
    start: int | None = None  # the reliable application's fields: see there
    floor: int | None = None
    since: int | None = None
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ask:
    """To the own parent: another JOIN with this extra."""

    extra: int


@dataclass(frozen=True)
class Change:
    """To the group's state, at the root only: the application's state from now on."""

    state: object


class Application:
    """Best effort: messages pass unchanged, JOINs carry nothing, members get what arrives.

    If publications are `acknowledged`, sources keep them until a root has answered (rule S24).
    """

    acknowledged = False

    def forward_handler(
        self, here: Local, message: Payload
    ) -> tuple[Mapping[int, Payload], Change | None]:
        """Before a message goes to the children: child -> message; a new state at the root."""
        return dict.fromkeys(here.children, message), None

    def join_handler(self, here: Local, join: Join) -> Iterable[Payload | Ask]:
        """After a child was added: messages to that child, questions to the own parent."""
        return ()

    def fault_handler(self, here: Local, join: Join) -> int | None:
        """Before a JOIN that repairs is sent: its extra."""
        return None

    def last_number(self, here: Local) -> int | None:
        """Up to where a node has had everything, as heartbeats say where copies may be lost."""
        return None

    def common_extra(self, extras: Sequence[int]) -> int | None:
        """What one JOIN carries for all that several would: None if there are none."""
        return min(extras, default=None)

    def message_handler(self, here: Local, message: Payload) -> Iterable[Publication]:
        """At a member (given with join, JSAC III): the publications that its user gets now."""
        return message.publications

    def node_died(self, node: int) -> None:
        """The memory of a node's process is gone."""


# --- all nodes ------------------------------------------------------------------------------------


#: Why a node sends a JOIN of its own; the first of several in this order is taken.
CAUSES = (
    "own", "forwarder", "parent failed", "root failed", "parent left", "refused", "hand-over",
    "cycle", "shed", "collapse",
)  # fmt: skip


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
    # (publication, sender, receiver): True if the network loses this round's copy; None: never
    is_lost: Callable[[Publication, int, int], bool] | None = None
    withholds: Collection[int] = ()  # the nodes that forward nothing (N6)

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
        """The node, its parent, and so on, as far as live nodes of the tree are met."""
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
