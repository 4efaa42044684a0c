"""The section ``bayeux``: Bayeux on the overlay of the run (JSAC 2002, Section V)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.config.section import Section, setting, within
from scribe_spark.config.used_when import UsedWhen, used_by, used_when

#: The papers call the gain of partitioning "a small constant factor".
MOST_PARTITIONS = 64


class _Hops(Section):
    flat_prefix: ClassVar[str] = "bayeux_"
    all_used_when: ClassVar[UsedWhen | None] = used_when(used_by("bayeux"), "bayeux in --systems")

    hops: Literal["table", "leaf_set"] = setting(
        "table",
        "Route from the root to a member: by routing tables alone, as in Tapestry (table), or by "
        "Pastry's rule, which can deliver a copy twice (leaf_set)",
    )


class LiveBayeuxConfig(_Hops):
    """Bayeux in worlds, where each group has one root, the node closest to the groupId."""

    recreate: Annotated[int, within(0, MOST_ROUNDS)] = setting(
        0,
        "Rounds after a root's death until the group gets a new root and all members join again; "
        "0: never",
    )


class BayeuxConfig(_Hops):
    """Bayeux's roots and routes in runs; docs/rules.md marks the rules that are from memory."""

    root: Literal["pastry", "surrogate"] = setting(
        "pastry",
        "Root of a group: the node closest to the groupId (pastry), or the end of Tapestry's "
        "surrogate route (surrogate)",
    )
    partitions: Annotated[int, within(1, MOST_PARTITIONS)] = setting(
        1, "Number of roots of a group, k; a member joins the nearest root"
    )
