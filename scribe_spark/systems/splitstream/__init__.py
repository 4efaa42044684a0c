"""SplitStream: a channel's stripes go down trees of their own, whose inner nodes should differ.

A node asks for a parent in a stripe (``subscribe``); an orphan may look for a node with room
(``anycast``, Mace's JOINREQ).  The answers are ``ack`` (the sender is the parent, with this path to
the root), ``drop`` (it is no parent; a sibling may be named), ``path`` (its path has changed) and
``fail`` (nobody had room).  A child that goes sends ``leave``.  ``spare_join`` and ``spare_leave``
change the tree of the spare group.

M. Castro et al.: SplitStream: high-bandwidth multicast in cooperative environments, SOSP 2003;
Scalable application-level anycast for highly dynamic groups, NGC 2003.  Their texts could not be
had: rules are recalled, or settled here (docs/rules.md, L1 to L12).
"""

from __future__ import annotations

from scribe_spark.core.errors import InputError
from scribe_spark.rounds.declaration import TREE, Picture, System, function_at

#: The policies of full nodes.
FREEPASTRY, SPARE = "freepastry", "spare-capacity"

#: The most members of a channel, and of one whose nodes have few places.
MOST_MEMBERS, MOST_TIGHT = 500_000, 5_000

#: All kinds of control messages.
CONTROL = (
    "leave",
    "ack",
    "drop",
    "path",
    "fail",
    "subscribe",
    "anycast",
    "spare_join",
    "spare_leave",
)

#: Measure of a round -> its unit, and the sums of which it is the quotient, or one sum.
MEASURES = {
    "interior.one": ("share", "at_most_one", "members"),
    "interior.nodes": ("nodes", "interior", "trees"),
    "open": ("stripes", "open", None),
    "lost": ("stripes", "lost", None),
    "lost.nodes": ("nodes", "hit", None),
    "lost.mean": ("stripes", "lost", "hit"),
    "converging": ("groups", "converging", None),
    "converged": ("groups", "converged", None),
    "converged.rounds": ("rounds", "took", "converged"),
}

#: The numbers that are counted in periods -> their units.
COUNTED = {"orphans": "stripes", "anycasts": "stripes", "cycles": "stripes", "hops": "hops"}

_SPLITSTREAM = function_at("scribe_spark.systems.splitstream.splitstream:SplitStream")

SPLITSTREAM = System(
    *("splitstream", "SplitStream", TREE),
    requested=True,
    config="scribe_spark.systems.splitstream.config:SplitStreamConfig",
    control=True,
    several_trees=True,
    over_pastry=True,
    bounded=True,
    world=lambda config: _SPLITSTREAM(config.splitstream.for_tasks(), config.overlay.b),
    world_measures={name: unit for name, (unit, *_) in MEASURES.items()} | COUNTED,
    picture=Picture(
        "children by stripe",
        lambda rank: f"stripe {-1 - rank}" if rank else "parents",
        "The node has a parent in each stripe, unless it is the stripe's root, and children in the "
        "stripes of which it is an inner node.",
        "stripe of this parent",
        "node of this picture",
    ),
)


def refuse_few_places(name: str, given: float, stripes: int) -> None:
    """Refuse places of nodes with which not all members of a large channel get all stripes."""
    if given < stripes + 2:
        remedy = f"must be {stripes + 2} or more with more than {MOST_TIGHT:,} members"
        raise InputError(name, given, f"{remedy}; not all would be placed")
