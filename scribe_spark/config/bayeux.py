"""The section ``bayeux``: Bayeux on the overlay of the run (JSAC 2002, Section V)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.config.section import Flat, Section
from scribe_spark.config.used_when import UsedWhen, used_by, used_when

#: The papers call the gain of partitioning "a small constant factor".
MOST_PARTITIONS = 64


class _Hops(Section):
    all_used_when: ClassVar[UsedWhen | None] = used_when(used_by("bayeux"), "bayeux in --systems")

    hops: Annotated[Literal["table", "leaf_set"], Flat("bayeux_hops")] = Field(
        default="table",
        description="Route from the root to a member: by routing tables alone, as in Tapestry "
        "(table), or by Pastry's rule, which can deliver a copy twice (leaf_set)",
    )


class LiveBayeuxConfig(_Hops):
    """Bayeux in worlds, where each group has one root, the node closest to the groupId."""

    recreate: Annotated[int, Flat("bayeux_recreate")] = Field(
        default=0,
        ge=0,
        le=MOST_ROUNDS,
        description="Rounds after a root's death until the group gets a new root and all members "
        "join again; 0: never",
    )


class BayeuxConfig(_Hops):
    """Bayeux's roots and routes in runs; docs/rules.md marks the rules that are from memory."""

    root: Annotated[Literal["pastry", "surrogate"], Flat("bayeux_root")] = Field(
        default="pastry",
        description="Root of a group: the node closest to the groupId (pastry), or the end of "
        "Tapestry's surrogate route (surrogate)",
    )
    partitions: Annotated[int, Flat("bayeux_partitions")] = Field(
        default=1,
        ge=1,
        le=MOST_PARTITIONS,
        description="Number of roots of a group, k; a member joins the nearest root",
    )
