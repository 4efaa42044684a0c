"""The section ``gossipsub``: GossipSub's parameters, and the ways in which its nodes find peers.

References
----------
libp2p/specs, pubsub/gossipsub: gossipsub-v1.0.md, "Parameters"; gossipsub-v1.1.md, "Overview of New
Parameters".  libp2p/go-libp2p-pubsub, gossipsub.go: ``DefaultGossipSubParams``.
ethereum/consensus-specs, specs/phase0/p2p-interface.md, "The gossip domain: gossipsub".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.config.section import Flat, Section
from scribe_spark.config.used_when import UsedWhen, used_by, used_when
from scribe_spark.errors import InputError

_MOST_DEGREE = 1_000
_MOST_MS = 3_600_000.0

_MICROSECONDS = 1000  # in a millisecond

_SPEC: dict[str, Any] = {
    "d": 6,
    "d_low": 4,
    "d_high": 12,
    "d_out": 2,
    "d_lazy": 6,
    "gossip_factor": 0.25,
    "mcache_gossip": 3,
    "heartbeat_ms": 1000.0,
    "prune_backoff_ms": 60_000.0,
    "unsubscribe_backoff_ms": 10_000.0,
    "prune_at_d_high": False,
    "flood_publish": True,
}

#: The values of each preset, by field.
PRESETS = MappingProxyType(
    {
        "spec": _SPEC,
        "go": {**_SPEC, "d_low": 5, "prune_at_d_high": True},
        "ethereum": {**_SPEC, "d": 8, "d_low": 6, "heartbeat_ms": 700.0},
    }
)


def with_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by flat name, with the preset's values in place of None."""
    values = PRESETS.get(str(settings.get("gossipsub_preset")), {})
    names = GossipSubConfig.flat_names()
    of_preset = {names[field]: value for field, value in values.items()}
    return {n: of_preset.get(n) if value is None else value for n, value in settings.items()}


def _check_given(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    return None if value is None else check(value)


#: Mark of a field that is None if the preset decides its value (`GossipSubConfig.filled`).
_OF_PRESET = WrapValidator(_check_given)

_Degree = Annotated[int, Field(ge=0, le=_MOST_DEGREE), _OF_PRESET]
_Time = Annotated[float, Field(ge=0.0, le=_MOST_MS), _OF_PRESET]


def _of_preset(text: str) -> Any:
    return Field(default=None, description=text)


_OF_WORLDS = UsedWhen(
    lambda config: config.is_world,
    "has no effect in runs, where no node leaves a topic; leave it out",
)
_OF_RUNS = UsedWhen(
    lambda config: not config.is_world,
    "has no effect in worlds, where events decide when members JOIN; leave it out",
)
_OF_DIALS = used_when(
    lambda config: config.gossipsub.discovery == "dial", "--gossipsub-discovery dial"
)
_OF_WAVES = used_when(lambda config: config.gossipsub.joins == "waves", "--gossipsub-joins waves")


class GossipSubConfig(Section):
    """GossipSub's parameters; fields that are None have the preset's values (:meth:`filled`)."""

    all_used_when: ClassVar[UsedWhen | None] = used_when(
        used_by("gossipsub"), "gossipsub in --systems"
    )

    preset: Annotated[Literal["spec", "go", "ethereum"], Flat("gossipsub_preset")] = Field(
        default="spec",
        description="Source of the parameters' defaults: specification v1.1 (spec), "
        "go-libp2p-pubsub (go) or Ethereum (ethereum)",
    )
    d: Annotated[_Degree, Flat("gossipsub_d")] = _of_preset(
        "Number of mesh peers that a node aims at, D [default: 6; ethereum: 8]"
    )
    d_low: Annotated[_Degree, Flat("gossipsub_d_low")] = _of_preset(
        "D_low: with fewer mesh peers, a node sends GRAFT until it has D; at most D [default: 4; "
        "go: 5; ethereum: 6]"
    )
    d_high: Annotated[_Degree, Flat("gossipsub_d_high")] = _of_preset(
        "D_high: with more mesh peers, a node sends PRUNE until it has D; at least D [default: 12]"
    )
    d_out: Annotated[_Degree, Flat("gossipsub_d_out")] = _of_preset(
        "D_out: least number of mesh peers that the node itself dialled; below D_low and at most D "
        "/ 2 [default: 2]"
    )
    d_lazy: Annotated[_Degree, Flat("gossipsub_d_lazy")] = _of_preset(
        "D_lazy: least number of peers outside the mesh that get IHAVE [default: 6]"
    )
    gossip_factor: Annotated[
        float, Field(ge=0.0, le=1.0), _OF_PRESET, Flat("gossipsub_gossip_factor")
    ] = _of_preset(
        "Share of the peers outside the mesh that get IHAVE; at least D_lazy peers get it "
        "[default: 0.25]"
    )
    mcache_gossip: Annotated[
        int, Field(ge=1, le=MOST_ROUNDS), _OF_PRESET, Flat("gossipsub_mcache_gossip")
    ] = _of_preset(
        "Number of heartbeats at which a node announces a publication by IHAVE [default: 3]"
    )
    heartbeat_ms: Annotated[
        float, Field(ge=1.0, le=_MOST_MS), _OF_PRESET, Flat("gossipsub_heartbeat_ms")
    ] = _of_preset("Time between two heartbeats, in ms [default: 1000; ethereum: 700]")
    prune_backoff_ms: Annotated[_Time, Flat("gossipsub_prune_backoff_ms")] = _of_preset(
        "Time after a PRUNE in which the two peers send no GRAFT, in ms [default: 60000]"
    )
    unsubscribe_backoff_ms: Annotated[
        _Time, Flat("gossipsub_unsubscribe_backoff_ms"), _OF_WORLDS
    ] = _of_preset(
        "Time without GRAFT after a PRUNE from a node that leaves the topic, in ms [default: 10000]"
    )
    prune_at_d_high: Annotated[bool, _OF_PRESET, Flat("gossipsub_prune_at_d_high")] = _of_preset(
        "A node with exactly D_high mesh peers also sends PRUNE [default: false; go: true]"
    )
    flood_publish: Annotated[bool, _OF_PRESET, Flat("gossipsub_flood_publish")] = _of_preset(
        "A source sends to all its peers in the topic, not only to its mesh [default: true]"
    )
    idontwant: Annotated[bool, Flat("gossipsub_idontwant")] = Field(
        default=True,
        description="Nodes tell their mesh peers which publications they have, by IDONTWANT "
        "(version 1.2)",
    )
    discovery: Annotated[Literal["dial", "graph"], Flat("gossipsub_discovery")] = Field(
        default="dial",
        description="Each subscriber dials others of its topic (dial), or each node dials any "
        "nodes and uses them for all topics (graph)",
    )
    dials: Annotated[int, Flat("gossipsub_dials")] = Field(
        default=20,
        ge=1,
        le=_MOST_DEGREE,
        description="Number of nodes that each subscriber (discovery dial) or node (graph) dials; "
        "a node has twice as many connections on average",
    )
    dials_per_heartbeat: Annotated[int, Flat("gossipsub_dials_per_heartbeat"), _OF_DIALS] = Field(
        default=0,
        ge=0,
        le=_MOST_DEGREE,
        description="Discovery dial: number of these dials before each heartbeat, so that meshes "
        "form while nodes connect; 0: all at once",
    )
    joins: Annotated[
        Literal["at_once", "waves", "unconnected"], Flat("gossipsub_joins"), _OF_RUNS
    ] = Field(
        default="at_once",
        description="Subscribers JOIN when all are connected (at_once), in waves with a heartbeat "
        "after each (waves), or before they connect, so that only heartbeats form meshes "
        "(unconnected)",
    )
    join_waves: Annotated[int, Flat("gossipsub_join_waves"), _OF_RUNS, _OF_WAVES] = Field(
        default=20,
        ge=1,
        le=MOST_ROUNDS,
        description="Number of waves with --gossipsub-joins waves",
    )
    heartbeats: Annotated[int, Flat("gossipsub_heartbeats"), _OF_RUNS] = Field(
        default=10,
        ge=0,
        le=MOST_ROUNDS,
        description="Number of heartbeats between the JOINs and the publications",
    )
    heartbeat_phases: Annotated[int, Flat("gossipsub_heartbeat_phases")] = Field(
        default=1,
        ge=1,
        le=100,
        description="Number of parts into which nodes are divided; at a heartbeat, the parts act "
        "one after another. 1: all nodes act together",
    )
    processing_ms: Annotated[float, Flat("gossipsub_processing_ms")] = Field(
        default=0.0,
        ge=0.0,
        le=_MOST_MS,
        description="GossipSub: time between a node's first copy and the copies that it sends, in "
        "ms",
    )
    loss: Annotated[float, Flat("gossipsub_loss")] = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Share of the copies that are lost on the way",
    )
    clock: Annotated[Literal["time", "hops"], Flat("gossipsub_clock")] = Field(
        default="time",
        description="A copy takes the delay of its route (time), or one time unit per hop (hops)",
    )

    @model_validator(mode="after")
    def _consistent(self) -> GossipSubConfig:
        d, low, high, out = (self.value(name) for name in ("d", "d_low", "d_high", "d_out"))
        for wrong, name, remedy in (
            (d < 1, "d", "must be at least 1"),
            (low > d, "d_low", f"must be at most gossipsub_d, which is {d}"),
            (low < 1, "d_low", "must be at least 1"),
            (high < d, "d_high", f"must be at least gossipsub_d, which is {d}"),
            (out > d / 2, "d_out", f"must be at most half of gossipsub_d, which is {d}"),
            (out >= low, "d_out", f"must be less than gossipsub_d_low, which is {low}"),
        ):
            if wrong:
                raise InputError(f"gossipsub_{name}", self.value(name), remedy)
        return self

    def value(self, name: str) -> Any:
        """Return the value of a field or, if it is None, the preset's value."""
        given = getattr(self, name)
        return PRESETS[self.preset].get(name, given) if given is None else given

    def filled(self) -> GossipSubConfig:
        """Return the section with the preset's values in the fields that are None."""
        return self.replace(**{name: self.value(name) for name in PRESETS[self.preset]})

    @property
    def prune_backoff(self) -> int:
        """The number of heartbeats after a PRUNE in which the two peers send no GRAFT."""
        return self._heartbeats("prune_backoff_ms")

    @property
    def unsubscribe_backoff(self) -> int:
        """The number of heartbeats without GRAFT after a node's PRUNE as it leaves the topic."""
        return self._heartbeats("unsubscribe_backoff_ms")

    @property
    def dialling_heartbeats(self) -> int:
        """The number of heartbeats before which the subscribers of a run dial."""
        at_once = self.dials_per_heartbeat or self.dials
        return 1 if self.discovery == "graph" else math.ceil(self.dials / at_once)

    @property
    def heartbeat_us(self) -> int:
        """The time between two heartbeats, in microseconds."""
        return round(self.value("heartbeat_ms") * _MICROSECONDS)

    @property
    def processing_us(self) -> int:
        """The time between a node's first copy and the copies that it sends, in microseconds."""
        return round(self.processing_ms * _MICROSECONDS)

    def _heartbeats(self, name: str) -> int:
        """Return a time as the number of heartbeats that begin in it."""
        return math.ceil(self.value(name) / self.value("heartbeat_ms"))
