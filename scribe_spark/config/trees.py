"""The section ``trees``: systems, and variants of Scribe's trees (JSAC 2002, Sections IV.E, F)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import field_validator

from scribe_spark.config.section import Differs, Location, Names, Section, setting, unset, within
from scribe_spark.config.used_when import UsedWhen, used_by, used_when

#: The name of Scribe's own trees among variants.
PLAIN = "plain"

#: The greatest limit of children; limits are columns of type BIGINT.
MOST_CHILDREN = 2**63 - 1


_OF_LIMITS = used_when(used_by("bottleneck", "lazy"), "--variants bottleneck or lazy")
_OF_CAPACITIES = used_when(
    used_by("bottleneck", "lazy", "splitstream"),
    "--variants bottleneck or lazy, or splitstream in --systems",
)
#: The mark of a field with one limit for all nodes.
OF_ONE_LIMIT = UsedWhen(
    lambda config: config.trees.capacities is None,
    "has no effect beside capacities, which has every node's limit; leave one of them out",
)
_OF_REMOVER = used_when(used_by("bottleneck"), "--variants bottleneck")


_IN_WORLDS = Differs(
    ("world",), (), "Variants of Scribe's trees, separated by commas: bottleneck, collapse, lazy"
)
_DELIVERING = Differs(
    ("world",),
    ("scribe",),
    "Systems of a world with groups that deliver the publications, separated by commas; a system "
    "that is not named is not simulated",
)


class TreesConfig(Section):
    """The settings of the simulated systems, of Scribe's variants, and of limits of children."""

    about: ClassVar[str] = (
        "Multicast systems. By ip_multicast, routers copy packets; by naive_unicast, the source "
        "sends a copy to each member; the sections below explain other systems. Variants change "
        "Scribe's trees: in bottleneck, overloaded nodes hand children over to siblings; in "
        "collapse, non-members with one child leave the tree; in lazy, JOINs add few "
        "non-members. A children table has a node's children in one tree. --limit and --capacities "
        "have an effect with bottleneck and lazy, --capacities also with splitstream, --shed-... "
        "with bottleneck. The reference tree of Costa and Frey is one tree for all groups; each "
        "node computes its position from the keys that it holds."
    )

    variants: Annotated[Names, _IN_WORLDS] = setting(
        (), "Systems to add to the default ones, separated by commas"
    )
    limit: Annotated[int, within(1, MOST_CHILDREN), _OF_LIMITS, OF_ONE_LIMIT] = setting(
        64, "Greatest number of children of a node, over all groups; a node with more is overloaded"
    )
    capacities: Annotated[Location | None, _OF_CAPACITIES] = unset(
        "CSV or Parquet table with a limit for each node (columns node, limit), in place of limit "
        "and of splitstream_bound",
    )
    shed_group: Annotated[Literal["largest", "random"], _OF_REMOVER] = setting(
        "largest",
        "Children table from which an overloaded node drops a child: its largest or a random one",
    )
    shed_child: Annotated[Literal["farthest", "nearest", "random"], _OF_REMOVER] = setting(
        "farthest",
        "Child that an overloaded node drops: by delay the farthest or nearest, or a random one",
    )
    shed_table: Annotated[Literal["remaining", "whole"], _OF_REMOVER] = setting(
        "remaining",
        "Siblings among which a dropped child finds a new parent: those that the node still has "
        "(remaining), or all that it had before it dropped any (whole)",
    )

    systems: Annotated[Names, _DELIVERING] = setting(
        (),
        "Systems of the run, separated by commas; the baseline ip_multicast is always added. By "
        "default scribe, ip_multicast, naive_unicast",
    )

    @field_validator("systems")
    @classmethod
    def _systems_in_order(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({*names}))

    @field_validator("variants")
    @classmethod
    def _in_order(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return each variant but ``plain`` once, in order; the registry checks names."""
        return tuple(sorted({*names} - {PLAIN}))
