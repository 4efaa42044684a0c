"""The section ``bayeux``: Bayeux on the run's overlay (JSAC 2002, Section V)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scribe_spark.config.section import Flat, Section

__all__ = ["MOST_PARTITIONS", "BayeuxConfig"]

#: The papers call the gain of partitioning "a small constant factor".
MOST_PARTITIONS = 64


class BayeuxConfig(Section):
    """How Bayeux finds roots and routes; what of it is recalled is in docs/rules.md."""

    hops: Annotated[Literal["table", "leaf_set"], Flat("bayeux_hops")] = Field(
        default="table",
        description="Bayeux: how messages from the root to members are routed: by routing tables "
        "alone, as in Tapestry (table), or by Pastry's rule (leaf_set), with which nodes may have "
        "several parents and get copies twice",
    )
    root: Annotated[Literal["pastry", "surrogate"], Flat("bayeux_root")] = Field(
        default="pastry",
        description="Bayeux: the root of a group: the node numerically closest to the groupId "
        "(pastry), or where Tapestry's surrogate routing ends (surrogate)",
    )
    partitions: Annotated[int, Flat("bayeux_partitions")] = Field(
        default=1,
        ge=1,
        le=MOST_PARTITIONS,
        description="Bayeux: roots of a group, k; a member joins the nearest",
    )
