"""The parameters of GossipSub as kernels need them."""

from __future__ import annotations

from dataclasses import dataclass

from scribe_spark.config.gossipsub import GossipSubConfig

__all__ = ["GossipRules"]

MICROSECONDS = 1000  # of a millisecond


@dataclass(frozen=True)
class GossipRules:
    """What a node goes by; degrees, times in heartbeats or microseconds.

    Attributes
    ----------
    d, d_low, d_high, d_out, d_lazy : int
        Wished, least and greatest degree of a mesh; least outbound links in it; least number of
        peers that get IHAVE.
    gossip_factor : float
        Share of the peers outside of the mesh that get IHAVE, where that is more than `d_lazy`.
    mcache_gossip : int
        Heartbeats in which a publication is told of.
    prune_backoff, unsubscribe_backoff : int
        Heartbeats in which peers do not GRAFT one another after a PRUNE.
    prune_at_d_high : bool
        Whether a mesh of just `d_high` is pruned, too.
    flood_publish, idontwant : bool
    dials : int
        How many peers a subscriber dials.
    heartbeat_phases : int
        Groups of nodes whose heartbeats come one after the other.
    heartbeat_us, processing_us : int
        Between two heartbeats; between a node's first copy and its sending on.
    loss : float
        Share of the copies that are lost.
    seed : int
        Of all draws.
    """

    d: int = 6
    d_low: int = 4
    d_high: int = 12
    d_out: int = 2
    d_lazy: int = 6
    gossip_factor: float = 0.25
    mcache_gossip: int = 3
    prune_backoff: int = 60
    unsubscribe_backoff: int = 10
    prune_at_d_high: bool = False
    flood_publish: bool = True
    idontwant: bool = True
    dials: int = 20
    heartbeat_phases: int = 1
    heartbeat_us: int = 1_000_000
    processing_us: int = 0
    loss: float = 0.0
    seed: int = 1

    @classmethod
    def of(cls, config: GossipSubConfig, seed: int) -> GossipRules:
        """Return the rules that a config says."""
        names = [
            *("d", "d_low", "d_high", "d_out", "d_lazy", "gossip_factor", "mcache_gossip"),
            *("prune_at_d_high", "flood_publish", "idontwant", "dials", "heartbeat_phases"),
            "loss",
        ]
        return cls(
            **{name: config.value(name) for name in names},
            prune_backoff=config.heartbeats_of("prune_backoff_ms"),
            unsubscribe_backoff=config.heartbeats_of("unsubscribe_backoff_ms"),
            heartbeat_us=round(config.value("heartbeat_ms") * MICROSECONDS),
            processing_us=round(config.processing_ms * MICROSECONDS),
            seed=seed,
        )
