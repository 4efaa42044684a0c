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

from annotated_types import Interval
from pydantic import WrapValidator, model_validator

from scribe_spark.config.bandwidth import OF_PARTS, refuse_two_clocks
from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.config.section import (
    Section,
    UsedWhen,
    in_systems,
    setting,
    unset,
    used_when,
    within,
)
from scribe_spark.core.errors import InputError

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


#: Mark of a field that is None if the preset decides its value (`GossipSubConfig.filled`).
_OF_PRESET = WrapValidator(lambda value, check: None if value is None else check(value))

_Degree = Annotated[int, within(0, _MOST_DEGREE), _OF_PRESET]
_Time = Annotated[float, within(0.0, _MOST_MS), _OF_PRESET]


_OF_WORLDS = UsedWhen(
    lambda config: config.is_world,
    "has no effect in runs, where no node leaves a topic; leave it out",
)
_OF_RUNS = UsedWhen(
    lambda config: not config.is_world,
    "has no effect in worlds, whose events decide when members publish; leave it out",
)
_NAMES_PARTS = UsedWhen(
    lambda config: not config.is_world,
    "has no effect in worlds, where one message names all publications of a topic; leave it out",
)
_OF_DIALS = used_when(
    lambda config: config.gossipsub.discovery == "dial", "--gossipsub-discovery dial"
)
_OF_WAVES = used_when(lambda config: config.gossipsub.joins == "waves", "--gossipsub-joins waves")


class GossipSubConfig(Section):
    """GossipSub's parameters; fields that are None have the preset's values (:meth:`filled`)."""

    flat_prefix: ClassVar[str] = "gossipsub_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("gossipsub")
    about: ClassVar[str] = (
        "In GossipSub, each subscriber of a topic (here: a member of a group) connects to peers "
        "and selects some as its mesh, along which copies travel. GRAFT adds a peer to the mesh, "
        "PRUNE removes one; IHAVE announces publications to other peers, which can request them; "
        "IDONTWANT tells peers not to send a publication. At each heartbeat, nodes repair their "
        "meshes and send IHAVE. These flags have an effect with gossipsub in --systems; in "
        "worlds, events decide when members publish, not --gossipsub-heartbeats."
    )

    preset: Literal["spec", "go", "ethereum"] = setting(
        "spec",
        "Source of the parameters' defaults: specification v1.1 (spec), go-libp2p-pubsub (go) or "
        "Ethereum (ethereum)",
    )
    d: _Degree = unset("Number of mesh peers that a node aims at, D [default: 6; ethereum: 8]")
    d_low: _Degree = unset(
        "D_low: with fewer mesh peers, a node sends GRAFT until it has D; at most D [default: 4; "
        "go: 5; ethereum: 6]"
    )
    d_high: _Degree = unset(
        "D_high: with more mesh peers, a node sends PRUNE until it has D; at least D [default: 12]"
    )
    d_out: _Degree = unset(
        "D_out: least number of mesh peers that the node itself dialled; below D_low and at most D "
        "/ 2 [default: 2]"
    )
    d_lazy: _Degree = unset(
        "D_lazy: least number of peers outside the mesh that get IHAVE [default: 6]"
    )
    gossip_factor: Annotated[float, within(0.0, 1.0), _OF_PRESET] = unset(
        "Share of the peers outside the mesh that get IHAVE; at least D_lazy peers get it "
        "[default: 0.25]"
    )
    mcache_gossip: Annotated[int, within(1, MOST_ROUNDS), _OF_PRESET] = unset(
        "Number of heartbeats at which a node announces a publication by IHAVE [default: 3]"
    )
    heartbeat_ms: Annotated[float, within(1.0, _MOST_MS), _OF_PRESET] = unset(
        "Time between two heartbeats, in ms [default: 1000; ethereum: 700]"
    )
    prune_backoff_ms: _Time = unset(
        "Time after a PRUNE in which the two peers send no GRAFT, in ms [default: 60000]"
    )
    unsubscribe_backoff_ms: Annotated[_Time, _OF_WORLDS] = unset(
        "Time without GRAFT after a PRUNE from a node that leaves the topic, in ms [default: 10000]"
    )
    prune_at_d_high: Annotated[bool, _OF_PRESET] = unset(
        "A node with exactly D_high mesh peers also sends PRUNE [default: false; go: true]"
    )
    flood_publish: Annotated[bool, _OF_PRESET] = unset(
        "A source sends to all its peers in the topic, not only to its mesh [default: true]"
    )
    idontwant: bool = setting(
        True, "Nodes tell their mesh peers which publications they have, by IDONTWANT (version 1.2)"
    )
    announce: Annotated[Literal["part", "publication"], OF_PARTS, _NAMES_PARTS] = setting(
        "part",
        "One IHAVE or IWANT names a part, or several parts of a publication by a bitmap",
    )
    discovery: Literal["dial", "graph"] = setting(
        "dial",
        "Each subscriber dials others of its topic (dial), or each node dials any nodes and uses "
        "them for all topics (graph)",
    )
    dials: Annotated[int, within(1, _MOST_DEGREE)] = setting(
        20,
        "Number of nodes that each subscriber (discovery dial) or node (graph) dials; a node has "
        "twice as many connections on average",
    )
    dials_per_heartbeat: Annotated[int | None, within(0, _MOST_DEGREE), _OF_DIALS] = unset(
        "Discovery dial: number of these dials before each heartbeat, so that meshes form while "
        "nodes connect; 0: all at once [default: a tenth, rounded up; with --gossipsub-joins "
        "at_once or waves: 0]"
    )
    joins: Literal["at_once", "waves", "unconnected"] = setting(
        "unconnected",
        "Subscribers JOIN before they connect, so that only heartbeats form meshes (unconnected), "
        "when all are connected (at_once), or in waves with a heartbeat after each (waves)",
    )
    join_waves: Annotated[int, within(1, MOST_ROUNDS), _OF_WAVES] = setting(
        20, "Number of waves with --gossipsub-joins waves"
    )
    heartbeats: Annotated[int, within(0, MOST_ROUNDS), _OF_RUNS] = setting(
        10, "Number of heartbeats between the JOINs and the publications"
    )
    heartbeat_phases: Annotated[int, within(1, 100)] = setting(
        1,
        "Number of parts into which nodes are divided; at a heartbeat, the parts act one after "
        "another. 1: all nodes act together",
    )
    processing_ms: Annotated[float, within(0.0, _MOST_MS)] = setting(
        0.0, "GossipSub: time between a node's first copy and the copies that it sends, in ms"
    )
    loss: Annotated[float, Interval(ge=0.0, lt=1.0)] = setting(
        0.0, "Share of the copies that are lost on the way"
    )
    clock: Literal["time", "hops"] = setting(
        "time", "A copy takes the delay of its route (time), or one time unit per hop (hops)"
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

    def check_within(self, config: Any) -> None:
        """Refuse the clock of hops, and two times for one work, beside sizes of publications.

        `processing_ms` and the setting of validation are the same time of a node.
        """
        refuse_two_clocks(config, self.flat_prefix, self.clock, self.processing_ms)

    @classmethod
    def completed(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings by flat name, with the preset's values in place of None."""
        values = PRESETS.get(str(settings.get("gossipsub_preset")), {})
        of_preset = {flat: values.get(name) for name, flat in cls.flat_names().items()}
        return {n: of_preset.get(n) if value is None else value for n, value in settings.items()}

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
    def dialled_each(self) -> int:
        """The number of dials of a subscriber before each heartbeat; 0: all dials at once."""
        if self.dials_per_heartbeat is not None:
            return self.dials_per_heartbeat
        return -(-self.dials // 10) if self.joins == "unconnected" else 0

    @property
    def waves(self) -> int:
        """The number of waves in which the first subscribers JOIN."""
        return self.join_waves if self.joins == "waves" else 1

    @property
    def heartbeats_before(self) -> int:
        """The number of heartbeats of a run before its publications."""
        return self.waves - 1 + max(self.heartbeats, 1)

    @property
    def heartbeat_us(self) -> int:
        """The time between two heartbeats, in microseconds."""
        return round(self.value("heartbeat_ms") * _MICROSECONDS)

    @property
    def processing_us(self) -> int:
        """The time between a node's first copy and the copies that it sends, in microseconds."""
        return round(self.processing_ms * _MICROSECONDS)

    def _heartbeats(self, name: str) -> int:
        """Return the time that a field sets as a number of heartbeats, rounded up."""
        return math.ceil(self.value(name) / self.value("heartbeat_ms"))
