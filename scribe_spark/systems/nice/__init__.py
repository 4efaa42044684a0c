"""NICE: a hierarchy of clusters; the leaders of a layer's clusters are the next layer's members.

Messages between members, and the rules that send and read them:

===========  ==========================================  =============================
message      sent by                                     handler
===========  ==========================================  =============================
query        a newcomer, to a leader                     `period.NicePeriod.join`
answer       that leader: the members of its cluster     `period.NicePeriod.join`
join         a newcomer or a member, to its new leader   `period.NicePeriod.join`
heartbeat    a member, to all others of its clusters     `period.NicePeriod.beat`
ping, pong   a newcomer or a member, to leaders; back    `period.NicePeriod.beat`
leave        a member, to the leader that it leaves      `period.NicePeriod.move`
transfer     a leader, to a new one: the cluster         `period.NicePeriod.lead_anew`
add          a new leader, to the leader above           `period.NicePeriod.split`
remove       a former leader, to the leader above        `period.NicePeriod.vacate`
merge        a leader, to another one: its cluster       `period.NicePeriod.merge`
force_merge  the rendezvous point, to a leader           `period.NicePeriod.merge`
payload      a member, to its peers in other clusters    `overlay.Nice.forwards`
===========  ==========================================  =============================

References
----------
S. Banerjee, B. Bhattacharjee, C. Kommareddy: Scalable application layer multicast, SIGCOMM 2002.
"""

from __future__ import annotations

from scribe_spark.rounds.declaration import GROWN_MEASURES, TREE, Picture, System, function_at

#: The events of a period, which are counted.
EVENTS = ("joined", "moves", "splits", "merges", "new_leaders")

_NICE = function_at("scribe_spark.systems.nice.overlay:Nice")

NICE = System(
    "nice",
    "NICE",
    TREE,
    requested=True,
    config="scribe_spark.systems.nice.config:NiceConfig",
    control=True,
    world=lambda config: _NICE(config.nice.for_tasks()),
    round_seconds=lambda config: config.nice.period_seconds,
    world_measures={
        **GROWN_MEASURES,
        **{"layers": "mean over members", "peers": "mean over members"},
        **dict.fromkeys(("clusters", "unsound", "waiting"), "per member"),
        **dict.fromkeys(EVENTS, "events"),
        "control_bytes": "bytes",
    },
    picture=Picture(
        "edges by layer",
        lambda rank: f"layer {-rank}",
        "An edge leads from the leader of a cluster to a member. The leaders of a layer are the "
        "members of the layer above it, whose edges are wider.",
        root="top leader",
    ),
)
