"""Groups: their keys, their access lists, and the state that the root and its replicas have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

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
