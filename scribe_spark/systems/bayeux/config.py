"""The section ``bayeux``: Bayeux on the overlay of the experiment (JSAC 2002, Section V)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from scribe_spark.config import section
from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.core.key_limits import refuse_groups

#: The papers call the gain of partitioning "a small constant factor".
MOST_PARTITIONS = 64


class BayeuxConfig(section.Section):
    """The settings of Bayeux: roots and routes.

    docs/rules.md marks the rules that are from memory.
    """

    flat_prefix: ClassVar[str] = "bayeux_"
    all_used_when: ClassVar[section.UsedWhen | None] = section.in_systems("bayeux")
    about: ClassVar[str] = (
        "Bayeux sends publications from a group's root to its members along the overlay's routing "
        "tables. These flags have an effect with bayeux in --systems."
    )

    hops: Literal["table", "leaf_set"] = section.setting(
        "table",
        "Route from the root to a member: by routing tables alone, as in Tapestry (table), or by "
        "Pastry's rule, which can deliver a copy twice (leaf_set)",
    )
    root: Literal["pastry", "surrogate"] = section.setting(
        "pastry",
        "Root of a group: the node closest to the groupId (pastry), or the end of Tapestry's "
        "surrogate route (surrogate)",
    )
    partitions: Annotated[int, section.within(1, MOST_PARTITIONS)] = section.setting(
        1, "Number of roots of a group, k; a member joins the nearest root"
    )
    recreate: Annotated[
        int,
        section.within(0, MOST_ROUNDS),
        section.OnlyInWorlds("a run has no failure of a root; leave it out"),
    ] = section.setting(
        0,
        "Rounds after a root's death until the group gets a new root and all members join again; "
        "0: never",
    )

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more groups than the keys of a session and two nodes can number."""
        because, nodes = f"bayeux_partitions = {self.partitions}", config.overlay.nodes
        refuse_groups(groups, nodes, members, times=self.partitions, because=because)
