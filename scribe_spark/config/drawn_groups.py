"""The common fields of the sections ``groups`` and ``scribe``: groups drawn, or from a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import model_validator

from scribe_spark.config.node_class import NodeClass
from scribe_spark.config.section import Section
from scribe_spark.errors import InputError

#: Members of all groups, and nodes, that can be numbered by int32.
_MOST_PLACES = 2**31 - 1


class DrawnGroups(Section):
    """Groups whose members are drawn, or are in a table: the checks of two sections.

    With a table of `members`, the fields of `drawn` are None: the table says what they would say.

    Attributes
    ----------
    drawn : mapping of str to object
        Of the class: field -> its default where members are drawn.
    """

    drawn: ClassVar[Mapping[str, Any]]

    if TYPE_CHECKING:  # the fields, which each section annotates in its own way
        count: Any
        size: Any
        custody: Any
        zipf_exponent: Any

    @model_validator(mode="before")
    @classmethod
    def _drawn_or_read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Replace None by the default where members are drawn; refuse what contradicts a table."""
        if given.get("members") is None:
            return {n: v for n, v in given.items() if not (n in cls.drawn and v is None)}
        for name in (*cls.drawn, "size", "custody"):
            if given.get(name) is not None:
                remedy = "contradicts the table of members; leave out this or members"
                raise InputError(cls.flat_names()[name], given[name], remedy)
        return {**given, **dict.fromkeys(cls.drawn)}

    @model_validator(mode="after")
    def _one_way_to_sizes(self) -> Self:
        if self.size is not None and self.custody is not None:
            remedy = "has no effect beside custody, which says in how many groups a node is"
            raise InputError("group_size", self.size, remedy)
        return self

    def memberships(self, nodes: int, classes: Sequence[NodeClass] = ()) -> int:
        """About how many members all groups have together; 0 where a table says it.

        Parameters
        ----------
        nodes : int
            Overlay nodes, N.
        classes : sequence of NodeClass
            The classes of the config, whose nodes may have another `custody`.
        """
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


def refuse_lone_custody(custody: int | None, classes: Sequence[NodeClass]) -> None:
    """Refuse classes of nodes that say in how many groups their nodes are where groups are drawn.

    Raises
    ------
    InputError
    """
    for one in classes:
        if one.custody is not None and custody is None:
            remedy = "has no effect without custody, which holds for all other classes; add custody"
            raise InputError(f"classes.custody of class {one.name}", one.custody, remedy)


def refuse_misfits(
    count: int | None, size: int | None, memberships: int, nodes: int, most: int
) -> None:
    """Refuse groups that are too large for the overlay, or too many members.

    Parameters
    ----------
    count, size : int, optional
        Groups, and members of every group.
    memberships : int
        About how many members all groups have together.
    nodes : int
        Overlay nodes, N.
    most : int
        Most members over all groups.

    Raises
    ------
    InputError
    """
    if size is not None and size > nodes:
        remedy = f"a group cannot have more members than the {nodes} nodes"
        raise InputError("group_size", size, remedy)
    if memberships > most:
        remedy = (
            f"makes {memberships:,} members over all groups of {nodes:,} nodes; must be at "
            f"most {most:,}"
        )
        raise InputError("groups", count, remedy)


def refuse_places(system: str, groups: int, memberships: int, nodes: int) -> None:
    """Refuse more members than a system can number that has a place for each, and each source.

    Parameters
    ----------
    groups, memberships, nodes : int
        How many there are.

    Raises
    ------
    InputError
    """
    most = max(_MOST_PLACES - groups - nodes, 0)
    if memberships > most:
        remedy = (
            f"supports {most:,} members in all groups, not {memberships:,}; give fewer "
            f"groups, or leave {system} out"
        )
        raise InputError("systems", system, remedy)


def refuse_missing_roots(roots: int, count: int) -> None:
    """Refuse that more roots fail than there are groups.

    Parameters
    ----------
    roots : int
        The roots of this many groups fail.
    count : int
        Groups, G.

    Raises
    ------
    InputError
    """
    if roots > count:
        raise InputError("roots", roots, f"must be at most {count:,}: each group has one root")
