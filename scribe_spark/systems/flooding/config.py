"""The section ``flooding``: flooding over Pastry by rows of routing tables."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from scribe_spark.config.groups import refuse_places
from scribe_spark.config.section import Section, UsedWhen, in_systems, setting
from scribe_spark.core.errors import InputError

#: The greatest number of copies, if a message of every group goes to every node; more fill a disk.
MOST_COPIES = 50_000_000


class FloodingConfig(Section):
    """The settings of flooding over Pastry, a system whose rule is from memory (docs/rules.md)."""

    flat_prefix: ClassVar[str] = "flooding_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("flooding")
    about: ClassVar[str] = (
        "Each node of a Pastry ring forwards a message to the nodes in its routing table. This "
        "flag has an effect with flooding in --systems."
    )

    over: Literal["group", "overlay"] = setting(
        "group",
        "Ring that is flooded: one of the group's members and source (group), or the overlay of "
        "all nodes, which then all receive every message (overlay)",
    )

    def check_within(self, config: Any) -> None:
        """Refuse a flooded overlay in runs that would send too many copies."""
        copies = (config.groups.count or 0) * config.overlay.nodes
        if self.over == "overlay" and copies > MOST_COPIES:
            remedy = (
                f"sends every group's message to all nodes, {copies:,} copies; must be at most "
                f"{MOST_COPIES:,}; give group, or fewer groups"
            )
            raise InputError("flooding_over", "overlay", remedy)

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more members and sources of all groups than the rings of groups can number."""
        if self.over == "group":
            refuse_places("flooding", groups, memberships, config.overlay.nodes)
