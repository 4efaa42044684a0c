"""The baselines, IP multicast and naive unicast: routes from sources to members.

JSAC 2002, Section IV.A ("IP multicast routing used a shortest path tree formed by the merge of the
unicast routes from the source to each recipient") and Section IV.D (naive multicast);
docs/rules.md, O1 to O7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import distinct, expand
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.losses import Lost
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import SilentProgram, in_bucket
from scribe_spark.rounds.group_overlays import (
    MEMBERS,
    SILENT,
    GroupOverlays,
    Network,
    OverlayProgram,
    OverlayRound,
    Overlays,
)
from scribe_spark.rounds.system import LivingRound, SystemPlayer


@dataclass(frozen=True)
class LiveUnicast(GroupOverlays):
    """Naive unicast: the source of a publication sends a copy to each member."""

    state: ClassVar[Mapping[str, str]] = {}  # nodes keep no children
    in_drawn_order: ClassVar[bool] = False
    is_silent: ClassVar[bool] = True

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """See `GroupOverlays`; only the clock with bandwidth needs the edges."""
        begin, end = (np.searchsorted(overlays.group, overlays.of + more) for more in (0, 1))
        publication, row = expand(begin, end)
        node, peer = overlays.source[publication], overlays.node[row]
        away = node != peer
        if network.in_run and overlays.is_member is not None:
            away &= overlays.is_member[row]
        return {"publication": publication[away], "node": node[away], "peer": peer[away]}

    def spread(self, player: SystemPlayer, round: OverlayRound, now: LivingRound) -> None:
        """See `GroupOverlays`; without bandwidth, the buckets of members compute all copies."""
        if now.links is None or self.merged:
            player.play(_ReachMembers(round, self.lost_on_topics(round, now)))
        else:
            super().spread(player, round, now)


@dataclass(frozen=True)
class LiveIpMulticast(LiveUnicast):
    """IP multicast: each link carries one packet of a publication."""

    merged: ClassVar[bool] = True


@dataclass(frozen=True)
class _ReachMembers(SilentProgram, OverlayProgram):
    """The program by which buckets note the copies that sources send to their nodes.

    A bucket knows all that the delay of a copy depends on, so no message is needed.
    """

    lost: Lost | None

    def change(self, bucket: int, tables: Tables) -> None:
        """Write `dissemination.ARRIVALS` and `dissemination.ARRIVED_COPIES`; send nothing."""
        round = self.round
        starts = np.flatnonzero(in_bucket(round.bounds, bucket, round.source))
        keys = [tables[name]["key"] for name in (MEMBERS, SILENT) if name in tables]
        if not round.now.in_run or not keys:  # in worlds, sources belong to the overlay (rule O2)
            keys.append(key_of([round.published[starts], round.source[starts]], round.size))
        group, node = np.divmod(distinct(np.concatenate(keys)), round.size)
        begin, end = (np.searchsorted(round.published, group, side) for side in ("left", "right"))
        row, topic = expand(begin, end)
        node, source = node[row], round.source[topic]
        sent = (node != source) & round.now.alive[source]
        topic, node, source = topic[sent], node[sent], source[sent]
        delay_us = round.delays(topic, source, node)
        first = np.ones(len(node), dtype=bool)
        copies = {"group": topic, "node": node, "sender": source, "at_us": delay_us}
        copies["hops"] = np.ones_like(node)
        if self.lost is not None:
            copies["lost"] = self.lost(topic, {"node": source, "peer": node})
            first = ~copies["lost"]
        none = np.zeros_like(starts)
        at_start = {"group": starts, "node": round.source[starts], "at_us": none, "hops": none}
        tables[ARRIVED_COPIES] = {**copies, "first": first}
        reached = take(copies, first)
        tables[ARRIVALS] = {name: np.r_[reached[name], own] for name, own in at_start.items()}
