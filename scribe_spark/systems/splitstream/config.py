"""The section ``splitstream``: stripes, bounds of nodes, and the policy of full nodes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from scribe_spark.config.groups import OF_ONE_LIMIT, refuse_places
from scribe_spark.config.section import Section, UsedWhen, in_systems, setting, within
from scribe_spark.core.errors import InputError
from scribe_spark.systems.splitstream import MOST_MEMBERS, MOST_TIGHT, refuse_few_places


class SplitStreamConfig(Section):
    """The settings of SplitStream: stripes, bounds of children, and the policy of full nodes."""

    flat_prefix: ClassVar[str] = "splitstream_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("splitstream")
    about: ClassVar[str] = (
        "A group's publications go in turn over stripes, each a tree of its own. This flag has an "
        "effect with splitstream in --systems."
    )

    stripes: Annotated[int, within(2, 4096)] = setting(
        16, "Number of stripes of a group (SplitStream), a power of 2^b"
    )
    bound: Annotated[int, within(0, 1_000_000), OF_ONE_LIMIT] = setting(
        24, "Greatest number of children of a node over all stripes; 0: no bound"
    )
    policy: Literal["freepastry", "spare-capacity"] = setting(
        "spare-capacity",
        "Answer of full nodes: a child with a worse prefix makes room (freepastry), or a child is "
        "pushed down and finds a node with spare capacity by anycast (spare-capacity)",
    )
    waves: Annotated[int, within(1, 1000)] = setting(
        1, "Number of waves in which members join; 1: all at once"
    )

    def check_within(self, config: Any) -> None:
        """Refuse a number of stripes that is no power of the base of digits, 2^b."""
        base = 2**config.overlay.b
        if self.stripes not in (base**digits for digits in range(1, 13)):
            remedy = f"must be a power of {base}, the base of digits (b = {config.overlay.b})"
            raise InputError("splitstream_stripes", self.stripes, remedy)

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse low bounds of children in large groups, and groups that are too large."""
        if "splitstream" not in config.trees.systems:
            return
        nodes, size = config.overlay.nodes, config.groups.size
        refuse_places("splitstream", groups, memberships, nodes // self.stripes)
        most = size if size and members is None else min(memberships, nodes)
        if most > MOST_MEMBERS:
            remedy = f"supports groups of {MOST_MEMBERS:,} members, not of {most:,}"
            raise InputError("systems", "splitstream", f"{remedy}; give fewer, or leave it out")
        if config.trees.capacities is None and self.bound and most > MOST_TIGHT:
            refuse_few_places("splitstream_bound", self.bound, self.stripes)
