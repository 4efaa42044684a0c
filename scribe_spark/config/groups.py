"""The section ``groups``: groups, their members, and their sources (JSAC 2002, Section IV.A)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scribe_spark.config.drawn_groups import DrawnGroups
from scribe_spark.config.overlay import MOST_NODES
from scribe_spark.config.section import Flat

#: The greatest number of members of all groups.  A member is a row in `members` and, for every
#: system, in `tree_edges` and `deliveries`: these rows take about a terabyte.
MOST_MEMBERSHIPS = 10_000_000_000


class GroupsConfig(DrawnGroups):
    """The groups of a run and their members; the defaults are the paper's."""

    size: Annotated[int | None, Flat("group_size")] = Field(
        default=None,
        ge=1,
        le=MOST_NODES,
        description="Number of members of every group, in place of Zipf-like sizes",
    )
    source: Literal["root", "routed", "direct"] = Field(
        default="root",
        description="Start of a publication: the root (root), or another node that sends to the "
        "root by routing (routed) or directly (direct)",
    )
