"""The section ``groups``: groups, their members, and their sources (JSAC 2002, Section IV.A)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from scribe_spark.config.drawn_groups import DrawnGroups
from scribe_spark.config.overlay import MOST_NODES
from scribe_spark.config.section import Flat, Location
from scribe_spark.config.used_when import UsedWhen

#: The greatest number of groups; the driver has arrays with 8 bytes per group.
MOST_GROUPS = 10_000_000

#: The greatest number of members of all groups.  A member is a row in `members` and, for every
#: system, in `tree_edges` and `deliveries`: these rows take about a terabyte.
MOST_MEMBERSHIPS = 10_000_000_000

#: Fields that follow from a table of members -> their defaults for random members.
_DRAWN: dict[str, Any] = {"count": 1_500, "zipf_exponent": 1.25}


_OF_DRAWN_SIZES = UsedWhen(
    lambda config: config.groups.size is None and config.groups.custody is None,
    "has no effect beside group_size or custody, which set the sizes; leave one of them out",
)


class GroupsConfig(DrawnGroups):
    """The groups of a run and their members; the defaults are the paper's.

    With a table of `members`, `count` and `zipf_exponent` are None, as they follow from the table.
    """

    drawn: ClassVar[dict[str, Any]] = _DRAWN

    count: Annotated[int | None, Flat("groups")] = Field(
        default=_DRAWN["count"],
        ge=0,
        le=MOST_GROUPS,
        description="Number of groups, G; in a world, 0 simulates Pastry without Scribe",
    )
    size: Annotated[int | None, Flat("group_size")] = Field(
        default=None,
        ge=1,
        le=MOST_NODES,
        description="Number of members of every group, in place of Zipf-like sizes",
    )
    custody: int | None = Field(
        default=None,
        ge=0,
        le=MOST_GROUPS,
        description="Number of random groups that each node joins, in place of group sizes; a "
        "class of nodes may have its own number",
    )
    zipf_exponent: Annotated[float | None, _OF_DRAWN_SIZES] = Field(
        default=_DRAWN["zipf_exponent"],
        ge=0.0,
        le=100.0,
        description="Exponent of the Zipf-like group sizes: the r-th largest group has floor(N "
        "r^-zipf_exponent + 0.5) members",
    )
    ids: Annotated[Literal["hash", "creator"], Flat("group_ids")] = Field(
        default="hash",
        description="GroupId: a hash of the group's name and creator (hash), or the nodeId of the "
        "creator, which thus is the root (creator)",
    )
    members: Location | None = Field(
        default=None,
        description="CSV or Parquet table with your own members (columns group, node), in place "
        "of random ones",
    )
    source: Literal["root", "routed", "direct"] = Field(
        default="root",
        description="Start of a publication: the root (root), or another node that sends to the "
        "root by routing (routed) or directly (direct)",
    )
