"""Narada: a mesh of members who all know each other, and a tree of shortest ways for each source.

Messages between members, and their handlers (`period.NaradaPeriod`):

=======  =============================================  ===================================
message  sent by                                        handler
=======  =============================================  ===================================
vector   each member to its neighbours, each period     `_hear_numbers`, `_exchange`
probe    a member, to a drawn or a silent one           `_add`, `_repair`
answer   the probed member, with its vector             `_add`, `_repair`
link     a member that wants a link of the mesh         `_link`, `_begin_joining`
unlink   a member that ends a link, or quits the group  `_drop_useless`, `_quit`
payload  each member, down the tree of the source       `overlay.Narada.edges`
=======  =============================================  ===================================

Y. Chu, S. Rao, H. Zhang: A case for end system multicast, SIGMETRICS 2000.  The text could not be
had: the rules (docs/rules.md, D1 to D14) are recalled.
"""

from __future__ import annotations

from scribe_spark.rounds.declaration import GROWN_MEASURES, MESH, System, function_at

#: The most members of a group, and why there may be no more.
LIMIT = 1024, "each of n members stores a row of n"

#: The measure of the bytes of all vectors of a round, also in answers.
VECTOR_BYTES = "vector_bytes"


_NARADA = function_at("scribe_spark.systems.narada.overlay:Narada")

NARADA = System(
    "narada",
    "Narada",
    MESH,
    requested=True,
    config="scribe_spark.systems.narada.config:NaradaConfig",
    control=True,
    world=lambda config: _NARADA(config.narada.for_tasks()),
    round_seconds=10.0,
    world_measures={
        **GROWN_MEASURES,
        "links": "links per membership",
        "known": "members per membership",
        VECTOR_BYTES: "B",
    },
)
