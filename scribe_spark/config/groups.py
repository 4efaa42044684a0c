"""The section ``groups``: groups, their members, and who multicasts (JSAC 2002, Section IV.A)."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from scribe_spark.config.overlay import MOST_NODES
from scribe_spark.config.section import Flat, Section, Text
from scribe_spark.errors import InputError

__all__ = ["MOST_GROUPS", "MOST_MEMBERSHIPS", "GroupsConfig"]

#: The sizes of all groups are arrays on the driver, of 8 bytes a group each.
MOST_GROUPS = 10_000_000

#: A membership is a row of `members`, of `tree_edges` and of `deliveries` of every system: so many
#: are about a terabyte.
MOST_MEMBERSHIPS = 10_000_000_000

#: What a table of members says itself: field -> its default where members are drawn.
_DRAWN: dict[str, Any] = {"count": 1_500, "zipf_exponent": 1.25}


class GroupsConfig(Section):
    """Groups and their members; the defaults are the paper's.

    With a table of `members`, `count` and `zipf_exponent` are None: the table says which groups
    there are, and how large.
    """

    count: Annotated[int | None, Flat("groups")] = Field(
        default=_DRAWN["count"], ge=0, le=MOST_GROUPS, description="Groups, G"
    )
    size: Annotated[int | None, Flat("group_size")] = Field(
        default=None,
        ge=1,
        le=MOST_NODES,
        description="Every group has this many members, instead of the Zipf-like sizes",
    )
    zipf_exponent: float | None = Field(
        default=_DRAWN["zipf_exponent"],
        ge=0.0,
        le=100.0,
        description="Group r has floor(N r^-zipf_exponent + 0.5) members",
    )
    ids: Annotated[Literal["hash", "creator"], Flat("group_ids")] = Field(
        default="hash",
        description="GroupIds: the hash of name and creator, or the creator's nodeId, which makes "
        "the creator the root",
    )
    members: Text | None = Field(
        default=None,
        description="A CSV or Parquet table (group, node) of your own, instead of drawn members",
    )
    source: Literal["root", "routed", "direct"] = Field(
        default="root",
        description="Who multicasts: the root; a random member, the message routed to the root; or "
        "a random member that knows the root's address (direct)",
    )

    @model_validator(mode="before")
    @classmethod
    def _drawn_or_read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Sizes are drawn, or a table's: None stands for those of the other way."""
        flat = cls.flat_names()
        if given.get("members") is None:
            return {n: v for n, v in given.items() if not (n in _DRAWN and v is None)}
        for name in (*_DRAWN, "size"):
            if given.get(name) is not None:
                remedy = "is what the table of members says; leave out this, or members"
                raise InputError(flat[name], given[name], remedy)
        return {**given, **dict.fromkeys(_DRAWN)}

    def memberships(self, nodes: int) -> int:
        """About how many members all groups have together; 0 where a table says it.

        Parameters
        ----------
        nodes : int
            Overlay nodes, N.
        """
        if self.count is None or self.zipf_exponent is None:
            return 0
        if self.size is not None:
            return self.count * self.size
        if self.count <= 1:
            return self.count * nodes
        # the integral of N r^-s from 1 to G, and the first group
        s = self.zipf_exponent
        rest = math.log(self.count) if s == 1 else (self.count ** (1 - s) - 1) / (1 - s)
        return round(nodes * (1 + rest))
