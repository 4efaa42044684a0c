"""Messages that are routed by Pastry in one phase of a round, all by the same tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..living.overlay import Overlay
from ..living.routing import (
    DELIVERED,
    ON_ITS_WAY,
    UNDELIVERABLE,
    Found,
    Message,
    drop_and_repair,
    hop,
)

__all__ = ["DELIVERED", "ON_ITS_WAY", "UNDELIVERABLE", "Message", "Phase"]


@dataclass
class Phase:
    """What the phase's messages find dead is dropped and repaired at its end (rule S8)."""

    overlay: Overlay
    found: Found = field(default_factory=set)

    def hop(self, message: Message, kind: str, order: Iterator[int] | None = None) -> str:
        """One hop of a message, by another order of candidates than Pastry's if there is one."""
        before = len(message.met_dead)
        hop(self.overlay, message, kind, order)
        self.found.update(message.met_dead[before:])
        return message.status

    def route(self, start: int, key: int, kind: str) -> Message:
        """All hops of a message."""
        message = Message(key, [start])
        while message.status == ON_ITS_WAY:
            self.hop(message, kind)
        return message

    def close(self) -> None:
        """The end of the phase."""
        drop_and_repair(self.overlay, self.found)
        self.found = set()
