"""The settings of GossipSub, and draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

#: draw(purpose, *numbers) -> 64 bits, unsigned.
Draw = Callable[..., int]


@dataclass(frozen=True)
class Settings:
    """Names are those of the rules; degrees are d, d_low, d_high, d_out, d_lazy.

    Back-offs are in heartbeats; `loss` is a share. `clock` is time or hops.
    """

    d: int = 6
    d_low: int = 5
    d_high: int = 12
    d_out: int = 2
    d_lazy: int = 6
    gossip_factor: float = 0.25
    discovery: str = "dial"
    dials: int = 20
    dials_per_heartbeat: int = 0
    joins: str = "at_once"
    join_waves: int = 1
    heartbeats: int = 10
    heartbeat_phases: int = 1
    prune_at_d_high: bool = False
    prune_backoff: int = 60
    unsubscribe_backoff: int = 10
    flood_publish: bool = True
    idontwant: bool = True
    processing_ms: float = 0
    heartbeat_ms: float = 1000
    mcache_gossip: int = 3
    loss: float = 0.0
    clock: str = "time"
    detection: int = 1
    deadline: int = 5

    @property
    def processing_us(self) -> int:
        """Return the processing time in microseconds."""
        return round(self.processing_ms * 1000)

    @property
    def heartbeat_us(self) -> int:
        """Return the period of heartbeats in microseconds."""
        return round(self.heartbeat_ms * 1000)


def least(
    count: int,
    nodes: Iterable[int],
    draw: Callable[[int], int],
    idents: Mapping[int, int],
) -> list[int]:
    """Return the `count` nodes of least draw, of equal draws the smaller nodeId first."""
    return sorted(nodes, key=lambda node: (draw(node), idents[node]))[: max(count, 0)]


def is_lost(bits: int, loss: float) -> bool:
    """Tell whether a draw says that a copy is lost (G12)."""
    return (bits >> 11) * 2.0**-53 < loss
