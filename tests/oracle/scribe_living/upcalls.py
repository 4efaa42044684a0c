"""The upcalls of JSAC III.B.2, and what an application sees of the node that calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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

    def common_extra(self, extras: Sequence[int]) -> int | None:
        """What one JOIN carries for all that several would: None if there are none."""
        return min(extras, default=None)

    def message_handler(self, here: Local, message: Payload) -> Iterable[Publication]:
        """At a member (given with join, JSAC III): the publications that its user gets now."""
        return message.publications

    def node_died(self, node: int) -> None:
        """The memory of a node's process is gone."""
