"""SplitStream: a channel's stripes go down trees of their own, whose inner nodes should differ.

Messages between nodes, and who handles them:

===============  ===========================================================  ====================
message          meaning                                                      handler
===============  ===========================================================  ====================
``subscribe``    a node asks for a stripe, or passes a request on             `FreePastry.answer`
``anycast``      an orphan looks for a node with room (JOINREQ)               `FreePastry.answer`
``ack``          the sender is the parent now; has its path to the root       `FreePastry.hear`
``drop``         the sender is no parent; names a sibling to ask              `FreePastry.on_drop`
``path``         the sender's path to the root has changed                    `FreePastry.hear`
``leave``        the sender is no child any more                              `FreePastry.hear`
``fail``         nobody had room                                              `FreePastry.on_fail`
``spare_join``   the sender is a child in the spare group's tree; and no more  `SpareCapacity`
===============  ===========================================================  ====================

Read `channels` (who comes and goes), `splitstream` (where SUBSCRIBEs enter a channel), `forest`
(the trees) and `protocol` (the messages, hop by hop, and what full nodes do).

M. Castro et al.: SplitStream: high-bandwidth multicast in cooperative environments, SOSP 2003;
Scalable application-level anycast for highly dynamic groups, NGC 2003.  Their texts could not be
had: rules are recalled, or settled here (docs/rules.md, L1 to L12).
"""

from __future__ import annotations

from scribe_spark.rounds.declaration import TREE, Picture, System, function_at

#: The policies of full nodes.
FREEPASTRY, SPARE = "freepastry", "spare-capacity"

#: Places of a node above the number of stripes, with which all members get all stripes; and the
#: most members of a channel whose nodes have fewer.
SPARE_PLACES, MOST_TIGHT = 2, 5_000

#: All kinds of control messages.
CONTROL = (
    *("subscribe", "ack", "drop", "path", "leave", "fail"),
    *("anycast", "spare_join", "spare_leave"),
)

#: Measure of a round -> its unit, and the sums (`channels.Channels.measured`) of which it is the
#: quotient, or one sum.
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
    "splitstream",
    "SplitStream",
    TREE,
    requested=True,
    config="scribe_spark.systems.splitstream.config:SplitStreamConfig",
    control=True,
    several_trees=True,
    over_pastry=True,
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
