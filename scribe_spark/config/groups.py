"""The sections ``groups`` and ``trees``: groups and their members; systems, variants of trees.

References
----------
JSAC 2002, Section IV.A (groups), IV.E and IV.F (variants of Scribe's trees).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import field_validator, model_validator

from scribe_spark.config.overlay import MOST_NODES, NodeClass
from scribe_spark.config.section import (
    OF_GROUPS,
    Differs,
    Fault,
    Flat,
    Location,
    Names,
    Section,
    UsedWhen,
    declared_by,
    setting,
    unset,
    used_by,
    used_when,
    within,
)
from scribe_spark.core.errors import InputError

#: The greatest number of groups; the driver has arrays with 8 bytes per group.
MOST_GROUPS = 10_000_000

#: The greatest number of groups in rounds; the driver draws them one after the other.
MOST_WORLD_GROUPS = 1_000_000

#: The greatest number of members of all groups.  A member is a row in `members` and, for every
#: system, in `tree_edges` and `deliveries`: these rows take about a terabyte.
MOST_MEMBERSHIPS = 10_000_000_000

#: The greatest number of members in rounds; the driver makes a table of their joins.
MOST_WORLD_MEMBERSHIPS = 50_000_000

#: The greatest number of members of all groups, and of nodes, that int32 can number.
_MOST_PLACES = 2**31 - 1


#: Fields that follow from a table of members.
_IN_TABLE = ("count", "zipf_exponent")

_OF_DRAWN_SIZES = UsedWhen(
    lambda config: config.groups.size is None and config.groups.custody is None,
    "has no effect beside group_size or custody, which set the sizes; leave one of them out",
)


class GroupsConfig(Section):
    """The section `groups`: the groups and their members, which are random or a user's table.

    The defaults are the paper's; a world has no groups by default.  With a table of `members`,
    `count` and `zipf_exponent` are None, as they follow from the table.
    """

    about: ClassVar[str] = (
        "A group has members, which receive the publications (messages) of the group, and a "
        "key, its groupId. In Scribe, the root of this key is the root of the group's tree."
    )

    count: Annotated[int | None, within(0, MOST_GROUPS), Flat("groups"), Differs(("world",), 0)] = (
        setting(1_500, "Number of groups, G; in a world, 0 simulates Pastry alone")
    )
    size: Annotated[int | None, within(0, MOST_NODES), Flat("group_size"), OF_GROUPS] = unset(
        "Number of members of every group, in place of Zipf-like sizes; 0 in worlds only"
    )
    custody: Annotated[int | None, within(0, MOST_GROUPS), OF_GROUPS] = unset(
        "Number of random groups that each node joins, in place of group sizes; a class of nodes "
        "may have its own number"
    )
    zipf_exponent: Annotated[float | None, within(0.0, 100.0), OF_GROUPS, _OF_DRAWN_SIZES] = (
        setting(
            1.25,
            "Exponent of the Zipf-like group sizes: the r-th largest group has floor(N "
            "r^-zipf_exponent + 0.5) members",
        )
    )
    ids: Annotated[Literal["hash", "creator"], Flat("group_ids"), OF_GROUPS] = setting(
        "hash",
        "GroupId: a hash of the group's name and creator (hash), or the nodeId of the creator, "
        "which thus is the root (creator)",
    )
    members: Location | None = unset(
        "CSV or Parquet table with your own members (columns group, node), in place of random ones"
    )
    source: Annotated[Literal["root", "routed", "direct"], OF_GROUPS] = setting(
        "root",
        "Start of a publication: the root (root), or another node that sends to the root by "
        "routing (routed) or directly (direct)",
    )

    @model_validator(mode="before")
    @classmethod
    def _drawn_or_read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Replace None by the default for random members; refuse what contradicts a table."""
        if given.get("members") is None:
            return {n: v for n, v in given.items() if not (n in _IN_TABLE and v is None)}
        for name in (*_IN_TABLE, "size", "custody"):
            if given.get(name) is not None:
                remedy = "contradicts the table of members; leave out this or members"
                raise InputError(cls.flat_names()[name], given[name], remedy)
        return {**given, **dict.fromkeys(_IN_TABLE)}

    def _faults(self) -> Iterator[Fault]:
        both = self.size is not None and self.custody is not None
        remedy = "cannot be combined with custody, which decides the sizes; leave one out"
        yield both, "group_size", self.size, remedy

    @property
    def has_groups(self) -> bool:
        """True if there are groups; a world without groups simulates Pastry alone."""
        return self.members is not None or bool(self.count)

    def largest(self, nodes: int) -> int:
        """Return the number of members of the largest group; 0 if the config does not tell it."""
        if not self.count or self.custody is not None:
            return 0
        return nodes if self.size is None else self.size

    def memberships(self, nodes: int, classes: Sequence[NodeClass] = ()) -> int:
        """Return roughly how many members all groups have together; 0 if they are in a table."""
        count, custody, exponent = self.count, self.custody, self.zipf_exponent
        if count is None or exponent is None:
            return 0
        if custody is not None:
            said = [(one.share, custody if one.custody is None else one.custody) for one in classes]
            shares = said or [(1.0, custody)]
            return round(nodes * sum(share * min(own, count) for share, own in shares))
        if self.size is not None:
            return count * self.size
        if count <= 1:
            return count * nodes
        # the integral of N r^-s from 1 to G, and the first group
        power, logarithm = 1 - exponent, math.log(count)
        rest = math.expm1(power * logarithm) / power if power else logarithm
        return round(nodes * (1 + rest))


def refuse_places(system: str, groups: int, memberships: int, nodes: int) -> None:
    """Refuse groups with more members and sources, in all, than a `system` (a name) can number."""
    most = max(_MOST_PLACES - groups - nodes, 0)
    if memberships > most:
        remedy = (
            f"supports {most:,} members in all groups, not {memberships:,}; give fewer "
            f"groups, or leave {system} out"
        )
        raise InputError("systems", system, remedy)


def refuse_missing_roots(roots: int, count: int) -> None:
    """Refuse a failure of the roots of `roots` groups if there are only `count` groups."""
    if roots > count:
        raise InputError("roots", roots, f"must be at most {count:,}: each group has one root")


# --- the section trees


#: The name of Scribe's own trees among variants.
PLAIN = "plain"

#: The greatest limit of children; limits are columns of type BIGINT.
MOST_CHILDREN = 2**63 - 1


_OF_LIMITS = used_when(used_by("bottleneck", "lazy"), "--variants bottleneck or lazy")
_OF_CAPACITIES = used_when(
    declared_by(lambda system: system.limited or system.bounded),
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
        "and of splitstream_bound"
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
